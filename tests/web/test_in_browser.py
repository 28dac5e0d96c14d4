"""In a real browser: archived pages stay dead, hostile text stays text, and the pages work with and without scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request
from sqlalchemy.engine import Engine

from crawler.records import RunState
from services import control
from tests.web.conftest import OWNER, PASSWORD, Keeper

pytestmark = pytest.mark.browser

CASES = Path(__file__).parent / "cases"


@dataclass(slots=True)
class Watched:
    """A tab, and all that it did."""

    page: Page
    origin: str
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    popups: list[str] = field(default_factory=list)
    downloads: list[str] = field(default_factory=list)

    def strangers(self) -> list[str]:
        """Requests for anything but our own pages and files."""
        ours = re.compile(re.escape(self.origin) + r"/(?:static/|snapshot/|search\?|admin/|$)")
        return [url for url in self.requests if not ours.match(url)]


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(locale="en-GB", viewport={"width": 1000, "height": 700})
    context.set_default_timeout(20_000)
    yield context
    context.close()


@pytest.fixture
def tab(context: BrowserContext, served: str) -> Watched:
    watched = Watched(context.new_page(), served)

    def dismiss(dialog: Dialog) -> None:
        watched.dialogs.append(dialog.message)
        dialog.dismiss()

    def note(request: Request) -> None:
        watched.requests.append(request.url)

    context.on("request", note)
    watched.page.on("dialog", dismiss)
    watched.page.on("popup", lambda popup: watched.popups.append(popup.url))
    watched.page.on("download", lambda download: watched.downloads.append(download.url))
    return watched


def signed_in(tab: Watched) -> Page:
    tab.page.goto(f"{tab.origin}/admin/sign-in")
    tab.page.get_by_label("User name").fill(OWNER)
    tab.page.get_by_label("Password").fill(PASSWORD)
    tab.page.get_by_role("button", name="Sign in").click()
    tab.page.wait_for_url("**/admin/")
    return tab.page


@pytest.mark.parametrize("path", ["", "/page"])
def test_nothing_in_an_archived_page_acts(tab: Watched, keeper: Keeper, path: str) -> None:
    keeper.site()
    capture = keeper.keep((CASES / "c37_snapshot_active.html").read_bytes())
    page = signed_in(tab)
    tab.requests.clear()
    page.goto(f"{tab.origin}/snapshot/{capture}{path}")
    address, title = page.url, page.title()
    shown = page.frames[-1]
    assert "快照正文：闸门公告。" in shown.inner_text("body")
    shown.click("#t")
    shown.click("button")
    page.wait_for_timeout(1500)  # The refresh of the page would come after one second.
    assert (page.url, page.title()) == (address, title)
    assert tab.strangers() == []
    assert not [url for url in tab.requests if "/admin" in url]
    assert (tab.dialogs, tab.popups, tab.downloads) == ([], [], [])
    assert control.latest_runs(keeper.engine) == {}


HOSTILE = """<!doctype html><html><head>
<meta http-equiv="Set-Cookie" content="stolen=1"><meta http-equiv=refresh content=0;url=//evil.example/1>
<link rel=stylesheet href=//evil.example/2.css><link rel=preconnect href=//evil.example><link rel=dns-prefetch href=//e>
<link rel=prefetch href=/admin/3><link rel=icon href=//evil.example/4.ico><link rel=manifest href=/admin/5>
<style>@import url(//evil.example/6.css); @font-face{font-family:x;src:url(//evil.example/7.woff)}
body{font-family:x;background:url("//evil.example/8.png")} p::before{content:url(/admin/9)}
@im\\port "//evil.example/10.css"; b{background:u\\rl(//evil.example/11.png)}</style>
<script src=//evil.example/12.js></script></head><body background=//evil.example/13.png>
<p style="background-image:url(/admin/14)">正文 <b>text</b></p>
<img src=//evil.example/15.png srcset="//evil.example/16.png 1x" onerror=alert(17)>
<picture><source srcset=//evil.example/18.png><img src=/admin/19></picture>
<video src=/admin/20 poster=//evil.example/21.png autoplay></video><audio src=/admin/22 autoplay></audio>
<object data=/admin/23><embed src=/admin/24></object><iframe src=/admin/25></iframe><frame src=/admin/26>
<svg><image href=//evil.example/27.png /><use href="//evil.example/28.svg#a"/><script>alert(29)</script>
<animate attributeName=href values="javascript:alert(30)"/><a href="javascript:alert(31)"><text>x</text></a></svg>
<math><mtext><table><mglyph><style><!--</style>
<img title="--&gt;&lt;img src=1 onerror=alert(32)&gt;"></mglyph></table></math>
<noscript><p title="</noscript><img src=x onerror=alert(33)>"></noscript>
<a id=link href="javascript:alert(34)" target=_blank ping=//evil.example/35 download>link</a>
<a id=data href="data:text/html,<script>alert(36)</script>" target=_top>data</a>
<form id=f action=/admin/sites/1/start method=post target=_top><input name=q>
<button id=go formaction=//evil.example/37>go
</button><input id=image type=image src=//evil.example/38.png></form>
<details open ontoggle=alert(39)><summary>more</summary></details><input autofocus onfocus=alert(40)>
<template><img src=//evil.example/41></template><base href=//evil.example/>
<div contenteditable><isindex action=//evil.example/42></div><portal src=/admin/43></portal>
<xmp><img src=x onerror=alert(44)></xmp><plaintext><img src=x onerror=alert(45)>"""


@pytest.mark.parametrize("as_dom", [False, True])
def test_no_way_of_calling_out_works(tab: Watched, keeper: Keeper, as_dom: bool) -> None:
    keeper.site()
    capture = keeper.keep(HOSTILE, dom=HOSTILE if as_dom else None)
    page = signed_in(tab)
    tab.requests.clear()
    page.goto(f"{tab.origin}/snapshot/{capture}?q=正文")
    shown = page.frames[-1]
    assert "正文 text" in shown.inner_text("body")
    assert shown.evaluate("1") == 1, "the test itself can still look"
    for target in ("#link", "#data", "#go", "#image"):
        shown.click(target)
    shown.press("input[name=q]", "Enter")
    page.wait_for_timeout(500)
    assert tab.strangers() == []
    assert not [url for url in tab.requests if "/admin" in url or "evil" in url]
    assert (tab.dialogs, tab.popups, tab.downloads) == ([], [], [])
    assert page.url.startswith(f"{tab.origin}/snapshot/{capture}?")
    assert not [cookie for cookie in page.context.cookies() if cookie["name"] == "stolen"]
    assert control.latest_runs(keeper.engine) == {}


def test_an_archived_page_has_an_origin_of_its_own(tab: Watched, keeper: Keeper) -> None:
    capture = keeper.keep("<p>x")
    tab.page.goto(f"{tab.origin}/snapshot/{capture}")
    assert tab.page.frames[-1].evaluate("self.origin") == "null"
    tab.page.goto(f"{tab.origin}/snapshot/{capture}/page")
    assert tab.page.evaluate("self.origin") == "null"


def test_an_old_charset_is_read(tab: Watched, keeper: Keeper) -> None:
    capture = keeper.keep((CASES / "c38_snapshot_gbk.html").read_bytes(), content_type="text/html")
    tab.page.goto(f"{tab.origin}/snapshot/{capture}?q=镕炉")
    shown = tab.page.frames[-1]
    assert "快照编码：东闸、西闸、镕炉。" in shown.inner_text("body")
    assert shown.inner_text("mark") == "镕炉"
    assert shown.evaluate("document.characterSet") == "UTF-8"


def test_a_foreign_page_changes_nothing(tab: Watched, keeper: Keeper, tmp_path: Path) -> None:
    keeper.site()
    page = signed_in(tab)
    foreign = (CASES / "c56_csrf_page.html").read_text().replace("{PORTAL}", tab.origin)
    routed = foreign.replace("/admin/crawl/start?site=1", "/admin/sites/1/start").replace(
        "/admin/crawl/stop", "/admin/sites/1/start"
    )
    (tmp_path / "foreign.html").write_text(routed)
    page.goto(f"file://{tmp_path}/foreign.html")
    page.wait_for_url("**/admin/sites/add")
    assert [site.key for site in control.list_sites(keeper.engine)] == ["archived.example:80"]
    assert control.latest_runs(keeper.engine) == {}


def test_the_owner_adds_starts_and_stops_a_site_without_scripts(browser: Browser, served: str, engine: Engine) -> None:
    context = browser.new_context(java_script_enabled=False, locale="en-GB")
    tab = Watched(context.new_page(), served)
    page = signed_in(tab)
    page.get_by_role("link", name="Add a site").first.click()
    page.get_by_role("textbox", name="Start addresses").fill("https://tea.example/")
    page.get_by_text("More settings").click()
    page.get_by_label("Pages in one run").fill("20")
    page.get_by_role("button", name="Add the site").click()
    page.get_by_role("button", name="Start now").click()
    (site,) = control.list_sites(engine)
    assert site.settings.scope.max_pages == 20
    assert control.latest_runs(engine)[site.site_id].run.state is RunState.QUEUED
    page.get_by_role("button", name="Stop").click()
    assert control.latest_runs(engine)[site.site_id].run.state is RunState.STOPPED
    context.close()


def test_progress_is_refreshed_by_itself(tab: Watched, keeper: Keeper) -> None:
    site_id = keeper.site()
    control.start(keeper.engine, site_id, "mei")
    page = signed_in(tab)
    page.goto(f"{tab.origin}/admin/sites/{site_id}")
    assert page.locator(".state").first.inner_text() == "No crawler is running"
    control.stop(keeper.engine, site_id)
    page.locator(".state-stopped").first.wait_for()


def test_menus_close_with_escape_and_by_a_click_elsewhere(tab: Watched, keeper: Keeper) -> None:
    keeper.keep("<p>1", "http://archived.example/a")
    capture = keeper.keep("<p>2", "http://archived.example/a")
    page = tab.page
    page.goto(f"{tab.origin}/snapshot/{capture}")
    menu = page.locator("details .menu")
    page.get_by_text("2 captures").click()
    assert menu.is_visible()
    page.keyboard.press("Escape")
    assert not menu.is_visible()
    page.get_by_text("2 captures").click()
    page.locator("h1").click()
    assert not menu.is_visible()


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_no_page_is_wider_than_the_screen(tab: Watched, keeper: Keeper, width: int) -> None:
    site_id = keeper.site()
    long = "http://archived.example/" + "a-very-long-path/" * 20
    capture = keeper.keep("<p>x", long)
    tab.page.set_viewport_size({"width": width, "height": 800})
    page = signed_in(tab)
    paths = ["/", "/nothing", f"/snapshot/{capture}?q=x", "/admin/", "/admin/sites/add", f"/admin/sites/{site_id}"]
    for path in [*paths, f"/admin/sites/{site_id}/schedule", f"/admin/explain?url={long}"]:
        page.goto(tab.origin + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
