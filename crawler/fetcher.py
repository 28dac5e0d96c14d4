"""Fetches one URL over HTTP/1.1: libcurl's transfers driven by the event loop, connections kept and shared.

In: a `FetchRequest`. Out: a `FetchedPage` with its bytes as on the wire, or `FetchError`. Redirects are pages of
their own. Names are resolved and checked by `addresses.Resolver`, and the checked addresses are pinned to the
transfer; curl asks before it opens a socket, so it can connect to nothing else. Behind an outgoing proxy the proxy
resolves: only literal addresses and localhost can be refused then.

Bodies that are cut, too large or too slow are pages too, with a fault, as long as their head came whole.
"""

from __future__ import annotations

import asyncio
import re
import select
import socket
import ssl
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import certifi
import pycurl

from crawler import content_coding, urls
from crawler.addresses import Resolver
from crawler.cookies import CookieJar
from crawler.errors import BadUrl, FetchError
from crawler.records import Fault, FetchedPage, FetchErrorKind, FetchRequest, FetchTimes

ACCEPT = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
ACCEPT_ENCODING = "gzip, deflate, br, zstd"
UNREAD_TYPES = ("audio/", "video/", "image/", "font/", "model/", "application/zip", "application/x-rar")
SETTLED_KEPT = 64
"""Idle curl handles kept for the next fetch; each holds a few kilobytes."""
COOKIE_SITES = 2000
THREAD_FROM_BYTES = 256 * 1024
"""Bodies from this size on are decompressed in a thread: 20 MB take 100 ms, in which the loop would stand."""

_URL = re.compile(
    r"(https?)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([0-9]{0,5}))?((?:[/?][!-\"$-~]*)?)(?:#.*)?", re.I | re.S
)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: ?[^\x00-\x08\x0a-\x1f\x7f]*", re.S)
_STATUS_LINE = re.compile(rb"HTTP/[0-9.]+ +([0-9]{3})(?: +([^\r\n]*))?")
_FIELD = re.compile(r"([^:\r\n]+?)[ \t]*:[ \t]*([^\r\n]*?)[ \t]*\r?\n")
_BLANK = frozenset({b"\r\n", b"\n"})
_CURLS_OWN = frozenset({"host", "content-length", "transfer-encoding", "connection"})
_PROXY = re.compile(r"(?:https?|socks5h)://[!-~]+")
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """Sources: `services.config`."""

    user_agent: str
    timeout_s: float = 60.0
    """A whole fetch, from DNS to the last byte."""
    connect_timeout_s: float = 15.0
    max_body_bytes: int = 20_000_000
    """On the wire, and again decompressed."""
    proxy: str = ""
    """`http://…` or `socks5h://…`; a request's own proxy comes first."""
    accept_language: str = "zh-CN,zh;q=0.9,en;q=0.8"
    unread_types: tuple[str, ...] = UNREAD_TYPES
    """Content types (or their beginnings) whose bodies are not read: the page comes empty, with NOT_READ."""
    ca_file: Path | None = None
    """Certificate authorities; None: the system's, else certifi's."""
    max_connections_kept: int = 256


class Fetcher:
    """Fetches pages, as many at once as are asked for. Keeps connections, and cookies per site, in between."""

    def __init__(
        self,
        settings: FetcherSettings,
        resolver: Resolver,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._settings = settings
        self._resolver = resolver
        self._clock = clock
        self._idle: list[_Transfer] = []
        self._jars: OrderedDict[int, CookieJar] = OrderedDict()
        self._given_headers: dict[tuple[tuple[str, str], ...], tuple[list[bytes], frozenset[str]]] = {}
        self._ca_file = str(settings.ca_file or system_ca_file())
        self._engine: _Engine | None = None

    async def __aenter__(self) -> Self:
        self._engine = _Engine(asyncio.get_running_loop(), self._settings.max_connections_kept)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._engine is not None:
            self._engine.close()
        for transfer in self._idle:
            transfer.curl.close()
        self._idle.clear()

    async def fetch(self, request: FetchRequest) -> FetchedPage:
        """Fetch one page. Raises FetchError, of which RefusedAddress is one."""
        if self._engine is None:
            raise RuntimeError("the fetcher is used as `async with Fetcher(…)`")
        started_at = time.monotonic()
        target = _read_target(request.url)
        proxy = _checked_proxy(request.proxy or self._settings.proxy)
        addresses = await self._addresses(target, request, proxy)
        dns_s = time.monotonic() - started_at
        headers = self._headers(request, target)
        limit = request.max_body_bytes or self._settings.max_body_bytes
        transfer = self._idle.pop() if self._idle else _Transfer(self._settings, self._ca_file)
        try:
            transfer.prepare(target, headers, addresses, proxy, self._settings.timeout_s - dns_s, limit)
            code, message = await self._engine.perform(transfer)
            answer = transfer.answer(code, message)
        finally:
            transfer.clear()
            if len(self._idle) < SETTLED_KEPT and not self._engine.is_closed:
                self._idle.append(transfer)
            else:
                transfer.curl.close()
        if answer is None:
            raise _error(code, message, target, self._settings)
        return await self._page(request, target, headers, answer, dns_s)

    def cookies(self, site_id: int) -> CookieJar:
        """The jar of a site; the sites used last are kept."""
        jar = self._jars.get(site_id)
        if jar is None:
            jar = self._jars[site_id] = CookieJar()
            if len(self._jars) > COOKIE_SITES:
                self._jars.popitem(last=False)
        else:
            self._jars.move_to_end(site_id)
        return jar

    async def _addresses(self, target: _Target, request: FetchRequest, proxy: str) -> tuple[str, ...]:
        if proxy:
            self._resolver.check_unresolved(target.host, target.port, request.allow_private)
            return ()
        known = self._resolver.resolve_known(target.host, target.port, request.allow_private)
        if known is not None:
            return known
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                return await self._resolver.resolve(target.host, target.port, request.allow_private)
        except TimeoutError as exc:
            raise FetchError(FetchErrorKind.DNS, f"no name server answered in time for {target.host}") from exc

    def _headers(self, request: FetchRequest, target: _Target) -> list[bytes]:
        """Header lines in the order in which they are sent, after Host."""
        given = self._given_headers.get(request.headers)
        if given is None:
            given = self._given_headers[request.headers] = self._fixed_headers(request.headers)
        fixed, names = given
        lines = list(fixed)
        jar = self._jars.get(request.site_id)
        validators = request.validators
        own = (
            ("Referer", _referrer(request.referrer, target) if request.referrer else ""),
            ("If-None-Match", validators.etag),
            ("If-Modified-Since", validators.last_modified),
            ("Cookie", jar.header(target.host, target.path, target.is_secure, self._now_s()) if jar else ""),
        )
        lines.extend(_header_line(name, value) for name, value in own if value and name.lower() not in names)
        return [line for line in lines if line]

    def _fixed_headers(self, given: tuple[tuple[str, str], ...]) -> tuple[list[bytes], frozenset[str]]:
        """The lines that all requests with these headers share; a given header takes the place of ours.

        Host and framing stay curl's.
        """
        settings = self._settings
        headers = {
            "user-agent": ("User-Agent", settings.user_agent),
            "accept": ("Accept", ACCEPT),
            "accept-language": ("Accept-Language", settings.accept_language),
            "accept-encoding": ("Accept-Encoding", ACCEPT_ENCODING),
        }
        headers.update((name.lower(), (name, value)) for name, value in given if name.lower() not in _CURLS_OWN)
        lines = [_header_line(name, value) for name, value in headers.values()]
        if len(self._given_headers) > COOKIE_SITES:
            self._given_headers.clear()
        return lines, frozenset(headers)

    async def _page(
        self, request: FetchRequest, target: _Target, headers: list[bytes], answer: _Answer, dns_s: float
    ) -> FetchedPage:
        head, wire_body = answer.head, answer.body
        coding, content_type = head.fields.get("content-encoding", ""), head.fields.get("content-type", "")
        limit = request.max_body_bytes or self._settings.max_body_bytes
        if len(wire_body) < THREAD_FROM_BYTES or not coding:
            body, faults = content_coding.decode(wire_body, coding, content_type, limit)
        else:
            body, faults = await asyncio.to_thread(content_coding.decode, wire_body, coding, content_type, limit)
        if "set-cookie" in head.fields:
            set_cookies = [value for name, value in head.headers if name.lower() == "set-cookie"]
            self.cookies(request.site_id).store(set_cookies, target.host, target.path, target.is_secure, self._now_s())
        return FetchedPage(
            url=request.url,
            status=head.status,
            reason=head.reason,
            headers=head.headers,
            request_head=_request_head(target, headers),
            response_head=head.raw,
            wire_body=wire_body,
            body=body,
            fetched_at=self._clock(),
            ip=answer.ip,
            times=FetchTimes(dns_s, answer.connect_s, dns_s + answer.first_byte_s, dns_s + answer.total_s),
            faults=_all_faults(answer.fault, faults),
        )

    def _now_s(self) -> float:
        return self._clock().timestamp()


def system_ca_file() -> str:
    """The system's certificate authorities, which know the owner's own; else certifi's."""
    found = ssl.get_default_verify_paths().cafile
    candidates = (found, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt")
    return next((path for path in candidates if path and Path(path).is_file()), None) or certifi.where()


@dataclass(frozen=True, slots=True)
class _Target:
    """A URL taken apart the way it is sent."""

    url: str
    host: str
    port: int
    is_secure: bool
    host_header: str
    path: str
    """The request target: path and query."""


@dataclass(frozen=True, slots=True)
class _Head:
    """A response's final head."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    fields: dict[str, str]
    """Names in lower case; several values joined by commas."""
    raw: bytes


@dataclass(frozen=True, slots=True)
class _Answer:
    """What a transfer brought, taken out of curl."""

    head: _Head
    body: bytes
    fault: Fault | None
    ip: str | None
    connect_s: float
    first_byte_s: float
    total_s: float


class _Transfer:
    """One curl handle, used again and again, and what it receives."""

    def __init__(self, settings: FetcherSettings, ca_file: str) -> None:
        self.curl: Any = pycurl.Curl()
        self.curl.transfer = self
        self.future: asyncio.Future[tuple[int, str]] | None = None
        self._settings = settings
        self._lines: list[bytes] = []
        self._parts: list[bytes] = []
        self._size = 0
        self._head: _Head | None = None
        self._fault: Fault | None = None
        self._allowed: tuple[str, ...] = ()
        self._resolve: list[str] = []
        self._proxy = ""
        self._timeout_ms = 0
        self._max_body_bytes = 0
        self._set_once(ca_file)

    def _set_once(self, ca_file: str) -> None:
        curl = self.curl
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.PROXY, "")  # Also keeps curl from looking into the environment.
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, round(self._settings.connect_timeout_s * 1000))
        curl.setopt(pycurl.CAINFO, ca_file)
        curl.setopt(pycurl.HEADERFUNCTION, self._lines.append)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)

    def prepare(
        self,
        target: _Target,
        headers: list[bytes],
        addresses: tuple[str, ...],
        proxy: str,
        timeout_s: float,
        max_body_bytes: int,
    ) -> None:
        """Set what differs from the handle's last transfer."""
        curl = self.curl
        self._max_body_bytes = max_body_bytes
        curl.setopt(pycurl.URL, target.url)
        curl.setopt(pycurl.HTTPHEADER, headers)
        self._allowed = addresses
        resolve = _pin(target, addresses)
        if resolve != self._resolve:
            self._resolve = resolve
            curl.setopt(pycurl.RESOLVE, resolve)
        if proxy != self._proxy:
            self._proxy = proxy
            curl.setopt(pycurl.PROXY, proxy)
        timeout_ms = max(1, round(timeout_s * 10) * 100)
        if timeout_ms != self._timeout_ms:
            self._timeout_ms = timeout_ms
            curl.setopt(pycurl.TIMEOUT_MS, timeout_ms)

    def answer(self, code: int, message: str) -> _Answer | None:
        """What came, if at least a whole head did."""
        head = self._head or _read_head(self._lines)
        curl = self.curl
        if head is None or (code and self._proxy and curl.getinfo(pycurl.HTTP_CONNECTCODE) >= 300):
            return None  # The only head may be that of a proxy that refused to connect.
        fault = self._fault
        if fault is None and code and not _is_blunt_end(code, message, head):
            fault = Fault.TOO_SLOW if code == pycurl.E_OPERATION_TIMEDOUT else Fault.PARTIAL
        ready_s = max(curl.getinfo(pycurl.CONNECT_TIME), curl.getinfo(pycurl.APPCONNECT_TIME))
        return _Answer(
            head,
            self._parts[0] if len(self._parts) == 1 else b"".join(self._parts),
            fault,
            None if self._proxy else curl.getinfo(pycurl.PRIMARY_IP) or None,
            max(0.0, ready_s - curl.getinfo(pycurl.NAMELOOKUP_TIME)),
            curl.getinfo(pycurl.STARTTRANSFER_TIME),
            curl.getinfo(pycurl.TOTAL_TIME),
        )

    def clear(self) -> None:
        self._lines.clear()
        self._parts = []
        self._size = 0
        self._head = self._fault = None

    def _on_body(self, data: bytes) -> int | None:
        """Called by curl for each piece of the body; 0 ends the transfer."""
        if self._head is None:
            self._head = _read_head(self._lines)
            self._fault = self._body_refused()
            if self._fault is not None:
                return 0
        left = self._max_body_bytes - self._size
        if len(data) > left:
            self._parts.append(data[:left])
            self._fault = Fault.TOO_LARGE
            return 0
        self._size += len(data)
        self._parts.append(data)
        return None

    def _body_refused(self) -> Fault | None:
        """Whether the body is worth reading, judged by the head."""
        if self._head is None:
            return None
        content_type = self._head.fields.get("content-type", "").lower()
        if content_type.startswith(self._settings.unread_types) and not content_type.startswith("image/svg"):
            return Fault.NOT_READ
        length = self._head.fields.get("content-length", "")
        is_too_large = length.isdecimal() and int(length[:18]) > self._max_body_bytes
        # The beginning of a long text is worth having, half a PDF is not.
        return Fault.TOO_LARGE if is_too_large and not self._wants_beginning(content_type) else None

    def _wants_beginning(self, content_type: str) -> bool:
        return content_type.startswith("text/") or self._max_body_bytes != self._settings.max_body_bytes

    def _open_socket(self, _purpose: int, peer: tuple[int, int, int, tuple[Any, ...]]) -> Any:
        """The last defence: whatever curl made of the URL, it connects to an address that was checked, or nowhere."""
        family, kind, protocol, address = peer
        if not self._proxy and _plain_address(address) not in self._allowed:
            return pycurl.SOCKET_BAD
        return _HandedOver(family, kind, protocol)


class _HandedOver(socket.socket):
    """A socket for curl, which takes a copy of its descriptor; ours is closed when curl lets go of the object."""

    def __del__(self) -> None:
        self.close()


class _Engine:
    """libcurl's multi handle, driven by an event loop through one epoll of our own.

    Sockets change their interest several times a transfer; epoll's own calls cost a tenth of the loop's
    add_reader and remove_reader.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, max_connections_kept: int) -> None:
        self._loop = loop
        self._multi: Any = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, max_connections_kept)
        self._epoll = select.epoll()
        self._watched: set[int] = set()
        self._active: set[_Transfer] = set()
        self._due_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None
        self.is_closed = False
        loop.add_reader(self._epoll.fileno(), self._on_events)

    async def perform(self, transfer: _Transfer) -> tuple[int, str]:
        """Run a prepared transfer to its end: curl's code (0: fine) and message."""
        if self.is_closed:
            raise FetchError(FetchErrorKind.INTERNAL, "the fetcher is closed")
        transfer.future = self._loop.create_future()
        self._active.add(transfer)
        self._multi.add_handle(transfer.curl)
        try:
            return await transfer.future
        finally:
            if transfer in self._active:  # given up from outside
                self._remove(transfer)

    def close(self) -> None:
        """Cut every transfer and connection."""
        self.is_closed = True
        self._loop.remove_reader(self._epoll.fileno())
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()
        for transfer in list(self._active):
            self._remove(transfer)
            if transfer.future is not None:
                transfer.future.cancel()
        self._multi.close()
        self._epoll.close()

    def _remove(self, transfer: _Transfer) -> None:
        self._active.discard(transfer)
        self._multi.remove_handle(transfer.curl)

    def _on_socket(self, what: int, fd: int, _multi: object, _data: object) -> None:
        """curl says what it waits for on a socket."""
        if what in (pycurl.POLL_REMOVE, pycurl.POLL_NONE):
            if fd in self._watched:
                self._watched.discard(fd)
                self._unwatch(fd)
            return
        mask = _EPOLL_OF_POLL[what]
        if fd in self._watched:
            self._epoll.modify(fd, mask)
        else:
            self._watched.add(fd)
            self._epoll.register(fd, mask)

    def _unwatch(self, fd: int) -> None:
        try:
            self._epoll.unregister(fd)
        except OSError:
            return  # Closed already, and forgotten by epoll with that.

    def _on_timer(self, timeout_ms: int) -> None:
        """curl says when it wants to be called at the latest. A timer that is too early is left to run."""
        if self.is_closed:
            return
        if timeout_ms < 0:
            self._due_at = None
        elif timeout_ms == 0:
            self._due_at = None
            if self._soon is None:
                self._soon = self._loop.call_soon(self._on_soon)
        else:
            self._due_at = self._loop.time() + timeout_ms / 1000
            self._arm()

    def _arm(self) -> None:
        if self._due_at is None or (self._timer is not None and self._timer.when() <= self._due_at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._due_at, self._on_due)

    def _on_due(self) -> None:
        self._timer = None
        if self._due_at is not None and self._due_at <= self._loop.time():
            self._due_at = None
            self._act(pycurl.SOCKET_TIMEOUT, 0)
        self._arm()

    def _on_soon(self) -> None:
        self._soon = None
        self._act(pycurl.SOCKET_TIMEOUT, 0)

    def _on_events(self) -> None:
        for fd, events in self._epoll.poll(0, 256):
            self._act(fd, _SELECT_OF_EPOLL[events & _EVENTS])

    def _act(self, fd: int, mask: int) -> None:
        _, running = self._multi.socket_action(fd, mask)
        if running < len(self._active):
            self._collect()

    def _collect(self) -> None:
        """Hand out what has ended."""
        _, fine, failed = self._multi.info_read()
        for curl in fine:
            self._settle(curl.transfer, 0, "")
        for curl, code, message in failed:
            self._settle(curl.transfer, code, message)

    def _settle(self, transfer: _Transfer, code: int, message: str) -> None:
        self._remove(transfer)
        if transfer.future is not None and not transfer.future.done():
            transfer.future.set_result((code, message))


_EPOLL_OF_POLL: Final = {
    pycurl.POLL_IN: select.EPOLLIN,
    pycurl.POLL_OUT: select.EPOLLOUT,
    pycurl.POLL_INOUT: select.EPOLLIN | select.EPOLLOUT,
}
_EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP


def _select_mask(events: int) -> int:
    mask = pycurl.CSELECT_IN if events & (select.EPOLLIN | select.EPOLLHUP) else 0
    mask |= pycurl.CSELECT_OUT if events & select.EPOLLOUT else 0
    return int(mask | (pycurl.CSELECT_ERR if events & select.EPOLLERR else 0))


_SELECT_OF_EPOLL: Final = {events: _select_mask(events) for events in range(_EVENTS + 1)}


def _read_target(url: str) -> _Target:
    match = _URL.fullmatch(url)
    if match is None:
        match = _URL.fullmatch(_normalized(url))
    if match is None:
        raise FetchError(FetchErrorKind.PROTOCOL, f"{url[:200]!r} is not a URL that can be fetched")
    scheme, host, port_text, path = match.groups()
    scheme, host = scheme.lower(), host.lower().rstrip(".")
    default_port = _DEFAULT_PORTS[scheme]
    port = int(port_text or default_port)
    if not 0 < port < 65536 or not host:
        raise FetchError(FetchErrorKind.PROTOCOL, f"{url[:200]!r} names no host or port that exists")
    host_header = host if port == default_port else f"{host}:{port}"
    if not path.startswith("/"):
        path = "/" + path
    return _Target(f"{scheme}://{host_header}{path}", host, port, scheme == "https", host_header, path)


def _normalized(url: str) -> str:
    try:
        return urls.normalize(url)
    except BadUrl as exc:
        raise FetchError(FetchErrorKind.PROTOCOL, str(exc)) from exc


def _checked_proxy(proxy: str) -> str:
    if proxy and not _PROXY.fullmatch(proxy):
        raise FetchError(FetchErrorKind.CONNECT, "the outgoing proxy is not http://host:port or socks5h://host:port")
    return proxy


def _pin(target: _Target, addresses: tuple[str, ...]) -> list[str]:
    """curl's own name cache, told the checked addresses; they leave it by themselves after a minute."""
    if not addresses or addresses == (target.host.strip("[]"),):
        return []
    spelled = ",".join(f"[{address}]" if ":" in address else address for address in addresses)
    return [f"+{target.host}:{target.port}:{spelled}"]


def _plain_address(address: tuple[Any, ...]) -> str:
    text = address[0]
    return text.decode("ascii", "replace") if isinstance(text, bytes) else str(text)


def _referrer(parent: str, target: _Target) -> str:
    """As browsers do by default: the whole address within one origin, only the origin to others."""
    match = _URL.fullmatch(parent)
    if match is None or (match[1].lower() == "https" and not target.is_secure):
        return ""
    origin = parent[: match.end(3) if match[3] else match.end(2)]
    own_origin = f"http{'s' if target.is_secure else ''}://{target.host_header}"
    return parent.partition("#")[0] if origin.lower() == own_origin else origin + "/"


def _header_line(name: str, value: str) -> bytes:
    """A header as it is sent; empty if it cannot be one (a line break in it, say)."""
    line = f"{name}: {value.strip()}"
    return line.encode("latin-1", "replace") if value.strip() and _HEADER.fullmatch(line) else b""


def _request_head(target: _Target, headers: Iterable[bytes]) -> bytes:
    """The head as curl sends it to the host (a test compares); to an HTTP proxy, its first line is longer."""
    first = f"GET {target.path} HTTP/1.1\r\nHost: {target.host_header}".encode("ascii")
    return b"\r\n".join([first, *headers, b"", b""])


def _read_head(lines: list[bytes]) -> _Head | None:
    """The final response head among the header lines that came: no 1xx before it, no trailers after it."""
    if lines and lines[-1] in _BLANK and lines[0].startswith(b"HTTP/") and _BLANK.isdisjoint(lines[:-1]):
        raw = b"".join(lines)
    else:
        raw = _final_head(lines)
    status_line = _STATUS_LINE.match(raw)
    if status_line is None or int(status_line[1]) < 200:
        return None
    headers: tuple[tuple[str, str], ...] = tuple(_FIELD.findall(raw.decode("latin-1"), status_line.end()))
    fields: dict[str, str] = {}
    for name, value in headers:
        key = name.lower()
        fields[key] = f"{fields[key]}, {value}" if key in fields else value
    return _Head(int(status_line[1]), (status_line[2] or b"").decode("latin-1").strip(), headers, fields, raw)


def _final_head(lines: list[bytes]) -> bytes:
    start = max((n for n, line in enumerate(lines) if line.startswith(b"HTTP/")), default=len(lines))
    end = next((n for n in range(start, len(lines)) if lines[n] in _BLANK), -1)
    return b"".join(lines[start : end + 1]) if end > 0 else b""


def _is_blunt_end(code: int, message: str, head: _Head) -> bool:
    """Many servers end a body of unknown length by closing TLS without a word; browsers take it as whole."""
    if code != pycurl.E_RECV_ERROR or "unexpected eof" not in message:
        return False
    return "content-length" not in head.fields and "transfer-encoding" not in head.fields


def _all_faults(fault: Fault | None, of_coding: tuple[Fault, ...]) -> tuple[Fault, ...]:
    if fault is None:
        return of_coding
    # That a stream of which we did not read all has no end is our own doing.
    return tuple(sorted({fault, *of_coding} - ({Fault.PARTIAL} if fault is not Fault.PARTIAL else set())))


_E_PROXY = 97  # CURLE_PROXY, which pycurl does not name.

_KINDS: Final = {
    pycurl.E_COULDNT_RESOLVE_HOST: FetchErrorKind.DNS,
    pycurl.E_COULDNT_RESOLVE_PROXY: FetchErrorKind.CONNECT,
    pycurl.E_COULDNT_CONNECT: FetchErrorKind.CONNECT,
    _E_PROXY: FetchErrorKind.CONNECT,
    pycurl.E_SEND_ERROR: FetchErrorKind.CONNECT,
    pycurl.E_OPERATION_TIMEDOUT: FetchErrorKind.TIMEOUT,
    pycurl.E_SSL_CONNECT_ERROR: FetchErrorKind.TLS,
    pycurl.E_PEER_FAILED_VERIFICATION: FetchErrorKind.TLS,
    pycurl.E_SSL_CACERT_BADFILE: FetchErrorKind.TLS,
    pycurl.E_SSL_CERTPROBLEM: FetchErrorKind.TLS,
    pycurl.E_SSL_CIPHER: FetchErrorKind.TLS,
    pycurl.E_SSL_ISSUER_ERROR: FetchErrorKind.TLS,
    pycurl.E_SSL_INVALIDCERTSTATUS: FetchErrorKind.TLS,
    pycurl.E_SSL_SHUTDOWN_FAILED: FetchErrorKind.TLS,
    pycurl.E_OUT_OF_MEMORY: FetchErrorKind.INTERNAL,
    pycurl.E_FAILED_INIT: FetchErrorKind.INTERNAL,
    pycurl.E_BAD_FUNCTION_ARGUMENT: FetchErrorKind.INTERNAL,
}


def _error(code: int, message: str, target: _Target, settings: FetcherSettings) -> FetchError:
    """One sentence for what curl says; whatever is not named above is an answer that is not HTTP."""
    kind = _KINDS.get(code, FetchErrorKind.PROTOCOL)
    if kind is FetchErrorKind.TIMEOUT:
        return FetchError(kind, f"{target.host_header} did not answer within {settings.timeout_s:g} s")
    told = {
        FetchErrorKind.CONNECT: "could not be reached",
        FetchErrorKind.TLS: "cannot be trusted or does not speak TLS",
        FetchErrorKind.PROTOCOL: "gave no HTTP answer",
        FetchErrorKind.DNS: "could not be resolved",
        FetchErrorKind.INTERNAL: "could not be asked",
    }[kind]
    return FetchError(kind, f"{target.host_header} {told}: {message or f'curl error {code}'}")
