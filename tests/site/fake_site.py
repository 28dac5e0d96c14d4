"""A real web site on loopback that plays a list of routes, with every way of answering badly that crawlers meet.

In: routes, as `Route` objects or as the JSON lists of the real-world cases (`read_routes`). Out: `log`, every request
that came, in order, with its bytes, and `connections`, how many were opened. Standard library only.

    with FakeSite([Route("/", body="<p>hello")]) as site:
        fetch(site.url("/"))
        assert site.targets == ["/"]
"""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MAX_REQUEST_HEAD_BYTES = 1_000_000
CHUNK_BYTES = 4096


@dataclass(frozen=True)
class Drip:
    """Send so many bytes of the body, then wait, and so on."""

    size: int
    every_s: float
    max_s: float = 1e9


@dataclass(frozen=True)
class Endless:
    """Send a chunk for ever, or until so many bytes are out."""

    chunk: bytes
    every_s: float = 0.0
    max_bytes: int = 1 << 40


@dataclass(frozen=True)
class Route:
    """One answer. The first route that fits a request is played; none is a 404."""

    path: str
    """The raw request target with its query; a prefix when it ends with `*`."""
    body: str | bytes = b""
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("Content-Type", "text/html; charset=utf-8"),)
    """In values, {HOST} and {PORT} are replaced."""
    host: str | None = None
    """Only for this name in the Host header."""
    turn: str = "*"
    """Which request of this path: `*` any, `2` the second, `2+` from the second on."""
    need_header: Mapping[str, str] = field(default_factory=dict)
    lack_header: Mapping[str, str] = field(default_factory=dict)
    framing: str = "length"
    """`length`, `chunked`, `close` (neither, the connection ends the body) or `none` (no body is sent)."""
    content_length: int | None = None
    """A lie for the Content-Length header."""
    cut: int | None = None
    """Close after so many bytes of the body; chunked bodies lack their last chunk then."""
    drip: Drip | None = None
    endless: Endless | None = None
    hang_s: float = 0.0
    """Wait before the status line."""
    raw_headers: Sequence[bytes] = ()
    """Whole header lines, as bytes."""
    template: bool = False
    """Replace {HOST}, {PORT} and {TARGET_ESC} in the body."""
    gzip: bool = False
    keep_alive: bool = True
    raw: bytes | None = None
    """The whole answer, head and all, in place of everything above; the connection is closed after it."""


@dataclass(frozen=True)
class Request:
    """One request, as it came."""

    at_s: float
    method: str
    host: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case; the last of several."""
    head: bytes
    connection: int


class FakeSite:
    """The site: starts listening at once, answers in threads, and ends every one of them when it is closed."""

    def __init__(self, routes: Sequence[Route] = (), address: str = "127.0.0.1", port: int = 0) -> None:
        self.routes = list(routes)
        self.log: list[Request] = []
        self.connections = 0
        self.address = address
        self._turns: dict[tuple[str, str], int] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._started_at = time.monotonic()
        self._listener = socket.create_server((address, port), backlog=256)
        self.port: int = self._listener.getsockname()[1]
        self._accepter = threading.Thread(target=self._accept, daemon=True)
        self._accepter.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop listening and cut every connection, however far its answer is."""
        self._closing.set()
        # A blocked accept() is not woken by close() alone.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections = list(self._open)
        for connection in connections:
            _shut(connection)
        self._accepter.join(5)
        for thread in self._threads:
            thread.join(5)

    @property
    def host(self) -> str:
        """Address and port, as in a URL."""
        return f"{self.address}:{self.port}"

    @property
    def targets(self) -> list[str]:
        return [request.target for request in self.log]

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}{path}"

    def _accept(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._open.add(connection)
                self.connections += 1
                number = self.connections
            thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        pending = b""
        try:
            while not self._closing.is_set():
                head, pending = _read_head(connection, pending)
                if not head:
                    return
                request = self._note(head, number)
                route = self._pick(request)
                if not self._answer(connection, request, route):
                    return
        except (OSError, ValueError):
            return
        finally:
            with self._lock:
                self._open.discard(connection)
            _shut(connection)
            connection.close()

    def _note(self, head: bytes, number: int) -> Request:
        lines = head.decode("latin-1").split("\r\n")
        method, target = lines[0].split(" ")[:2]
        pairs = (line.partition(":") for line in lines[1:] if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        at_s = time.monotonic() - self._started_at
        request = Request(at_s, method, headers.get("host", ""), target, headers, head, number)
        with self._lock:
            self.log.append(request)
        return request

    def _pick(self, request: Request) -> Route:
        name = request.host.partition(":")[0]
        with self._lock:
            for route in self.routes:
                if not _fits(route, request, name):
                    continue
                key = (name, route.path)
                turn = self._turns.get(key, 0) + 1
                if _is_turn(route.turn, turn):
                    self._turns[key] = turn
                    return route
        return Route(request.target, status=404, body="<title>404</title>not here")

    def _answer(self, connection: socket.socket, request: Request, route: Route) -> bool:
        """Play the route; False if the connection has to end."""
        if route.hang_s and self._closing.wait(route.hang_s):
            return False
        if route.raw is not None:
            connection.sendall(route.raw)
            return False
        body = self._body(request, route)
        goes_on = (
            route.keep_alive
            and route.framing in ("length", "chunked", "none")
            and route.cut is None
            and route.content_length is None
            and request.headers.get("connection", "").lower() != "close"
        )
        head = self._head(request, route, len(body), goes_on)
        if request.method == "HEAD" or route.framing == "none":
            connection.sendall(head)
            return goes_on
        self._send_body(connection, head, route, body)
        return goes_on and route.endless is None

    def _body(self, request: Request, route: Route) -> bytes:
        body = route.body.encode() if isinstance(route.body, str) else route.body
        if route.template:
            escaped = request.target.replace("%", "%25").replace("&", "&amp;")
            for name, value in (("HOST", request.host), ("PORT", str(self.port)), ("TARGET_ESC", escaped)):
                body = body.replace(b"{%s}" % name.encode(), value.encode())
        return gzip.compress(body, mtime=0) if route.gzip else body

    def _head(self, request: Request, route: Route, length: int, goes_on: bool) -> bytes:
        lines = [f"HTTP/1.1 {route.status} X"]
        for name, value in route.headers:
            lines.append(f"{name}: {value.replace('{HOST}', request.host).replace('{PORT}', str(self.port))}")
        if route.framing == "length":
            lines.append(f"Content-Length: {length if route.content_length is None else route.content_length}")
        elif route.framing == "chunked":
            lines.append("Transfer-Encoding: chunked")
        if not goes_on:
            lines.append("Connection: close")
        return b"\r\n".join(["\r\n".join(lines).encode(), *route.raw_headers]) + b"\r\n\r\n"

    def _send_body(self, connection: socket.socket, head: bytes, route: Route, body: bytes) -> None:
        chunked = route.framing == "chunked"
        if route.endless is not None:
            connection.sendall(head)
            self._send_endless(connection, route.endless, chunked)
        elif route.drip is not None:
            connection.sendall(head)
            self._send_drip(connection, route.drip, body)
        else:
            part = body if route.cut is None else body[: route.cut]
            connection.sendall(head + (_chunked(part, route.cut is None) if chunked else part))

    def _send_endless(self, connection: socket.socket, endless: Endless, chunked: bool) -> None:
        sent = 0
        piece = _chunk(endless.chunk) if chunked else endless.chunk
        while sent < endless.max_bytes:
            connection.sendall(piece)
            sent += len(endless.chunk)
            if self._closing.wait(endless.every_s) if endless.every_s else self._closing.is_set():
                return

    def _send_drip(self, connection: socket.socket, drip: Drip, body: bytes) -> None:
        end_at = time.monotonic() + drip.max_s
        for start in range(0, len(body), drip.size):
            if time.monotonic() > end_at:
                return
            connection.sendall(body[start : start + drip.size])
            if self._closing.wait(drip.every_s):
                return


def read_routes(listed: Iterable[Mapping[str, Any]], folder: Path) -> list[Route]:
    """Routes from the JSON form of the real-world cases; `body_file` is looked for in the folder."""
    return [_route_from_json(entry, folder) for entry in listed]


def load_routes(path: Path) -> list[Route]:
    """Routes from a JSON file: a list, or an object with the list under `http`."""
    loaded = json.loads(path.read_text("utf-8"))
    return read_routes(loaded["http"] if isinstance(loaded, dict) else loaded, path.parent)


def _route_from_json(entry: Mapping[str, Any], folder: Path) -> Route:
    drip, endless = entry.get("drip"), entry.get("endless")
    return Route(
        path=entry["path"],
        body=_body_from_json(entry, folder),
        status=entry.get("status", 200),
        headers=tuple((name, value) for name, value in entry.get("headers", ())),
        host=entry.get("host"),
        turn=str(entry.get("n", "*")),
        need_header=entry.get("need_header") or {},
        lack_header=entry.get("lack_header") or {},
        framing=entry.get("framing", "length"),
        content_length=entry.get("cl"),
        cut=entry.get("cut"),
        drip=drip and Drip(drip["bytes"], drip["every"], drip.get("max_s", 1e9)),
        endless=endless
        and Endless(endless["chunk"].encode(), endless.get("every", 0.0), endless.get("max_bytes", 1 << 40)),
        hang_s=entry.get("hang_s", 0.0),
        raw_headers=tuple(bytes.fromhex(line) for line in entry.get("raw_headers", ())),
        template=entry.get("tmpl", False),
        gzip=entry.get("gz", False),
    )


def _body_from_json(entry: Mapping[str, Any], folder: Path) -> bytes:
    if "body_file" in entry:
        return (folder / Path(entry["body_file"]).name).read_bytes()
    if "body_hex" in entry:
        return bytes.fromhex(entry["body_hex"])
    return str(entry.get("body", "")).encode()


def _read_head(connection: socket.socket, pending: bytes) -> tuple[bytes, bytes]:
    while b"\r\n\r\n" not in pending:
        received = connection.recv(65536)
        if not received or len(pending) > MAX_REQUEST_HEAD_BYTES:
            return b"", b""
        pending += received
    head, _, rest = pending.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def _fits(route: Route, request: Request, name: str) -> bool:
    if route.host and route.host != name:
        return False
    is_prefix = route.path.endswith("*") and request.target.startswith(route.path[:-1])
    if request.target != route.path and not is_prefix:
        return False
    headers = request.headers
    return all(part in headers.get(key.lower(), "") for key, part in route.need_header.items()) and not any(
        part in headers.get(key.lower(), "") for key, part in route.lack_header.items()
    )


def _is_turn(wanted: str, turn: int) -> bool:
    if wanted == "*":
        return True
    return turn >= int(wanted[:-1]) if wanted.endswith("+") else turn == int(wanted)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _chunked(body: bytes, complete: bool) -> bytes:
    pieces = [_chunk(body[start : start + CHUNK_BYTES]) for start in range(0, len(body), CHUNK_BYTES)]
    return b"".join([*pieces, b"0\r\n\r\n" if complete else b""])


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
