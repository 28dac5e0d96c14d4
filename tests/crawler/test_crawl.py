"""The crawl loop against real sites on loopback, a real database and a real archive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive, Severity
from crawler.crawl import CrawlerSettings, run_crawler
from crawler.errors import DatabaseError
from crawler.fetcher import FetcherSettings
from crawler.frontier import Frontier
from crawler.records import GuideWord, IndexState, RenderMode, RunState, SiteScope, SiteSettings, Strategy, Topic
from crawler.renderer import RendererSettings
from crawler.urls import document_id, urlkey
from crawler.visit import VisitLimits
from services import control
from tests.site.fake_site import FakeSite, Route

AGENT = "Plumbline/0.1"
NO_ROBOTS = Route("/robots.txt", status=404)
Play = Callable[..., FakeSite]


def html(*links: str, text: str = "正文") -> str:
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return f"<!doctype html><meta charset=utf-8><title>{text}</title><p>{text}</p>{anchors}"


def settings_of(site: FakeSite, seed: str = "/") -> SiteSettings:
    return SiteSettings(
        seeds=(site.url(seed),), render=RenderMode.NEVER, allow_private=(f"{site.address}:{site.port}",)
    )


def crawler_settings(folder: Path, worker: str = "w1") -> CrawlerSettings:
    return CrawlerSettings(
        worker=worker,
        archive_folder=folder,
        fetcher=FetcherSettings(AGENT, timeout_s=5),
        renderer=RendererSettings(AGENT, timeout_s=10),
        limits=VisitLimits(),
        user_agent=AGENT,
        delay_s=1.0,
        concurrency=16,
    )


async def crawl_until(
    engine: Engine, folder: Path, is_enough: Callable[[], bool], workers: int = 1, limit_s: float = 60
) -> None:
    """Run crawlers until it is enough; fail if it never is."""
    stop = asyncio.Event()
    crawlers = [
        asyncio.create_task(run_crawler(engine, crawler_settings(folder, f"w{n}"), stop)) for n in range(workers)
    ]
    try:
        async with asyncio.timeout(limit_s):
            while not is_enough():
                await asyncio.sleep(0.02)
                for crawler in crawlers:
                    if crawler.done():
                        crawler.result()
    finally:
        stop.set()
        await asyncio.gather(*crawlers)


def crawl(engine: Engine, folder: Path, settings: SiteSettings, workers: int = 1) -> control.RunProgress:
    """One whole run of a site."""
    run_id = start(engine, settings)
    asyncio.run(crawl_until(engine, folder, lambda: state_of(engine, run_id) is RunState.FINISHED, workers))
    return control.progress(engine, run_id)


def start(engine: Engine, settings: SiteSettings) -> int:
    site_id = control.create_or_update(engine, control.site_key(settings), settings)
    return control.start(engine, site_id, "test").run_id


def state_of(engine: Engine, run_id: int) -> RunState:
    return control.progress(engine, run_id).run.state


def test_every_page_is_fetched_once_and_archived_to_the_byte(any_engine: Engine, tmp_path: Path, play: Play) -> None:
    pages = {"/": html("/a", "/b"), "/a": html("/b", "/", "/c?x=1"), "/b": html("/a#top"), "/c?x=1": html("/gone")}
    site = play(NO_ROBOTS, *(Route(path, body=body) for path, body in pages.items()))
    progress = crawl(any_engine, tmp_path, settings_of(site))
    assert sorted(site.targets) == sorted(["/robots.txt", *pages, "/gone"])
    assert (progress.fetched, progress.gone, progress.waiting) == (4, 1, 4)
    archive = Archive(tmp_path, any_engine)
    with database.read(any_engine) as conn:
        kept = {path: captures.latest(conn, urlkey(site.url(path))) for path in pages}
    for path, capture in kept.items():
        assert capture is not None
        assert capture.index_state is IndexState.WAITING
        assert archive.read(capture.capture_id).body == pages[path].encode()
    assert not [finding for finding in archive.verify() if finding.severity is Severity.ERROR]


def test_a_second_run_visits_every_page_again_and_keeps_only_references(
    any_engine: Engine, tmp_path: Path, play: Play
) -> None:
    with_etag = [("Content-Type", "text/html"), ("ETag", '"1"')]
    site = play(
        NO_ROBOTS,
        Route("/", status=304, need_header={"if-none-match": "1"}),
        Route("/", body=html("/a"), headers=with_etag),
        Route("/a", body=html("/b"), turn="1"),
        Route("/a", body=html("/b", text="改了"), turn="2+"),
        Route("/b", body=html()),
    )
    crawl(any_engine, tmp_path, settings_of(site))
    again = crawl(any_engine, tmp_path, settings_of(site))
    assert site.targets.count("/") == site.targets.count("/a") == site.targets.count("/b") == 2
    assert (again.fetched, again.unchanged) == (1, 2)
    with database.read(any_engine) as conn:
        root, a, b = (captures.of_url(conn, urlkey(site.url(path))) for path in ("/", "/a", "/b"))
    assert [capture.revisit_of for capture in root] == [root[-1].capture_id, None]
    assert [capture.revisit_of for capture in b] == [b[-1].capture_id, None]
    assert [capture.revisit_of for capture in a] == [None, None]
    assert a[0].generation > a[-1].generation
    archive = Archive(tmp_path, any_engine)
    assert archive.read(root[0].capture_id).body == html("/a").encode()


def test_a_stopped_run_goes_on_where_it_was(engine: Engine, tmp_path: Path, play: Play) -> None:
    slow = Route("/s/*", body=html(), hang_s=0.1)
    site = play(NO_ROBOTS, Route("/", body=html(*(f"/s/{n}" for n in range(30)))), slow)
    settings = settings_of(site)
    run_id = start(engine, settings)
    assert control.start(engine, 1, "a second click") == control.Started(run_id, already_running=True)
    asyncio.run(crawl_until(engine, tmp_path, lambda: len(site.targets) > 6))
    control.stop(engine, 1)
    control.stop(engine, 1)
    asyncio.run(crawl_until(engine, tmp_path, lambda: state_of(engine, run_id) is RunState.STOPPED))
    asked = len(site.targets)
    assert asked < 25
    assert control.start(engine, 1, "again").run_id == run_id
    asyncio.run(crawl_until(engine, tmp_path, lambda: state_of(engine, run_id) is RunState.FINISHED))
    assert control.progress(engine, run_id).fetched == 31
    pages = [target for target in site.targets if target != "/robots.txt"]
    assert len(pages) == len(set(pages)) == 31


def test_a_run_that_is_stopped_asks_for_nothing_more(engine: Engine, tmp_path: Path, play: Play) -> None:
    site = play(NO_ROBOTS, Route("/", body=html(*(f"/s/{n}" for n in range(50)))), Route("/s/*", hang_s=0.2))
    run_id = start(engine, settings_of(site))
    stopped_at: list[int] = []

    def is_stopped() -> bool:
        if len(site.targets) > 4 and not stopped_at:
            control.stop(engine, 1)
            stopped_at.append(len(site.targets))
        return bool(stopped_at) and state_of(engine, run_id) is RunState.STOPPED

    asyncio.run(crawl_until(engine, tmp_path, is_stopped, limit_s=10))
    assert len(site.targets) - stopped_at[0] < 12


def test_a_link_refused_on_one_page_is_followed_from_another(engine: Engine, tmp_path: Path, play: Play) -> None:
    nofollow = html("/a") + '<a rel="nofollow" href="/x">x</a>'
    site = play(NO_ROBOTS, Route("/", body=nofollow), Route("/a", body=html("/x")), Route("/x", body=html()))
    progress = crawl(engine, tmp_path, settings_of(site))
    assert site.targets.count("/x") == 1
    assert (progress.fetched, progress.rejected) == (3, {})


def test_a_site_that_is_deleted_while_it_is_crawled_does_not_end_the_crawler(
    any_engine: Engine, tmp_path: Path, play: Play
) -> None:
    doomed = play(NO_ROBOTS, Route("/", body=html("/a", "/b")), Route("/*", body=html("/c"), hang_s=0.2))
    other = play(NO_ROBOTS, Route("/", body=html()))
    start(any_engine, settings_of(doomed))
    later: list[int] = []

    def is_other_crawled() -> bool:
        if "/a" in doomed.targets and not later:
            control.delete_site(any_engine, 1)
            later.append(start(any_engine, settings_of(other)))
        return bool(later) and state_of(any_engine, later[0]) is RunState.FINISHED

    asyncio.run(crawl_until(any_engine, tmp_path, is_other_crawled))
    assert control.progress(any_engine, later[0]).fetched == 1
    assert "/c" not in doomed.targets


def test_the_page_budget_is_kept_and_its_rest_is_counted(engine: Engine, tmp_path: Path, play: Play) -> None:
    site = play(NO_ROBOTS, Route("/", body=html(*(f"/{n}" for n in range(40)))), Route("/*", body=html()))
    progress = crawl(engine, tmp_path, replace(settings_of(site), scope=SiteScope(max_pages=10)))
    assert progress.fetched == 10
    assert progress.rejected == {"budget": 31}


@pytest.mark.parametrize(
    ("strategy", "order"),
    [
        (Strategy.BREADTH_FIRST, ["/", "/a", "/b", "/a/1", "/b/1"]),
        (Strategy.DEPTH_FIRST, ["/", "/a", "/a/1", "/b", "/b/1"]),
    ],
)
def test_the_order_is_the_strategy_s(
    engine: Engine, tmp_path: Path, play: Play, strategy: Strategy, order: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.crawl.URLS_PER_CLAIM", 1)
    pages = {"/": html("/a", "/b"), "/a": html("/a/1"), "/b": html("/b/1"), "/a/1": html(), "/b/1": html()}
    site = play(NO_ROBOTS, *(Route(path, body=body) for path, body in pages.items()))
    crawl(engine, tmp_path, replace(settings_of(site), strategy=strategy))
    assert [target for target in site.targets if target != "/robots.txt"] == order


def test_two_crawlers_share_a_run_and_fetch_nothing_twice(any_engine: Engine, tmp_path: Path, play: Play) -> None:
    links = [f"/{n}" for n in range(60)]
    sites = [play(NO_ROBOTS, Route("/", body=html(*links)), Route("/*", body=html())) for _ in range(3)]
    hosts = tuple(f"127.0.0.1:{site.port}" for site in sites)
    settings = SiteSettings(
        seeds=tuple(site.url("/") for site in sites), name="three", render=RenderMode.NEVER, allow_private=hosts
    )
    progress = crawl(any_engine, tmp_path, settings, workers=2)
    assert progress.fetched == 3 * 61
    for site in sites:
        pages = [target for target in site.targets if target != "/robots.txt"]
        assert len(pages) == len(set(pages)) == 61


def test_a_bad_host_does_not_slow_the_others(engine: Engine, tmp_path: Path, play: Play) -> None:
    bad = play(Route("/*", hang_s=30))
    good = play(NO_ROBOTS, Route("/", body=html(*(f"/{n}" for n in range(20)))), Route("/*", body=html()))
    hosts = (f"127.0.0.1:{bad.port}", f"127.0.0.1:{good.port}")
    settings = SiteSettings(
        seeds=(bad.url("/"), good.url("/")), name="two", render=RenderMode.NEVER, allow_private=hosts
    )
    run_id = start(engine, settings)
    asyncio.run(crawl_until(engine, tmp_path, lambda: control.progress(engine, run_id).fetched == 21, limit_s=10))


def test_a_host_that_asks_for_quiet_is_left_alone_for_so_long(engine: Engine, tmp_path: Path, play: Play) -> None:
    site = play(
        NO_ROBOTS,
        Route("/", body=html("/a", "/b")),
        Route("/a", status=429, headers=[("Retry-After", "2")], turn="1"),
        Route("/*", body=html(text="等够了")),
    )
    progress = crawl(engine, tmp_path, settings_of(site))
    assert (progress.fetched, progress.retried) == (3, 1)
    at = [request.at_s for request in site.log]
    refused = site.targets.index("/a")
    assert at[refused + 1] - at[refused] >= 2.0


def test_a_seed_that_redirects_to_its_www_twin_brings_the_twin_into_the_scope(
    engine: Engine, tmp_path: Path, play: Play
) -> None:
    site = play(
        NO_ROBOTS,
        Route("/", status=301, headers=[("Location", "http://www.tea.localhost:{PORT}/")], host="tea.localhost"),
        Route("/", body=html("/a"), host="www.tea.localhost"),
        Route("/a", body=html(), host="www.tea.localhost"),
    )
    hosts = (f"tea.localhost:{site.port}", f"www.tea.localhost:{site.port}")
    settings = SiteSettings(seeds=(f"http://tea.localhost:{site.port}/",), render=RenderMode.NEVER, allow_private=hosts)
    progress = crawl(engine, tmp_path, settings)
    assert (progress.fetched, progress.redirected) == (2, 1)


def test_sitemaps_are_found_and_read_whatever_they_call_themselves(
    engine: Engine, tmp_path: Path, play: Play, cases: Path
) -> None:
    site = play(cases / "c14_sitemap_site.json")
    progress = crawl(engine, tmp_path, settings_of(site))
    listed = {target for target in site.targets if target.startswith("/z")}
    assert listed == {"/z1", "/z2", "/z3?a=1&b=2", "/z4?a=1&b=2", "/z5"}
    assert site.targets.count("/sitemap.xml") == 1
    assert progress.fetched == 5


def test_a_page_leaves_the_index_when_it_is_gone_at_two_looks_or_asks_for_it(
    any_engine: Engine, tmp_path: Path, play: Play
) -> None:
    noindex = '<meta name=robots content="noindex">'
    site = play(
        NO_ROBOTS,
        Route("/", body=html("/gone", "/shy", "/stays")),
        Route("/gone", body=html(), turn="1"),
        Route("/gone", status=404, turn="2+"),
        Route("/shy", body=html(text="让收录"), turn="1"),
        Route("/shy", body=noindex + html(text="不让收录"), turn="2+"),
        Route("/stays", body=html(text="留下")),
    )
    leaving = []
    for _ in range(3):
        crawl(any_engine, tmp_path, settings_of(site))
        with database.write(any_engine) as conn:
            withdrawn = captures.withdrawn(conn, 10)
            captures.forget_withdrawn(conn, [leave.withdrawal_id for leave in withdrawn])
        leaving.append({leave.document_id for leave in withdrawn})
    gone, shy = (document_id(urlkey(site.url(path))) for path in ("/gone", "/shy"))
    assert leaving == [set(), {shy}, {gone, shy}]


def test_the_documents_of_a_deleted_site_leave_the_index(engine: Engine, tmp_path: Path, play: Play) -> None:
    site = play(NO_ROBOTS, Route("/", body=html("/a", "/none")), Route("/a", body=html()))
    crawl(engine, tmp_path, settings_of(site))
    control.delete_site(engine, 1)
    with database.read(engine) as conn:
        withdrawn = {leave.document_id for leave in captures.withdrawn(conn, 10)}
    assert withdrawn == {document_id(urlkey(site.url(path))) for path in ("/", "/a")}


def test_a_topic_keeps_its_pages_and_follows_the_links_that_promise_them(
    engine: Engine, tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawler.crawl.URLS_PER_CLAIM", 1)
    tea = "龙井茶采摘之后摊放杀青，绿茶的香气在炒青时形成，茶农说茶叶要嫩。"
    other = "今天足球比赛的结果公布，球队的教练说下一场还要努力争取胜利。"
    links = "".join(
        f'<a href="/sport/{n}">足球比赛结果第{n}场</a><a href="/tea/{n}">龙井绿茶做法之{n}</a>' for n in range(8)
    )
    site = play(
        NO_ROBOTS,
        Route("/", body=f"<!doctype html><title>茶叶</title><p>{tea}</p>{links}"),
        Route("/tea/*", body=html(text=tea)),
        Route("/sport/*", body=html(text=other)),
    )
    topic = Topic(words=(GuideWord("龙井", 3), GuideWord("绿茶", 3), GuideWord("茶叶", 2)))
    settings = replace(settings_of(site), topic=topic, strategy=Strategy.BEST_FIRST)
    progress = crawl(engine, tmp_path, settings)
    asked = [target for target in site.targets if target.startswith(("/tea", "/sport"))]
    assert all(target.startswith("/tea") for target in asked[:8])
    assert progress.waiting == 9
    assert progress.rejected == {"irrelevant": 8}
    assert control.summary(engine, [progress.run.run_id], 1.0).harvest_rate == pytest.approx(9 / 17)


@pytest.mark.browser
def test_a_page_written_by_a_script_is_rendered_and_the_others_are_not(
    engine: Engine, tmp_path: Path, play: Play
) -> None:
    paragraph = "<p>" + "只有脚本才写的字" * 9 + "</p><a href=/from-script>x</a>"
    write = f"document.body.innerHTML = {paragraph!r}"
    script = f"<!doctype html><meta charset=utf-8><title>壳</title><body><script>{write}</script>"
    site = play(
        NO_ROBOTS,
        Route("/", body=html("/app", text="静态的页面，有足够的文字可以读。" * 9)),
        Route("/app", body=script),
        Route("/from-script", body=html(text="脚本里的链接指向的页面。" * 9)),
    )
    progress = crawl(engine, tmp_path, replace(settings_of(site), render=RenderMode.AUTO))
    assert progress.fetched == 3
    with database.read(engine) as conn:
        rendered = {
            path: capture.rendered
            for path in ("/", "/app", "/from-script")
            if (capture := captures.latest(conn, urlkey(site.url(path)))) is not None
        }
        app = captures.latest(conn, urlkey(site.url("/app")))
    assert rendered == {"/": False, "/app": True, "/from-script": False}
    assert app is not None
    archived = Archive(tmp_path, engine).read(app.capture_id)
    assert archived.body == script.encode()
    assert "只有脚本才写的字" in (archived.dom_html or "")


def test_a_database_that_is_away_for_a_moment_costs_no_page_a_try(
    engine: Engine, tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = iter([True, True])

    def save(*arguments: Any) -> None:
        if next(away, False):
            raise DatabaseError("the crawl database cannot be used now: database or disk is full")
        save_robots(*arguments)

    save_robots = Frontier.save_robots
    monkeypatch.setattr(Frontier, "save_robots", save)
    site = play(NO_ROBOTS, Route("/", body=html()))
    progress = crawl(engine, tmp_path, settings_of(site))
    assert (progress.fetched, progress.retried) == (1, 0)
