"""PostgreSQL is restarted, and killed, while two crawlers work on it: they wait, and every page is archived once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive, Severity
from crawler.crawl import run_crawler
from crawler.errors import DatabaseError
from crawler.records import RunState
from crawler.urls import urlkey
from services import control
from tests.crawler.test_crawl import crawler_settings, settings_of, start, state_of
from tests.databases import PostgresServer
from tests.faults.known_site import KnownSite

PAGES = 60


@pytest.mark.postgres
@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_of_the_database_is_waited_for(postgres: PostgresServer, tmp_path: Path, mode: str) -> None:
    engine = database.open_database(postgres.emptied_database())

    async def go(sites: tuple[KnownSite, ...], runs: list[int]) -> None:
        stop = asyncio.Event()
        crawlers = [
            asyncio.create_task(run_crawler(engine, crawler_settings(tmp_path, worker), stop))
            for worker in ("one", "two")
        ]
        for share in (4, 2):
            await until(lambda share=share: all(len(site.log) > PAGES // share for site in sites))  # type: ignore[misc]
            await asyncio.to_thread(postgres.restart, mode)
        await until(lambda: all(is_finished(run_id) for run_id in runs))
        stop.set()
        await asyncio.gather(*crawlers)

    def is_finished(run_id: int) -> bool:
        try:
            return state_of(engine, run_id) is RunState.FINISHED
        except DatabaseError:
            return False

    with KnownSite(PAGES, 0.02) as one, KnownSite(PAGES, 0.02, "127.0.0.2") as two:
        runs = [start(engine, settings_of(site)) for site in (one, two)]
        asyncio.run(go((one, two), runs))
    for run_id in runs:
        progress = control.progress(engine, run_id)
        assert (progress.fetched, progress.errors) == (PAGES, {})
    with database.read(engine) as conn:
        kept = {url: len(captures.of_url(conn, urlkey(url))) for site in (one, two) for url in site.addresses}
    assert set(kept.values()) == {1}
    assert [f for f in Archive(tmp_path, engine).verify() if f.severity is Severity.ERROR] == []
    engine.dispose()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.02)
