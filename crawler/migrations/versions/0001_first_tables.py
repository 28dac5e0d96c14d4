"""The tables that Plumbline began with."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "hosts",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("next_request_at", sa.Double(), nullable=False),
        sa.Column("ready_at", sa.Double(), nullable=True),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("robots_body", sa.LargeBinary(), nullable=True),
        sa.Column("robots_status", sa.Integer(), nullable=True),
        sa.Column("robots_expires_at", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_hosts"),
        sa.UniqueConstraint("host", name="uq_hosts_host"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_hosts_leased",
        "hosts",
        ["lease_owner"],
        unique=False,
        sqlite_where=sa.text("lease_owner IS NOT NULL"),
        postgresql_where=sa.text("lease_owner IS NOT NULL"),
    )
    op.create_index(
        "ix_hosts_ready",
        "hosts",
        ["ready_at"],
        unique=False,
        sqlite_where=sa.text("ready_at IS NOT NULL"),
        postgresql_where=sa.text("ready_at IS NOT NULL"),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("until", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leases"),
    )
    op.create_table(
        "settings",
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("value", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_settings"),
    )
    op.create_table(
        "sign_in_tries",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("last_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("subject", name="pk_sign_in_tries"),
    )
    op.create_table(
        "sites",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("settings", sa.JSON(), nullable=False),
        sa.Column("needs_browser", sa.Boolean(), nullable=True),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("updated_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sites"),
        sa.UniqueConstraint("key", name="uq_sites_key"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "users",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("password_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("session_key", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_users"),
        sa.UniqueConstraint("name", name="uq_users_name"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "warc_files",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("writer", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_warc_files"),
        sa.UniqueConstraint("path", name="uq_warc_files_path"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("seen_at", sa.Double(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_table(
        "runs",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("requeued_up_to", ID, server_default="0", nullable=True),
        sa.Column("is_spent", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("finished_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_runs_site_id_sites", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_runs_site_id", "runs", ["site_id"], unique=False)
    op.create_index("ix_runs_state", "runs", ["state"], unique=False)
    op.create_index(
        "uq_runs_one_alive",
        "runs",
        ["site_id"],
        unique=True,
        sqlite_where=sa.text("state IN ('queued', 'running', 'stopping', 'stopped')"),
        postgresql_where=sa.text("state IN ('queued', 'running', 'stopping', 'stopped')"),
    )
    op.create_table(
        "schedules",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("cron", sa.Text(), nullable=True),
        sa.Column("interval_s", sa.Double(), nullable=True),
        sa.Column("time_zone", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("next_due_at", sa.Double(), nullable=True),
        sa.Column("last_run_at", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_schedules_site_id_sites", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_schedules"),
        sa.UniqueConstraint("site_id", name="uq_schedules_site_id"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "urls",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("urlhash", sa.LargeBinary(length=16), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("urlkey", sa.Text(), nullable=True),
        sa.Column("host_id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("queue_state", sa.SmallInteger(), nullable=False),
        sa.Column("priority", sa.Double(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("parent_url", sa.Text(), nullable=True),
        sa.Column("anchor", sa.Text(), server_default="", nullable=False),
        sa.Column("redirects", sa.Integer(), server_default="0", nullable=False),
        sa.Column("discovered_at", sa.Double(), nullable=False),
        sa.Column("generation", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("visited_at", sa.Double(), nullable=True),
        sa.Column("next_visit_at", sa.Double(), nullable=True),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=True),
        sa.Column("capture_id", ID, nullable=True),
        sa.ForeignKeyConstraint(["host_id"], ["hosts.id"], name="fk_urls_host_id_hosts"),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_urls_site_id_sites", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name="pk_urls"),
        sa.UniqueConstraint("urlhash", name="uq_urls_urlhash"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_urls_failed",
        "urls",
        ["run_id", "reason"],
        unique=False,
        sqlite_where=sa.text("status IN ('fetch_error', 'gone')"),
        postgresql_where=sa.text("status IN ('fetch_error', 'gone')"),
    )
    op.create_index(
        "ix_urls_leased",
        "urls",
        ["host_id", "run_id", "queue_state"],
        unique=False,
        sqlite_where=sa.text("queue_state = 1"),
        postgresql_where=sa.text("queue_state = 1"),
    )
    op.create_index(
        "ix_urls_queue",
        "urls",
        ["run_id", "host_id", sa.literal_column("priority DESC"), "id", "next_visit_at", "queue_state"],
        unique=False,
        sqlite_where=sa.text("queue_state = 0"),
        postgresql_where=sa.text("queue_state = 0"),
    )
    op.create_index(
        "ix_urls_seeds",
        "urls",
        ["site_id"],
        unique=False,
        sqlite_where=sa.text("kind = 'seed'"),
        postgresql_where=sa.text("kind = 'seed'"),
    )
    op.create_index("ix_urls_site", "urls", ["site_id", "id"], unique=False)
    op.create_table(
        "withdrawals",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("urlhash", sa.LargeBinary(length=16), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("withdrawn_at", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_withdrawals"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "captures",
        sa.Column("id", ID, autoincrement=True, nullable=False),
        sa.Column("url_id", ID, nullable=False),
        sa.Column("site_id", ID, nullable=False),
        sa.Column("run_id", ID, nullable=True),
        sa.Column("captured_at", sa.Double(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("content_type", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("faults", sa.Text(), server_default="", nullable=False),
        sa.Column("revisit_of", ID, nullable=True),
        sa.Column("warc_file_id", ID, nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("length", sa.BigInteger(), nullable=False),
        sa.Column("dom_offset", sa.BigInteger(), nullable=True),
        sa.Column("dom_length", sa.BigInteger(), nullable=True),
        sa.Column("payload_file_id", ID, nullable=True),
        sa.Column("payload_offset", sa.BigInteger(), nullable=True),
        sa.Column("payload_length", sa.BigInteger(), nullable=True),
        sa.Column("payload_dom_offset", sa.BigInteger(), nullable=True),
        sa.Column("payload_dom_length", sa.BigInteger(), nullable=True),
        sa.Column("index_state", sa.Text(), nullable=False),
        sa.Column("index_error", sa.Text(), nullable=True),
        sa.Column("index_tries", sa.Integer(), server_default="0", nullable=False),
        sa.Column("index_owner", sa.Text(), nullable=True),
        sa.Column("index_not_before", sa.Double(), nullable=True),
        sa.ForeignKeyConstraint(["site_id"], ["sites.id"], name="fk_captures_site_id_sites", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["url_id"], ["urls.id"], name="fk_captures_url_id_urls", ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["warc_file_id"], ["warc_files.id"], name="fk_captures_warc_file_id_warc_files"),
        sa.ForeignKeyConstraint(["payload_file_id"], ["warc_files.id"], name="fk_captures_payload_file_id_warc_files"),
        sa.PrimaryKeyConstraint("id", name="pk_captures"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_captures_digest", "captures", ["digest"], unique=False)
    op.create_index(
        "ix_captures_refused",
        "captures",
        ["id"],
        unique=False,
        sqlite_where=sa.text("index_state = 'refused'"),
        postgresql_where=sa.text("index_state = 'refused'"),
    )
    op.create_index("ix_captures_run", "captures", ["run_id", "index_state"], unique=False)
    op.create_index("ix_captures_site_id", "captures", ["site_id"], unique=False)
    op.create_index("ix_captures_url", "captures", ["url_id", "id"], unique=False)
    op.create_index(
        "ix_captures_waiting",
        "captures",
        ["id"],
        unique=False,
        sqlite_where=sa.text("index_state = 'waiting'"),
        postgresql_where=sa.text("index_state = 'waiting'"),
    )
    op.create_table(
        "rejections",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("urlhash", sa.LargeBinary(length=16), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("parent_url", sa.Text(), nullable=True),
        sa.Column("rejected_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_rejections_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "urlhash", name="pk_rejections"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_rejections_reason", "rejections", ["run_id", "reason"], unique=False)
    op.create_table(
        "run_counts",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("shard", sa.SmallInteger(), nullable=False),
        sa.Column("n", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_counts_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "name", "shard", name="pk_run_counts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "run_samples",
        sa.Column("run_id", ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.SmallInteger(), nullable=False),
        sa.Column("pages", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_samples_run_id_runs", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "at", "shard", name="pk_run_samples"),
        sqlite_with_rowid=False,
    )
