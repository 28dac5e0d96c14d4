"""A worker that is frozen until its lease is over: others go on, and what it says when it wakes up changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive, Severity
from crawler.crawl import LEASE_S, run_crawler
from crawler.records import RunState
from crawler.urls import urlkey
from services.config import Settings
from tests.crawler.test_crawl import crawler_settings, settings_of, start, state_of
from tests.faults.faulty_stack import FaultyStack, Losses, elsewhere, wait_for
from tests.faults.known_site import KnownSite
from tests.site.fake_site import Request, Route

PAGES = 20


class FreezingSite(KnownSite):
    """The first request for one of its pages gets no answer until the test says so."""

    frozen_path = "/page/7"

    def __init__(self, pages: int) -> None:
        super().__init__(pages)
        self.is_thawed = False
        self.asked_for_frozen = 0

    def _pick(self, request: Request) -> Route:
        route = super()._pick(request)
        if request.target == self.frozen_path:
            self.asked_for_frozen += 1
            if self.asked_for_frozen == 1:
                wait_for(lambda: self.is_thawed, "the thaw", 60)
        return route


def test_a_report_that_comes_after_the_lease_is_over_changes_nothing(engine: Engine, tmp_path: Path) -> None:
    """The first crawler's clock stands still, so that its lease is long over for the second one."""
    begun_at = datetime.now(UTC)

    async def go(site: FreezingSite, run_id: int) -> None:
        stop = asyncio.Event()
        first = asyncio.create_task(run(engine, tmp_path, "first", stop, lambda: begun_at))
        await until(lambda: site.asked_for_frozen == 1)
        later = begun_at + timedelta(seconds=3 * LEASE_S)
        second = asyncio.create_task(run(engine, tmp_path, "second", stop, lambda: later))
        await until(lambda: state_of(engine, run_id) is RunState.FINISHED)
        site.is_thawed = True
        await until(lambda: len(list(tmp_path.rglob("*first*.warc.gz"))) == 1)
        stop.set()
        await asyncio.gather(first, second)

    with FreezingSite(PAGES) as site:
        run_id = start(engine, settings_of(site))
        asyncio.run(go(site, run_id))
    assert site.asked_for_frozen == 2
    with database.read(engine) as conn:
        kept = {url: captures.of_url(conn, urlkey(url)) for url in site.addresses}
    assert {url: len(found) for url, found in kept.items()} == dict.fromkeys(site.addresses, 1)
    assert [finding for finding in Archive(tmp_path, engine).verify() if finding.severity is Severity.ERROR] == []


async def run(engine: Engine, folder: Path, worker: str, stop: asyncio.Event, clock: Callable[[], datetime]) -> None:
    settings = crawler_settings(folder, worker)
    await run_crawler(engine, settings, stop, clock=clock)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


@pytest.fixture
def faulty(node: Settings) -> Iterator[FaultyStack]:
    home = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
    faulty = FaultyStack(home, elsewhere(node, "frozen"))
    faulty.up()
    yield faulty
    faulty.down()
    shutil.rmtree(home)


@pytest.mark.long
@pytest.mark.node
@pytest.mark.parametrize("name", ["crawler", "indexer"])
def test_a_frozen_process_is_replaced_and_harmless_when_it_wakes_up(faulty: FaultyStack, name: str) -> None:
    with KnownSite(60, delay_s=0.05) as site:
        faulty.crawl(site)
        wait_for(lambda: len(site.log) > 10, "the crawl to begin")
        frozen = faulty.victims()[name]
        os.kill(frozen.pid, signal.SIGSTOP)
        helper = faulty.begin("process", name)
        try:
            faulty.wait_until_idle()
            assert faulty.losses(site) == Losses()
            site.edition += 1
            faulty.crawl(site)
            os.kill(frozen.pid, signal.SIGCONT)
            faulty.wait_until_idle()
            assert faulty.losses(site) == Losses()
        finally:
            helper.terminate()
            helper.communicate()
