"""The indexer: from a waiting capture to a document, and what becomes of those that cannot be one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pebble import ProcessPool

from crawler import database
from crawler.archive import captures
from crawler.database import urls
from crawler.errors import ArchiveError
from crawler.records import Capture, IndexState
from crawler.urls import document_id
from services import indexer as indexer_module
from services.config import Settings, load_settings
from services.elastic import BulkDocument, Elastic, ElasticUser, credentials
from services.errors import SearchUnavailable
from services.indexer import VERSION_STEP_BITS, Indexer, extracting_processes, run_indexer
from services.search.records import SearchQuery
from services.search.search import search
from tests.crawler.archive.shelf import NOW, Shelf, make_page
from tests.services.stumbling import stumbling_extract
from tests.services.troubled_node import BLOCKED, BUSY, CONFLICT, REFUSED, TroubledNode, no_trouble

PAGE = "<title>渠首_河湾网</title><body><h1>渠首</h1><p>渠首今天开闸放水，下游六座泵站同时投入运行。</p></body>"
DEADLINE_S = 60.0

pytestmark = pytest.mark.node


class Desk:
    """An indexer over a shelf and a node that can be unwell, with a clock of the test's own."""

    def __init__(self, settings: Settings, shelf: Shelf, pool: ProcessPool, node: TroubledNode) -> None:
        self.engine, self.shelf, self.node = shelf.engine, shelf, node
        self.elastic = Elastic(node.credentials, settings.index_prefix)
        self.now = NOW + timedelta(hours=1)
        self.indexer = Indexer(settings, shelf.engine, self.elastic, pool, "indexer-1", lambda: self.now)

    def work(self) -> None:
        """Until there is nothing to do now."""
        deadline = time.monotonic() + DEADLINE_S
        while self.indexer.step():
            self.indexer.wait(0.01)
            assert time.monotonic() < deadline

    def state(self, capture: Capture) -> tuple[IndexState, str | None]:
        with database.read(self.engine) as conn:
            found = captures.get(conn, capture.capture_id)
        assert found is not None
        return found.index_state, found.index_error

    def sent(self) -> list[list[str]]:
        return [[document.source["url"] for document in bulk if document.source] for bulk in self.node.bulks]


@pytest.fixture
def shelf(node_settings: Settings, sqlite_template: Path) -> Iterator[Shelf]:
    Path(node_settings.effective_database_url.removeprefix("sqlite:///")).write_bytes(sqlite_template.read_bytes())
    engine = database.open_database(node_settings.effective_database_url)
    shelf = Shelf(engine, node_settings.archive_folder)
    yield shelf
    shelf.writer.close()
    engine.dispose()


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    with extracting_processes(load_settings(extract_processes=1)) as pool:
        yield pool


@pytest.fixture
def troubled(node_settings: Settings) -> Iterator[TroubledNode]:
    with TroubledNode(credentials(node_settings, ElasticUser.WRITER)) as troubled:
        yield troubled


@pytest.fixture
def desk(node_settings: Settings, shelf: Shelf, pool: ProcessPool, troubled: TroubledNode) -> Iterator[Desk]:
    desk = Desk(node_settings, shelf, pool, troubled)
    yield desk
    desk.indexer.leave()
    desk.elastic.close()


def page(name: str, html: str = PAGE, **options: Any) -> Any:
    return make_page(f"http://h.example/{name}", html.encode(), **options)


def test_a_capture_becomes_a_document_fenced_by_its_generation(desk):
    capture = desk.shelf.keep(page("a"))
    desk.work()
    ((document,),) = desk.node.bulks
    assert document.document_id == document_id(capture.urlkey)
    assert document.version == capture.generation << VERSION_STEP_BITS
    assert document.source["title"] == "渠首"
    assert document.source["capture_id"] == capture.capture_id
    assert (document.source["host"], document.source["path"]) == ("h.example:80", "/a")
    assert "links" not in document.source and "author" not in document.source
    assert desk.state(capture) == (IndexState.INDEXED, None)


def test_what_is_no_page_is_skipped_with_a_reason(desk):
    missing = desk.shelf.keep(page("missing", status=404))
    picture = desk.shelf.keep(make_page("http://h.example/p.png", b"\x89PNG", headers=(("Content-Type", "image/png"),)))
    empty = desk.shelf.keep(page("empty", "<script>1</script>"))
    desk.work()
    assert desk.state(missing) == (IndexState.SKIPPED, "the server answered 404")
    assert desk.state(picture) == (IndexState.SKIPPED, "image/png is not text")
    assert desk.state(empty) == (IndexState.SKIPPED, "the page shows no text")
    assert desk.node.bulks == []


def test_the_rendered_page_is_what_is_indexed(desk):
    desk.shelf.keep(page("a", "<script>write()</script>", rendered="<body><p>脚本写出的渠首消息。</p></body>"))
    desk.work()
    assert desk.node.bulks[0][0].source["body"] == "脚本写出的渠首消息。"


def test_a_refused_document_is_recorded_and_holds_nobody_up(desk):
    bad, good = desk.shelf.keep(page("bad")), desk.shelf.keep(page("good"))
    desk.node.tell = lambda document: REFUSED if "bad" in document.source["url"] else None
    desk.work()
    assert desk.state(bad) == (IndexState.REFUSED, "Elasticsearch refused it: failed to parse field [published_at]")
    assert desk.state(good) == (IndexState.INDEXED, None)
    desk.now += timedelta(hours=1)
    desk.work()
    assert len(desk.node.bulks) == 1


def test_a_busy_answer_is_tried_again_later_and_alone(desk):
    captured = [desk.shelf.keep(page(name)) for name in "ab"]
    desk.node.tell = lambda document: BUSY if document.source["url"].endswith("b") else None
    desk.work()
    assert [desk.state(capture) for capture in captured] == [
        (IndexState.INDEXED, None),
        (IndexState.WAITING, "queue full"),
    ]
    desk.work()
    assert len(desk.node.bulks) == 1
    desk.node.tell = no_trouble
    desk.now += timedelta(seconds=2)
    desk.work()
    assert desk.sent()[1:] == [["http://h.example/b"]]
    assert desk.state(captured[1]) == (IndexState.INDEXED, None)


def test_a_node_whose_disk_is_full_is_asked_seldom_and_loses_nothing(desk):
    captured = [desk.shelf.keep(page(name)) for name in "abc"]
    desk.node.tell = lambda _: BLOCKED
    desk.work()
    for _ in range(30):
        desk.now += timedelta(seconds=1)
        desk.work()
    assert len(desk.node.bulks) <= 5
    assert "indexing is paused" in desk.indexer.message and "flood-stage" in desk.indexer.message
    assert {desk.state(capture)[0] for capture in captured} == {IndexState.WAITING}
    desk.node.tell = no_trouble
    desk.now += timedelta(seconds=15)
    desk.work()
    assert {desk.state(capture) for capture in captured} == {(IndexState.INDEXED, None)}
    assert desk.indexer.message == ""


def test_a_page_that_hangs_or_kills_its_process_costs_only_itself(desk, monkeypatch):
    monkeypatch.setattr(indexer_module, "_extract", stumbling_extract)
    desk.indexer._timeout_s = 5.0
    names = ("hang", "die", "raise", "fine")
    captured = {name: desk.shelf.keep(page(name)) for name in names}
    desk.work()
    states = {name: desk.state(captured[name]) for name in names}
    assert states["hang"] == (IndexState.REFUSED, "its text could not be taken out within 5 seconds")
    assert states["die"][0] is IndexState.REFUSED and "ended the extracting process" in states["die"][1]
    assert states["raise"] == (IndexState.REFUSED, "its text could not be taken out: ValueError: odd page")
    assert states["fine"] == (IndexState.INDEXED, None)


def test_a_page_whose_process_was_killed_by_somebody_else_is_taken_out_again(desk, monkeypatch, tmp_path):
    """The system kills when memory runs out, and not always the one to blame; a frozen machine looks like a hang."""
    monkeypatch.setattr(indexer_module, "_extract", extract_at_second_try)
    captured = [desk.shelf.keep(page(f"{name}?{tmp_path}")) for name in ("die", "hang")]
    desk.indexer._timeout_s = 3.0
    desk.work()
    assert {desk.state(capture) for capture in captured} == {(IndexState.INDEXED, None)}


def extract_at_second_try(source: Any) -> Any:
    """In a process of the pool: the first try of each page ends badly."""
    address, _, folder = source.url.partition("?")
    mark = Path(folder) / address.rpartition("/")[2]
    if not mark.exists():
        mark.touch()
        return stumbling_extract(replace(source, url=address))
    return indexer_module.extract(source)


def test_an_archive_that_cannot_be_read_now_is_read_later(desk, monkeypatch):
    capture = desk.shelf.keep(page("a"))
    monkeypatch.setattr(desk.indexer._archive, "read", unreadable)
    desk.work()
    assert desk.state(capture) == (IndexState.WAITING, "cannot read a.warc.gz: Input/output error")
    monkeypatch.undo()
    desk.now += timedelta(minutes=1)
    desk.work()
    assert desk.state(capture) == (IndexState.INDEXED, None)


def unreadable(_capture_id: int) -> Any:
    raise ArchiveError("cannot read a.warc.gz: Input/output error")


def test_a_node_that_goes_away_between_two_questions_is_waited_for(desk):
    capture = desk.shelf.keep(page("a"))
    desk.node.tell = lambda _: CONFLICT
    desk.node.is_away = lambda path: "_bulk" not in path and len(desk.node.bulks) == 1
    desk.work()
    state, reason = desk.state(capture)
    assert state is IndexState.WAITING and reason
    desk.node.is_away = lambda _: False
    desk.node.tell = no_trouble
    desk.now += timedelta(minutes=1)
    desk.work()
    assert desk.state(capture) == (IndexState.INDEXED, None)


def test_what_it_waited_for_is_forgotten_once_the_indices_are_there(desk):
    desk.node.is_away = lambda _: True
    desk.work()
    assert desk.indexer.message
    desk.node.is_away = lambda _: False
    desk.now += timedelta(seconds=2)
    desk.work()
    assert desk.indexer.message == ""


@pytest.mark.parametrize("trouble", [BLOCKED, BUSY])
def test_a_clock_that_is_set_back_keeps_nobody_waiting(desk, trouble):
    capture = desk.shelf.keep(page("a"))
    desk.node.tell = lambda _: trouble
    desk.work()
    desk.node.tell = no_trouble
    desk.now -= timedelta(days=1)
    desk.work()
    assert desk.state(capture) == (IndexState.INDEXED, None)


def test_the_lease_of_a_killed_indexer_ends_though_the_clock_was_set_back(desk):
    capture = desk.shelf.keep(page("a"))
    with database.write(desk.engine) as conn:
        captures.claim_waiting(conn, "killed", desk.now, 10, indexer_module.LEASE_S)
    desk.work()
    assert desk.state(capture)[0] is IndexState.WAITING
    desk.now -= timedelta(days=1)
    desk.work()
    assert desk.state(capture) == (IndexState.INDEXED, None)


def test_a_withdrawn_document_leaves_the_index_and_a_later_visit_brings_it_back(desk):
    capture = desk.shelf.keep(page("a"))
    desk.work()
    with database.write(desk.engine) as conn:
        conn.execute(urls.update().values(capture_id=capture.capture_id))
        captures.withdraw(conn, [capture.url_id], desk.now)
    desk.work()
    ((deletion,),) = [bulk for bulk in desk.node.bulks if bulk[0].source is None]
    assert deletion.document_id == document_id(capture.urlkey)
    assert capture.generation << VERSION_STEP_BITS < deletion.version < (capture.generation + 1) << VERSION_STEP_BITS
    with database.read(desk.engine) as conn:
        assert captures.withdrawn(conn, 10) == []


def test_a_damaged_capture_is_refused(desk):
    capture = desk.shelf.keep(page("a"))
    for path in desk.shelf.files():
        path.write_bytes(b"")
    desk.work()
    state, reason = desk.state(capture)
    assert state is IndexState.REFUSED and reason


def test_the_same_visit_extracted_again_goes_above_partial_updates(desk):
    capture = desk.shelf.keep(page("a"))
    name, version = document_id(capture.urlkey), capture.generation << VERSION_STEP_BITS
    desk.elastic.ensure_indices()
    desk.elastic.bulk([BulkDocument(name, version + 3, {"title": "三次小改之后"})])
    desk.work()
    assert [bulk[0].version for bulk in desk.node.bulks[1:]] == [version, version + 4]
    assert desk.state(capture)[0] is IndexState.INDEXED


def test_a_newer_page_is_never_overwritten(desk):
    capture = desk.shelf.keep(page("a"))
    newer = BulkDocument(document_id(capture.urlkey), (capture.generation + 1) << VERSION_STEP_BITS, {"title": "新版"})
    desk.elastic.ensure_indices()
    desk.elastic.bulk([newer])
    desk.work()
    assert len(desk.node.bulks) == 2
    assert desk.state(capture) == (IndexState.SKIPPED, "a newer version is indexed")


def test_what_is_not_done_when_the_indexer_leaves_waits_for_the_next(desk):
    capture = desk.shelf.keep(page("a"))
    desk.indexer.step()
    desk.indexer.leave()
    with database.write(desk.engine) as conn:
        assert [found.capture_id for found in captures.claim_waiting(conn, "indexer-2", desk.now, 10, 60)] == [
            capture.capture_id
        ]


def test_pages_become_searchable_one_after_the_other_while_the_indexer_runs(node_settings, sqlite_template, tmp_path):
    Path(node_settings.effective_database_url.removeprefix("sqlite:///")).write_bytes(sqlite_template.read_bytes())
    engine = database.open_database(node_settings.effective_database_url)
    shelf = Shelf(engine, node_settings.archive_folder)
    shelf.keep(page("first"))
    stop = threading.Event()
    process = threading.Thread(target=run_indexer, args=(node_settings, engine, stop))
    process.start()
    try:
        with Elastic(credentials(node_settings, ElasticUser.READER), node_settings.index_prefix) as reader:
            wait_for(lambda: is_found(reader, "渠首 放水"))
            shelf.keep(page("second", PAGE.replace("开闸", "关闸")))
            wait_for(lambda: is_found(reader, "关闸"))
            hit = search(reader, SearchQuery("关闸")).hits[0]
            assert hit.plain_title == "渠首" and hit.url == "http://h.example/second"
    finally:
        stop.set()
        process.join()
        shelf.writer.close()
        engine.dispose()


def is_found(reader: Elastic, text: str) -> bool:
    try:
        return search(reader, SearchQuery(text)).total == 1
    except SearchUnavailable:  # the index is being made
        return False


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
