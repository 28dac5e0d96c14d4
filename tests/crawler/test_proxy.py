from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
import uvloop

from crawler.addresses import Resolver
from crawler.proxy import ForwardProxy
from tests.site.fake_site import Endless, FakeSite, Route

T = TypeVar("T")
Play = Callable[..., FakeSite]


def through(
    body: Callable[[ForwardProxy], Awaitable[T]],
    allow: frozenset[str] = frozenset(),
    outgoing: str = "",
    **names: tuple[str, ...],
) -> T:
    async def lookup(name: str) -> tuple[str, ...]:
        return names[name.replace(".", "_")]

    async def main() -> T:
        async with Resolver(lookup) as resolver, ForwardProxy(resolver, allow, outgoing) as proxy:
            return await body(proxy)

    return uvloop.run(main())


def talk(request: str, allow: frozenset[str] = frozenset(), outgoing: str = "", **names: tuple[str, ...]) -> bytes:
    """What the proxy answers to these bytes, to the end of the connection."""

    async def body(proxy: ForwardProxy) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(request.encode())
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer

    return through(body, allow, outgoing, **names)


def get(url: str, extra: str = "") -> str:
    return f"GET {url} HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive\r\n{extra}\r\n"


def allowing(*sites: FakeSite) -> frozenset[str]:
    return frozenset(site.host for site in sites)


def test_a_plain_request_goes_on_in_origin_form_without_what_is_for_the_proxy(play: Play) -> None:
    site = play(Route("/a?b=1", body="hello"))
    answer = talk(get(site.url("/a?b=1"), "X-Own: 1\r\n"), allowing(site))
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"\r\n\r\nhello")
    assert b"Connection: close" in answer
    head = site.log[0].head
    assert head.startswith(b"GET /a?b=1 HTTP/1.1\r\n") and b"X-Own: 1\r\n" in head
    assert b"Proxy-Connection" not in head and b"keep-alive" not in head


def test_a_body_that_is_posted_arrives(play: Play) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        came: list[bytes] = []

        def serve() -> None:
            with closing(listener.accept()[0]) as connection:
                while b"posted" not in b"".join(came):
                    came.append(connection.recv(65536))
                connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\ndone")

        thread = threading.Thread(target=serve)
        thread.start()
        request = f"POST http://{host}/ HTTP/1.1\r\nHost: x\r\nContent-Length: 6\r\n\r\nposted"
        answer = talk(request, frozenset({host}))
        thread.join(5)
    assert answer.endswith(b"\r\n\r\ndone")


def test_a_tunnel_carries_bytes_both_ways(play: Play) -> None:
    site = play(Route("/", body="inside"))

    async def body(proxy: ForwardProxy) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(f"CONNECT {site.host} HTTP/1.1\r\nHost: {site.host}\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        answer = await asyncio.wait_for(reader.read(), 10)
        writer.close()
        return answer

    assert through(body, allowing(site)).endswith(b"inside")


def test_every_private_address_is_refused_in_both_forms_of_request(play: Play, cases: Path) -> None:
    other = play(Route("/*", body="secret"))
    seeds = [seed for seed in json.loads((cases / "c58_seeds.json").read_text("utf-8"))["refuse"] if "http" in seed[:4]]
    for url in (other.url(), *(seed for seed in seeds if seed.isascii())):
        authority = url.split("//")[1].split("/")[0]
        assert talk(get(url)).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), url
        tunnel = f"CONNECT {authority if authority.count(':') == 1 else authority + ':80'} HTTP/1.1\r\n\r\n"
        assert talk(tunnel).startswith((b"HTTP/1.1 403", b"HTTP/1.1 400")), url
    assert other.connections == 0


def test_a_name_that_leads_to_a_private_address_is_refused_and_noted(play: Play) -> None:
    site = play(Route("/*"))
    url = f"http://flip.test:{site.port}/"

    async def body(proxy: ForwardProxy) -> list[str]:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
        writer.write(get(url).encode())
        assert (await reader.read()).startswith(b"HTTP/1.1 403")
        writer.close()
        return proxy.refused

    assert through(body, allowing(site), flip_test=("127.0.0.1",)) == [f"flip.test:{site.port}"]
    assert site.connections == 0


@pytest.mark.parametrize(
    "request_text",
    [
        "GET / HTTP/1.1\r\n\r\n",
        "nonsense\r\n\r\n",
        "GET https://a.test/ HTTP/1.1\r\n\r\n",
        "CONNECT a.test:0 H\r\n\r\n",
    ],
)
def test_what_is_no_request_to_a_proxy_is_a_bad_request(request_text: str) -> None:
    assert talk(request_text).startswith(b"HTTP/1.1 400")


def test_a_host_that_cannot_be_reached_is_a_bad_gateway() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        host = f"127.0.0.1:{taken.getsockname()[1]}"
    assert talk(get(f"http://{host}/"), frozenset({host})).startswith(b"HTTP/1.1 502")


def test_an_endless_body_is_cut(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crawler.proxy.MAX_CONNECTION_BYTES", 200_000)
    site = play(Route("/", endless=Endless(b"x" * 10_000), framing="close"))
    answer = talk(get(site.url()), allowing(site))
    assert 200_000 <= len(answer) < 300_000


def test_closing_cuts_what_is_under_way(play: Play) -> None:
    site = play(Route("/", hang_s=30))

    async def main() -> bytes:
        async with Resolver() as resolver:
            async with ForwardProxy(resolver, allowing(site)) as proxy:
                reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.url.rpartition(":")[2]))
                writer.write(get(site.url()).encode())
                while not site.log:
                    await asyncio.sleep(0.01)
            answer = await asyncio.wait_for(reader.read(), 5)
            writer.close()
            return answer

    assert uvloop.run(main()) == b""


def test_an_outgoing_http_proxy_gets_requests_and_tunnels(play: Play) -> None:
    """The outgoing proxy here is one of ours."""
    site = play(Route("/", body="far"))

    async def main() -> list[bytes]:
        answers = []
        async with Resolver() as resolver, ForwardProxy(resolver, allowing(site)) as far:
            outgoing = far.url.replace("//", "//user:p%40ss@")
            async with ForwardProxy(resolver, allowing(site), outgoing) as near:
                for request in (get(site.url()), f"CONNECT {site.host} HTTP/1.1\r\n\r\n"):
                    reader, writer = await asyncio.open_connection("127.0.0.1", int(near.url.rpartition(":")[2]))
                    writer.write(request.encode())
                    if request.startswith("CONNECT"):
                        await reader.readuntil(b"\r\n\r\n")
                        writer.write(b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                    answers.append(await asyncio.wait_for(reader.read(), 10))
                    writer.close()
        return answers

    assert all(answer.endswith(b"far") for answer in uvloop.run(main()))


def socks_server(listener: socket.socket, asked: list[bytes], target_port: int) -> None:
    """A SOCKS 5 proxy with password for one connection, which goes to a port of this machine whatever was asked."""
    with closing(listener.accept()[0]) as client, closing(socket.create_connection(("127.0.0.1", target_port))) as far:
        client.recv(4)
        client.sendall(b"\x05\x02")
        asked.append(client.recv(100))
        client.sendall(b"\x01\x00")
        asked.append(client.recv(300))
        client.sendall(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        far.sendall(client.recv(65536))
        while data := far.recv(65536):
            client.sendall(data)


def test_an_outgoing_socks_proxy_resolves_the_name_itself(play: Play) -> None:
    site = play(Route("/", body="far", keep_alive=False))
    asked: list[bytes] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=socks_server, args=(listener, asked, site.port))
        thread.start()
        outgoing = f"socks5h://me:word@127.0.0.1:{listener.getsockname()[1]}"
        answer = talk(get("http://far.example/"), outgoing=outgoing)
        thread.join(5)
    assert answer.endswith(b"far")
    assert asked == [b"\x01\x02me\x04word", b"\x05\x01\x00\x03\x0bfar.example\x00\x50"]


def test_literal_addresses_are_refused_behind_an_outgoing_proxy_too(play: Play) -> None:
    site = play(Route("/*"))
    assert talk(get("http://127.1/"), outgoing=site.url()).startswith(b"HTTP/1.1 403")
    assert site.connections == 0
