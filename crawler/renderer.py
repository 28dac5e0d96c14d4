"""Renders pages in Chromium: the same question and answer as the fetcher's, with the page's DOM beside its bytes.

The response itself is fetched by `fetcher` (bytes as on the wire, cookies, limits) and handed to the browser as its
answer to the first request for the page, so that each page is asked for once. Everything else that the page wants
goes through a `proxy.ForwardProxy` under the crawler's address rules; images, fonts and media are not loaded. Where a
script would lead the browser to another document, it is not followed: the address is told, and goes through scope and
robots like any redirect. What is no HTML page (downloads, redirects, errors) never meets the browser.

One browser, started anew every so many pages, when it crashes and when it hangs; one context, with its cookies, a
site; a fixed number of tabs. Whatever a page does, it is over when its time is: the static page is kept then, with
RENDER_FAILED. A browser dies with this process, killed or not: the driver holds it by a pipe.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
import shutil
import time
from collections import OrderedDict
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict
from urllib.parse import urlsplit

import structlog
from playwright.async_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Error,
    Page,
    Playwright,
    async_playwright,
)

from crawler import charset
from crawler.addresses import Resolver
from crawler.cookies import Cookie, CookieJar
from crawler.errors import FetchError
from crawler.fetcher import Fetcher
from crawler.proxy import ForwardProxy
from crawler.records import Fault, FetchedPage, FetchErrorKind, FetchRequest, RenderedDom, Validators

BROWSERS: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
"""Names looked for on the path, quickest first: the shell renders nearly twice as many pages a second."""
MAX_DOM_CHARS: Final = 20_000_000
QUIET_MS: Final = 150
"""A page that waits for nothing and has not changed for so long is at rest."""
SETTLE_SHARE: Final = 0.5
"""Of a page's time, what it may take to come to rest; pages that never do are taken then."""
RELOAD_POLL_S: Final = 0.05
IDLE_TAB_S: Final = 0.1
"""A tab that is not used again within this is emptied, so that its page stops asking its site for things."""
CLOSE_TIMEOUT_S: Final = 3.0
YEAR_S: Final = 366 * 86_400.0
MAX_RELOADS: Final = 3
RELOAD_S: Final = 5.0
"""How long a page that loads itself anew is waited for."""
MAX_CONTEXTS: Final = 8

_HTML_TYPES = ("text/html", "application/xhtml+xml")
_BLOCKED = (
    *("png", "jpg", "jpeg", "gif", "webp", "avif", "ico", "bmp", "woff", "woff2", "ttf", "otf", "eot"),
    *("mp4", "webm", "mp3", "ogg", "m4a", "mov", "m3u8"),
)
_BLOCKED_URLS = [f"*.{extension}{tail}" for extension in _BLOCKED for tail in ("", "?*")]
_PAUSED_TYPES = ("Document", "Image", "Font", "Media")
_NOT_SERVED = frozenset(
    {
        *("content-encoding", "content-length", "content-type", "content-disposition"),
        *("transfer-encoding", "connection", "keep-alive"),
    }
)
_BROWSER_LABELS: Final = {
    "utf-8": "utf-8",
    "gb18030": "gb18030",
    "big5hkscs": "big5",
    "cp932": "shift_jis",
    "euc_jp": "euc-jp",
    "cp949": "euc-kr",
    "koi8-r": "koi8-r",
}
_SINGLE_BYTE = re.compile(r"cp(125[0-8])")
_ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--js-flags=--max-old-space-size=512",
    # The browser itself looks up nothing and reaches nobody but our proxies.
    "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)
_NOWHERE = "http://127.0.0.1:9"
"""Proxy for what the browser wants for itself; each context has one of its own."""
_FOLDER = Path(__file__).parent
_INIT_SCRIPT = (_FOLDER / "renderer.js").read_text("utf-8")
_SETTLE_SCRIPT = (_FOLDER / "settle.js").read_text("utf-8")

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RendererSettings:
    """Sources: `services.config`."""

    user_agent: str
    timeout_s: float = 20.0
    """A whole rendering, after the page itself was fetched."""
    tabs: int = 2
    """Pages rendered at once."""
    browser: str = ""
    """Chromium's path; empty: one that is installed, else Playwright's own."""
    sandbox: bool = True
    """Chromium's own sandbox; it needs user namespaces, which container engines close. Root has none in any case."""
    proxy: str = ""
    """Outgoing proxy; a request's own comes first."""
    locale: str = "zh-CN"
    pages_per_browser: int = 300
    """Chromium grows by 60 MB in 300 pages, whatever is reused (measured): then it is started anew."""


class Renderer:
    """Fetches pages and renders those that are HTML. Its browser is started by the first of them."""

    def __init__(self, settings: RendererSettings, resolver: Resolver, fetcher: Fetcher) -> None:
        self._settings = settings
        self._resolver = resolver
        self._fetcher = fetcher
        self._tabs = asyncio.Semaphore(settings.tabs)
        self._starting = asyncio.Lock()
        self._playwright: Playwright | None = None
        self._browser: _Browser | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the browser and the driver."""
        async with self._starting:
            if self._browser is not None:
                self._retire(self._browser)
            await asyncio.gather(*self._closing, return_exceptions=True)
            await self._stop_driver()

    async def fetch(self, request: FetchRequest, page: FetchedPage | None = None) -> FetchedPage:
        """Fetch a page (or take the one that was fetched just now) and render it if it is an HTML page.

        Raises FetchError: whatever the fetcher raises, and BROWSER if no browser can be started.
        """
        if page is None:
            page = await self._fetcher.fetch(replace(request, validators=Validators()))
        if not _is_renderable(page):
            return page
        async with self._tabs:
            started_at = time.monotonic()
            dom = await self._render(request, page)
            times = replace(page.times, render_s=time.monotonic() - started_at)
        if dom is None:
            return replace(page, times=times, faults=(*page.faults, Fault.RENDER_FAILED))
        return replace(page, times=times, rendered=dom)

    async def _render(self, request: FetchRequest, page: FetchedPage) -> RenderedDom | None:
        """The DOM; None if the page or the browser failed. A browser that dies under a page gets a second try."""
        for _ in range(2):
            browser = await self._running_browser()
            browser.pages += 1
            browser.under_way += 1
            try:
                return await browser.render(request, page, self._fetcher.cookies(request.site_id))
            except TimeoutError:
                log.info("page could not be rendered in time", url=page.url)
                return None
            except Error as exc:
                if await browser.answers():
                    log.info("page could not be rendered", url=page.url, reason=exc.message[:200])
                    return None
                log.warning("browser died under a page", url=page.url, reason=exc.message[:200])
            finally:
                browser.under_way -= 1
                if browser.is_spent(self._settings.pages_per_browser):
                    self._retire(browser)
        return None

    async def _running_browser(self) -> _Browser:
        async with self._starting:
            if self._browser is None or not self._browser.is_alive:
                if self._browser is not None:
                    self._retire(self._browser)
                self._browser = await self._start()
            return self._browser

    async def _start(self) -> _Browser:
        path = self._settings.browser or find_browser()
        for is_last in (False, True):
            try:
                if self._playwright is None:
                    self._playwright = await async_playwright().start()
                browser = await self._playwright.chromium.launch(
                    executable_path=path,
                    args=list(_ARGUMENTS),
                    proxy={"server": _NOWHERE},
                    chromium_sandbox=self._settings.sandbox and os.geteuid() != 0,
                    handle_sigint=False,
                    handle_sigterm=False,
                    handle_sighup=False,
                )
                return _Browser(browser, self._resolver, self._settings)
            except Exception as exc:  # Playwright raises bare Exception when its driver is gone: that one is renewed.
                await self._stop_driver()
                if is_last:
                    first_line = str(exc).strip().partition("\n")[0]
                    raise FetchError(
                        FetchErrorKind.BROWSER, f"the browser {path or 'of Playwright'} cannot be started: {first_line}"
                    ) from exc
        raise AssertionError("unreachable")

    async def _stop_driver(self) -> None:
        driver, self._playwright = self._playwright, None
        if driver is not None:
            await _at_most(CLOSE_TIMEOUT_S, driver.stop())

    def _retire(self, browser: _Browser) -> None:
        """Give no more pages to a browser, and close it when its last one is done."""
        if self._browser is browser:
            self._browser = None
        if browser.under_way and browser.is_alive:
            browser.is_retired = True
            return
        if not browser.is_closed:
            browser.is_closed = True
            task = asyncio.get_running_loop().create_task(browser.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def find_browser() -> str | None:
    """The path of an installed Chromium; None: there is only Playwright's own, if any."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


class _PausedRequest(TypedDict):
    """Parameters of CDP's Fetch.requestPaused, as far as they are read."""

    requestId: str
    frameId: str
    resourceType: str
    request: dict[str, Any]


_ContextKey = tuple[int, frozenset[str], str]


class _Browser:
    """A running browser with its contexts."""

    def __init__(self, browser: Browser, resolver: Resolver, settings: RendererSettings) -> None:
        self._browser = browser
        self._resolver = resolver
        self._settings = settings
        self._contexts: OrderedDict[_ContextKey, _SiteContext] = OrderedDict()
        self._opening = asyncio.Lock()
        self._hangs = False
        self.pages = 0
        self.under_way = 0
        self.is_retired = False
        self.is_closed = False

    @property
    def is_alive(self) -> bool:
        return self._browser.is_connected() and not self._hangs and not self.is_closed

    def is_spent(self, max_pages: int) -> bool:
        return self.pages >= max_pages or self.is_retired or not self.is_alive

    async def render(self, request: FetchRequest, page: FetchedPage, cookies: CookieJar) -> RenderedDom | None:
        """Render in a tab of the site's context. Raises TimeoutError, or Playwright's Error."""
        timeout_s = self._settings.timeout_s
        tab: _Tab | None = None
        context: _SiteContext | None = None
        is_fine = False
        try:
            async with asyncio.timeout(timeout_s):
                context = await self._context(request)
                context.under_way += 1
                await context.take_cookies(cookies)
                tab = await context.take_tab()
                dom = await tab.render(page, request.referrer, timeout_s * SETTLE_SHARE)
                await context.give_cookies(cookies, page.url)
            is_fine = True
            return dom
        finally:
            if context is not None:
                context.under_way -= 1
                if tab is not None and is_fine:
                    context.give_back(tab)
                elif tab is not None and not await _at_most(CLOSE_TIMEOUT_S, tab.close()):
                    self._hangs = True

    async def answers(self) -> bool:
        """Whether browser and driver are still there; asked after an error."""
        if self.is_alive and not await _at_most(CLOSE_TIMEOUT_S, self._ask()):
            self._hangs = True
        return self.is_alive

    async def _ask(self) -> None:
        session = await self._browser.new_browser_cdp_session()
        await session.send("Browser.getVersion")
        await session.detach()

    async def close(self) -> None:
        for context in self._contexts.values():
            await context.close_proxy()
        await _at_most(CLOSE_TIMEOUT_S, self._browser.close())

    async def _context(self, request: FetchRequest) -> _SiteContext:
        key = (request.site_id, request.allow_private, request.proxy or self._settings.proxy)
        async with self._opening:
            context = self._contexts.get(key)
            if context is None:
                await self._make_room()
                context = self._contexts[key] = await self._open_context(key)
            self._contexts.move_to_end(key)
            return context

    async def _make_room(self) -> None:
        idle = [key for key, context in self._contexts.items() if not context.under_way]
        for key in idle[: max(0, len(self._contexts) - MAX_CONTEXTS + 1)]:
            await _at_most(CLOSE_TIMEOUT_S, self._contexts.pop(key).close())

    async def _open_context(self, key: _ContextKey) -> _SiteContext:
        _, allow_private, outgoing = key
        proxy = await ForwardProxy(self._resolver, allow_private, outgoing).__aenter__()
        try:
            context = await self._browser.new_context(
                proxy={"server": proxy.url, "bypass": "<-loopback>"},
                user_agent=self._settings.user_agent,
                locale=self._settings.locale,
                viewport={"width": 1280, "height": 2000},
                accept_downloads=False,
                service_workers="block",
                ignore_https_errors=False,
            )
            await context.add_init_script(_INIT_SCRIPT)
        except BaseException:
            await proxy.close()
            raise
        return _SiteContext(context, proxy)


class _SiteContext:
    """A site's cookies and storage, its proxy, and its tabs that are free."""

    def __init__(self, context: BrowserContext, proxy: ForwardProxy) -> None:
        self._context = context
        self._proxy = proxy
        self._free: list[_Tab] = []
        self._own: set[Page] = set()
        self._opening = 0
        self._background: set[asyncio.Task[Any]] = set()
        self._jar_revision = 0
        self.under_way = 0
        context.on("page", self._on_page)

    async def take_cookies(self, jar: CookieJar) -> None:
        """Let the browser have what the fetcher was given."""
        if jar.revision == self._jar_revision:
            return
        self._jar_revision = jar.revision
        await self._context.add_cookies([_browser_cookie(cookie) for cookie in jar])

    async def give_cookies(self, jar: CookieJar, url: str) -> None:
        """Let the fetcher have what a page's script has set: the pass of a wall, say."""
        kept = {(cookie.name, cookie.value) for cookie in jar}
        target = urlsplit(url)
        for cookie in await self._context.cookies(url):
            if (cookie["name"], cookie["value"]) in kept:
                continue
            domain = f"; Domain={cookie['domain']}" if cookie["domain"].startswith(".") else ""
            secure = "; Secure" if cookie["secure"] else ""
            line = f"{cookie['name']}={cookie['value']}; Path={cookie['path']}{domain}{secure}"
            jar.store([line], target.hostname or "", "/", target.scheme == "https", time.time())
        self._jar_revision = jar.revision

    async def take_tab(self) -> _Tab:
        while self._free:
            tab = self._free.pop()
            if await tab.is_ready():
                return tab
        self._opening += 1
        try:
            page = await self._context.new_page()
        finally:
            self._opening -= 1
        self._own.add(page)
        page.on("close", lambda closed: self._own.discard(closed))
        return await _Tab.open(page, await self._context.new_cdp_session(page))

    def give_back(self, tab: _Tab) -> None:
        tab.rest()
        self._free.append(tab)

    async def close(self) -> None:
        await self.close_proxy()
        await self._context.close()

    async def close_proxy(self) -> None:
        for tab in self._free:
            tab.forget()
        await self._proxy.close()

    def _on_page(self, page: Page) -> None:
        """Windows that a page opens (a click of its own on a link will do) are closed."""
        if self._opening or page in self._own:
            return
        task = asyncio.get_running_loop().create_task(_at_most(CLOSE_TIMEOUT_S, page.close()))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


@dataclass(slots=True)
class _Job:
    """The page that a tab is busy with."""

    page: FetchedPage
    is_served: bool = False
    reloads: int = 0
    reloaded_at: float = 0.0
    commits: int = 0
    """Documents that the tab has shown for it."""
    leads_to: str | None = None
    """Where a script wanted to go."""

    @property
    def is_reloading(self) -> bool:
        is_due = self.commits < 1 + self.reloads
        return is_due and time.monotonic() - self.reloaded_at < RELOAD_S


class _Tab:
    """A tab, driven over the DevTools protocol."""

    def __init__(self, page: Page, session: CDPSession, frame_id: str) -> None:
        self._page = page
        self._session = session
        self._frame_id = frame_id
        self._job: _Job | None = None
        self._emptying: asyncio.TimerHandle | None = None
        self._background: set[asyncio.Task[Any]] = set()

    @classmethod
    async def open(cls, page: Page, session: CDPSession) -> Self:
        tree = await session.send("Page.getFrameTree")
        tab = cls(page, session, tree["frameTree"]["frame"]["id"])
        session.on("Fetch.requestPaused", tab._on_request)
        session.on("Page.frameNavigated", tab._on_document)
        await session.send("Page.enable")
        patterns = [{"urlPattern": "*", "resourceType": kind} for kind in _PAUSED_TYPES]
        await session.send("Fetch.enable", {"patterns": patterns})
        # Blocked in the page itself where the name tells; what remains is refused one by one.
        await session.send("Network.enable")
        await session.send("Network.setBlockedURLs", {"urls": _BLOCKED_URLS})
        return tab

    async def render(self, page: FetchedPage, referrer: str | None, settle_s: float) -> RenderedDom | None:
        """Show a page and give its DOM when it has come to rest."""
        self._job = job = _Job(page)
        try:
            asked = {"url": page.url, **({"referrer": referrer} if referrer else {})}
            answer = await self._session.send("Page.navigate", asked)
            if not job.is_served:
                raise Error(f"the page could not be shown: {answer.get('errorText', 'not asked for')}")
            return await self._settle(job, settle_s)
        finally:
            self._job = None

    async def _settle(self, job: _Job, settle_s: float) -> RenderedDom:
        """Ask again when the document is replaced while it is waited for (a page may load itself anew)."""
        until = time.monotonic() + settle_s
        while True:
            left_ms = max(0, round((until - time.monotonic()) * 1000))
            try:
                result = await self._session.send(
                    "Runtime.evaluate",
                    {
                        "expression": f"({_SETTLE_SCRIPT})({QUIET_MS}, {left_ms}, {MAX_DOM_CHARS})",
                        "awaitPromise": True,
                        "returnByValue": True,
                    },
                )
                value = result["result"].get("value")
                if isinstance(value, dict) and job.is_reloading and left_ms > 0:
                    await asyncio.sleep(RELOAD_POLL_S)
                elif isinstance(value, dict):
                    return RenderedDom(str(value["html"]), str(value["url"]), job.leads_to)
                else:
                    raise Error(
                        f"the page cannot be read: {result.get('exceptionDetails', {}).get('text', 'no value')}"
                    )
            except Error as exc:
                is_replaced = "context was destroyed" in exc.message or "Promise was collected" in exc.message
                is_replaced = is_replaced or "navigated or closed" in exc.message or "default context" in exc.message
                if not is_replaced or self._page.is_closed() or left_ms == 0:
                    raise

    async def is_ready(self) -> bool:
        """Take the tab out of its rest; False if it is of no use any more."""
        self.forget()
        if self._background:
            await asyncio.wait(self._background, timeout=CLOSE_TIMEOUT_S)
        return not self._page.is_closed()

    def rest(self) -> None:
        self._emptying = asyncio.get_running_loop().call_later(IDLE_TAB_S, self._empty)

    def forget(self) -> None:
        if self._emptying is not None:
            self._emptying.cancel()

    async def close(self) -> None:
        await self._page.close()

    def _empty(self) -> None:
        self._send("Page.navigate", {"url": "about:blank"})

    def _on_document(self, navigated: dict[str, Any]) -> None:
        if self._job is not None and navigated["frame"]["id"] == self._frame_id:
            self._job.commits += 1

    def _on_request(self, paused: _PausedRequest) -> None:
        """A request that waits for our word: the page itself, frames, and what is not to be loaded."""
        request_id, kind, job = paused["requestId"], paused["resourceType"], self._job
        url, method = paused["request"]["url"], paused["request"]["method"]
        if kind != "Document":
            self._send("Fetch.failRequest", {"requestId": request_id, "errorReason": "BlockedByClient"})
        elif paused["frameId"] != self._frame_id:
            self._send("Fetch.continueRequest", {"requestId": request_id})
        elif job is None:
            self._send("Fetch.failRequest", {"requestId": request_id, "errorReason": "Aborted"})
        elif not job.is_served and _is_same_document(url, job.page.url):
            job.is_served = True
            self._send("Fetch.fulfillRequest", {"requestId": request_id, **_response(job.page)})
        elif _is_same_document(url, job.page.url) and job.reloads < MAX_RELOADS:
            # Pages that set a cookie by script and load themselves anew get what they want.
            job.reloads += 1
            job.reloaded_at = time.monotonic()
            self._send("Fetch.continueRequest", {"requestId": request_id})
        else:
            if method == "GET" and job.leads_to is None and not _is_same_document(url, job.page.url):
                job.leads_to = url
            self._send("Fetch.failRequest", {"requestId": request_id, "errorReason": "Aborted"})

    def _send(self, method: str, params: dict[str, Any]) -> None:
        """A command whose answer nobody waits for; the tab may be gone by then."""
        task = asyncio.get_running_loop().create_task(_at_most(CLOSE_TIMEOUT_S, self._session.send(method, params)))
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _browser_cookie(cookie: Cookie) -> Any:
    """A cookie as Playwright takes it (it has a type of its own, which it does not export)."""
    taken = {
        "name": cookie.name,
        "value": cookie.value,
        "domain": cookie.domain if cookie.host_only else f".{cookie.domain}",
        "path": cookie.path,
        "secure": cookie.secure,
    }
    return taken | ({"expires": cookie.expires_at} if cookie.expires_at < time.time() + YEAR_S else {})


def _is_renderable(page: FetchedPage) -> bool:
    kind = (page.header("Content-Type") or "").partition(";")[0].strip().lower()
    is_download = (page.header("Content-Disposition") or "").lower().startswith("attachment")
    is_whole = not set(page.faults) - {Fault.BAD_ENCODING}
    return 200 <= page.status < 300 and bool(page.body) and kind in _HTML_TYPES and not is_download and is_whole


def _is_same_document(url: str, other: str) -> bool:
    return url.partition("#")[0] == other.partition("#")[0]


def _response(page: FetchedPage) -> dict[str, Any]:
    """The page as CDP's Fetch.fulfillRequest takes it: content coding undone, and its charset declared.

    The charset is the one that `charset` reads the page in: it is right more often than a browser's guess, and
    scripts without a charset of their own are read in it too.
    """
    content_type = page.header("Content-Type") or ""
    decoded = charset.decode(page.body, content_type)
    label = _browser_label(decoded.charset)
    body = page.body if label else decoded.text.encode("utf-8")
    kind = content_type.partition(";")[0].strip()
    headers = [
        {"name": name, "value": value}
        for name, value in page.headers
        if name.lower() not in _NOT_SERVED and name.isascii() and value.isascii()
    ]
    headers.append({"name": "Content-Type", "value": f"{kind}; charset={label or 'utf-8'}"})
    return {
        "responseCode": page.status,
        "responseHeaders": headers,
        "body": base64.b64encode(body).decode("ascii"),
    }


def _browser_label(codec: str) -> str | None:
    """The name that browsers have for a codec of Python's; None if they cannot read it."""
    if codec in _BROWSER_LABELS:
        return _BROWSER_LABELS[codec]
    match = _SINGLE_BYTE.fullmatch(codec)
    return f"windows-{match[1]}" if match else None


async def _at_most(timeout_s: float, work: Coroutine[Any, Any, Any]) -> bool:
    """Whether something that may hang or fail was done in time; nobody waits for more than that."""
    try:
        async with asyncio.timeout(timeout_s):
            await work
    except Exception as exc:  # Playwright raises bare ones when its driver is gone.
        log.debug("browser did not do as told", reason=str(exc)[:200])
        return False
    return True
