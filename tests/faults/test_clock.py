"""The clock is set back while everything is held by workers that are gone: nobody waits for the old time to come."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.crawl import LEASE_S, run_crawler
from crawler.records import RunState
from crawler.urls import urlkey
from tests.crawler.test_crawl import crawler_settings, settings_of, start, state_of
from tests.faults.known_site import KnownSite
from tests.site.fake_site import Request, Route

PAGES = 30


class BusySite(KnownSite):
    """While it is busy it asks to be left alone for an hour."""

    is_busy = False

    def _pick(self, request: Request) -> Route:
        if self.is_busy and request.target != "/robots.txt":
            return Route(request.target, status=503, headers=(("Retry-After", "3600"),))
        return super()._pick(request)


class Clock:
    """Runs like any other, until it is set."""

    def __init__(self) -> None:
        self.ahead = timedelta(0)

    def __call__(self) -> datetime:
        return datetime.now(UTC) + self.ahead


@pytest.mark.parametrize("back", [timedelta(hours=3), timedelta(days=400)])
def test_a_clock_that_is_set_back_in_the_middle_of_a_crawl_holds_nobody_up(
    engine: Engine, tmp_path: Path, back: timedelta
) -> None:
    clock = Clock()
    clock.ahead = back

    async def go(site: BusySite, run_id: int) -> None:
        stop = asyncio.Event()
        killed = asyncio.create_task(run_crawler(engine, crawler_settings(tmp_path, "killed"), stop, clock=clock))
        await until(lambda: len(site.log) > PAGES // 2)
        killed.cancel()  # its leases stay
        await asyncio.gather(killed, return_exceptions=True)
        other = asyncio.create_task(run_crawler(engine, crawler_settings(tmp_path, "other"), stop, clock=clock))
        clock.ahead += timedelta(seconds=2 * LEASE_S)
        site.is_busy = True
        asked = len(site.log)
        await until(lambda: len(site.log) > asked)
        clock.ahead = timedelta(0)  # set right, while the host is to be left alone for an hour of the wrong time
        site.is_busy = False
        await until(lambda: state_of(engine, run_id) is RunState.FINISHED)
        stop.set()
        await other

    with BusySite(PAGES, delay_s=0.02) as site:
        run_id = start(engine, settings_of(site))
        asyncio.run(go(site, run_id))
    with database.read(engine) as conn:
        kept = {url: captures.of_url(conn, urlkey(url)) for url in site.addresses}
    assert {url: len(found) for url, found in kept.items()} == dict.fromkeys(site.addresses, 1)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.02)
