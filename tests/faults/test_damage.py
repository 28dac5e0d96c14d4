"""WARC files cut at their end or with a flipped bit: the record is named, and every other page is unharmed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive, Finding, Severity
from crawler.archive.captures import Located
from crawler.errors import CaptureDamaged
from crawler.records import RunState
from crawler.urls import urlkey
from tests.crawler.test_crawl import crawl_until, settings_of, start, state_of
from tests.faults.known_site import KnownSite

PAGES = 12


@dataclass(frozen=True, slots=True)
class Crawled:
    """A site in an archive, one capture a page."""

    engine: Engine
    folder: Path
    site: KnownSite

    @property
    def archive(self) -> Archive:
        return Archive(self.folder, self.engine)

    def located(self, number: int) -> Located:
        with database.read(self.engine) as conn:
            newest = captures.of_url(conn, urlkey(self.site.addresses[number]))[0]
            found = captures.locate(conn, newest.capture_id)
        assert found is not None
        return found

    def run(self) -> None:
        run_id = start(self.engine, settings_of(self.site))
        is_over: Callable[[], bool] = lambda: state_of(self.engine, run_id) is RunState.FINISHED  # noqa: E731
        asyncio.run(crawl_until(self.engine, self.folder, is_over))

    def harmed(self) -> list[int]:
        """The numbers of pages whose newest edition cannot be read."""
        numbers = []
        for number in range(PAGES):
            try:
                page = self.archive.read(self.located(number).capture.capture_id)
                assert self.site.text(number).encode() in page.body
            except CaptureDamaged:
                numbers.append(number)
        return numbers

    def errors(self) -> list[Finding]:
        return [finding for finding in self.archive.verify() if finding.severity is Severity.ERROR]


@pytest.fixture
def crawled(engine: Engine, tmp_path: Path) -> Crawled:
    with KnownSite(PAGES) as site:
        crawled = Crawled(engine, tmp_path / "archive", site)
        crawled.run()
    assert (crawled.harmed(), crawled.errors()) == ([], [])
    return crawled


@pytest.mark.parametrize("share", [0.02, 0.5, 0.98])
def test_a_flipped_bit_harms_one_page_which_is_named(crawled: Crawled, share: float) -> None:
    victim = crawled.located(5)
    file = crawled.folder / victim.own.warc_path
    content = bytearray(file.read_bytes())
    content[victim.own.offset + int(victim.own.length * share)] ^= 0b100
    file.write_bytes(content)
    (error,) = crawled.errors()
    assert (error.path, error.offset) == (victim.own.warc_path, victim.own.offset)
    assert error.capture_id == victim.capture.capture_id
    assert f"capture {victim.capture.capture_id} of {victim.capture.url}: " in error.message
    assert crawled.harmed() == [5]


def test_a_file_that_was_cut_harms_what_is_behind_the_cut(crawled: Crawled) -> None:
    by_offset = sorted(range(PAGES), key=lambda number: crawled.located(number).own.offset)
    cut_in, behind = by_offset[-2], by_offset[-1]
    victim = crawled.located(cut_in)
    file = crawled.folder / victim.own.warc_path
    file.write_bytes(file.read_bytes()[: victim.own.offset + victim.own.length // 2])
    errors = crawled.errors()
    assert {error.capture_id for error in errors} == {
        crawled.located(number).capture.capture_id for number in (cut_in, behind)
    }
    assert all(f"{victim.own.warc_path} ends before" in error.message for error in errors)
    assert crawled.harmed() == sorted((cut_in, behind))


def test_a_page_whose_archived_bytes_are_damaged_is_archived_anew_by_the_next_run(
    engine: Engine, tmp_path: Path
) -> None:
    """It has not changed, so a mere reference to the damaged record would lose it for good."""
    with KnownSite(PAGES) as site:
        crawled = Crawled(engine, tmp_path / "archive", site)
        crawled.run()
        victim = crawled.located(5)
        file = crawled.folder / victim.own.warc_path
        content = bytearray(file.read_bytes())
        content[victim.own.offset + victim.own.length // 2] ^= 0b100
        file.write_bytes(content)
        crawled.run()
        assert crawled.harmed() == [5]
        damaged = {error.capture_id for error in crawled.errors() if error.capture_id is not None}
        assert len(damaged) == 2  # the capture and the reference to it
        assert crawled.archive.fetch_anew(damaged) == 1
        crawled.run()
        assert crawled.harmed() == []
        assert damaged == {error.capture_id for error in crawled.errors()}
        crawled.run()
        assert crawled.harmed() == []
