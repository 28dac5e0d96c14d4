"""What Prometheus is told, and the only user of its client.

Each process counts what it does itself; the scheduler also says how much waits, which it reads from the database.
Names begin with `plumbline_`; docs/operations.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from crawler.crawl import Written
    from crawler.records import Capture

CONTENT_TYPE = CONTENT_TYPE_LATEST
_FETCH_BUCKETS_S = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SEARCH_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 20)
_DELAY_BUCKETS_S = (0.5, 1, 2, 5, 10, 30, 60, 300, 3600, 86400)

VISITS = Counter("plumbline_visits", "Visits of URLs by how they ended.", ["status"])
FETCHED_BYTES = Counter("plumbline_fetched_bytes", "Bytes of the bodies that were fetched.")
FETCH_SECONDS = Histogram("plumbline_fetch_seconds", "Time of one fetch or rendering.", buckets=_FETCH_BUCKETS_S)
FETCH_ERRORS = Counter("plumbline_fetch_errors", "Fetches that failed, by kind.", ["kind"])
REJECTIONS = Counter("plumbline_rejections", "URLs that were refused, by reason.", ["reason"])
DOCUMENTS = Counter("plumbline_documents", "Documents by what became of them in Elasticsearch.", ["outcome"])
INDEX_DELAY_SECONDS = Histogram(
    "plumbline_index_delay_seconds", "From the capture of a page until it is indexed.", buckets=_DELAY_BUCKETS_S
)
BULK_SECONDS = Histogram("plumbline_bulk_seconds", "Time of one bulk request.", buckets=_FETCH_BUCKETS_S)
SEARCH_SECONDS = Histogram("plumbline_search_seconds", "Time of one search.", buckets=_SEARCH_BUCKETS_S)


@dataclass(frozen=True, slots=True)
class Backlog:
    """What waits in the whole stack."""

    queued_urls: int
    waiting_captures: int
    running_runs: int


def note_written(written: Written) -> None:
    """What a crawler has put down."""
    for visit, _ in written.visits:
        outcome, page = visit.outcome, visit.answer
        VISITS.labels(outcome.status.value).inc()
        if outcome.status.value == "fetch_error":
            FETCH_ERRORS.labels(outcome.reason or "unknown").inc()
        if page is not None:
            FETCHED_BYTES.inc(len(page.body))
            FETCH_SECONDS.observe(page.times.total_s)
    for refused in written.refused:
        REJECTIONS.labels(refused.reason.value).inc()


def note_documents(outcome: str, captures: Iterable[Capture]) -> None:
    """What became of the documents of some captures."""
    now = datetime.now(UTC)
    for capture in captures:
        DOCUMENTS.labels(outcome).inc()
        if outcome == "indexed":
            INDEX_DELAY_SECONDS.observe(max(0.0, (now - capture.captured_at).total_seconds()))


def tell_backlog(read: Callable[[], Backlog], registry: CollectorRegistry = REGISTRY) -> None:
    """Have what waits read anew each time that Prometheus asks."""
    registry.register(_BacklogCollector(read))


def exposition(registry: CollectorRegistry = REGISTRY) -> bytes:
    """All metrics of this process, as Prometheus reads them."""
    return generate_latest(registry)


class _BacklogCollector(Collector):
    def __init__(self, read: Callable[[], Backlog]) -> None:
        self._read = read

    def describe(self) -> Iterable[GaugeMetricFamily]:
        """Nothing is read when it is registered."""
        return ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        backlog = self._read()
        yield GaugeMetricFamily("plumbline_queued_urls", "URLs that wait to be visited.", backlog.queued_urls)
        yield GaugeMetricFamily(
            "plumbline_waiting_captures", "Captures that wait to be indexed.", backlog.waiting_captures
        )
        yield GaugeMetricFamily("plumbline_running_runs", "Runs under way.", backlog.running_runs)
