"""Entries on their way into a log: nobody waits for them, and what is lost is said."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
import structlog

from services.appender import Appender
from services.config import Settings
from services.elastic import (
    BulkOutcome,
    BulkResult,
    Credentials,
    Elastic,
    ElasticUser,
    IndexName,
    LogEntry,
    credentials,
)


class Shelf(Elastic):
    """Takes entries as told, in place of a node: how a real one takes them, tests/services/test_elastic.py shows."""

    def __init__(self, *outcomes: BulkOutcome) -> None:
        super().__init__(Credentials("http://127.0.0.1:1", "", ""), "test-")
        self.taken: list[str] = []
        self.calls = 0
        self.gate = threading.Event()
        self.gate.set()
        self._outcomes = list(outcomes)

    def append(self, entries: Sequence[LogEntry], name: IndexName) -> tuple[BulkResult, ...]:
        self.gate.wait()
        self.calls += 1
        outcome = self._outcomes.pop(0) if self._outcomes else BulkOutcome.INDEXED
        if outcome is BulkOutcome.INDEXED:
            self.taken += [entry.entry_id for entry in entries]
        return tuple(BulkResult(entry.entry_id, outcome, "so it is") for entry in entries)


def entries(*numbers: int) -> list[LogEntry]:
    return [LogEntry(str(number), {"text": str(number)}) for number in numbers]


def filled(shelf: Shelf, *numbers: int, buffered: int = 100) -> Appender:
    """An appender that has been given entries and is closed again."""
    with Appender(shelf, IndexName.QUERIES, buffered, gather_s=0.01, first_pause_s=0.01) as appender:
        appender.add(entries(*numbers))
        appender.close()
    return appender


@pytest.fixture
def logged() -> Iterator[list[dict[str, object]]]:
    with structlog.testing.capture_logs() as captured:
        yield captured  # type: ignore[misc]


def test_entries_go_into_the_log_in_order() -> None:
    shelf = Shelf()
    assert filled(shelf, 1, 2, 3).lost == 0
    assert shelf.taken == ["1", "2", "3"]


def test_many_entries_go_in_few_requests() -> None:
    shelf = Shelf()
    filled(shelf, *range(1200), buffered=5000)
    assert len(shelf.taken) == 1200
    assert shelf.calls <= 4


def test_entries_wait_while_elasticsearch_is_away_and_come_in_once_in_order() -> None:
    shelf = Shelf(BulkOutcome.RETRY, BulkOutcome.BLOCKED)
    with Appender(shelf, IndexName.QUERIES, gather_s=0.0, first_pause_s=0.001) as appender:
        appender.add(entries(1, 2))
        wait_until(lambda: shelf.taken == ["1", "2"])
    assert shelf.calls == 3
    assert appender.lost == 0


def test_a_full_buffer_lets_the_oldest_go_and_says_so(logged: list[dict[str, object]]) -> None:
    shelf = Shelf()
    shelf.gate.clear()
    with Appender(shelf, IndexName.QUERIES, buffered=3, gather_s=0.0) as appender:
        appender.add(entries(1))
        wait_until(lambda: not appender._entries)  # that one is on its way, and stays there
        appender.add(entries(2, 3, 4, 5, 6))
        shelf.gate.set()
    assert shelf.taken == ["1", "4", "5", "6"]
    assert appender.lost == 2
    assert [(line["event"], line["entries"]) for line in logged] == [("log entries lost", 2)]


def test_adding_never_waits_for_elasticsearch() -> None:
    shelf = Shelf()
    shelf.gate.clear()
    with Appender(shelf, IndexName.QUERIES, buffered=10, gather_s=0.0) as appender:
        for number in range(1000):
            appender.add(entries(number))
        assert shelf.calls == 0
        shelf.gate.set()
    assert appender.lost >= 1000 - 10 - 500


def test_an_entry_that_is_refused_is_said_and_does_not_come_back(logged: list[dict[str, object]]) -> None:
    shelf = Shelf(BulkOutcome.REFUSED)
    appender = filled(shelf, 1)
    assert appender.lost == 1
    assert shelf.calls == 1
    assert logged[0]["reason"] == "so it is"


def test_an_end_without_elasticsearch_is_quick_and_tells_what_is_lost() -> None:
    shelf = Shelf(*[BulkOutcome.RETRY] * 100)
    appender = filled(shelf, 1, 2)
    assert appender.lost == 2
    assert shelf.calls <= 3


def test_an_entry_that_is_in_already_is_in() -> None:
    shelf = Shelf(BulkOutcome.SUPERSEDED)
    assert filled(shelf, 1).lost == 0


def test_without_a_node_nothing_is_raised() -> None:
    with (
        Elastic(Credentials("http://127.0.0.1:1", "", ""), "test-") as nowhere,
        Appender(nowhere, IndexName.QUERIES, gather_s=0.0, first_pause_s=0.01) as appender,
    ):
        appender.add(entries(1))
    assert appender.lost == 1


@pytest.mark.node
def test_the_appenders_user_can_do_all_of_it_and_twice_is_once(node_settings: Settings) -> None:
    prefix = node_settings.index_prefix
    with (
        Elastic(credentials(node_settings, ElasticUser.WRITER), prefix) as writer,
        Elastic(credentials(node_settings, ElasticUser.APPENDER), prefix) as elastic,
    ):
        writer.ensure_indices([IndexName.QUERIES])
        for _ in range(2):
            with Appender(elastic, IndexName.QUERIES, gather_s=0.0) as appender:
                appender.add(entries(1, 2))
            assert appender.lost == 0
        writer.refresh(IndexName.QUERIES)
        assert writer.count(name=IndexName.QUERIES) == 2


def wait_until(condition: object, limit_s: float = 10.0) -> None:
    """For what another thread does at once: a condition is looked at until it holds."""
    tick = threading.Event()
    for _ in range(int(limit_s / 0.005)):
        if condition():  # type: ignore[operator]
            return
        tick.wait(0.005)
    raise AssertionError("it did not happen")
