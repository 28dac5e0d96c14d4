from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
import uvloop

from crawler.addresses import Resolver
from crawler.errors import FetchError
from crawler.fetcher import Fetcher, FetcherSettings
from crawler.records import Fault, FetchedPage, FetchErrorKind, FetchRequest
from crawler.renderer import Renderer, RendererSettings
from tests.site.fake_site import FakeSite, Route

pytestmark = pytest.mark.browser

T = TypeVar("T")
Play = Callable[..., FakeSite]
AGENT = "Mozilla/5.0 (compatible; Plumbline-Test/1.0)"
SETTINGS = RendererSettings(AGENT, timeout_s=20)
SHORT = replace(SETTINGS, timeout_s=4)


class Shared:
    """One loop and one browser for all tests that need none of their own: starting it takes longest."""

    def __init__(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._open = AsyncExitStack()
        self._renderer: Renderer | None = None

    def run(self, body: Callable[[Renderer], Awaitable[T]]) -> T:
        if self._runner is None:
            self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)

        async def main() -> T:
            if self._renderer is None:
                resolver = await self._open.enter_async_context(Resolver())
                fetcher = await self._open.enter_async_context(Fetcher(FetcherSettings(AGENT), resolver))
                self._renderer = await self._open.enter_async_context(Renderer(SETTINGS, resolver, fetcher))
            return await body(self._renderer)

        return self._runner.run(main())

    def close(self) -> None:
        if self._runner is not None:
            self._runner.run(self._open.aclose())
            self._runner.close()
        self._runner = self._renderer = None


SHARED = Shared()


@pytest.fixture(autouse=True, scope="module")
def _shared_browser_is_closed() -> Iterator[None]:
    yield
    SHARED.close()


def run(body: Callable[[Renderer], Awaitable[T]], settings: RendererSettings | None = None) -> T:
    """With the shared browser, or one of its own for other settings."""
    if settings is None:
        return SHARED.run(body)

    async def main() -> T:
        async with (
            Resolver() as resolver,
            Fetcher(FetcherSettings(AGENT), resolver) as fetcher,
            Renderer(settings, resolver, fetcher) as renderer,
        ):
            return await body(renderer)

    return uvloop.run(main())


def ask(site: FakeSite, path: str = "/", site_id: int = 1) -> FetchRequest:
    return FetchRequest(site.url(path), site_id, allow_private=frozenset({site.host}))


def render(site: FakeSite, *paths: str, settings: RendererSettings | None = None) -> list[FetchedPage]:
    async def body(renderer: Renderer) -> list[FetchedPage]:
        return [await renderer.fetch(ask(site, path)) for path in paths or ("/",)]

    return run(body, settings)


def html_of(page: FetchedPage) -> str:
    assert page.rendered is not None, page.faults
    return page.rendered.html


def script(code: str, body: str = "<p id=p>static</p>") -> str:
    return f"<!doctype html><html><head><title>t</title></head><body>{body}<script>{code}</script></body></html>"


def test_what_a_script_writes_is_in_the_dom_and_the_bytes_are_those_of_the_wire(play: Play) -> None:
    source = script("document.getElementById('p').textContent = '写' + '出来的'")
    site = play(
        Route("/", body=source, gzip=True, headers=(("Content-Type", "text/html"), ("Content-Encoding", "gzip")))
    )
    page = render(site)[0]
    assert "写出来的" in html_of(page) and html_of(page).startswith("<!DOCTYPE html>")
    assert page.body == source.encode() and page.wire_body[:2] == b"\x1f\x8b"
    assert page.rendered is not None and page.rendered.final_url == site.url("/")
    assert page.rendered.leads_to is None
    assert page.times.render_s > 0
    assert site.targets.count("/") == 1
    assert {request.headers["user-agent"] for request in site.log} == {AGENT}


@pytest.mark.parametrize(
    ("encoding", "content_type"), [("gbk", "text/html"), ("gbk", "text/html; charset=iso-8859-1"), ("hz", "text/html")]
)
def test_the_browser_reads_a_page_in_the_charset_that_we_read_it_in(
    play: Play, encoding: str, content_type: str
) -> None:
    source = script("document.title = '中文字' + p.textContent.length", "<p id=p>渡口的清晨有薄雾，船工在等人。</p>")
    page = render(play(Route("/", body=source.encode(encoding), headers=(("Content-Type", content_type),))))[0]
    assert "<title>中文字15</title>" in html_of(page) and "薄雾" in html_of(page)


def test_a_page_that_was_fetched_already_is_not_fetched_again(play: Play) -> None:
    site = play(Route("/", body=script("document.title = 'new'")))

    async def body(renderer: Renderer) -> FetchedPage:
        fetched = await renderer._fetcher.fetch(ask(site))
        return await renderer.fetch(ask(site), fetched)

    assert "<title>new</title>" in html_of(run(body))
    assert site.targets.count("/") == 1


def test_a_page_that_is_never_idle_is_taken_when_its_text_is_there(play: Play, cases: Path) -> None:
    page_route = Route("/", body=(cases / "c29_never_idle.html").read_bytes())
    site = play(page_route, Route("/poll*", body="{}", headers=(("Content-Type", "application/json"),)))
    page = render(site)[0]
    assert "三号泵站已停机检修" in html_of(page)
    assert page.times.render_s < 15
    assert site.targets.count("/") == 1


def test_navigations_that_never_become_a_page_are_told_apart(play: Play, cases: Path) -> None:
    site = play(cases / "c31_download_site.json")
    download, nothing, jumping, after = render(site, "/file", "/none", "/go", "/ok", settings=SHORT)
    assert (download.status, download.rendered, download.header("Content-Type")) == (
        200,
        None,
        "application/octet-stream",
    )
    assert (nothing.status, nothing.rendered, nothing.body) == (204, None, b"")
    assert "会自己跳走" in html_of(jumping)
    assert jumping.rendered is not None and jumping.rendered.leads_to == site.url("/none")
    assert "后面的正常页" in html_of(after)


def test_a_document_that_a_script_goes_to_is_told_and_not_loaded(play: Play) -> None:
    site = play(Route("/", body=script("location.href = '/other'")), Route("/other", body="other"))
    page = render(site)[0]
    assert page.rendered is not None
    assert page.rendered.leads_to == site.url("/other")
    assert "/other" not in site.targets


def test_a_history_route_changes_the_address_and_is_no_navigation(play: Play) -> None:
    site = play(Route("/", body=script("history.pushState(0, '', '/route'); document.title = 'routed'")))
    page = render(site)[0]
    assert page.rendered is not None
    assert (page.rendered.final_url, page.rendered.leads_to) == (site.url("/route"), None)
    assert "routed" in page.rendered.html


def test_a_page_that_sets_a_cookie_and_loads_itself_anew_gets_its_second_answer(play: Play) -> None:
    wall = script("document.cookie = 'pass=1'; location.reload()")
    site = play(
        Route("/", need_header={"Cookie": "pass=1"}, body="<!doctype html><p>behind the wall</p>"),
        Route("/", body=wall),
    )
    assert "behind the wall" in html_of(render(site)[0])


def test_a_page_that_loads_itself_without_end_is_over_in_its_time(play: Play) -> None:
    site = play(Route("/", body=script("location.reload()")), Route("/ok", body=script("document.title='ok'")))
    started_at = time.monotonic()
    endless, after = render(site, "/", "/ok", settings=SHORT)
    assert time.monotonic() - started_at < 15
    assert site.targets.count("/") <= 5
    assert endless.status == 200 and "ok" in html_of(after)


def test_late_content_is_waited_for_while_something_is_under_way(play: Play) -> None:
    write = "document.body.append(t)"
    site = play(
        Route("/timer", body=script(f"setTimeout(() => setTimeout(() => {{let t='by timer'; {write}}}, 300), 300)")),
        Route("/fetch", body=script(f"fetch('/data').then(r => r.text()).then(t => {write})")),
        Route(
            "/xhr",
            body=script(
                f"x=new XMLHttpRequest();x.onload=()=>{{let t=x.response;{write}}};x.open('GET','/data');x.send()"
            ),
        ),
        Route(
            "/script",
            body=script("onload=()=>{s=document.createElement('script');s.src='/late.js';document.body.append(s)}"),
        ),
        Route("/late.js", body="document.body.append('by script')", hang_s=0.4),
        Route("/data", body="by network", hang_s=0.4),
    )
    timer, fetched, xhr, late = render(site, "/timer", "/fetch", "/xhr", "/script")
    assert "by timer</body>" in html_of(timer)
    assert "by network</body>" in html_of(fetched)
    assert "by network</body>" in html_of(xhr)
    assert "by script</body>" in html_of(late)


def test_dialogs_even_in_loops_popups_and_service_workers_stop_nothing(play: Play) -> None:
    went_on = "document.title = 'went on'"
    loop = "try { while (true) alert('again') } catch (e) {}; while (!confirm('?')) { if (++n > 5) break }; prompt('?')"
    worker = f"navigator.serviceWorker.register('/sw.js').catch(() => 0).then(() => {went_on})"
    site = play(
        Route("/dialogs", body=script(f"n = 0; {loop}; {went_on}")),
        Route("/popup", body=script(f"open('/pop'); l.click(); {went_on}", "<a id=l target=_blank href=/pop>x</a>")),
        Route("/worker", body=script(worker)),
        Route("/unload", body=script("onbeforeunload = () => 'stay?'; document.title = 'went on'")),
        Route("/pop", body="popup"),
        Route("/sw.js", body="", headers=(("Content-Type", "text/javascript"),)),
    )
    for page in render(site, "/dialogs", "/popup", "/worker", "/unload", "/dialogs"):
        assert "<title>went on</title>" in html_of(page)
    assert "/sw.js" not in site.targets


def test_a_script_that_never_ends_costs_its_page_and_no_other(play: Play) -> None:
    site = play(
        Route("/hang", body=script("while (true) {}")),
        Route("/late", body=script("setTimeout(() => { while (true) {} }, 50)")),
        Route("/ok", body=script("document.title = 'ok'")),
    )
    started_at = time.monotonic()
    hang, late, after = render(site, "/hang", "/late", "/ok", settings=SHORT)
    assert time.monotonic() - started_at < 25
    for page in (hang, late):
        assert page.faults == (Fault.RENDER_FAILED,)
        assert page.rendered is None and b"while (true)" in page.body
    assert "<title>ok</title>" in html_of(after)


def test_images_fonts_and_media_are_not_loaded_and_the_page_learns_it(play: Play) -> None:
    body = (
        "<style>@font-face{font-family:f;src:url(/f.woff2)}@font-face{font-family:g;src:url(/g)}p{font-family:f,g}</style>"
        "<img src=/a.png><img src=/plain><video src=/v.mp4 preload=auto></video><video src=/w preload=auto></video>"
    )
    code = "i = new Image(); i.onerror = () => document.title = 'no image'; i.src = '/c.jpg?x=1'"
    site = play(Route("/", body=script(code, body + "<p id=p>x</p>")), Route("/s.css"), Route("/*", body="x"))
    page = render(site)[0]
    assert "<title>no image</title>" in html_of(page)
    assert set(site.targets) <= {"/", "/favicon.ico"}


def test_text_in_shadow_roots_is_read_where_it_shows(play: Play) -> None:
    code = (
        "class A extends HTMLElement { constructor() { super(); "
        "this.attachShadow({mode: 'closed'}).innerHTML = '<style>p{}</style><p>before <slot></slot> after</p>' } };"
        "customElements.define('x-a', A)"
    )
    site = play(Route("/", body=script(code, "<x-a>middle</x-a>")))
    assert "<x-a><p>before middle after</p></x-a>" in html_of(render(site)[0])


def test_every_request_of_a_page_obeys_the_address_rules(play: Play) -> None:
    secret = play(Route("/*", body="secret", headers=(("Access-Control-Allow-Origin", "*"),)))
    local = f"http://localhost:{secret.port}"
    code = (
        f"for (const u of ['{secret.url('/f')}', '{local}/f', 'http://169.254.169.254/latest/'])"
        " fetch(u).then(r => document.title = 'leak', () => 0);"
        f"new WebSocket('ws://{secret.host}/ws'); navigator.sendBeacon('{secret.url('/beacon')}');"
        f"new EventSource('{secret.url('/events')}'); try {{ new Worker('{secret.url('/w.js')}') }} catch (e) {{}}"
    )
    frames = f"<iframe src='{secret.url('/frame')}'></iframe><script src='{secret.url('/s.js')}'></script>"
    site = play(Route("/", body=script(code, frames)), Route("/*", body="fine"))
    page = render(site)[0]
    assert "<title>t</title>" in html_of(page)
    assert secret.connections == 0


def test_sites_do_not_share_cookies_and_a_site_keeps_its_own(play: Play) -> None:
    site = play(
        Route("/set", body=script("document.cookie = 'own=1'")),
        Route("/", body=script("document.title = document.cookie || 'none'")),
    )

    async def body(renderer: Renderer) -> list[str]:
        await renderer.fetch(ask(site, "/set", site_id=21))
        return [html_of(await renderer.fetch(ask(site, "/", site_id=site_id))) for site_id in (21, 22)]

    own, other = run(body)
    assert "<title>own=1</title>" in own and "<title>none</title>" in other


def test_browser_and_fetcher_of_a_site_share_its_cookies(play: Play) -> None:
    site = play(
        Route("/log-in", headers=(("Set-Cookie", "session=7; Path=/; HttpOnly; Max-Age=600"),), body="<p>in</p>"),
        Route("/data", need_header={"Cookie": "session=7"}, body="for you"),
        Route("/app", body=script("fetch('/data').then(r => r.text()).then(t => document.title = t)")),
        Route("/wall", body=script("document.cookie = 'pass=1; path=/'")),
        Route("/*"),
    )

    async def body(renderer: Renderer) -> FetchedPage:
        await renderer._fetcher.fetch(ask(site, "/log-in", site_id=9))
        app = await renderer.fetch(ask(site, "/app", site_id=9))
        await renderer.fetch(ask(site, "/wall", site_id=9))
        await renderer._fetcher.fetch(ask(site, "/after", site_id=9))
        return app

    assert "<title>for you</title>" in html_of(run(body))
    cookies = next(request for request in site.log if request.target == "/after").headers["cookie"]
    assert sorted(cookies.split("; ")) == ["pass=1", "session=7"]


def browsers() -> list[psutil.Process]:
    """The main processes of the browsers that this process has started, the newest last."""
    children = psutil.Process().children(recursive=True)
    return sorted(filter(is_browser, children), key=lambda child: child.create_time())


def is_browser(process: psutil.Process) -> bool:
    try:
        return "chrom" in process.name() and "--type=" not in " ".join(process.cmdline())
    except psutil.Error:  # it has just ended
        return False


def test_a_browser_that_is_killed_is_replaced(play: Play) -> None:
    site = play(
        Route("/ok", body=script("document.title = 'ok'")),
        Route("/slow", body=script("fetch('/wait').then(() => document.title = 'slow')")),
        Route("/wait", hang_s=1.0, body="x"),
    )

    async def body(renderer: Renderer) -> list[FetchedPage]:
        pages = [await renderer.fetch(ask(site, "/ok"))]
        browsers()[-1].kill()
        pages.append(await renderer.fetch(ask(site, "/ok")))
        under_way = asyncio.create_task(renderer.fetch(ask(site, "/slow")))
        while "/wait" not in site.targets:
            await asyncio.sleep(0.01)
        browsers()[-1].kill()
        return [*pages, await under_way, await renderer.fetch(ask(site, "/ok"))]

    before = browsers()
    pages = run(body, SETTINGS)
    assert [page.faults for page in pages] == [()] * 4
    assert "<title>slow</title>" in html_of(pages[2])
    assert browsers() == before


def test_a_driver_that_is_killed_is_replaced(play: Play) -> None:
    site = play(Route("/ok", body=script("document.title = 'ok'")))

    async def body(renderer: Renderer) -> str:
        await renderer.fetch(ask(site, "/ok"))
        drivers = [child for child in psutil.Process().children() if "node" in child.name()]
        max(drivers, key=lambda child: child.create_time()).kill()
        return html_of(await renderer.fetch(ask(site, "/ok")))

    assert "<title>ok</title>" in run(body, SHORT)


def test_the_browser_is_started_anew_every_so_many_pages(play: Play) -> None:
    site = play(Route("/*", body=script("document.title = 'ok'")))

    async def body(renderer: Renderer) -> list[int]:
        pids = []
        for n in range(5):
            await renderer.fetch(ask(site, f"/{n}"))
            pids.append(browsers()[-1].pid if n % 2 == 0 else 0)
        return [pid for pid in pids if pid]

    before = browsers()
    pids = run(body, replace(SETTINGS, pages_per_browser=2))
    assert len(set(pids)) == 3
    assert browsers() == before


def test_many_pages_at_once_use_no_more_tabs_than_allowed(play: Play) -> None:
    site = play(Route("/*", body=script("document.title = location.pathname")))

    async def body(renderer: Renderer) -> list[FetchedPage]:
        return await asyncio.gather(*(renderer.fetch(ask(site, f"/{n}", site_id=n % 3)) for n in range(12)))

    for n, page in enumerate(run(body, replace(SETTINGS, tabs=3))):
        assert f"<title>/{n}</title>" in html_of(page)


def test_a_tab_that_is_not_used_stops_asking_its_site(play: Play, cases: Path) -> None:
    site = play(Route("/", body=(cases / "c29_never_idle.html").read_bytes()), Route("/poll*", body="{}"))

    async def body(renderer: Renderer) -> int:
        await renderer.fetch(ask(site))
        await asyncio.sleep(1.0)
        polls = len(site.log)
        await asyncio.sleep(1.0)
        return len(site.log) - polls

    assert run(body) == 0


def test_no_browser_is_an_error_with_one_sentence(play: Play) -> None:
    site = play(Route("/", body="<p>x</p>"))
    with pytest.raises(FetchError, match=r"^the browser /nowhere/chromium cannot be started: ") as caught:
        render(site, settings=replace(SETTINGS, browser="/nowhere/chromium"))
    assert caught.value.kind is FetchErrorKind.BROWSER


ORPHAN = """
import asyncio, sys, psutil
sys.path.insert(0, {root!r})
from tests.crawler.test_renderer import *
from crawler.records import FetchedPage

async def body(renderer):
    await renderer.fetch(FetchRequest(sys.argv[1], 1, allow_private=frozenset({{sys.argv[2]}})))
    print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
    await asyncio.sleep(60)

run(body)
"""


def test_no_browser_outlives_a_process_that_is_killed(play: Play) -> None:
    site = play(Route("/", body=script("document.title = 'ok'")))
    root = str(Path(__file__).parents[2])
    command = [sys.executable, "-c", ORPHAN.format(root=root), site.url(), site.host]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        children = [psutil.Process(int(pid)) for pid in process.stdout.readline().split()]
        assert len(children) > 2
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        _, alive = psutil.wait_procs(children, timeout=10)
    assert alive == []
