"""What all tests share: settings in temporary folders, a migrated crawl database, and one real Elasticsearch node.

The node is started at the first test that asks for it and stopped at the end of the session. Each test has its own
index prefix on it, and its indices are gone afterwards.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy.engine import Engine

from crawler import database
from services.config import Settings, load_settings
from services.elastic import Credentials, ElasticUser, credentials
from services.node import LocalNode
from tests.databases import PostgresServer, migrated_sqlite, postgres_programs, postgres_server

KEPT_VARIABLES = {"PLUMBLINE_CACHE", "PLUMBLINE_EVAL_DATA"}
HOME_PREFIX = "plumbline-test-"
_numbers = itertools.count(1)


def pytest_configure() -> None:
    """The stack of whoever runs the tests is none of the tests' business."""
    for name in list(os.environ):
        if name.startswith(("PLUMBLINE_", "ELASTICSEARCH_")) and name not in KEPT_VARIABLES:
            del os.environ[name]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A stack's settings, its home in a temporary folder; nothing runs."""
    return load_settings(home=tmp_path / "home")


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a migrated, empty database, to be copied: migrating takes longer than most tests."""
    return migrated_sqlite(tmp_path_factory.mktemp("sqlite"))


@pytest.fixture
def engine(settings: Settings, sqlite_template: Path) -> Iterator[Engine]:
    """The migrated, empty crawl database of `settings`."""
    settings.home.mkdir(parents=True, exist_ok=True)
    shutil.copy(sqlite_template, settings.home / "crawl.db")
    engine = database.open_database(settings.effective_database_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this session."""
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    with postgres_server(programs) as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty, migrated crawl database, once of each kind."""
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres")
        return server.emptied_database()
    shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "crawl.db")
    return f"sqlite:///{tmp_path / 'crawl.db'}"


@pytest.fixture
def any_engine(database_url: str) -> Iterator[Engine]:
    """A migrated, empty crawl database, once of each kind."""
    engine = database.open_database(database_url)
    yield engine
    engine.dispose()


@pytest.fixture(scope="session")
def node() -> Iterator[Settings]:
    """The settings of a stack whose node runs. Most tests want `node_settings`."""
    _sweep_left_overs()
    # Not pytest's own temporary folder: the node's user could not get into it when root runs the tests.
    home = Path(tempfile.mkdtemp(prefix=HOME_PREFIX))
    (home / "pytest.pid").write_text(str(os.getpid()))
    settings = load_settings(home=home)
    local_node = LocalNode(settings)
    try:
        local_node.ensure_running()
        yield settings
    finally:
        local_node.stop()
        shutil.rmtree(home)


@pytest.fixture
def node_settings(node: Settings, tmp_path: Path) -> Iterator[Settings]:
    """The running node with an index prefix, a database and an archive of the test's own."""
    settings = node.model_copy(
        update={
            "index_prefix": f"{node.index_prefix}test{next(_numbers)}-",
            "database_url": f"sqlite:///{tmp_path / 'crawl.db'}",
            "archive": tmp_path / "archive",
        }
    )
    yield settings
    _delete_indices(settings)


def _delete_indices(settings: Settings) -> None:
    writer = credentials(settings, ElasticUser.WRITER)
    found = json.loads(_ask(writer, "GET", f"/_cat/indices/{settings.index_prefix}*?format=json&h=index"))
    for row in found:
        _ask(writer, "DELETE", f"/{row['index']}")


def _ask(user: Credentials, method: str, path: str) -> bytes:
    token = base64.b64encode(f"{user.user}:{user.password}".encode()).decode()
    request = urllib.request.Request(user.url + path, method=method, headers={"Authorization": f"Basic {token}"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        content: bytes = answer.read()
    return content


def _sweep_left_overs() -> None:
    """Stop the nodes of earlier sessions that were killed."""
    for home in Path(tempfile.gettempdir()).glob(f"{HOME_PREFIX}*"):
        with contextlib.suppress(OSError, ValueError):
            if not psutil.pid_exists(int((home / "pytest.pid").read_text())):
                LocalNode(load_settings(home=home)).stop()
                shutil.rmtree(home)
