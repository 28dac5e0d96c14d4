"""A PostgreSQL server of the tests' own, from Debian's packages, and an empty database on it for each test."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import sqlalchemy as sa

from crawler import database

PREFIX = "plumbline-postgres-"
NEWEST = database.newest_revision()


class PostgresServer:
    """A running cluster on loopback, with one migrated database that is emptied for each test."""

    def __init__(self, port: int, restart: Callable[[str], None]) -> None:
        self._port = port
        self.restart = restart
        """Stop and start the server; `fast` or `immediate`, which is as good as a kill."""
        self._made = 0
        self._admin = database.open_database(self._url("postgres")).execution_options(isolation_level="AUTOCOMMIT")
        self._migrated = database.open_database(self.new_database())
        database.migrate(self._migrated)

    def emptied_database(self) -> str:
        """The address of the migrated database, without any row."""
        names = ", ".join(table.name for table in database.metadata.sorted_tables)
        with database.write(self._migrated) as conn:
            conn.execute(sa.text(f"TRUNCATE {names} RESTART IDENTITY CASCADE"))
            conn.execute(sa.text("UPDATE alembic_version SET version_num = :newest"), {"newest": NEWEST})
        return self._url("test1")

    def new_database(self) -> str:
        """The address of a database without any table."""
        self._made += 1
        name = f"test{self._made}"
        with self._admin.connect() as conn:
            conn.execute(sa.text(f"CREATE DATABASE {name} TEMPLATE template0"))
        return self._url(name)

    def close(self) -> None:
        self._admin.dispose()
        self._migrated.dispose()

    def _url(self, name: str) -> str:
        return f"postgresql+psycopg://postgres@127.0.0.1:{self._port}/{name}"


def migrated_sqlite(folder: Path) -> Path:
    """A file with a migrated, empty database, to be copied."""
    path = folder / "migrated.db"
    engine = database.open_database(f"sqlite:///{path}")
    database.migrate(engine)
    engine.dispose()  # the last connection to close puts the write-ahead log into the file
    return path


def postgres_programs() -> Path | None:
    """The folder of initdb and postgres, if PostgreSQL is installed."""
    folders = [*sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)]
    on_path = shutil.which("initdb")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").is_file()), None)


@contextmanager
def postgres_server(programs: Path) -> Iterator[PostgresServer]:
    """Start a cluster in a temporary folder, as user postgres when root (PostgreSQL refuses to run as root)."""
    _sweep_left_overs()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    (folder / "pytest.pid").write_text(str(os.getpid()))
    user = "postgres" if os.geteuid() == 0 else None
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    port = _free_port()
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C"]
    subprocess.run(initdb, user=user, cwd="/", check=True, capture_output=True)
    options = f"-c port={port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={folder} -c fsync=off"
    pg_ctl = [programs / "pg_ctl", "-D", data, "-w", "-l", folder / "log"]

    def restart(mode: str) -> None:
        for command in (["-m", mode, "stop"], ["-o", options, "start"]):
            subprocess.run([*pg_ctl, *command], user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)

    subprocess.run([*pg_ctl, "-o", options, "start"], user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)
    try:
        with closing(PostgresServer(port, restart)) as server:
            yield server
    finally:
        subprocess.run([*pg_ctl, "-m", "immediate", "stop"], user=user, cwd="/", check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(folder)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _sweep_left_overs() -> None:
    """Stop the clusters of earlier sessions that were killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        owner = folder / "pytest.pid"
        postmaster = folder / "data" / "postmaster.pid"
        if not owner.is_file() or psutil.pid_exists(int(owner.read_text())):
            continue
        if postmaster.is_file():
            server = psutil.Process(int(postmaster.read_text().splitlines()[0]))
            server.terminate()
            server.wait(10)
        shutil.rmtree(folder)
