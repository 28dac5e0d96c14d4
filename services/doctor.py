"""What `plumbline doctor` looks at: everything that a stack needs of its machine, each with what to do about it."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import psutil

from services import stack
from services.config import SECRETS_FILE, Settings, is_root, kept_port, port_is_free, web_port
from services.errors import ServiceError
from services.java import find_jdk
from services.node import MIN_FREE_BYTES, NODE_USER, LocalNode, plugin_zip

BESIDE_THE_HEAP_BYTES = 1_500_000_000
"""Memory that the node takes beside its heap, and our own processes and a browser need."""
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
        ("plugin", lambda _settings: str(plugin_zip().name)),
        ("browser", _browser),
        ("home", _home),
        ("secrets", _secrets),
        ("memory", _memory),
        ("disk", _disk),
        ("ports", _ports),
        ("clock", _clock),
        ("elasticsearch", _elasticsearch),
        ("processes", _processes),
    ]
    return [_look(subject, check, settings) for subject, check in checks]


def _look(subject: str, check: Callable[[Settings], str], settings: Settings) -> Finding:
    try:
        return Finding(subject, True, check(settings))
    except ServiceError as exc:
        return Finding(subject, False, str(exc))


def _python(_settings: Settings) -> str:
    return sys.version.partition(" ")[0]


def _java(settings: Settings) -> str:
    if settings.elasticsearch_url:
        return "not needed: another cluster is used"
    jdk = find_jdk(NODE_USER if is_root() and LocalNode(settings).folder.exists() else None)
    return f"{jdk.version} in {jdk.home}"


def _maven(_settings: Settings) -> str:
    maven = shutil.which("mvn")
    if maven is None:
        raise ServiceError("Maven is missing; install it, for example by: sudo apt-get install maven")
    return maven


def _browser(settings: Settings) -> str:
    from crawler.renderer import find_browser

    return settings.browser or find_browser() or "Playwright's own, if it is installed (make setup sees to it)"


def _home(settings: Settings) -> str:
    try:
        settings.home.mkdir(parents=True, exist_ok=True)
        probe = settings.home / "doctor.probe"
        probe.write_text("")
        probe.unlink()
    except OSError as exc:
        raise ServiceError(f"{settings.home} cannot be written ({exc.strerror}); set PLUMBLINE_HOME") from exc
    return str(settings.home)


def _secrets(settings: Settings) -> str:
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
    free = shutil.disk_usage(settings.home).free
    if free < 2 * MIN_FREE_BYTES:
        raise ServiceError(f"only {free / 1e9:.1f} GB are free at {settings.home}; free some space")
    return f"{free / 1e9:.0f} GB are free"


def _ports(settings: Settings) -> str:
    """Each port is free, or taken by our own part."""
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
    """Right, as far as can be seen without asking anybody: not before this program, not before its own files."""
    now = datetime.now(UTC)
    newest = max(
        (datetime.fromtimestamp(path.stat().st_mtime, UTC) for path in settings.home.glob("*")), default=SOURCES_DATE
    )
    if now < max(SOURCES_DATE, newest - timedelta(minutes=5)):
        raise ServiceError(f"the clock shows {now:%Y-%m-%d %H:%M}, which is in the past; set it right")
    return f"{now:%Y-%m-%d %H:%M:%S}Z"


def _elasticsearch(settings: Settings) -> str:
    from services.status import read_status

    part = next(part for part in read_status(settings).parts if part.name == "elasticsearch")
    if not part.is_up and part.note:
        raise ServiceError(part.note)
    return part.note or "not running"


def _processes(settings: Settings) -> str:
    state = stack.read_state(settings)
    if state is None or not state.is_up:
        return "the stack is not up"
    stack.raise_if_failing(settings, state)
    return f"{len(state.children)} run"
