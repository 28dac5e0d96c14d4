"""The crawl database: its tables, how it is opened, and how a write transaction begins.

SQLite in WAL mode by default, PostgreSQL by URL; nothing here that PostgreSQL could not do. Every process opens
its own engine. Write transactions go through `write`, which takes SQLite's write lock at once (BEGIN IMMEDIATE),
so that a transaction that read first can never fail half-way for want of it. Both `read` and `write` turn a
database that is away, busy or full into a DatabaseError. The tables themselves are made by `migrate`,
from the steps in `migrations/`, which the test suite holds against the metadata here.

Names in run_counts (a run's total is the sum over its shards; `crawler.frontier` alone writes them):

    queued                 URLs that entered the queue of the run, found or asked for again
    left                   of those, the ones that are done with; queued - left are still to be visited
    fetched, unchanged, redirected, gone     visits that ended so
    retried                failed tries that will be repeated
    error:<kind>           URLs given up in this run, by FetchErrorKind
    rejected:<reason>      distinct URLs not crawled (or not indexed), by Rejection
    anything else          what the crawler counts for itself (`bytes`, `rendered`)
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from pydantic import TypeAdapter
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection as Connection
from sqlalchemy.engine import Dialect
from sqlalchemy.engine import Engine as Engine

from crawler.errors import DatabaseError
from crawler.records import SiteSettings

BUSY_TIMEOUT_S = 60.0
"""How long a SQLite writer waits for another one; transactions are batches of milliseconds."""


class QueueState(IntEnum):
    """Where a URL stands in the frontier."""

    QUEUED = 0
    LEASED = 1
    DONE = 2


class UtcTime(sa.TypeDecorator[datetime]):
    """An aware UTC datetime, stored as seconds since the epoch: the same in both databases, and quick to compare."""

    impl = sa.Double
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> float | None:
        return None if value is None else value.timestamp()

    def process_result_value(self, value: float | None, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value, UTC)


SITE_SETTINGS = TypeAdapter(SiteSettings)


class SiteSettingsJson(sa.TypeDecorator[SiteSettings]):
    """A SiteSettings as JSON. Keys that this version does not know are left aside when read."""

    impl = sa.JSON
    cache_ok = True

    def process_bind_param(self, value: SiteSettings | None, dialect: Dialect) -> Any:
        return None if value is None else SITE_SETTINGS.dump_python(value, mode="json")

    def process_result_value(self, value: Any, dialect: Dialect) -> SiteSettings | None:
        return None if value is None else SITE_SETTINGS.validate_python(value)


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite's own rowid is only used for a column of type INTEGER.
_Id = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _id_column() -> sa.Column[int]:
    """Tables that have it say sqlite_autoincrement too: an id is never given to another row after a deletion."""
    return sa.Column("id", _Id, primary_key=True, autoincrement=True)


sites = sa.Table(
    "sites",
    metadata,
    _id_column(),
    sa.Column("key", sa.Text, nullable=False, unique=True, comment="what the owner calls it by: host:port[/prefix/]"),
    sa.Column("settings", SiteSettingsJson, nullable=False),
    sa.Column("needs_browser", sa.Boolean, nullable=True, comment="learned by render = auto; NULL: not known yet"),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    sqlite_autoincrement=True,
)

runs = sa.Table(
    "runs",
    metadata,
    _id_column(),
    sa.Column("site_id", _Id, sa.ForeignKey("sites.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("state", sa.Text, nullable=False, index=True, comment="a RunState"),
    sa.Column("reason", sa.Text, nullable=True, comment="why it ended, one sentence"),
    sa.Column(
        "requeued_up_to",
        _Id,
        nullable=True,
        server_default="0",
        comment="the URLs known from earlier runs are queued again up to this id; NULL: all are",
    ),
    sa.Column(
        "is_spent",
        sa.Boolean,
        nullable=False,
        server_default=sa.false(),
        comment="its page budget is used up: nothing is given out any more",
    ),
    sa.Column("asked_by", sa.Text, nullable=False, comment="command line, schedule, or a user's name"),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("started_at", UtcTime, nullable=True),
    sa.Column("finished_at", UtcTime, nullable=True),
    sqlite_autoincrement=True,
)
# Never two runs of one site at once, whoever starts them: the database itself refuses the second.
sa.Index(
    "uq_runs_one_alive",
    runs.c.site_id,
    unique=True,
    sqlite_where=runs.c.state.in_(("queued", "running", "stopping", "stopped")),
    postgresql_where=runs.c.state.in_(("queued", "running", "stopping", "stopped")),
)

run_counts = sa.Table(
    "run_counts",
    metadata,
    sa.Column("run_id", _Id, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("name", sa.Text, primary_key=True, comment="see the top of this module"),
    sa.Column("shard", sa.SmallInteger, primary_key=True, comment="by worker, so that workers do not wait for another"),
    sa.Column("n", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

run_samples = sa.Table(
    "run_samples",
    metadata,
    sa.Column("run_id", _Id, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("at", sa.BigInteger, primary_key=True, comment="seconds since the epoch, a multiple of SAMPLE_S"),
    sa.Column("shard", sa.SmallInteger, primary_key=True, comment="as in run_counts"),
    sa.Column("pages", sa.BigInteger, nullable=False, comment="visits that ended in that time"),
    sqlite_with_rowid=False,
)

rejections = sa.Table(
    "rejections",
    metadata,
    sa.Column("run_id", _Id, sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("urlhash", sa.LargeBinary(16), primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("reason", sa.Text, nullable=False, comment="a Rejection"),
    sa.Column("parent_url", sa.Text, nullable=True),
    sa.Column("rejected_at", UtcTime, nullable=False),
    sqlite_with_rowid=False,
)

sa.Index("ix_rejections_reason", rejections.c.run_id, rejections.c.reason)

hosts = sa.Table(
    "hosts",
    metadata,
    _id_column(),
    sa.Column("host", sa.Text, nullable=False, unique=True, comment="host:port"),
    sa.Column("next_request_at", UtcTime, nullable=False, comment="politeness: no request before"),
    sa.Column(
        "ready_at",
        UtcTime,
        nullable=True,
        comment="worth a look from then on: next_request_at, a lease's end or the earliest retry; NULL: nothing queued",
    ),
    sa.Column("lease_owner", sa.Text, nullable=True),
    sa.Column("lease_until", UtcTime, nullable=True),
    sa.Column(
        "failures",
        sa.Integer,
        nullable=False,
        default=0,
        server_default="0",
        comment="failed requests in a row",
    ),
    sa.Column(
        "robots_body",
        sa.LargeBinary,
        nullable=True,
        comment="NULL with a status: no rules (404) or unreachable",
    ),
    sa.Column("robots_status", sa.Integer, nullable=True, comment="HTTP status of the last answer, 0: no answer"),
    sa.Column("robots_expires_at", UtcTime, nullable=True),
    sqlite_autoincrement=True,
)
sa.Index(
    "ix_hosts_ready",
    hosts.c.ready_at,
    sqlite_where=hosts.c.ready_at.is_not(None),
    postgresql_where=hosts.c.ready_at.is_not(None),
)
sa.Index(
    "ix_hosts_leased",
    hosts.c.lease_owner,
    sqlite_where=hosts.c.lease_owner.is_not(None),
    postgresql_where=hosts.c.lease_owner.is_not(None),
)

urls = sa.Table(
    "urls",
    metadata,
    _id_column(),
    sa.Column("urlhash", sa.LargeBinary(16), nullable=False, unique=True, comment="of the urlkey: the seen set"),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("urlkey", sa.Text, nullable=True, comment="NULL: the same as url"),
    sa.Column("host_id", _Id, sa.ForeignKey("hosts.id"), nullable=False),
    sa.Column("site_id", _Id, sa.ForeignKey("sites.id", ondelete="CASCADE"), nullable=False),
    sa.Column("run_id", _Id, nullable=True, comment="the newest run that wants or had it"),
    sa.Column("queue_state", sa.SmallInteger, nullable=False, comment="a QueueState"),
    sa.Column("priority", sa.Double, nullable=False),
    sa.Column("depth", sa.Integer, nullable=False),
    sa.Column("kind", sa.Text, nullable=False, comment="a LinkKind"),
    sa.Column("parent_url", sa.Text, nullable=True),
    sa.Column("anchor", sa.Text, nullable=False, default="", server_default=""),
    sa.Column("redirects", sa.Integer, nullable=False, default=0, server_default="0"),
    sa.Column("discovered_at", UtcTime, nullable=False),
    sa.Column(
        "generation",
        sa.BigInteger,
        nullable=False,
        default=0,
        server_default="0",
        comment="grows at each claim",
    ),
    sa.Column(
        "tries",
        sa.Integer,
        nullable=False,
        default=0,
        server_default="0",
        comment="failed tries since the last success",
    ),
    sa.Column("status", sa.Text, nullable=False, comment="a CrawlStatus"),
    sa.Column("reason", sa.Text, nullable=True),
    sa.Column("message", sa.Text, nullable=True),
    sa.Column("visited_at", UtcTime, nullable=True),
    sa.Column("next_visit_at", UtcTime, nullable=True, comment="while queued: not before; NULL: at once"),
    sa.Column("etag", sa.Text, nullable=True),
    sa.Column("last_modified", sa.Text, nullable=True),
    sa.Column("digest", sa.Text, nullable=True),
    sa.Column("capture_id", _Id, nullable=True, comment="the last good capture"),
    sqlite_autoincrement=True,
)
# The frontier itself: only what is queued, best first within a run and a host. next_visit_at and queue_state stand
# at the end so that what waits to be tried again is passed over without reading its row.
sa.Index(
    "ix_urls_queue",
    urls.c.run_id,
    urls.c.host_id,
    urls.c.priority.desc(),
    urls.c.id,
    urls.c.next_visit_at,
    urls.c.queue_state,
    sqlite_where=urls.c.queue_state == QueueState.QUEUED.value,
    postgresql_where=urls.c.queue_state == QueueState.QUEUED.value,
)
sa.Index(
    "ix_urls_leased",
    urls.c.host_id,
    urls.c.run_id,
    urls.c.queue_state,
    sqlite_where=urls.c.queue_state == QueueState.LEASED.value,
    postgresql_where=urls.c.queue_state == QueueState.LEASED.value,
)
sa.Index("ix_urls_site", urls.c.site_id, urls.c.id)
# Where a site begins, and where its seeds redirect to.
sa.Index(
    "ix_urls_seeds",
    urls.c.site_id,
    sqlite_where=urls.c.kind == "seed",
    postgresql_where=urls.c.kind == "seed",
)
IS_SEED = urls.c.kind == sa.literal_column("'seed'")
"""As in the partial index: SQLite uses one only if the query holds the same literal."""
# What failed, for the owner's list of causes.
sa.Index(
    "ix_urls_failed",
    urls.c.run_id,
    urls.c.reason,
    sqlite_where=urls.c.status.in_(("fetch_error", "gone")),
    postgresql_where=urls.c.status.in_(("fetch_error", "gone")),
)

warc_files = sa.Table(
    "warc_files",
    metadata,
    _id_column(),
    sa.Column("path", sa.Text, nullable=False, unique=True, comment="relative to the archive folder"),
    sa.Column("writer", sa.Text, nullable=False, comment="the worker that writes or wrote it"),
    sa.Column("created_at", UtcTime, nullable=False),
    sqlite_autoincrement=True,
)

captures = sa.Table(
    "captures",
    metadata,
    _id_column(),
    sa.Column("url_id", _Id, sa.ForeignKey("urls.id", ondelete="CASCADE"), nullable=False),
    sa.Column("site_id", _Id, sa.ForeignKey("sites.id", ondelete="CASCADE"), nullable=False, index=True),
    sa.Column("run_id", _Id, nullable=True),
    sa.Column("captured_at", UtcTime, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("content_type", sa.Text, nullable=False),
    sa.Column("digest", sa.Text, nullable=False, comment="sha256 hex of the decoded payload"),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False, comment="of the claim; fences the index"),
    sa.Column(
        "faults",
        sa.Text,
        nullable=False,
        default="",
        server_default="",
        comment="Fault values, comma-separated",
    ),
    sa.Column("revisit_of", _Id, nullable=True, comment="the capture that holds the payload"),
    sa.Column("warc_file_id", _Id, sa.ForeignKey("warc_files.id"), nullable=False),
    sa.Column("offset", sa.BigInteger, nullable=False, comment="of the response or revisit record's gzip member"),
    sa.Column("length", sa.BigInteger, nullable=False),
    sa.Column("dom_offset", sa.BigInteger, nullable=True, comment="of the conversion record: the rendered DOM"),
    sa.Column("dom_length", sa.BigInteger, nullable=True),
    # Of a revisit: where the payload lies, so that it is found after the row of its first capture is deleted.
    sa.Column("payload_file_id", _Id, sa.ForeignKey("warc_files.id"), nullable=True),
    sa.Column("payload_offset", sa.BigInteger, nullable=True),
    sa.Column("payload_length", sa.BigInteger, nullable=True),
    sa.Column("payload_dom_offset", sa.BigInteger, nullable=True),
    sa.Column("payload_dom_length", sa.BigInteger, nullable=True),
    sa.Column("index_state", sa.Text, nullable=False, comment="an IndexState"),
    sa.Column("index_error", sa.Text, nullable=True),
    sa.Column("index_tries", sa.Integer, nullable=False, default=0, server_default="0"),
    sa.Column("index_owner", sa.Text, nullable=True),
    sa.Column("index_not_before", UtcTime, nullable=True, comment="lease end, or when to try again; NULL: at once"),
    sqlite_autoincrement=True,
)
sa.Index("ix_captures_url", captures.c.url_id, captures.c.id)
sa.Index("ix_captures_run", captures.c.run_id, captures.c.index_state)
sa.Index("ix_captures_digest", captures.c.digest)
sa.Index(
    "ix_captures_waiting",
    captures.c.id,
    sqlite_where=captures.c.index_state == "waiting",
    postgresql_where=captures.c.index_state == "waiting",
)
sa.Index(
    "ix_captures_refused",
    captures.c.id,
    sqlite_where=captures.c.index_state == "refused",
    postgresql_where=captures.c.index_state == "refused",
)

withdrawals = sa.Table(
    "withdrawals",
    metadata,
    _id_column(),
    sa.Column("urlhash", sa.LargeBinary(16), nullable=False, comment="of the document that is to leave the index"),
    sa.Column(
        "generation", sa.BigInteger, nullable=False, comment="of the newest visit: a later one may bring it back"
    ),
    sa.Column("withdrawn_at", UtcTime, nullable=False),
    sqlite_autoincrement=True,
)

schedules = sa.Table(
    "schedules",
    metadata,
    _id_column(),
    sa.Column("site_id", _Id, sa.ForeignKey("sites.id", ondelete="CASCADE"), nullable=False, unique=True),
    sa.Column("cron", sa.Text, nullable=True, comment="five fields; either this or interval_s"),
    sa.Column("interval_s", sa.Double, nullable=True),
    sa.Column("time_zone", sa.Text, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("next_due_at", UtcTime, nullable=True),
    sa.Column("last_run_at", UtcTime, nullable=True),
    sqlite_autoincrement=True,
)

leases = sa.Table(
    "leases",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("owner", sa.Text, nullable=False),
    sa.Column("until", UtcTime, nullable=False),
)

workers = sa.Table(
    "workers",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("kind", sa.Text, nullable=False, comment="crawler, indexer, scheduler, web"),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("started_at", UtcTime, nullable=False),
    sa.Column("seen_at", UtcTime, nullable=False),
    sa.Column("state", sa.JSON, nullable=False, comment="what it is doing, for people"),
)

users = sa.Table(
    "users",
    metadata,
    _id_column(),
    sa.Column("name", sa.Text, nullable=False, unique=True),
    sa.Column("password_hash", sa.Text, nullable=False),
    sa.Column("role", sa.Text, nullable=False, comment="owner or editor"),
    sa.Column("session_key", sa.Text, nullable=False, comment="changed to end all sessions"),
    sa.Column("created_at", UtcTime, nullable=False),
    sqlite_autoincrement=True,
)

sign_in_tries = sa.Table(
    "sign_in_tries",
    metadata,
    sa.Column("subject", sa.Text, primary_key=True, comment="name:… or address:…"),
    sa.Column("failures", sa.Integer, nullable=False, comment="in a row"),
    sa.Column("last_at", UtcTime, nullable=False),
)

settings = sa.Table(
    "settings",
    metadata,
    sa.Column("key", sa.Text, primary_key=True, comment="portal, …"),
    sa.Column("value", sa.JSON, nullable=False),
)


SAMPLE_S = 10
"""Seconds of one row of run_samples."""
MIGRATIONS = Path(__file__).parent / "migrations"
OUR_FAULTS = (sa.exc.IntegrityError, sa.exc.ProgrammingError, sa.exc.DataError, sa.exc.InternalError)
"""Errors that waiting and trying again would not mend."""
OLDEST_SQLITE = (3, 35, 0)
"""RETURNING."""
_UNDEFINED_TABLE = "42P01"
_MIGRATION_LOCK = 0x706C756D62
"""Key of PostgreSQL's advisory lock: "plumb"."""


def open_database(url: str) -> Engine:
    """Open the crawl database (`sqlite:///path` or `postgresql+psycopg://…`). Tables come from `migrate`."""
    try:
        engine = sa.create_engine(url, connect_args=_connect_args(url), pool_pre_ping=not url.startswith("sqlite"))
    except (sa.exc.ArgumentError, ImportError) as exc:
        raise DatabaseError(
            "the database address must be sqlite:///path or postgresql+psycopg://user:password@host/name"
        ) from exc
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def migrate(engine: Engine) -> None:
    """Make or upgrade the tables; quick if there is nothing to do.

    Every process calls it when it starts; one of them does the work, the others wait for it. All steps are one
    transaction (in SQLite too), so a kill leaves the database as it was. Steps only add, so that processes of the
    version before go on working beside this one. Raises DatabaseError if the database was made by a newer
    version, or cannot be opened.
    """
    _prepare_place(engine)
    config = _config()
    with read(engine) as conn:
        if _revision(conn) == newest_revision():
            return
    with write(engine) as conn:
        if conn.dialect.name == "postgresql":
            conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_MIGRATION_LOCK)))
        config.attributes["connection"] = conn
        try:
            command.upgrade(config, "head")
        except CommandError as exc:
            raise DatabaseError(
                f"the crawl database is of a newer version of Plumbline (its revision is {_revision(conn)}): upgrade "
                "the program, or restore a backup of the database"
            ) from exc


@contextmanager
def write(engine: Engine) -> Iterator[Connection]:
    """A transaction that will write; commits at the end, rolls back on any exception."""
    with _translated(), engine.connect().execution_options(plumbline_write=True) as connection, connection.begin():
        yield connection


@contextmanager
def read(engine: Engine) -> Iterator[Connection]:
    """A consistent view for reading; never blocks a writer."""
    with _translated(), engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            yield connection


def insert(conn: Connection, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    """An INSERT that can say ON CONFLICT, in the words of the connection's database."""
    return postgresql.insert(table) if conn.dialect.name == "postgresql" else sqlite.insert(table)


def server_time(engine: Engine) -> datetime | None:
    """The time by the clock of the database's machine; None where that is this machine."""
    if engine.dialect.name == "sqlite":
        return None
    with read(engine) as conn:
        now: datetime = conn.execute(sa.text("SELECT clock_timestamp()")).scalar_one()
    return now


def newest_revision() -> str | None:
    """The revision that this version's tables have."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def _config() -> Config:
    config = Config()
    # ConfigParser would read a % in the folder's name as its own.
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return config


def _revision(conn: Connection) -> str | None:
    return MigrationContext.configure(conn).get_current_revision()


def _prepare_place(engine: Engine) -> None:
    """SQLite: a version that can do what we need, and the folder of the file."""
    if engine.dialect.name != "sqlite":
        return
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE))
        raise DatabaseError(f"SQLite {oldest} or newer is needed, this Python has {sqlite3.sqlite_version}")
    path = engine.url.database
    if path and path != ":memory:":
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as exc:
            raise DatabaseError(f"the folder of the crawl database cannot be made: {exc}") from exc


def seed_hosts(conn: Connection, site_ids: list[int]) -> dict[int, frozenset[str]]:
    """Hosts of each site's seeds, and of where they redirected to."""
    rows = conn.execute(
        sa.select(urls.c.site_id, hosts.c.host)
        .join(hosts, hosts.c.id == urls.c.host_id)
        .where(urls.c.site_id.in_(site_ids), IS_SEED)
        .distinct()
    )
    found: dict[int, set[str]] = {}
    for row in rows:
        found.setdefault(row.site_id, set()).add(row.host)
    return {site_id: frozenset(names) for site_id, names in found.items()}


@contextmanager
def _translated() -> Iterator[None]:
    """Turn a database that is away, busy, full or damaged into our error; it may be well again later."""
    try:
        yield
    except (sa.exc.DatabaseError, sa.exc.InterfaceError, sa.exc.TimeoutError) as exc:
        if isinstance(exc, OUR_FAULTS) and not _lacks_tables(exc):
            raise
        cause = exc.orig if isinstance(exc, sa.exc.DBAPIError) else exc
        raise DatabaseError(f"the crawl database cannot be used now: {str(cause).strip().splitlines()[0]}") from exc


def _lacks_tables(exc: sa.exc.SQLAlchemyError) -> bool:
    """PostgreSQL calls it a wrong statement that nobody has made the tables yet; the next `migrate` mends it."""
    return isinstance(exc, sa.exc.DBAPIError) and getattr(exc.orig, "sqlstate", None) == _UNDEFINED_TABLE


def _connect_args(url: str) -> dict[str, Any]:
    return {"timeout": BUSY_TIMEOUT_S} if url.startswith("sqlite") else {}


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are begun by _begin_sqlite, not by the driver
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA cache_size = -32768")
    # 32 MB between checkpoints: pages of the index that change over and over are written back once.
    connection.execute("PRAGMA wal_autocheckpoint = 8000")


def _begin_sqlite(connection: Connection) -> None:
    wants_to_write = connection.get_execution_options().get("plumbline_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if wants_to_write else "BEGIN")
