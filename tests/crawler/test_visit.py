"""One visit against a real site on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from crawler import urls
from crawler.addresses import Resolver
from crawler.fetcher import Fetcher, FetcherSettings
from crawler.records import (
    Claim,
    CrawlStatus,
    CrawlUrl,
    Fault,
    FetchErrorKind,
    IndexState,
    LinkKind,
    Rejection,
    RenderMode,
    RobotsFile,
    SiteScope,
    SiteSettings,
    Validators,
)
from crawler.renderer import Renderer
from crawler.robots import Robots
from crawler.scope import Scope
from crawler.visit import Site, Visit, VisitLimits, Visitor
from tests.site.fake_site import FakeSite, Route

NOW = datetime(2026, 3, 5, 8, 0, tzinfo=UTC)
NO_ROBOTS = Route("/robots.txt", status=404)
AGENT = "Plumbline/0.1"
NO_VALIDATORS = Validators()
WHOLE_HOST = SiteScope()
LIMITS = VisitLimits()


async def no_renderer() -> Renderer:
    raise AssertionError("this page needs no browser")


async def nothing_kept(_host: str) -> RobotsFile | None:
    return None


async def no_rules(host: str) -> RobotsFile | None:
    return RobotsFile(host, 404, b"", NOW + timedelta(hours=1))


async def keep_nothing(_file: RobotsFile) -> None:
    return None


def claim_of(
    url: str, *, kind: LinkKind = LinkKind.LINK, tries: int = 0, validators: Validators = NO_VALIDATORS
) -> Claim:
    target = CrawlUrl(url, urls.urlkey(url), urls.host_of(url), site_id=1, run_id=7, depth=1, kind=kind)
    return Claim(target, url_id=1, generation=3, tries=tries, validators=validators)


def visit(
    site: FakeSite,
    path: str,
    *,
    kind: LinkKind = LinkKind.LINK,
    tries: int = 0,
    validators: Validators = NO_VALIDATORS,
    scope: SiteScope = WHOLE_HOST,
    limits: VisitLimits = LIMITS,
    allowed: bool = True,
    has_answered: bool = False,
    rules: Callable[[str], Awaitable[RobotsFile | None]] = nothing_kept,
) -> Visit:
    host = f"127.0.0.1:{site.port}"
    settings = SiteSettings(
        seeds=(site.url("/"),), scope=scope, render=RenderMode.NEVER, allow_private=(host,) if allowed else ()
    )

    async def go() -> Visit:
        resolver = Resolver()
        async with Fetcher(FetcherSettings(AGENT, timeout_s=5), resolver) as fetcher:
            clock: Callable[[], datetime] = lambda: NOW  # noqa: E731
            robots = Robots(fetcher.fetch, load=rules, save=keep_nothing, user_agent=AGENT, clock=clock)
            visitor = Visitor(fetcher, robots, no_renderer, limits, AGENT, clock, chance=lambda: 0.5)
            claim = claim_of(site.url(path), kind=kind, tries=tries, validators=validators)
            return await visitor.visit(claim, Site(settings, Scope(settings), None, has_answered))

    return asyncio.run(go())


def html(body: str, head: str = "") -> str:
    return f"<!doctype html><html><head><meta charset=utf-8><title>t</title>{head}</head><body>{body}</body></html>"


def test_a_page_is_fetched_with_its_links_and_waits_for_the_indexer() -> None:
    with FakeSite(
        [NO_ROBOTS, Route("/", body=html('正文 <a href="/a">甲</a><a href="http://elsewhere.test/">乙</a>'))]
    ) as site:
        seen = visit(site, "/")
        assert seen.outcome.status is CrawlStatus.FETCHED
        assert seen.index_state is IndexState.WAITING
        assert [(url.url, url.depth, url.anchor) for url in seen.found] == [(site.url("/a"), 2, "甲")]
        assert [(r.url, r.reason) for r in seen.rejected] == [("http://elsewhere.test/", Rejection.SCOPE)]


def test_an_unchanged_page_is_told_by_its_digest_and_by_304() -> None:
    page = html("不变的页面")
    routes = [
        NO_ROBOTS,
        Route("/", body="", status=304, need_header={"if-none-match": "e1"}),
        Route("/", body=page, headers=[("Content-Type", "text/html; charset=utf-8"), ("ETag", '"e1"')]),
    ]
    with FakeSite(routes) as site:
        first = visit(site, "/")
        assert first.outcome.validators is not None
        by_digest = visit(site, "/", validators=Validators(digest=first.digest, capture_id=5))
        by_etag = visit(site, "/", validators=Validators(etag='"e1"', digest=first.digest, capture_id=5))
    for again in (by_digest, by_etag):
        assert again.outcome.status is CrawlStatus.UNCHANGED
        assert again.unchanged
        assert again.index_state is IndexState.SKIPPED
        assert again.digest == first.digest


def test_a_redirect_is_a_page_of_its_own_and_its_target_goes_through_the_scope() -> None:
    routes = [
        NO_ROBOTS,
        Route("/in", status=302, headers=[("Location", "/there")]),
        Route("/out", status=302, headers=[("Location", "http://127.0.0.1:1/secret")]),
        Route("/file", status=302, headers=[("Location", "file:///etc/passwd")]),
    ]
    with FakeSite(routes) as site:
        inside, outside, file = (visit(site, path) for path in ("/in", "/out", "/file"))
        assert [(url.url, url.kind, url.redirects, url.depth) for url in inside.found] == [
            (site.url("/there"), LinkKind.REDIRECT, 1, 1)
        ]
        assert "/there" not in site.targets
    assert inside.outcome.status is CrawlStatus.REDIRECTION
    assert inside.index_state is IndexState.SKIPPED
    assert outside.found == ()
    assert [r.reason for r in outside.rejected] == [Rejection.SCOPE]
    assert file.found == ()
    assert [r.reason for r in file.rejected] == [Rejection.BAD_URL]


def test_raw_bytes_in_a_location_are_escaped_as_they_are() -> None:
    routes = [
        NO_ROBOTS,
        Route("/utf8", status=301, headers=[], raw_headers=["Location: /新闻/水库".encode()]),
        Route("/gbk", status=301, headers=[], raw_headers=["Location: /新闻/水库".encode("gbk")]),
    ]
    with FakeSite(routes) as site:
        targets = [visit(site, path).found[0].url.partition(str(site.port))[2] for path in ("/utf8", "/gbk")]
    assert targets == ["/%E6%96%B0%E9%97%BB/%E6%B0%B4%E5%BA%93", "/%D0%C2%CE%C5/%CB%AE%BF%E2"]


def test_a_redirect_to_itself_with_a_cookie_is_followed_on_the_spot() -> None:
    routes = [
        NO_ROBOTS,
        Route("/", body=html("进来了"), need_header={"cookie": "seen=1"}),
        Route("/", status=302, headers=[("Location", "/"), ("Set-Cookie", "seen=1")]),
    ]
    with FakeSite(routes) as site:
        assert visit(site, "/").outcome.status is CrawlStatus.FETCHED


def test_an_endless_redirect_to_itself_ends() -> None:
    with FakeSite([NO_ROBOTS, Route("/", status=302, headers=[("Location", "/")])]) as site:
        seen = visit(site, "/", limits=VisitLimits(max_redirects=4))
        assert seen.outcome.status is CrawlStatus.FETCH_ERROR
        assert site.targets.count("/") == 5


def test_an_immediate_refresh_leads_on_like_a_redirect() -> None:
    with FakeSite([NO_ROBOTS, Route("/", body=html("", '<meta http-equiv=refresh content="0; url=/next">'))]) as site:
        seen = visit(site, "/")
        assert seen.outcome.status is CrawlStatus.REDIRECTION
        assert [url.kind for url in seen.found] == [LinkKind.REFRESH]


def test_robots_txt_and_private_addresses_refuse_with_their_reason() -> None:
    routes = [
        Route("/robots.txt", body="User-agent: *\nDisallow: /inner/\n", headers=[("Content-Type", "text/plain")]),
        Route("/*", body=html("x")),
    ]
    with FakeSite(routes) as site:
        by_robots = visit(site, "/inner/1")
        by_address = visit(site, "/open", allowed=False)
        assert site.targets == ["/robots.txt"]
    assert [r.reason for r in by_robots.rejected] == [Rejection.ROBOTS]
    assert [r.reason for r in by_address.rejected] == [Rejection.PRIVATE_ADDRESS]
    assert by_address.outcome.status is CrawlStatus.REJECTED


def test_an_unreachable_robots_txt_puts_the_page_off() -> None:
    with FakeSite([Route("/robots.txt", status=503), Route("/*", body=html("x"))]) as site:
        seen = visit(site, "/")
        assert site.targets == ["/robots.txt"]
    assert seen.outcome.reason == FetchErrorKind.ROBOTS_UNREACHABLE.value
    assert seen.outcome.next_visit_at is not None


@pytest.mark.parametrize(
    ("status", "tries", "outcome", "again"),
    [
        (404, 0, CrawlStatus.GONE, False),
        (410, 0, CrawlStatus.GONE, False),
        (403, 0, CrawlStatus.FETCH_ERROR, False),
        (500, 0, CrawlStatus.FETCH_ERROR, True),
        (500, 2, CrawlStatus.FETCH_ERROR, False),
    ],
)
def test_each_bad_status_has_its_consequence(status: int, tries: int, outcome: CrawlStatus, again: bool) -> None:
    with FakeSite([NO_ROBOTS, Route("/", status=status, body=html("x"))]) as site:
        seen = visit(site, "/", tries=tries)
    assert seen.outcome.status is outcome
    assert (seen.outcome.next_visit_at is not None) is again
    assert seen.index_state is IndexState.SKIPPED


def test_a_host_that_asks_for_quiet_gets_it() -> None:
    routes = [NO_ROBOTS, Route("/", status=429, headers=[("Retry-After", "300")])]
    with FakeSite(routes) as site:
        seen = visit(site, "/")
    assert seen.host_pause_s == 300
    assert seen.outcome.next_visit_at == NOW + timedelta(seconds=300)


def test_a_cut_page_is_kept_and_marked_but_never_indexed_as_whole() -> None:
    with FakeSite([NO_ROBOTS, Route("/", body=html("半页"), cut=40)]) as site:
        seen = visit(site, "/")
    assert seen.page is not None
    assert Fault.PARTIAL in seen.page.faults
    assert seen.index_state is IndexState.SKIPPED
    assert seen.outcome.next_visit_at is not None
    assert seen.outcome.validators is None


def test_noindex_and_nofollow_are_honoured_from_page_and_header() -> None:
    link = '<a href="/a">甲</a>'
    routes = [
        NO_ROBOTS,
        Route("/meta", body=html(link, '<meta name=robots content="noindex,nofollow">')),
        Route("/header", body=html(link), headers=[("Content-Type", "text/html"), ("X-Robots-Tag", "none")]),
    ]
    with FakeSite(routes) as site:
        for path in ("/meta", "/header"):
            seen = visit(site, path)
            assert seen.index_state is IndexState.SKIPPED
            assert seen.found == ()
            assert {r.reason for r in seen.rejected} == {Rejection.NOFOLLOW, Rejection.NOINDEX}


def test_a_url_that_left_the_scope_since_it_was_found_is_refused() -> None:
    with FakeSite([NO_ROBOTS]) as site:
        seen = visit(site, "/old/1", scope=SiteScope(exclude=("/old/*",)))
        assert site.targets == []
    assert [r.reason for r in seen.rejected] == [Rejection.EXCLUDED]


def test_a_seed_brings_the_sitemaps_of_robots_txt_and_a_sitemap_its_pages() -> None:
    listed = "<urlset><url><loc>/a</loc></url><url><loc>http://elsewhere.test/</loc></url></urlset>"
    index = "<sitemapindex><sitemap><loc>/more.xml.gz</loc></sitemap></sitemapindex>"
    routes = [
        Route("/robots.txt", body="User-agent: *\nSitemap: http://{HOST}/map.xml\n", template=True),
        Route("/map.xml", body=listed),
        Route("/index.xml", body=index),
        Route("/", body=html("入口")),
    ]
    with FakeSite(routes) as site:
        seed = visit(site, "/", kind=LinkKind.SEED)
        pages = visit(site, "/map.xml", kind=LinkKind.SITEMAP)
        further = visit(site, "/index.xml", kind=LinkKind.SITEMAP)
        assert [(url.url, url.kind) for url in seed.found] == [(site.url("/map.xml"), LinkKind.SITEMAP)]
        assert [(url.url, url.kind) for url in pages.found] == [(site.url("/a"), LinkKind.LISTED)]
        assert [(url.url, url.kind) for url in further.found] == [(site.url("/more.xml.gz"), LinkKind.SITEMAP)]
    assert pages.outcome.status is CrawlStatus.LISTING
    assert pages.index_state is IndexState.SKIPPED
    assert [r.reason for r in pages.rejected] == [Rejection.SCOPE]


@pytest.mark.parametrize(
    ("has_answered", "capture_id", "tries", "again"),
    [
        (False, None, 1, True),
        (False, None, 2, False),
        (True, None, 2, True),
        (False, 5, 2, True),
        (True, None, 7, True),
        (True, None, 8, False),
    ],
)
def test_a_server_that_answered_before_is_waited_for_longer(
    has_answered: bool, capture_id: int | None, tries: int, again: bool
) -> None:
    """It is started anew, or the network is away: every page would lose its tries within seconds."""
    with FakeSite([NO_ROBOTS]) as site:
        pass
    validators = Validators(capture_id=capture_id)
    seen = visit(site, "/", tries=tries, validators=validators, has_answered=has_answered, rules=no_rules)
    assert seen.outcome.status is CrawlStatus.FETCH_ERROR
    assert seen.outcome.reason == FetchErrorKind.CONNECT.value
    assert (seen.outcome.next_visit_at is not None) is again
