"""The extracting processes are killed (the system does so when memory runs out): no page is refused for it."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import psutil
import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.records import Capture, IndexState
from services import indexer as indexer_module
from services.config import Settings
from services.elastic import BulkDocument, BulkOutcome, BulkResult
from services.ending import wait_until_gone
from services.extraction import extracting_processes
from services.indexer import Indexer
from tests.crawler.archive.shelf import NOW, Shelf, make_page
from tests.faults.faulty_stack import wait_for

pytestmark = pytest.mark.slow
PAGES = 12


class Index:
    """Takes every document."""

    def ensure_indices(self) -> None:
        pass

    def bulk(self, documents: Sequence[BulkDocument]) -> tuple[BulkResult, ...]:
        return tuple(BulkResult(document.document_id, BulkOutcome.INDEXED) for document in documents)


class Desk:
    """An indexer with processes of its own."""

    def __init__(self, settings: Settings, engine: Engine, pool: Any) -> None:
        self.engine = engine
        self.shelf = Shelf(engine, settings.archive_folder)
        self.now = NOW + timedelta(hours=1)
        index: Any = Index()
        self.indexer = Indexer(settings, engine, index, pool, "indexer-1", lambda: self.now)

    def keep(self, number: int) -> Capture:
        body = f"<title>{number}</title><p>Page {number} has enough words to be worth its place.</p>"
        return self.shelf.keep(make_page(f"http://h.example/{number}", body.encode()))

    def work(self) -> None:
        def is_done() -> bool:
            if self.indexer.step():
                self.indexer.wait(0.01)
                return False
            return True

        wait_for(is_done, "the indexer", 120)

    def states(self, kept: Sequence[Capture]) -> set[tuple[IndexState, str | None]]:
        with database.read(self.engine) as conn:
            found = [captures.get(conn, capture.capture_id) for capture in kept]
        return {(capture.index_state, capture.index_error) for capture in found if capture is not None}


@pytest.fixture
def desk(settings: Settings, engine: Engine) -> Iterator[Desk]:
    with extracting_processes(settings.model_copy(update={"extract_processes": 2})) as pool:
        desk = Desk(settings, engine, pool)
        first = desk.keep(0)
        desk.work()  # the processes are there
        assert desk.states([first]) == {(IndexState.INDEXED, None)}
        yield desk
        desk.indexer.leave()
        desk.shelf.writer.close()


def fork_server() -> psutil.Process:
    """The small process that extracting ones are forked from."""
    return next(
        child for child in psutil.Process().children() if "multiprocessing.forkserver" in " ".join(child.cmdline())
    )


def workers() -> list[psutil.Process]:
    return fork_server().children()


def kill_all(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        process.send_signal(signal.SIGKILL)
    assert not wait_until_gone(processes, 10)


@pytest.mark.parametrize("victims", [lambda: workers()[:1], workers, lambda: [fork_server()]])
@pytest.mark.parametrize("after_s", [0.0, pytest.param(0.5, marks=pytest.mark.long)])
def test_processes_that_are_killed_while_nothing_is_to_do_are_replaced(
    desk: Desk, victims: Callable[[], list[psutil.Process]], after_s: float
) -> None:
    kill_all(victims())
    threading.Event().wait(after_s)  # the pool may have seen it by then, or not
    kept = [desk.keep(number) for number in range(1, PAGES)]
    desk.work()
    assert desk.states(kept) == {(IndexState.INDEXED, None)}


@pytest.mark.parametrize("victims", [lambda: workers()[:1], workers, lambda: [fork_server(), *workers()]])
def test_processes_that_are_killed_at_work_are_replaced(
    desk: Desk, victims: Callable[[], list[psutil.Process]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexer_module, "_extract", slow_extract)
    kept = [desk.keep(number) for number in range(1, PAGES)]
    desk.indexer.step()
    kill_all(victims())
    desk.work()
    assert desk.states(kept) == {(IndexState.INDEXED, None)}


def slow_extract(source: Any) -> Any:
    time.sleep(0.1)
    return indexer_module.extract(source)
