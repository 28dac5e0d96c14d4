from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
import uvloop

from crawler.addresses import Resolver
from crawler.errors import FetchError, RefusedAddress
from crawler.fetcher import Fetcher, FetcherSettings
from crawler.proxy import ForwardProxy
from crawler.records import Fault, FetchedPage, FetchErrorKind, FetchRequest, Validators
from tests.site.fake_site import Drip, Endless, FakeSite, Route

T = TypeVar("T")
Play = Callable[..., FakeSite]
SETTINGS = FetcherSettings(user_agent="Plumbline-Test/1.0", timeout_s=10, connect_timeout_s=5)
HTML = "text/html; charset=utf-8"
TLS = Path(__file__).parent / "tls"


def run(body: Callable[[Fetcher], Awaitable[T]], settings: FetcherSettings = SETTINGS, **names: tuple[str, ...]) -> T:
    async def lookup(name: str) -> tuple[str, ...]:
        return names[name.replace(".", "_")]

    async def main() -> T:
        async with Resolver(lookup) as resolver, Fetcher(settings, resolver) as fetcher:
            return await body(fetcher)

    return uvloop.run(main())


def ask(site: FakeSite, path: str = "/", **given: object) -> FetchRequest:
    request = FetchRequest(site.url(path), site_id=1, allow_private=frozenset({site.host}))
    return replace(request, **given)  # type: ignore[arg-type]


def fetch(site: FakeSite, path: str = "/", settings: FetcherSettings = SETTINGS, **given: object) -> FetchedPage:
    return run(lambda fetcher: fetcher.fetch(ask(site, path, **given)), settings)


def failure(site: FakeSite, path: str = "/", settings: FetcherSettings = SETTINGS, **given: object) -> FetchError:
    with pytest.raises(FetchError) as caught:
        fetch(site, path, settings, **given)
    return caught.value


def test_a_page_comes_with_all_its_bytes_as_on_the_wire(play: Play) -> None:
    site = play(Route("/a%20b?q=1&r=%D0", body="<p>水库</p>", headers=(("Content-Type", HTML), ("X-One", " a  b "))))
    page = fetch(site, "/a%20b?q=1&r=%D0#part")
    assert (page.status, page.reason, page.body) == (200, "X", "<p>水库</p>".encode())
    assert page.wire_body == page.body
    assert page.header("x-one") == "a  b"
    assert page.response_head.startswith(
        b"HTTP/1.1 200 X\r\nContent-Type: text/html; charset=utf-8\r\nX-One:  a  b \r\n"
    )
    assert page.response_head.endswith(b"\r\n\r\n")
    assert page.request_head == site.log[0].head
    assert page.ip == "127.0.0.1"
    assert page.faults == ()
    assert page.fetched_at.tzinfo is not None
    assert 0 <= page.times.connect_s <= page.times.first_byte_s <= page.times.total_s < 10


def test_the_request_head_that_is_told_is_the_one_that_was_sent(play: Play) -> None:
    site = play(Route("/*", headers=(("Set-Cookie", "id=7; Path=/"),)))
    given = ask(
        site,
        "/x?y=|%7C'()[]",
        validators=Validators(etag='"v1"', last_modified="Mon, 01 Jan 2024 00:00:00 GMT"),
        headers=(("Accept-Language", "en"), ("X-Own", "值"), ("Host", "evil.test"), ("X-Bad", "a\r\nX-Worse: b")),
        referrer=site.url("/from#part"),
    )

    async def body(fetcher: Fetcher) -> list[FetchedPage]:
        return [await fetcher.fetch(given), await fetcher.fetch(given)]

    pages = run(body)
    assert [page.request_head for page in pages] == [request.head for request in site.log]
    second = site.log[1]
    assert second.host == site.host
    assert second.headers["user-agent"] == "Plumbline-Test/1.0"
    assert second.headers["accept-language"] == "en"
    assert second.headers["if-none-match"] == '"v1"'
    assert second.headers["if-modified-since"] == "Mon, 01 Jan 2024 00:00:00 GMT"
    assert second.headers["referer"] == site.url("/from")
    assert second.headers["cookie"] == "id=7"
    assert "x-bad" not in second.headers and "x-worse" not in second.headers


def test_only_the_origin_is_told_to_another_host(play: Play) -> None:
    site = play(Route("/*"))
    fetch(site, referrer="http://other.test:81/secret?x=1")
    fetch(site, referrer="https://other.test/secret")
    assert [request.headers.get("referer") for request in site.log] == ["http://other.test:81/", None]


def test_a_redirect_is_a_page_and_its_location_keeps_its_bytes(play: Play, cases: Path) -> None:
    site = play(cases / "c23_location_bytes.json")
    utf8, gbk = fetch(site, "/u"), fetch(site, "/g")
    assert (utf8.status, gbk.status) == (302, 302)
    assert (utf8.header("Location") or "").encode("latin-1") == "/新闻/水库".encode()
    assert (gbk.header("Location") or "").encode("latin-1") == "/新闻/水库".encode("gbk")
    assert site.targets == ["/u", "/g"]


@pytest.mark.parametrize("path", ["/e1", "/e2", "/e3", "/e4", "/e5"])
def test_a_false_content_encoding_never_makes_a_page_unreadable(play: Play, cases: Path, path: str) -> None:
    page = fetch(play(cases / "c17_encoding_site.json"), path)
    assert "这一页其实" in page.body.decode()


def test_the_wire_body_keeps_its_content_encoding(play: Play) -> None:
    site = play(Route("/", body="绳" * 5000, gzip=True, headers=(("Content-Encoding", "gzip"),), framing="chunked"))
    page = fetch(site)
    assert page.wire_body == gzip.compress(("绳" * 5000).encode(), mtime=0)
    assert page.body == ("绳" * 5000).encode()
    assert page.header("Content-Encoding") == "gzip"


def test_a_large_compressed_body_is_read_beside_the_loop(play: Play) -> None:
    noise = bytes(range(256)) * 20_000
    packed = gzip.compress(noise, compresslevel=0)
    page = fetch(play(Route("/", body=packed, headers=(("Content-Encoding", "gzip"),))))
    assert page.body == noise


@pytest.mark.parametrize(
    ("framing", "cut", "length"), [("length", 20_000, None), ("chunked", 20_480, None), ("length", None, 50_000)]
)
def test_a_body_that_ends_early_is_kept_and_marked(
    play: Play, cases: Path, framing: str, cut: int | None, length: int | None
) -> None:
    whole = (cases / "c16_long.html").read_bytes()
    site = play(Route("/", body=whole, framing=framing, cut=cut, content_length=length))
    page = fetch(site)
    assert page.faults == (Fault.PARTIAL,)
    assert page.body == whole[:cut]


def test_a_gzip_stream_that_stops_is_partial_though_its_length_is_right(play: Play, cases: Path) -> None:
    site = play(Route("/", body=(cases / "c16_cut.gz").read_bytes(), headers=(("Content-Encoding", "gzip"),)))
    page = fetch(site)
    assert page.faults == (Fault.PARTIAL,)
    assert page.body.startswith(b"<!doctype html>")


def test_a_body_that_ends_with_its_connection_is_whole(play: Play) -> None:
    page = fetch(play(Route("/", body="x" * 100_000, framing="close")))
    assert (len(page.body), page.faults) == (100_000, ())


def test_drips_endless_bodies_and_silence_end_within_the_time_limit(play: Play) -> None:
    settings = replace(SETTINGS, timeout_s=0.6)
    site = play(
        Route("/drip", body="慢" * 10_000, drip=Drip(3, 0.05)),
        Route("/endless", endless=Endless(b"<p>more</p>", 0.01), framing="chunked"),
        Route("/silent", hang_s=30),
        Route("/ok", body="好"),
    )

    async def body(fetcher: Fetcher) -> tuple[list[FetchedPage | BaseException], FetchedPage]:
        slow = [fetcher.fetch(ask(site, path)) for path in ("/drip", "/endless", "/silent")]
        return await asyncio.gather(*slow, return_exceptions=True), await fetcher.fetch(ask(site, "/ok"))

    (drip, endless, silent), ok = run(body, settings)
    assert isinstance(drip, FetchedPage) and drip.faults == (Fault.TOO_SLOW,) and drip.body.startswith("慢".encode())
    assert isinstance(endless, FetchedPage) and endless.faults == (Fault.TOO_SLOW,)
    assert isinstance(silent, FetchError) and silent.kind is FetchErrorKind.TIMEOUT
    assert str(silent) == f"{site.host} did not answer within 0.6 s"
    assert ok.body == "好".encode()


def test_a_body_is_cut_at_the_size_limit(play: Play) -> None:
    settings = replace(SETTINGS, max_body_bytes=100_000)
    site = play(
        Route("/endless", endless=Endless(b"0123456789" * 100), framing="close"),
        Route("/bomb", body=b"\0" * 3_000_000, gzip=True, headers=(("Content-Encoding", "gzip"),)),
        Route("/exact", body=b"x" * 100_000),
        Route("/pdf", body=b"x" * 200_000, headers=(("Content-Type", "application/pdf"),)),
    )
    endless, bomb = fetch(site, "/endless", settings), fetch(site, "/bomb", settings)
    assert (len(endless.body), endless.faults) == (100_000, (Fault.TOO_LARGE,))
    assert (len(bomb.body), bomb.faults) == (100_000, (Fault.TOO_LARGE,))
    assert (len(bomb.wire_body)) < 10_000
    assert fetch(site, "/exact", settings).faults == ()
    pdf = fetch(site, "/pdf", settings)
    assert (pdf.body, pdf.faults) == (b"", (Fault.TOO_LARGE,))


def test_what_nobody_reads_is_left_at_its_head(play: Play) -> None:
    site = play(
        Route("/live", endless=Endless(b"x" * 1000), framing="close", headers=(("Content-Type", "audio/mpeg"),))
    )
    page = fetch(site, "/live")
    assert (page.body, page.faults, page.header("Content-Type")) == (b"", (Fault.NOT_READ,), "audio/mpeg")


@pytest.mark.parametrize(("status", "framing"), [(204, "none"), (304, "none"), (205, "length"), (200, "length")])
def test_answers_that_have_no_body_come_at_once(play: Play, status: int, framing: str) -> None:
    page = fetch(play(Route("/", status=status, framing=framing)), validators=Validators(etag='"1"'))
    assert (page.status, page.body, page.faults) == (status, b"", ())


def test_heads_before_the_real_one_and_trailers_after_it_are_left_out(play: Play) -> None:
    raw = (
        b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\nHTTP/1.1 200 OK\r\nX-Real: 1\r\n"
        b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Trailer: 2\r\n\r\n"
    )
    page = fetch(play(Route("/", raw=raw)))
    assert (page.status, page.body) == (200, b"hello")
    assert page.headers == (("X-Real", "1"), ("Transfer-Encoding", "chunked"))
    assert page.response_head == b"HTTP/1.1 200 OK\r\nX-Real: 1\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_a_head_without_end_is_given_up(play: Play) -> None:
    error = failure(play(Route("/", raw_headers=[b"X-%d: %s" % (n, b"y" * 1000) for n in range(1000)])))
    assert error.kind is FetchErrorKind.PROTOCOL


@pytest.mark.parametrize("raw", [b"hello", b"SSH-2.0-OpenSSH_9.2\r\n", b"", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_does_not_speak_http_is_an_error_with_one_sentence(play: Play, raw: bytes) -> None:
    error = failure(play(Route("/", raw=raw)))
    assert error.kind is FetchErrorKind.PROTOCOL
    assert "gave no HTTP answer" in str(error)


def test_a_closed_port_and_an_unknown_name_say_what_is_wrong(play: Play) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    request = FetchRequest(f"http://127.0.0.1:{port}/", 1, allow_private=frozenset({f"127.0.0.1:{port}"}))
    with pytest.raises(FetchError, match="could not be reached") as caught:
        run(lambda fetcher: fetcher.fetch(request))
    assert caught.value.kind is FetchErrorKind.CONNECT
    with pytest.raises(FetchError, match="has no address") as caught:
        run(lambda fetcher: fetcher.fetch(FetchRequest("http://nobody.test/", 1)), nobody_test=())
    assert caught.value.kind is FetchErrorKind.DNS


@pytest.mark.parametrize(
    "url",
    ["ftp://a.test/", "file:///etc/passwd", "http://", "http://a b/", "http://user@127.0.0.1/", "data:text/html,x"],
)
def test_what_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(FetchError):
        run(lambda fetcher: fetcher.fetch(FetchRequest(url, 1)))


def test_a_private_address_is_refused_unless_its_host_and_port_are_allowed(play: Play) -> None:
    site, other = play(Route("/*")), play(Route("/*"))
    spellings = (f"http://2130706433:{other.port}/", f"http://0x7f.1:{other.port}/", f"http://localhost:{other.port}/")
    for url in (other.url(), *spellings):
        with pytest.raises(RefusedAddress):
            run(lambda fetcher, url=url: fetcher.fetch(ask(site, url=url)))  # type: ignore[misc]
    assert other.connections == 0
    assert fetch(site).status == 200


def test_the_address_that_was_checked_is_the_one_that_is_used(play: Play) -> None:
    """A name that flips between check and connection leads nowhere else: it is not looked up again."""
    site = play(Route("/", body="pinned"))
    url = f"http://pinned.test:{site.port}/"
    allowed = frozenset({f"pinned.test:{site.port}"})
    page = run(lambda fetcher: fetcher.fetch(FetchRequest(url, 1, allow_private=allowed)), pinned_test=("127.0.0.1",))
    assert (page.body, page.ip, site.log[0].host) == (b"pinned", "127.0.0.1", f"pinned.test:{site.port}")


def test_curl_opens_no_socket_to_an_address_that_was_not_checked(play: Play, monkeypatch: pytest.MonkeyPatch) -> None:
    site = play(Route("/*"))
    monkeypatch.setattr(Resolver, "resolve_known", lambda *_: ("203.0.113.7",))
    monkeypatch.setattr("crawler.fetcher._pin", lambda *_: [])
    error = failure(site)
    assert error.kind is FetchErrorKind.CONNECT
    assert site.connections == 0


def test_all_addresses_of_a_host_are_tried(play: Play) -> None:
    site = play(Route("/", body="second"))
    url, allowed = f"http://two.test:{site.port}/", frozenset({f"two.test:{site.port}"})
    request = FetchRequest(url, 1, allow_private=allowed)
    page = run(lambda fetcher: fetcher.fetch(request), two_test=("127.0.0.9", "127.0.0.1"))
    assert (page.body, page.ip) == (b"second", "127.0.0.1")


def test_connections_are_kept_and_shared(play: Play) -> None:
    site = play(Route("/*", body="x" * 30_000))

    async def body(fetcher: Fetcher) -> None:
        for n in range(20):
            await fetcher.fetch(ask(site, f"/{n}"))

    run(body)
    assert (len(site.log), site.connections) == (20, 1)


def test_a_kept_connection_that_the_server_closed_is_opened_anew(play: Play) -> None:
    site = play(Route("/*", body="ok", keep_alive=False))

    async def body(fetcher: Fetcher) -> list[bytes]:
        return [(await fetcher.fetch(ask(site, f"/{n}"))).body for n in range(3)]

    assert run(body) == [b"ok"] * 3


def test_cookies_stay_with_their_site(play: Play) -> None:
    site = play(Route("/set", headers=(("Set-Cookie", "a=1; Path=/"), ("Set-Cookie", "b=2; Path=/"))), Route("/*"))

    async def body(fetcher: Fetcher) -> None:
        await fetcher.fetch(ask(site, "/set"))
        await fetcher.fetch(ask(site, "/own"))
        await fetcher.fetch(ask(site, "/other", site_id=2))

    run(body)
    assert [request.headers.get("cookie") for request in site.log] == [None, "a=1; b=2", None]


def test_a_fetch_that_is_cancelled_leaves_nothing_behind(play: Play) -> None:
    site = play(Route("/silent", hang_s=30), Route("/ok", body="ok"))

    async def body(fetcher: Fetcher) -> FetchedPage:
        waiting = [asyncio.create_task(fetcher.fetch(ask(site, "/silent"))) for _ in range(5)]
        while len(site.log) < 5:
            await asyncio.sleep(0.01)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        return await fetcher.fetch(ask(site, "/ok"))

    assert run(body).body == b"ok"


def test_closing_ends_what_is_under_way(play: Play) -> None:
    site = play(Route("/silent", hang_s=30))

    async def main() -> None:
        async with Resolver() as resolver:
            async with Fetcher(SETTINGS, resolver) as fetcher:
                waiting = asyncio.create_task(fetcher.fetch(ask(site, "/silent")))
                while not site.log:
                    await asyncio.sleep(0.01)
            with pytest.raises(asyncio.CancelledError):
                await waiting
            with pytest.raises(FetchError, match="closed"):
                await fetcher.fetch(ask(site, "/silent"))

    uvloop.run(main())


def test_thousands_of_fetches_leak_neither_memory_nor_sockets(play: Play) -> None:
    site = play(Route("/*", body="x" * 2_000))
    process = psutil.Process()

    async def body(fetcher: Fetcher) -> tuple[int, int]:
        async def some(count: int) -> None:
            for n in range(count):
                await fetcher.fetch(ask(site, f"/{n}", site_id=n))

        await some(300)
        sockets = process.num_fds()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        await some(1500)
        site.log.clear()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        return grown, process.num_fds() - sockets

    grown, opened = run(body)
    assert grown < 200_000
    assert opened <= 2


def test_it_runs_on_the_standard_loop_too(play: Play) -> None:
    site = play(Route("/*", body="ok"))

    async def main() -> list[FetchedPage]:
        async with Resolver() as resolver, Fetcher(SETTINGS, resolver) as fetcher:
            return await asyncio.gather(*(fetcher.fetch(ask(site, f"/{n}")) for n in range(20)))

    assert {page.body for page in asyncio.run(main())} == {b"ok"}


def test_an_outgoing_proxy_resolves_the_names_and_literals_are_checked_all_the_same(play: Play) -> None:
    """The outgoing proxy here is a forward proxy of ours that knows one name."""
    site = play(Route("/", body="far"))

    async def lookup(name: str) -> tuple[str, ...]:
        return ("127.0.0.1",) if name == "far.test" else ()

    async def main() -> FetchedPage:
        allowed = frozenset({f"far.test:{site.port}"})
        async with Resolver(lookup) as knowing, ForwardProxy(knowing, allowed) as proxy:
            settings = replace(SETTINGS, proxy=proxy.url)
            async with Resolver() as resolver, Fetcher(settings, resolver) as fetcher:
                with pytest.raises(RefusedAddress):
                    await fetcher.fetch(FetchRequest("http://127.1/", 1))
                with pytest.raises(FetchError, match="outgoing proxy is not"):
                    await fetcher.fetch(FetchRequest("http://far.test/", 1, proxy="ftp://127.0.0.1:1"))
                refused = await fetcher.fetch(FetchRequest("http://other.test/", 1, proxy=proxy.url))
                assert refused.status == 502
                with pytest.raises(FetchError) as caught:
                    await fetcher.fetch(FetchRequest("https://other.test/", 1))
                assert caught.value.kind is FetchErrorKind.CONNECT
                return await fetcher.fetch(FetchRequest(f"http://far.test:{site.port}/", 1))

    page = uvloop.run(main())
    assert (page.body, page.ip) == (b"far", None)
    assert page.request_head.startswith(b"GET / HTTP/1.1\r\nHost: far.test:")


@contextmanager
def tls_site(answer: bytes, says_goodbye: bool = True) -> Iterator[int]:
    """One HTTPS answer on loopback, at the port given; some servers end TLS by just closing the connection."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")

    def serve() -> None:
        plain = listener.accept()[0]
        with closing(context.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)) as secure:
            try:
                secure.do_handshake()
                secure.recv(65536)
                secure.sendall(answer)
                if says_goodbye:
                    secure.unwrap().close()
            except OSError:
                return

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


def secure_request(port: int, host: str = "secure.test") -> FetchRequest:
    return FetchRequest(f"https://{host}:{port}/", 1, allow_private=frozenset({f"{host}:{port}"}))


TRUSTING = replace(SETTINGS, ca_file=TLS / "certificate.pem")


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_page_comes_over_tls(says_goodbye: bool) -> None:
    with tls_site(b"HTTP/1.1 200 OK\r\n\r\nsecret", says_goodbye) as port:
        request = secure_request(port)
        page = run(lambda fetcher: fetcher.fetch(request), TRUSTING, secure_test=("127.0.0.1",))
    assert (page.body, page.faults) == (b"secret", ())


@pytest.mark.parametrize(("host", "settings"), [("secure.test", SETTINGS), ("other.test", TRUSTING)])
def test_a_certificate_that_cannot_be_trusted_is_an_error_of_its_own(host: str, settings: FetcherSettings) -> None:
    with tls_site(b"HTTP/1.1 200 OK\r\n\r\n") as port, pytest.raises(FetchError, match="cannot be trusted") as caught:
        request = secure_request(port, host)
        run(lambda fetcher: fetcher.fetch(request), settings, secure_test=("127.0.0.1",), other_test=("127.0.0.1",))
    assert caught.value.kind is FetchErrorKind.TLS
