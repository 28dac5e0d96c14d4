"""What the crawl log says of a real crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from crawler.crawl import CrawlerSettings, Written, run_crawler
from crawler.fetcher import FetcherSettings
from crawler.records import RejectedUrl, Rejection, RenderMode, RunState, SiteSettings
from crawler.renderer import RendererSettings
from crawler.visit import VisitLimits
from services import control
from services.crawl_log import CrawlLog, crawl_log_entries
from services.elastic import LogEntry
from tests.site.fake_site import FakeSite, Route

AGENT = "Plumbline/0.1"
NOW = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HTML = [("Content-Type", "Text/HTML; charset=utf-8")]
START = (
    '<!doctype html><meta charset=utf-8><p>首页</p><a href="/b">b</a><a href="/gone">gone</a><a href="/odd">odd</a>'
    '<a href="/secret/x">x</a><a href="/moved">moved</a><a href="http://elsewhere.example/">away</a>'
)
ROUTES = (
    Route("/robots.txt", body="User-agent: *\nDisallow: /secret/\n", headers=[("Content-Type", "text/plain")]),
    Route("/", body=START, headers=HTML),
    Route("/b", body='<p>乙</p><a href="http://elsewhere.example/">away</a>', headers=HTML),
    Route("/odd", status=500, turn="1"),
    Route("/odd", body="<p>后来好了</p>", headers=HTML),
    Route("/moved", status=301, headers=[("Location", "/b")]),
)


class Notebook:
    """What stands for the appender: takes entries."""

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []

    def add(self, entries: list[LogEntry]) -> None:
        self.entries += entries

    def of(self, url: str) -> list[dict[str, Any]]:
        return [dict(entry.source) for entry in self.entries if entry.source["url"] == url]


@pytest.fixture
def site() -> Iterator[FakeSite]:
    with FakeSite(ROUTES) as site:
        yield site


@pytest.fixture
def notebook(engine: Engine, tmp_path: Path, site: FakeSite) -> Notebook:
    """What was noted of a whole crawl of the site."""
    notebook = Notebook()
    taker: Any = notebook
    asyncio.run(_crawl(engine, tmp_path / "archive", site, CrawlLog(taker, "w1")))
    return notebook


async def _crawl(engine: Engine, folder: Path, site: FakeSite, on_written: CrawlLog) -> None:
    wanted = SiteSettings(seeds=(site.url("/"),), render=RenderMode.NEVER, allow_private=(site.host,))
    run_id = control.start(engine, control.create_or_update(engine, "sample", wanted), "test").run_id
    settings = CrawlerSettings(
        worker="w1",
        archive_folder=folder,
        fetcher=FetcherSettings(AGENT, timeout_s=5),
        renderer=RendererSettings(AGENT, timeout_s=10),
        limits=VisitLimits(),
        user_agent=AGENT,
        delay_s=1.0,
        concurrency=4,
    )
    stop = asyncio.Event()

    def end_with_the_run(_state: dict[str, int]) -> None:
        if control.progress(engine, run_id).run.state is RunState.FINISHED:
            stop.set()

    async with asyncio.timeout(60):
        await run_crawler(engine, settings, stop, end_with_the_run, on_written=on_written)


def test_a_crawl_leaves_one_entry_a_visit_and_one_a_refused_url(notebook: Notebook, site: FakeSite) -> None:
    (start,) = notebook.of(site.url("/"))
    assert start["event"] == "visit"
    assert start["status"] == "fetched"
    assert (start["site"], start["host"], start["run_id"]) == ("sample", site.host, 1)
    assert (start["http_status"], start["media_type"], start["size_bytes"]) == (200, "text/html", len(START.encode()))
    assert (start["rendered"], start["retries"], start["depth"], start["link_kind"]) == (False, 0, 0, "seed")
    assert start["capture_id"] >= 1
    assert 0 < start["first_byte_s"] <= start["total_s"]
    assert datetime.fromisoformat(start["at"]).tzinfo is not None

    (gone,) = notebook.of(site.url("/gone"))
    assert (gone["status"], gone["http_status"], gone["parent_url"]) == ("gone", 404, site.url("/"))
    (moved,) = notebook.of(site.url("/moved"))
    assert (moved["status"], moved["http_status"]) == ("redirection", 301)

    (refused,) = notebook.of(site.url("/secret/x"))
    assert (refused["event"], refused["status"], refused["reason"]) == ("visit", "rejected", "robots")
    assert "http_status" not in refused
    (away,) = notebook.of("http://elsewhere.example/")
    assert (away["event"], away["status"], away["reason"]) == ("refusal", "rejected", "scope")
    assert (away["host"], away["site"]) == ("elsewhere.example:80", "sample")


def test_each_try_of_a_failing_page_is_an_entry(notebook: Notebook, site: FakeSite) -> None:
    first, second = notebook.of(site.url("/odd"))
    assert (first["status"], first["reason"], first["http_status"], first["retries"]) == (
        *("fetch_error", "http_5xx"),
        *(500, 0),
    )
    assert "capture_id" not in first
    assert (second["status"], second["retries"]) == ("fetched", 1)
    assert len({entry.entry_id for entry in notebook.entries}) == len(notebook.entries)


def test_a_url_that_every_page_links_to_is_refused_once_a_run() -> None:
    def refusal(run_id: int) -> RejectedUrl:
        return RejectedUrl(run_id, "http://away.example/", "http://away.example/", Rejection.SCOPE, "http://a.example/")

    notebook = Notebook()
    taker: Any = notebook
    log = CrawlLog(taker, "w1")
    for run_id in (1, 1, 2, 1):
        log(Written((), (refusal(run_id),), {1: "sample"}))
    assert [entry.source["run_id"] for entry in notebook.entries] == [1, 2]


def test_two_workers_that_refuse_a_url_write_the_same_entry() -> None:
    refused = RejectedUrl(1, "http://away.example/", "http://away.example/", Rejection.SCOPE, "http://a.example/")
    written = Written((), (refused,), {1: "sample"})
    (one,), (two,) = (crawl_log_entries(written, worker, NOW) for worker in ("w1", "w2"))
    assert one.entry_id == two.entry_id


def test_what_is_no_url_is_an_entry_without_a_host() -> None:
    refused = RejectedUrl(1, "javascript:void(0)", "javascript:void(0)", Rejection.BAD_URL, "http://a.example/")
    (entry,) = crawl_log_entries(Written((), (refused,), {}), "w1", NOW)
    assert entry.source["reason"] == "bad_url"
    assert not {"host", "site"} & entry.source.keys()


def test_a_fault_of_the_log_never_reaches_the_crawler() -> None:
    class Broken:
        def add(self, _entries: object) -> None:
            raise RuntimeError("no")

    taker: Any = Broken()
    CrawlLog(taker, "w1")(Written((), (), {}))
