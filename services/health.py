"""How a process says that it lives and what it waits for: a small HTTP server beside its work.

    /healthz   200 as long as the process answers
    /readyz    200 if all that it depends on is there, else 503; JSON with a word on each dependency
    /metrics   what Prometheus is told

Each kind of process has its own checks. A check returns a word for people, or raises what is wrong in one sentence.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

import structlog

from crawler.database import Engine
from crawler.errors import CrawlerError, DatabaseError
from services import control, metrics
from services.config import Settings
from services.elastic import Elastic, ElasticUser, credentials
from services.errors import ConfigurationError, ServiceError

Check = Callable[[], str]
SILENT_S = 90.0
"""A loop that has not come round for so long is stuck, or waits for what it depends on."""

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Dependency:
    """One thing that a process depends on, as it is now."""

    name: str
    is_there: bool
    note: str


@dataclass(frozen=True, slots=True)
class Readiness:
    """All that a process depends on."""

    dependencies: tuple[Dependency, ...]

    @property
    def is_ready(self) -> bool:
        return all(dependency.is_there for dependency in self.dependencies)

    def to_json(self) -> dict[str, Any]:
        found = {found.name: {"ok": found.is_there, "note": found.note} for found in self.dependencies}
        return {"ready": self.is_ready, "dependencies": found}


class Pulse:
    """When a loop came round last; it beats each time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beaten_at = clock()

    def beat(self) -> None:
        self._beaten_at = self._clock()

    def check(self) -> str:
        """Raises ServiceError if it is long ago."""
        silent_s = self._clock() - self._beaten_at
        if silent_s > SILENT_S:
            raise ServiceError(f"its loop has not come round for {silent_s:.0f} seconds; its log says why")
        return "works"


def read_readiness(checks: Mapping[str, Check]) -> Readiness:
    """Carry out the checks."""
    return Readiness(tuple(_look(name, check) for name, check in checks.items()))


def _look(name: str, check: Check) -> Dependency:
    try:
        return Dependency(name, True, check())
    except (ServiceError, CrawlerError, OSError) as exc:
        return Dependency(name, False, str(exc))
    except Exception as exc:
        log.exception("health check failed", check=name)
        return Dependency(name, False, f"it could not be looked at: {type(exc).__name__}")


def database_check(engine: Engine) -> Check:
    def check() -> str:
        control.read_portal(engine)
        return "answers"

    return check


def archive_check(settings: Settings, writes: bool = False) -> Check:
    """The archive's folder can be entered, and written if need be."""
    folder = settings.archive_folder

    def check() -> str:
        if writes:
            folder.mkdir(parents=True, exist_ok=True)
        mode = os.R_OK | os.X_OK | (os.W_OK if writes else 0)
        if folder.is_dir() and not os.access(folder, mode):
            raise ServiceError(f"{folder} cannot be {'written' if writes else 'read'} by this user")
        return str(folder)

    return check


def elasticsearch_check(settings: Settings, user: ElasticUser) -> Check:
    """Elasticsearch answers that user, and its cluster has all that it should."""
    elastic: list[Elastic] = []

    def check() -> str:
        if not elastic:
            elastic.append(Elastic(credentials(settings, user), settings.index_prefix))
        colour = elastic[0].health()
        if colour == "red":
            raise ServiceError("Elasticsearch is red: a part of its data is not there; its log says which")
        return colour

    return check


@contextmanager
def health_server(settings: Settings, checks: Mapping[str, Check]) -> Iterator[int]:
    """Serve beside the work, if there is a port in the settings; the port, 0 if there is none."""
    if not settings.health_port:
        yield 0
        return
    with serve_health(settings.health_host, settings.health_port, checks) as port:
        yield port


@contextmanager
def serve_health(host: str, port: int, checks: Mapping[str, Check]) -> Iterator[int]:
    """Serve at a port (0: a free one). Raises ConfigurationError if it cannot be had."""
    try:
        server = _Server((host, port), checks)
    except OSError as exc:
        raise ConfigurationError(f"health_port: {host}:{port} cannot be listened on ({exc.strerror or exc})") from exc
    thread = threading.Thread(target=server.serve_forever, args=(0.2,), name="health", daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], checks: Mapping[str, Check]) -> None:
        self.checks = checks
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # HTTPServer would look up the host's full name, which takes seconds where there is no name server.
        TCPServer.server_bind(self)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 10

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._answer(HTTPStatus.OK, "text/plain", b"ok\n")
        elif path == "/readyz":
            readiness = read_readiness(self.server.checks)
            status = HTTPStatus.OK if readiness.is_ready else HTTPStatus.SERVICE_UNAVAILABLE
            self._answer(status, "application/json", json.dumps(readiness.to_json(), ensure_ascii=False).encode())
        elif path == "/metrics":
            self._answer_metrics()
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"/healthz, /readyz, /metrics\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""

    def _answer_metrics(self) -> None:
        try:
            body = metrics.exposition()
        except DatabaseError as exc:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{exc}\n".encode())
            return
        self._answer(HTTPStatus.OK, metrics.CONTENT_TYPE, body)

    def _answer(self, status: HTTPStatus, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
