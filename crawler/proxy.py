"""The browser's only way out: an HTTP proxy on loopback that applies the crawler's address rules to every connection.

In: plain requests in absolute form and CONNECT tunnels. Each host is resolved and checked by `addresses.Resolver`,
and the checked address is the one that is connected to; what is refused gets a 403. With an outgoing proxy, that one
connects and resolves: only literal addresses and localhost can be refused then.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from urllib.parse import unquote, urlsplit

import structlog

from crawler.addresses import Resolver
from crawler.errors import FetchError, RefusedAddress

MAX_HEAD_BYTES: Final = 256 * 1024
CONNECT_TIMEOUT_S: Final = 10.0
IDLE_TIMEOUT_S: Final = 60.0
MAX_CONNECTION_BYTES: Final = 64 * 1024 * 1024
"""Down one connection, then it is cut: no page needs more, and a stream without end would fill the browser."""
_READ_BYTES = 65_536
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:/?#@\s]+))(?::([0-9]{1,5}))?")
_ABSOLUTE = re.compile(r"http://([^/?#\s]*)([/?][^\s]*)?", re.I)
_HOP_HEADERS = (b"connection:", b"proxy-", b"keep-alive:", b"upgrade:", b"te:")

log = structlog.get_logger()


class _Refused(Exception):
    """A request that is answered by the proxy itself."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The first line and headers of a request to the proxy."""

    method: str
    host: str
    port: int
    path: str
    """In origin form; empty for a tunnel."""
    version: str
    headers: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class _Stream:
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class ForwardProxy:
    """Listens on a loopback port of its own while it is open. One for each set of rules."""

    def __init__(self, resolver: Resolver, allow_private: frozenset[str] = frozenset(), outgoing: str = "") -> None:
        self._resolver = resolver
        self._allow_private = allow_private
        self._outgoing = urlsplit(outgoing) if outgoing else None
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self.refused: list[str] = []
        """host:port of the last refusals, for whoever wants to know."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=MAX_HEAD_BYTES)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Stop listening and cut what is under way."""
        if self._server is not None:
            self._server.close()
        for task in list(self._serving):
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    @property
    def url(self) -> str:
        if self._server is None:
            raise RuntimeError("the proxy is used as `async with ForwardProxy(…)`")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(_Stream(reader, writer)))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, browser: _Stream) -> None:
        """One connection of the browser: one request or one tunnel."""
        try:
            head = await browser.reader.readuntil(b"\r\n\r\n")
            wanted = _read_request(head)
            server = await self._reach(wanted)
            try:
                await self._exchange(browser, server, wanted)
            finally:
                server.writer.close()
        except _Refused as exc:
            browser.writer.write(f"HTTP/1.1 {exc.status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        except (OSError, EOFError, asyncio.LimitOverrunError, TimeoutError):
            pass  # Either side went away or kept silent; the browser sees its connection close.
        finally:
            browser.writer.close()

    async def _exchange(self, browser: _Stream, server: _Stream, wanted: _Wanted) -> None:
        if not wanted.path:
            browser.writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            await _both(_pump(browser, server), _pump(server, browser))
            return
        server.writer.write(self._request_head(wanted))
        await _both(_pump(browser, server), _answer(server, browser))

    def _request_head(self, wanted: _Wanted) -> bytes:
        """The request as it goes on: one a connection, in absolute form only if another HTTP proxy takes it."""
        lines = [line for line in wanted.headers if not line.lower().startswith(_HOP_HEADERS)]
        target = wanted.path
        if self._outgoing is not None and self._outgoing.scheme != "socks5h":
            host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
            target = f"http://{host}:{wanted.port}{wanted.path}"
            lines += _authorization(self._outgoing.username, self._outgoing.password)
        first = f"{wanted.method} {target} {wanted.version}".encode("latin-1")
        return b"\r\n".join([first, *lines, b"Connection: close", b"", b""])

    async def _reach(self, wanted: _Wanted) -> _Stream:
        """A connection to where the request may go. Raises _Refused."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                if self._outgoing is not None:
                    self._resolver.check_unresolved(wanted.host, wanted.port, self._allow_private)
                    return await self._reach_through_proxy(wanted)
                addresses = await self._resolver.resolve(wanted.host, wanted.port, self._allow_private)
                return await _connect(addresses, wanted.port)
        except RefusedAddress as exc:
            self.refused = [*self.refused[-99:], f"{wanted.host}:{wanted.port}"]
            log.info("request of the browser refused", host=wanted.host, port=wanted.port, reason=str(exc))
            raise _Refused("403 Forbidden", str(exc)) from exc
        except (FetchError, OSError, TimeoutError) as exc:
            raise _Refused("502 Bad Gateway", str(exc)) from exc

    async def _reach_through_proxy(self, wanted: _Wanted) -> _Stream:
        """The outgoing proxy is the owner's own: its address is not checked."""
        outgoing = self._outgoing
        if outgoing is None or outgoing.hostname is None or outgoing.port is None:
            raise OSError("the outgoing proxy names no host and port")
        stream = _Stream(*await asyncio.open_connection(outgoing.hostname, outgoing.port, limit=MAX_HEAD_BYTES))
        try:
            if outgoing.scheme == "socks5h":
                await _socks(stream, wanted, outgoing.username, outgoing.password)
            elif not wanted.path:
                await _tunnel(stream, wanted, outgoing.username, outgoing.password)
        except BaseException:
            stream.writer.close()
            raise
        return stream


def _read_request(head: bytes) -> _Wanted:
    first, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    try:
        method, target, version = first.decode("latin-1").split(" ")
    except ValueError:
        raise _Refused("400 Bad Request", "not a request") from None
    if method == "CONNECT":
        host, port = _read_authority(target, 443)
        return _Wanted(method, host, port, "", version, tuple(headers))
    match = _ABSOLUTE.fullmatch(target)
    if match is None:
        raise _Refused("400 Bad Request", "not a request to a proxy")
    host, port = _read_authority(match[1], 80)
    path = match[2] or "/"
    return _Wanted(method, host, port, path if path[0] == "/" else "/" + path, version, tuple(headers))


def _read_authority(authority: str, default_port: int) -> tuple[str, int]:
    match = _AUTHORITY.fullmatch(authority)
    port = int(match[3] or default_port) if match else 0
    if match is None or not 0 < port < 65536:
        raise _Refused("400 Bad Request", "no such host and port")
    return match[1] or match[2], port


async def _connect(addresses: tuple[str, ...], port: int) -> _Stream:
    """The first of the addresses that answers; all of them have been checked."""
    failure: OSError | None = None
    for address in addresses:
        try:
            return _Stream(*await asyncio.open_connection(address, port, limit=MAX_HEAD_BYTES))
        except OSError as exc:
            failure = exc
    raise failure or OSError("no address")


async def _both(up: Awaitable[None], down: Awaitable[None]) -> None:
    """Until either direction ends."""
    tasks = [asyncio.ensure_future(up), asyncio.ensure_future(down)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pump(source: _Stream, sink: _Stream) -> None:
    left = MAX_CONNECTION_BYTES
    while left > 0:
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            data = await source.reader.read(_READ_BYTES)
            if not data:
                return
            sink.writer.write(data)
            await sink.writer.drain()
        left -= len(data)


async def _answer(server: _Stream, browser: _Stream) -> None:
    """The response, its head telling the browser that the connection ends with it."""
    is_final = False
    while not is_final:
        async with asyncio.timeout(IDLE_TIMEOUT_S):
            head = await server.reader.readuntil(b"\r\n\r\n")
        first, *headers = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
        is_final = not first.split(b" ")[1:2][0].startswith(b"1") if b" " in first else True
        lines = [line for line in headers if not line.lower().startswith(_HOP_HEADERS)]
        browser.writer.write(b"\r\n".join([first, *lines, b"Connection: close", b"", b""]))
    await _pump(server, browser)


async def _tunnel(stream: _Stream, wanted: _Wanted, user: str | None, password: str | None) -> None:
    host = f"[{wanted.host}]" if ":" in wanted.host else wanted.host
    authority = f"{host}:{wanted.port}".encode()
    lines = [b"CONNECT %s HTTP/1.1" % authority, b"Host: " + authority, *_authorization(user, password), b"", b""]
    stream.writer.write(b"\r\n".join(lines))
    answer = await stream.reader.readuntil(b"\r\n\r\n")
    if not re.match(rb"HTTP/1\.[01] 2", answer):
        raise OSError("the outgoing proxy refused the connection")


async def _socks(stream: _Stream, wanted: _Wanted, user: str | None, password: str | None) -> None:
    """SOCKS 5 with the name sent to the proxy (RFC 1928, RFC 1929)."""
    stream.writer.write(b"\x05\x02\x00\x02" if user else b"\x05\x01\x00")
    method = (await stream.reader.readexactly(2))[1]
    if method == 2:
        name, secret = unquote(user or "").encode(), unquote(password or "").encode()
        stream.writer.write(b"\x01" + bytes([len(name)]) + name + bytes([len(secret)]) + secret)
        if (await stream.reader.readexactly(2))[1] != 0:
            raise OSError("the outgoing proxy refused the password")
    elif method != 0:
        raise OSError("the outgoing proxy wants another log-in")
    host = wanted.host.encode("idna" if not wanted.host.isascii() else "ascii")
    stream.writer.write(b"\x05\x01\x00\x03" + bytes([len(host)]) + host + wanted.port.to_bytes(2, "big"))
    _, status, _, kind = await stream.reader.readexactly(4)
    length = {1: 4, 4: 16}.get(kind) or (await stream.reader.readexactly(1))[0]
    await stream.reader.readexactly(length + 2)
    if status != 0:
        raise OSError("the outgoing proxy could not connect")


def _authorization(user: str | None, password: str | None) -> list[bytes]:
    if not user:
        return []
    pair = f"{unquote(user)}:{unquote(password or '')}".encode()
    return [b"Proxy-Authorization: Basic " + base64.b64encode(pair)]
