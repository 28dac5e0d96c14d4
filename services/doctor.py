"""What `plumbline doctor` looks at: everything that a stack needs of its machine, each with what to do about it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil

from crawler import database
from crawler.errors import CrawlerError
from services import control, stack
from services.config import (
    DATABASE_FILE,
    PORTS_FILE,
    SECRETS_FILE,
    Settings,
    is_root,
    kept_port,
    port_is_free,
    web_port,
)
from services.elastic import Elastic, ElasticUser, any_credentials
from services.errors import SearchRefused, ServiceError
from services.java import find_jdk
from services.node import ELASTICSEARCH_VERSION, MIN_FREE_BYTES, NODE_USER, LocalNode, plugin_zip

BESIDE_THE_HEAP_BYTES = 1_500_000_000
"""Memory that the node takes beside its heap, and our own processes and a browser need."""
MAX_SKEW = timedelta(seconds=5)
"""Leases are for 30 seconds and more, and are taken and judged by the clocks of different machines."""
SOURCES_DATE = datetime(2026, 1, 1, tzinfo=UTC)
"""No clock that is right shows an earlier time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    subject: str
    is_good: bool
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "ok": self.is_good, "message": self.message}

    def to_text(self) -> str:
        return f"{'ok  ' if self.is_good else 'BAD '} {self.subject}: {self.message}"


def examine(settings: Settings) -> list[Finding]:
    """Look at everything; what cannot be looked at is a bad finding, never an error."""
    checks: list[tuple[str, Callable[[Settings], str]]] = [
        ("python", _python),
        ("java", _java),
        ("maven", _maven),
        ("plugin", _plugin),
        ("browser", _browser),
        ("home", _home),
        ("secrets", _secrets),
        ("permissions", _permissions),
        ("memory", _memory),
        ("disk", _disk),
        ("ports", _ports),
        ("clock", _clock),
        ("database", _database),
        ("elasticsearch", _elasticsearch),
        ("versions", _versions),
        ("analysis", _analysis),
        ("processes", _processes),
    ]
    return [_look(subject, check, settings) for subject, check in checks]


def _look(subject: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(subject, True, check(settings))
    except (ServiceError, CrawlerError) as exc:
        return Finding(subject, False, str(exc))


def _python(_settings: Settings) -> str:
    return sys.version.partition(" ")[0]


def _java(settings: Settings) -> str:
    if settings.elasticsearch_url:
        return "not needed: another cluster is used"
    jdk = find_jdk(NODE_USER if is_root() and LocalNode(settings).folder.exists() else None)
    return f"{jdk.version} in {jdk.home}"


def _maven(settings: Settings) -> str:
    if settings.elasticsearch_url:
        return "not needed: another cluster is used"
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceError("Maven is missing; install it, for example by: sudo apt-get install maven")
    return maven


def _plugin(settings: Settings) -> str:
    if settings.elasticsearch_url:
        return "not needed here: another cluster is used"
    return plugin_zip().name


def _browser(settings: Settings) -> str:
    if importlib.util.find_spec("playwright") is None:
        return "not needed: this installation renders no pages"
    from crawler.renderer import find_browser

    return settings.browser or find_browser() or "Playwright's own, if it is installed (make setup sees to it)"


def _home(settings: Settings) -> str:
    if settings.secrets and settings.database_url and settings.archive and settings.elasticsearch_url:
        return "not used: all that is kept lies elsewhere"
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
        probe = settings.home / "doctor.probe"
        probe.write_text("")
        probe.unlink()
    except OSError as exc:
        raise ServiceError(f"{settings.home} cannot be written ({exc.strerror}); set PLUMBLINE_HOME") from exc
    return str(settings.home)


def _secrets(settings: Settings) -> str:
    if settings.secrets is not None:
        if not settings.secrets.is_dir() or not os.access(settings.secrets, os.R_OK | os.X_OK):
            raise ServiceError(f"the folder of secrets {settings.secrets} cannot be read; is it mounted?")
        return f"given in {settings.secrets}"
    path = settings.home / SECRETS_FILE
    if not path.exists():
        return "none yet"
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise ServiceError(f"others can read {path}; close it by: chmod 600 {path}")
    return "only their owner can read them"


def _memory(settings: Settings) -> str:
    available = psutil.virtual_memory().available
    needed = BESIDE_THE_HEAP_BYTES
    if LocalNode(settings).process() is None and not settings.elasticsearch_url:
        needed += settings.node_heap_mb * 1_000_000
    if available < needed:
        raise ServiceError(f"{available / 1e9:.1f} GB are free, {needed / 1e9:.1f} GB are needed; end other programs")
    return f"{available / 1e9:.1f} GB are free"


def _disk(settings: Settings) -> str:
    free = {}
    for folder in (settings.home, settings.archive_folder):
        there = next(path for path in (folder, *folder.parents) if path.exists())
        free[there] = shutil.disk_usage(there).free
        if free[there] < 2 * MIN_FREE_BYTES:
            raise ServiceError(f"only {free[there] / 1e9:.1f} GB are free at {there}; free some space")
    return f"{min(free.values()) / 1e9:.0f} GB are free"


def _ports(settings: Settings) -> str:
    """Each port is free, or taken by our own part."""
    if settings.elasticsearch_url and (settings.web_port or not (settings.home / PORTS_FILE).exists()):
        return "none of this machine's"
    state = stack.read_state(settings)
    is_up = state is not None and state.is_up
    node_port, portal_port = kept_port(settings, "node"), web_port(settings)
    has_node = LocalNode(settings).process() is not None or bool(settings.elasticsearch_url)
    for what, host, port, ours in (
        ("the portal", settings.web_host, portal_port, is_up),
        ("Elasticsearch", "127.0.0.1", node_port, has_node),
    ):
        if not ours and not port_is_free(port, host):
            raise ServiceError(f"port {port} of {what} is taken by another program: end it, or change the port")
    return f"portal {portal_port}, Elasticsearch {node_port}"


def _clock(settings: Settings) -> str:
    """Right, as far as can be seen: not before this program or its own files, and as the database's machine has it."""
    now = datetime.now(UTC)
    newest = max(
        (datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in settings.home.glob("*")), default=SOURCES_DATE
    )
    if now < max(SOURCES_DATE, newest - timedelta(minutes=5)):
        raise ServiceError(f"the clock shows {now:%Y-%m-%d %H:%M}, which is in the past; set it right")
    if settings.database_url:
        with _engine(settings) as engine:
            there = database.server_time(engine)
        if there is not None and abs(there - datetime.now(UTC)) > MAX_SKEW:
            off_s = (datetime.now(UTC) - there).total_seconds()
            raise ServiceError(f"the clock is {off_s:+.0f} seconds off the database's: leases need one time; run NTP")
    return f"{now:%Y-%m-%d %H:%M:%S}Z"


def _permissions(settings: Settings) -> str:
    """What an earlier start as another user may have left."""
    for path in (settings.home / DATABASE_FILE, settings.archive_folder, settings.home / "logs"):
        if path.exists() and not os.access(path, os.R_OK):
            raise ServiceError(f"{path} cannot be read by this user; give it back by: chown -R $(id -u) {path}")
    for path in (settings.home / DATABASE_FILE, settings.home / "logs"):
        if path.exists() and not os.access(path, os.W_OK):
            raise ServiceError(f"{path} cannot be written by this user; give it back by: chown -R $(id -u) {path}")
    return "what is kept can be read"


def _database(settings: Settings) -> str:
    if not settings.database_url and not (settings.home / DATABASE_FILE).exists():
        return "not made yet"
    with _engine(settings) as engine:
        control.read_portal(engine)
        return engine.dialect.name


@contextmanager
def _engine(settings: Settings) -> Iterator[database.Engine]:
    engine = database.open_database(settings.effective_database_url)
    try:
        yield engine
    finally:
        engine.dispose()


def _elasticsearch(settings: Settings) -> str:
    from services.status import read_status

    part = next(part for part in read_status(settings).parts if part.name == "elasticsearch")
    if not part.is_up and part.note:
        raise ServiceError(part.note)
    return part.note or "not running"


def _versions(settings: Settings) -> str:
    """All nodes of one version, and of the client's generation."""
    if not _has_elasticsearch(settings):
        return "Elasticsearch is not running"
    with Elastic(any_credentials(settings), settings.index_prefix) as elastic:
        found = elastic.node_versions()
    wanted = ELASTICSEARCH_VERSION.partition(".")[0]
    if len(found) > 1:
        raise ServiceError(f"the nodes are of several versions ({', '.join(found)}); upgrade all of them to one")
    if any(version.partition(".")[0] != wanted for version in found):
        raise ServiceError(f"Elasticsearch is {', '.join(found)}, {wanted}.x is needed; upgrade the cluster")
    return f"Elasticsearch {', '.join(found)}; Plumbline is made for {ELASTICSEARCH_VERSION}"


def _analysis(settings: Settings) -> str:
    """The plugin in the node or cluster cuts Chinese as it should."""
    if not _has_elasticsearch(settings):
        return "Elasticsearch is not running"
    user = any_credentials(settings)
    if user.user == ElasticUser.APPENDER:
        return "cannot be looked at by a user who only adds to logs"
    try:
        with Elastic(user, settings.index_prefix) as elastic:
            words = [token.text for token in elastic.tokenize("南京市长江大桥", "jieba_search")]
    except SearchRefused as exc:
        raise ServiceError(
            f"the plugin analysis-jieba is not in Elasticsearch ({exc}); install it in every node and restart"
        ) from exc
    if words != ["南京市", "长江大桥"]:
        raise ServiceError(f"the plugin analysis-jieba gives {' '.join(words)}; install the one of this version")
    return " ".join(words)


def _has_elasticsearch(settings: Settings) -> bool:
    return bool(settings.elasticsearch_url) or LocalNode(settings).process() is not None


def _processes(settings: Settings) -> str:
    state = stack.read_state(settings)
    if state is None or not state.is_up:
        return "the stack is not up"
    stack.raise_if_failing(settings, state)
    return f"{len(state.children)} run"
