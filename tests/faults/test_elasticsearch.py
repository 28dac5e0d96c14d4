"""A real Elasticsearch that takes no documents, or not all of them: nothing is lost, nobody hammers, it is said."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.records import Capture, IndexState
from services import control, indexer
from services.config import Settings, load_settings
from services.elastic import Elastic, ElasticUser, IndexName, credentials
from services.extraction import ExtractingProcesses, extracting_processes
from services.indexer import Indexer
from tests.crawler.archive.shelf import NOW, Shelf, make_page
from tests.faults.faulty_stack import wait_for

pytestmark = [pytest.mark.node, pytest.mark.slow]
PAGES = 30


@pytest.fixture(scope="module")
def pool() -> Iterator[ExtractingProcesses]:
    with extracting_processes(load_settings(extract_processes=1)) as pool:
        yield pool


class Desk:
    """An indexer on the suite's node, with waiting captures and a clock of the test's own."""

    def __init__(self, settings: Settings, engine: Engine, elastic: Elastic, pool: ExtractingProcesses) -> None:
        self.engine = engine
        self.elastic = elastic
        self.shelf = Shelf(engine, settings.archive_folder)
        self.now = NOW + timedelta(hours=1)
        self.indexer = Indexer(settings, engine, elastic, pool, "indexer-1", lambda: self.now)
        self._writer = credentials(settings, ElasticUser.WRITER)

    def keep(self, name: str) -> Capture:
        body = f"<title>{name}</title><p>{name}: this page has enough words to be worth its place.</p>"
        return self.shelf.keep(make_page(f"http://h.example/{name}", body.encode()))

    def work(self) -> None:
        """Until there is nothing to do at this time."""

        def is_done() -> bool:
            if self.indexer.step():
                self.indexer.wait(0.01)
                return False
            return True

        wait_for(is_done, "the indexer")

    def work_for(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now += timedelta(seconds=1)
            self.work()

    def states(self, kept: list[Capture]) -> set[tuple[IndexState, str | None]]:
        with database.read(self.engine) as conn:
            found = [captures.get(conn, capture.capture_id) for capture in kept]
        return {(capture.index_state, capture.index_error) for capture in found if capture is not None}

    def count(self) -> int:
        self.elastic.refresh()
        return self.elastic.count()

    def block(self, name: str, is_on: bool) -> None:
        """Set an index block, as Elasticsearch does it itself at its flood stage."""
        url = f"{self._writer.url}/{self.elastic.alias(IndexName.PAGES)}/_settings"
        body = json.dumps({f"index.blocks.{name}": True if is_on else None}).encode()
        token = base64.b64encode(f"{self._writer.user}:{self._writer.password}".encode()).decode()
        headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, body, headers, method="PUT")
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert json.loads(answer.read()) == {"acknowledged": True}


@pytest.fixture
def desk(node_settings: Settings, sqlite_template: Path, pool: ExtractingProcesses) -> Iterator[Desk]:
    Path(node_settings.effective_database_url.removeprefix("sqlite:///")).write_bytes(sqlite_template.read_bytes())
    engine = database.open_database(node_settings.effective_database_url)
    with Elastic(credentials(node_settings, ElasticUser.WRITER), node_settings.index_prefix) as elastic:
        desk = Desk(node_settings, engine, elastic, pool)
        yield desk
        desk.indexer.leave()
        desk.shelf.writer.close()
    engine.dispose()


@pytest.mark.parametrize("block", ["read_only_allow_delete", "read_only", "write"])
def test_a_block_is_waited_out(desk: Desk, block: str) -> None:
    kept = [desk.keep(f"first-{number}") for number in range(PAGES)]
    desk.work()
    desk.block(block, True)
    kept += [desk.keep(f"second-{number}") for number in range(PAGES)]
    asked = counted(desk)
    try:
        desk.work_for(60)
    finally:
        desk.block(block, False)
    assert desk.indexer.message.startswith("indexing is paused, Elasticsearch takes no documents now: ")
    assert "blocked" in desk.indexer.message
    assert len(asked) <= 7  # not hammered: once in ten seconds
    assert desk.count() == PAGES
    desk.work_for(11)
    assert desk.indexer.message == ""
    assert desk.states(kept) == {(IndexState.INDEXED, None)}
    assert desk.count() == 2 * PAGES


def counted(desk: Desk) -> list[int]:
    """From now on, the size of each bulk."""
    sizes: list[int] = []
    bulk = desk.elastic.bulk

    def counting(documents: Any, *others: Any) -> Any:
        if documents:
            sizes.append(len(documents))
        return bulk(documents, *others)

    desk.elastic.bulk = counting  # type: ignore[method-assign]
    return sizes


def test_a_document_that_the_mapping_refuses_is_shown_and_blocks_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoiled(document: Any, capture: Capture, *others: Any) -> dict[str, Any]:
        source = to_source(document, capture, *others)
        return source | ({"captured_at": "no time at all"} if "bad" in capture.url else {})

    to_source = indexer.to_source
    monkeypatch.setattr(indexer, "to_source", spoiled)
    good = [desk.keep(f"good-{number}") for number in range(PAGES)]
    bad = [desk.keep("bad-1"), desk.keep("bad-2")]
    good += [desk.keep(f"more-{number}") for number in range(PAGES)]
    desk.work()
    assert desk.states(good) == {(IndexState.INDEXED, None)}
    assert desk.count() == 2 * PAGES
    refused = control.refused_documents(desk.engine)
    assert sorted(document.url for document in refused) == [capture.url for capture in bad]
    assert all(document.error.startswith("Elasticsearch refused it: ") for document in refused)
    assert all("captured_at" in document.error for document in refused)
    monkeypatch.undo()
    with database.write(desk.engine) as conn:
        assert captures.requeue(conn, refused_only=True) == 2
    desk.work()
    assert desk.count() == 2 * PAGES + 2
