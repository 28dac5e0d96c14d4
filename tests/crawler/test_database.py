from __future__ import annotations

import multiprocessing
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy.engine import Engine

from crawler import database
from crawler.errors import DatabaseError
from crawler.records import RenderMode, SiteScope, SiteSettings
from tests.databases import PostgresServer

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
SITE = {"key": "a.cn:80", "created_at": NOW, "updated_at": NOW}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database without any table."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.new_database()
    return f"sqlite:///{tmp_path / 'not yet' / 'crawl 100%.db'}"


@pytest.fixture
def empty(empty_url: str) -> Iterator[Engine]:
    engine = database.open_database(empty_url)
    yield engine
    engine.dispose()


def test_migrations_make_the_tables_of_the_metadata(any_engine: Engine) -> None:
    with database.read(any_engine) as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True, "compare_server_default": True})
        differences = compare_metadata(context, database.metadata)
    # Comments explain columns to readers of the code; changing one needs no step.
    assert [d for d in differences if "comment" not in str(d[0])] == []


def test_migrations_make_the_same_sqlite_schema_as_the_metadata_down_to_the_partial_indexes(tmp_path: Path) -> None:
    made, migrated = (database.open_database(f"sqlite:///{tmp_path / name}.db") for name in ("made", "migrated"))
    database.metadata.create_all(made)
    database.migrate(migrated)
    assert _schema(migrated) == _schema(made)


def test_a_folder_that_is_missing_is_made(empty: Engine) -> None:
    database.migrate(empty)
    with database.read(empty) as conn:
        assert conn.execute(sa.select(sa.func.count()).select_from(database.urls)).scalar() == 0


def test_migrating_again_changes_nothing(any_engine: Engine) -> None:
    with database.write(any_engine) as conn:
        conn.execute(sa.insert(database.sites).values(**SITE, settings=SiteSettings(("http://a.cn/",))))
    database.migrate(any_engine)
    with database.read(any_engine) as conn:
        assert conn.execute(sa.select(database.sites.c.key)).scalar() == "a.cn:80"


def test_processes_that_start_together_migrate_once(empty_url: str) -> None:
    processes = multiprocessing.get_context("fork")
    start = processes.Barrier(4)
    workers = [processes.Process(target=_migrate_at, args=(empty_url, start)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0, 0]


def test_a_failing_step_leaves_the_database_as_it_was(empty: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    upgrade = database.command.upgrade

    def cut_off(config: database.Config, revision: str) -> None:
        upgrade(config, revision)
        raise KeyboardInterrupt

    monkeypatch.setattr(database.command, "upgrade", cut_off)
    with pytest.raises(KeyboardInterrupt):
        database.migrate(empty)
    assert sa.inspect(empty).get_table_names() == []


def test_a_database_of_a_newer_version_is_refused_in_words(any_engine: Engine) -> None:
    with any_engine.begin() as conn:
        conn.execute(sa.text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(DatabaseError, match=r"newer version of Plumbline \(its revision is 9999\)"):
        database.migrate(any_engine)


def test_site_settings_come_back_as_they_went_in(any_engine: Engine) -> None:
    settings = SiteSettings(
        seeds=("http://例子.cn/",), scope=SiteScope(exclude=("/x/*",), max_depth=3), render=RenderMode.NEVER,
        headers=(("Cookie", "a=b"),),
    )  # fmt: skip
    with database.write(any_engine) as conn:
        conn.execute(sa.insert(database.sites).values(**SITE, settings=settings))
    with database.read(any_engine) as conn:
        assert conn.execute(sa.select(database.sites.c.settings)).scalar() == settings


def test_settings_of_another_version_are_read_as_far_as_they_are_known(any_engine: Engine) -> None:
    raw = sa.table(
        "sites", *(sa.column(name) for name in ("key", "created_at", "updated_at")), sa.column("settings", sa.JSON)
    )
    with database.write(any_engine) as conn:
        row = {"key": "a.cn:80", "created_at": 0.0, "updated_at": 0.0}
        conn.execute(sa.insert(raw).values(**row, settings={"seeds": ["http://a.cn/"], "colour": "red"}))
    with database.read(any_engine) as conn:
        assert conn.execute(sa.select(database.sites.c.settings)).scalar() == SiteSettings(("http://a.cn/",))


def test_times_come_back_as_utc_whatever_zone_they_were_in(any_engine: Engine) -> None:
    local = NOW.astimezone(timezone(timedelta(hours=8)))
    lease = {"name": "x", "owner": "me", "until": local}
    with database.write(any_engine) as conn:
        conn.execute(sa.insert(database.leases).values(**lease))
    with database.read(any_engine) as conn:
        until = conn.execute(sa.select(database.leases.c.until)).scalar()
    assert until == NOW
    assert until is not None and until.tzinfo is UTC


def test_two_alive_runs_of_one_site_are_refused_by_the_database(any_engine: Engine) -> None:
    run = {"state": "queued", "asked_by": "test", "created_at": NOW}
    with database.write(any_engine) as conn:
        site_id = conn.execute(
            sa.insert(database.sites)
            .values(**SITE, settings=SiteSettings(("http://a.cn/",)))
            .returning(database.sites.c.id)
        ).scalar()
        conn.execute(sa.insert(database.runs).values(site_id=site_id, **run | {"state": "finished"}))
        conn.execute(sa.insert(database.runs).values(site_id=site_id, **run))
    with pytest.raises(sa.exc.IntegrityError), database.write(any_engine) as conn:
        conn.execute(sa.insert(database.runs).values(site_id=site_id, **run | {"state": "stopped"}))


def test_a_write_is_rolled_back_by_any_exception(any_engine: Engine) -> None:
    with pytest.raises(KeyboardInterrupt), database.write(any_engine) as conn:
        conn.execute(sa.insert(database.leases).values(name="x", owner="me", until=NOW))
        raise KeyboardInterrupt
    with database.read(any_engine) as conn:
        assert conn.execute(sa.select(database.leases.c.name)).all() == []


def test_a_reader_sees_one_state_while_a_writer_goes_on(any_engine: Engine) -> None:
    names = sa.select(database.leases.c.name)
    with database.read(any_engine) as conn:
        assert conn.execute(names).all() == []
        _in_thread(lambda: _insert_lease(any_engine))
        assert conn.execute(names).all() == []
    with database.read(any_engine) as conn:
        assert conn.execute(names).all() == [("x",)]


def test_a_reader_cannot_write_in_postgres(request: pytest.FixtureRequest, any_engine: Engine) -> None:
    if any_engine.dialect.name != "postgresql":
        pytest.skip("SQLite has no transactions that only read")
    with pytest.raises(sa.exc.InternalError), database.read(any_engine) as conn:
        conn.execute(sa.insert(database.leases).values(name="x", owner="me", until=NOW))


def test_a_database_that_cannot_be_opened_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "crawl.db").write_bytes(b"this is not a database, it only looks like a file" * 100)
    engine = database.open_database(f"sqlite:///{tmp_path / 'crawl.db'}")
    with pytest.raises(DatabaseError, match="cannot be used now"), database.read(engine) as conn:
        conn.execute(sa.select(database.leases.c.name))


def test_a_locked_database_is_our_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.05)
    engine = database.open_database(f"sqlite:///{tmp_path / 'crawl.db'}")
    database.migrate(engine)
    with closing(sqlite3.connect(tmp_path / "crawl.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(DatabaseError, match="locked"), database.write(engine):
            pytest.fail("a second writer got in")
    engine.dispose()


@pytest.mark.parametrize("url", ["crawl.db", "mysql://u@h/x", "postgres://u@h/x", ""])
def test_a_wrong_address_is_answered_with_the_right_form(url: str) -> None:
    with pytest.raises(DatabaseError, match="sqlite:///path or postgresql"):
        database.open_database(url)


def _schema(engine: Engine) -> dict[str, list[str]]:
    """The SQL of each table and index, its parts in one order."""
    with engine.connect() as conn:
        rows = conn.execute(sa.text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")).all()
    return {row.name: _parts(row.sql) for row in rows if row.name != "alembic_version"}


def _parts(sql: str) -> list[str]:
    return sorted(part.strip(" ,)") for part in sql.replace('"', "").split("\n"))


def _migrate_at(url: str, start: object) -> None:
    start.wait(30)  # type: ignore[attr-defined]
    engine = database.open_database(url)
    database.migrate(engine)
    with database.read(engine) as conn:
        conn.execute(sa.select(database.urls.c.id).limit(1)).all()


def _insert_lease(engine: Engine) -> None:
    with database.write(engine) as conn:
        conn.execute(sa.insert(database.leases).values(name="x", owner="me", until=NOW))


def _in_thread(work: Callable[[], None]) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
