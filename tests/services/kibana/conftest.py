"""A small site, crawled, indexed and searched for real, on the real node: what the charts are drawn of."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.crawl import CrawlerSettings, run_crawler
from crawler.fetcher import FetcherSettings
from crawler.records import RenderMode, RunState, SiteSettings
from crawler.renderer import RendererSettings
from crawler.visit import VisitLimits
from services import control
from services.appender import Appender
from services.config import Settings
from services.crawl_log import CrawlLog
from services.elastic import Elastic, ElasticUser, IndexName, credentials
from services.indexer import Indexer, extracting_processes
from services.kibana.charts import Period
from services.query_log import QuerySource, query_log_entry
from services.search.records import SearchQuery
from services.search.search import search
from tests.site.fake_site import FakeSite, Route

AGENT = "Plumbline/0.1"
HTML = [("Content-Type", "text/html; charset=utf-8")]
HOSTILE = "<script>alert(1)</script>\"'&<svg onload=x>"
SEARCHES = ("龙井", "龙井 茶园", "地下水位", "没有的词", "没有的词", HOSTILE)


def page(title: str, text: str, *links: str, published: str = "2026-03-05") -> str:
    anchors = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return (
        f'<!doctype html><html lang="zh"><head><meta charset="utf-8"><title>{title}</title>'
        f'<meta property="article:published_time" content="{published}"></head>'
        f"<body><article><h1>{title}</h1><p>{text * 4}</p></article><ul>{anchors}</ul></body></html>"
    )


ROUTES = (
    Route("/robots.txt", body="User-agent: *\nDisallow: /secret/\n", headers=[("Content-Type", "text/plain")]),
    Route(
        "/",
        body=page(
            "茶的首页", "这里介绍各地的茶叶和茶园。", "/longjing", "/water", "/gone", "/odd", "/secret/x", "http://away.example/"
        ),
        headers=HTML,
    ),
    Route("/longjing", body=page("西湖龙井", "龙井茶产于杭州西湖一带的茶园，清明前采摘。", "/"), headers=HTML),
    Route(
        "/water",
        body=page("地下水位监测站", "研究人员在监测站测量地下水位，数据每天公布。", published="2024-11-02"),
        headers=HTML,
    ),
    Route("/odd", status=500),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Crawled:
    """The stack after the crawl."""

    settings: Settings
    reader: Elastic
    site: FakeSite
    period: Period
    """In which all of it happened."""


@pytest.fixture(scope="session")
def crawled(node: Settings, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crawled]:
    folder = tmp_path_factory.mktemp("crawled")
    settings = node.model_copy(
        update={
            "index_prefix": f"{node.index_prefix}charts-",
            "database_url": f"sqlite:///{folder / 'crawl.db'}",
            "archive": folder / "archive",
            "extract_processes": 1,
        }
    )
    shutil.copy(sqlite_template, folder / "crawl.db")
    engine = database.open_database(settings.effective_database_url)
    with (
        Elastic(credentials(settings, ElasticUser.WRITER), settings.index_prefix) as writer,
        Elastic(credentials(settings, ElasticUser.APPENDER), settings.index_prefix) as appender,
        Elastic(credentials(settings, ElasticUser.READER), settings.index_prefix) as reader,
        FakeSite(ROUTES) as site,
    ):
        writer.ensure_indices()
        began = datetime.now(UTC) - timedelta(minutes=1)
        with Appender(appender, IndexName.CRAWL_LOG) as log:
            asyncio.run(_crawl(engine, settings, site, CrawlLog(log, "w1")))
        _index(settings, engine, writer)
        _search(reader, appender)
        for name in IndexName:
            writer.refresh(name)
        yield Crawled(settings, reader, site, Period(began, datetime.now(UTC) + timedelta(minutes=1)))
        writer.delete_indices()
    engine.dispose()


async def _crawl(engine: Engine, settings: Settings, site: FakeSite, on_written: CrawlLog) -> None:
    wanted = SiteSettings(seeds=(site.url("/"),), render=RenderMode.NEVER, allow_private=(site.host,))
    run_id = control.start(engine, control.create_or_update(engine, "tea", wanted), "test").run_id
    crawler_settings = CrawlerSettings(
        worker="w1",
        archive_folder=settings.archive_folder,
        fetcher=FetcherSettings(AGENT, timeout_s=5),
        renderer=RendererSettings(AGENT, timeout_s=10),
        limits=VisitLimits(max_tries=1),
        user_agent=AGENT,
        delay_s=1.0,
        concurrency=4,
    )
    stop = asyncio.Event()

    def end_with_the_run(_state: dict[str, int]) -> None:
        if control.progress(engine, run_id).run.state is RunState.FINISHED:
            stop.set()

    async with asyncio.timeout(60):
        await run_crawler(engine, crawler_settings, stop, end_with_the_run, on_written=on_written)


def _index(settings: Settings, engine: Engine, writer: Elastic) -> None:
    with extracting_processes(settings) as pool:
        indexer = Indexer(settings, engine, writer, pool, "indexer-1")
        while indexer.step():
            indexer.wait(0.05)
        assert indexer.indexed == 3
        indexer.leave()
    writer.refresh()


def _search(reader: Elastic, appender: Elastic) -> None:
    with Appender(appender, IndexName.QUERIES) as log:
        for text in SEARCHES:
            entry = query_log_entry(search(reader, SearchQuery(text)), QuerySource.WEB, datetime.now(UTC))
            assert entry is not None
            log.add([entry])
