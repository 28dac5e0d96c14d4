"""A full disk under the archive, and under the database: waited for, said, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive, Severity
from crawler.crawl import run_crawler
from crawler.records import RunState
from crawler.urls import urlkey
from services import control
from tests.crawler.test_crawl import crawler_settings, settings_of, start, state_of
from tests.faults.known_site import KnownSite

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk"),
]
DISK_BYTES = 6 << 20
PAGES = 60
PATIENCE_S = 120.0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of a few megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", str(place)])
    if mounted.returncode != 0:
        pytest.skip("no disk can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path) -> Path:
    """Leave no byte; the file to be removed again."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (1 << 16, 1 << 10, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue
    return filler


def crawl_over_a_full_disk(
    engine: Engine, archive: Path, disk: Path, site: KnownSite, is_waiting: Callable[[], bool]
) -> control.RunProgress:
    """Fill the disk in the middle of a crawl; free it when the crawler has begun to wait."""
    run_id = start(engine, settings_of(site))

    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not condition():
                await asyncio.sleep(0.02)

    async def go() -> None:
        stop = asyncio.Event()
        settings = replace(crawler_settings(archive), concurrency=4)
        crawler = asyncio.create_task(run_crawler(engine, settings, stop))
        try:
            await until(lambda: len(site.log) > PAGES // 4)
            filler = fill(disk)
            await until(is_waiting)
            filler.unlink()
            await until(lambda: state_of(engine, run_id) is RunState.FINISHED)
        finally:
            stop.set()
            await crawler

    asyncio.run(go())
    return control.progress(engine, run_id)


def assert_all_is_there(engine: Engine, archive: Path, site: KnownSite, progress: control.RunProgress) -> None:
    assert (progress.fetched, progress.errors) == (PAGES, {})
    with database.read(engine) as conn:
        found = {url: captures.of_url(conn, urlkey(url)) for url in site.addresses}
    assert {url: len(kept) for url, kept in found.items()} == dict.fromkeys(site.addresses, 1)
    reader = Archive(archive, engine)
    for number, (kept,) in enumerate(found.values()):
        assert site.text(number).encode() in reader.read(kept.capture_id).body
    assert [finding for finding in reader.verify() if finding.severity is Severity.ERROR] == []


def test_a_full_disk_under_the_archive_is_waited_for(
    engine: Engine, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with KnownSite(PAGES, delay_s=0.02) as site:
        waits = Said(capsys, "waiting for disk or database")
        progress = crawl_over_a_full_disk(engine, small_disk / "archive", small_disk, site, waits)
        assert_all_is_there(engine, small_disk / "archive", site, progress)
    assert "No space left on device" in waits.text


def test_a_full_disk_under_the_database_is_waited_for(
    small_disk: Path, sqlite_template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small_disk / "crawl.db").write_bytes(sqlite_template.read_bytes())
    engine = database.open_database(f"sqlite:///{small_disk / 'crawl.db'}")
    with KnownSite(PAGES, delay_s=0.02) as site:
        waits = Said(capsys, "waiting for disk or database")
        progress = crawl_over_a_full_disk(engine, tmp_path / "archive", small_disk, site, waits)
        assert_all_is_there(engine, tmp_path / "archive", site, progress)
    assert "database or disk is full" in waits.text
    engine.dispose()


class Said:
    """Whether the log has said some words; all that it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], words: str) -> None:
        self._capsys = capsys
        self._words = words
        self.text = ""

    def __call__(self) -> bool:
        self.text += self._capsys.readouterr().out
        return self._words in self.text
