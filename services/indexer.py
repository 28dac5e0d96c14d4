"""The indexer process: waiting captures become documents in Elasticsearch.

    claim (lease) ─► read the archive ─► extract, in processes ─► bulk ─► mark

A capture waits in the database until Elasticsearch has said that its document is in, so nothing is lost whatever is
killed when. Extraction runs apart: a page that hangs or kills its process costs its time limit and is refused. As
many captures are under way as the processes can take (back-pressure). Every write carries the generation of the
visit, so that a late one never overwrites a newer page.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import structlog
from pebble import ProcessExpired

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive
from crawler.database import Engine
from crawler.errors import ArchiveError, CaptureDamaged, CaptureMissing, DatabaseError
from crawler.records import Capture, IndexState
from crawler.urls import document_id, host_of
from extractor.errors import NotText
from extractor.extract import extract, is_readable, media_type
from extractor.records import Document, Source, iso_time
from services import control, metrics
from services.config import Settings
from services.elastic import (
    BulkDocument,
    BulkOutcome,
    BulkResult,
    Elastic,
    ElasticUser,
    credentials,
)
from services.errors import NotFound, SearchRefused, SearchUnavailable
from services.extraction import ExtractingProcesses, extracting_processes, process_count
from services.worker_names import worker_name

VERSION_STEP_BITS = 20
"""A document's version is its generation times 2^20: the small steps of partial updates never reach the next one."""
LEASE_S = 60.0
"""A killed indexer's captures are taken over after this long."""
RENEW_S = 15.0
UNDER_WAY_PER_PROCESS = 8
"""Keeps the processes busy while a bulk is on its way, and bounds what is held in memory."""
BULK_DOCUMENTS = 100
BULK_CHARS = 5_000_000
BULK_AGE_S = 0.5
"""A document waits for others at most this long: a page is to be searchable two seconds after it was fetched."""
IDLE_POLL_S = 0.25
BEAT_S = 5.0
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
BLOCKED_PAUSE_S = 10.0
"""Asked this seldom, a node whose disk is full sees at most four requests in half a minute."""
TRIES = 2
"""Of a page whose extracting process ends or takes too long."""
TRIES_OF_INNOCENTS = 5
"""Of a page that was under way when all of them ended."""
READ_AGAIN_S = 10.0
"""A disk that could not be read is asked again after this long."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Task:
    """A capture under way."""

    capture: Capture
    site_key: str
    future: Future[Document]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A document on its way into the next bulk."""

    capture: Capture
    bulk: BulkDocument
    chars: int
    ready_at: float


class Indexer:
    """One indexer. `step` does a bit of everything and returns whether there was anything to do."""

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        elastic: Elastic,
        pool: ExtractingProcesses,
        worker: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._engine = engine
        self._elastic = elastic
        self._pool = pool
        self._worker = worker
        self._clock = clock
        self._archive = Archive(settings.archive_folder, engine)
        self._timeout_s = settings.extract_timeout_s
        self._most_under_way = process_count(settings) * UNDER_WAY_PER_PROCESS
        self._tasks: dict[int, _Task] = {}
        self._ready: list[_Ready] = []
        self._stumbles: Counter[int] = Counter()
        self._sites: dict[int, str] = {}
        self._indices_made = False
        self._paused_until: datetime | None = None
        self._pauses = 0
        self._renewed_at = time.monotonic()
        self.indexed = 0
        self.message = ""
        """What holds it up, for people; empty while all is well."""

    def step(self) -> bool:
        """Take what is extracted, send what is due, claim what fits. Raises DatabaseError."""
        if self._is_paused():
            return False
        self._collect()
        self._renew()
        sent = self._send_if_due()
        withdrew = self._withdraw()
        claimed = self._claim()
        return sent or withdrew or claimed or bool(self._tasks)

    def wait(self, idle_s: float = IDLE_POLL_S) -> None:
        """Until an extraction ends, but no longer than until the next look."""
        futures = [task.future for task in self._tasks.values()]
        if futures:
            wait(futures, timeout=min(idle_s, BULK_AGE_S / 2), return_when=FIRST_COMPLETED)
        else:
            time.sleep(min(idle_s, BULK_AGE_S / 2) if self._ready else idle_s)

    def state(self) -> dict[str, Any]:
        """What it is doing, for people."""
        return {"indexed": self.indexed, "under_way": len(self._tasks) + len(self._ready), "message": self.message}

    def leave(self) -> None:
        """Give back what is not done."""
        for task in self._tasks.values():
            task.future.cancel()
        held = [*self._tasks, *(ready.capture.capture_id for ready in self._ready)]
        if held:
            with database.write(self._engine) as conn:
                captures.defer(conn, self._worker, held, None, None)
        self._tasks.clear()
        self._ready.clear()

    def _claim(self) -> bool:
        room = self._most_under_way - len(self._tasks) - len(self._ready)
        if room <= 0 or not self._make_indices():
            return False
        with database.read(self._engine) as conn:
            if not captures.has_waiting(conn, self._clock()):
                return False
        with database.write(self._engine) as conn:
            claimed = captures.claim_waiting(conn, self._worker, self._clock(), room, LEASE_S)
        for capture in claimed:
            self._begin(capture)
        return bool(claimed)

    def _begin(self, capture: Capture) -> None:
        if not 200 <= capture.status < 300:
            self._mark([capture], IndexState.SKIPPED, f"the server answered {capture.status}")
            return
        try:
            page = self._archive.read(capture.capture_id)
            site_key = self._site_key(capture.site_id)
        except (CaptureMissing, CaptureDamaged, NotFound) as exc:
            log.warning(
                "capture cannot be indexed",
                url=capture.url,
                capture=capture.capture_id,
                run=capture.run_id,
                reason=str(exc),
            )
            self._mark([capture], IndexState.REFUSED, str(exc))
            return
        except ArchiveError as exc:
            log.warning("waiting for the archive", capture=capture.capture_id, run=capture.run_id, reason=str(exc))
            self._defer([capture], READ_AGAIN_S, str(exc))
            return
        if page.dom_html is None and not is_readable(capture.content_type, page.body[:1024]):
            self._mark([capture], IndexState.SKIPPED, f"{media_type(capture.content_type, b'')} is not text")
            return
        source = Source(capture.url, page.body, capture.content_type, capture.captured_at, page.dom_html)
        future = self._pool.schedule(_extract, source, self._timeout_s)
        self._tasks[capture.capture_id] = _Task(capture, site_key, future)

    def _collect(self) -> None:
        for task in [task for task in self._tasks.values() if task.future.done()]:
            del self._tasks[task.capture.capture_id]
            self._take(task)

    def _take(self, task: _Task) -> None:
        outcome = self._outcome(task)
        if isinstance(outcome, Document):
            source = to_source(outcome, task.capture, task.site_key)
            version = task.capture.generation << VERSION_STEP_BITS
            bulk = BulkDocument(document_id(task.capture.urlkey), version, source)
            self._ready.append(_Ready(task.capture, bulk, len(outcome.body), time.monotonic()))
            return
        state, reason = outcome
        if state is IndexState.WAITING:
            self._defer([task.capture], 0.0, reason)
        else:
            self._mark([task.capture], state, reason)

    def _outcome(self, task: _Task) -> Document | tuple[IndexState, str]:
        try:
            result = task.future.result()
        except TimeoutError:
            return self._stumble(task.capture, f"its text could not be taken out within {self._timeout_s:g} seconds")
        except ProcessExpired as exc:
            return self._stumble(task.capture, f"it ended the extracting process (exit code {exc.exitcode})")
        except BrokenProcessPool:
            return self._stumble(task.capture, "all extracting processes were ended", TRIES_OF_INNOCENTS)
        except NotText as exc:
            return IndexState.SKIPPED, str(exc)
        except MemoryError:
            return IndexState.REFUSED, "its text could not be taken out with the memory that one page may have"
        except Exception as exc:
            log.exception(
                "extraction failed", url=task.capture.url, capture=task.capture.capture_id, run=task.capture.run_id
            )
            return IndexState.REFUSED, f"its text could not be taken out: {type(exc).__name__}: {exc}"
        if not result.body:
            return IndexState.SKIPPED, "the page shows no text"
        return result

    def _stumble(self, capture: Capture, reason: str, tries: int = TRIES) -> tuple[IndexState, str]:
        """Give a page another try: what the system killed, or froze, need not be to blame."""
        self._stumbles[capture.capture_id] += 1
        if self._stumbles[capture.capture_id] >= tries:
            del self._stumbles[capture.capture_id]
            return IndexState.REFUSED, reason
        log.warning(
            "page is tried again", url=capture.url, capture=capture.capture_id, run=capture.run_id, reason=reason
        )
        return IndexState.WAITING, reason

    def _send_if_due(self) -> bool:
        if not self._ready:
            return False
        age_s = time.monotonic() - self._ready[0].ready_at
        chars = sum(ready.chars for ready in self._ready)
        if len(self._ready) < BULK_DOCUMENTS and chars < BULK_CHARS and age_s < BULK_AGE_S and self._tasks:
            return False
        batch, self._ready = self._ready[:BULK_DOCUMENTS], self._ready[BULK_DOCUMENTS:]
        self._send(batch)
        return True

    def _send(self, batch: Sequence[_Ready]) -> None:
        sent = self._elastic.bulk([ready.bulk for ready in batch])
        results = self._resend_overtaken(batch, sent)
        by_outcome: dict[BulkOutcome, list[tuple[Capture, BulkResult]]] = {}
        for ready, result in zip(batch, results, strict=True):
            by_outcome.setdefault(result.outcome, []).append((ready.capture, result))
        self._finish(by_outcome)

    def _resend_overtaken(self, batch: Sequence[_Ready], results: Sequence[BulkResult]) -> list[BulkResult]:
        """Partial updates raise a version a little: the same visit, extracted again, goes one step above them."""
        lost = {r.document_id for r in results if r.outcome is BulkOutcome.SUPERSEDED}
        try:
            versions = self._elastic.versions(lost) if lost else {}
        except (SearchUnavailable, SearchRefused) as exc:
            return [
                BulkResult(r.document_id, BulkOutcome.RETRY, str(exc)) if r.document_id in lost else r for r in results
            ]
        again = {
            ready.bulk.document_id: replace(ready.bulk, version=versions[ready.bulk.document_id] + 1)
            for ready in batch
            if versions.get(ready.bulk.document_id, 0) >> VERSION_STEP_BITS == ready.capture.generation
        }
        resent = {result.document_id: result for result in self._elastic.bulk(list(again.values()))}
        return [resent.get(result.document_id, result) for result in results]

    def _finish(self, by_outcome: dict[BulkOutcome, list[tuple[Capture, BulkResult]]]) -> None:
        for outcome, those in by_outcome.items():
            metrics.note_documents(outcome.value, [capture for capture, _ in those])
        done = [capture for capture, _ in by_outcome.get(BulkOutcome.INDEXED, ())]
        self._mark(done, IndexState.INDEXED)
        self.indexed += len(done)
        overtaken = [capture for capture, _ in by_outcome.get(BulkOutcome.SUPERSEDED, ())]
        self._mark(overtaken, IndexState.SKIPPED, "a newer version is indexed")
        for capture, result in by_outcome.get(BulkOutcome.REFUSED, ()):
            log.warning(
                "document refused",
                url=capture.url,
                capture=capture.capture_id,
                run=capture.run_id,
                reason=result.reason,
            )
            self._mark([capture], IndexState.REFUSED, f"Elasticsearch refused it: {result.reason}")
        self._hold_back(by_outcome.get(BulkOutcome.RETRY, []), by_outcome.get(BulkOutcome.BLOCKED, []), bool(done))

    def _hold_back(
        self,
        busy: list[tuple[Capture, BulkResult]],
        blocked: list[tuple[Capture, BulkResult]],
        some_are_in: bool,
    ) -> None:
        if not busy and not blocked:
            self._pauses, self.message = 0, ""
            return
        if blocked:
            pause_s = BLOCKED_PAUSE_S
            self._pause(pause_s, f"indexing is paused, Elasticsearch takes no documents now: {blocked[0][1].reason}")
        else:
            pause_s = self._back_off_s()
            if not some_are_in:
                self._pause(pause_s, f"waiting for Elasticsearch: {busy[0][1].reason}")
        self._defer([capture for capture, _ in (*busy, *blocked)], pause_s, (blocked or busy)[0][1].reason)

    def _pause(self, seconds: float, message: str) -> None:
        if message != self.message:
            log.warning("indexing is paused", reason=message)
        self.message = message
        self._paused_until = self._clock() + timedelta(seconds=seconds)

    def _back_off_s(self) -> float:
        """Twice as long each time, with some chance in it, so that several indexers do not come back at once."""
        self._pauses += 1
        longest: float = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0 ** (self._pauses - 1))
        return longest * random.uniform(0.5, 1.0)

    def _is_paused(self) -> bool:
        """A pause that seems longer than any is over: the clock was set back."""
        if self._paused_until is None:
            return False
        left_s = (self._paused_until - self._clock()).total_seconds()
        if 0 < left_s <= LONGEST_PAUSE_S:
            return True
        self._paused_until = None
        return False

    def _withdraw(self) -> bool:
        """Take out of the index what is to leave it. Every indexer may do it: twice does no harm."""
        with database.read(self._engine) as conn:
            leaving = captures.withdrawn(conn, BULK_DOCUMENTS)
        if not leaving or not self._make_indices():
            return False
        # Above all steps of the newest visit, and below any later one.
        fences = [((left.generation + 1) << VERSION_STEP_BITS) - 1 for left in leaving]
        results = self._elastic.bulk(
            [BulkDocument(left.document_id, fence, None) for left, fence in zip(leaving, fences, strict=True)]
        )
        kept = [result for result in results if result.outcome in (BulkOutcome.RETRY, BulkOutcome.BLOCKED)]
        kept_ids = {result.document_id for result in kept}
        with database.write(self._engine) as conn:
            captures.forget_withdrawn(
                conn, [left.withdrawal_id for left in leaving if left.document_id not in kept_ids]
            )
        if kept:
            self._pause(self._back_off_s(), f"waiting for Elasticsearch: {kept[0].reason}")
        return True

    def _make_indices(self) -> bool:
        if self._indices_made:
            return True
        try:
            self._elastic.ensure_indices()
        except (SearchUnavailable, SearchRefused) as exc:
            self._pause(self._back_off_s(), str(exc))
            return False
        self._pauses, self.message = 0, ""
        self._indices_made = True
        return True

    def _renew(self) -> None:
        if time.monotonic() - self._renewed_at < RENEW_S:
            return
        self._renewed_at = time.monotonic()
        held = [*self._tasks, *(ready.capture.capture_id for ready in self._ready)]
        if held:
            with database.write(self._engine) as conn:
                captures.renew(conn, self._worker, held, self._clock(), LEASE_S)

    def _mark(self, marked: Iterable[Capture], state: IndexState, reason: str | None = None) -> None:
        ids = [capture.capture_id for capture in marked]
        if ids:
            with database.write(self._engine) as conn:
                captures.mark(conn, self._worker, ids, state, reason)

    def _defer(self, deferred: Iterable[Capture], seconds: float, reason: str | None) -> None:
        until = self._clock() + timedelta(seconds=seconds)
        with database.write(self._engine) as conn:
            captures.defer(conn, self._worker, [capture.capture_id for capture in deferred], until, reason)

    def _site_key(self, site_id: int) -> str:
        if site_id not in self._sites:
            self._sites[site_id] = control.get_site(self._engine, site_id).key
        return self._sites[site_id]


def to_source(document: Document, capture: Capture, site_key: str) -> dict[str, Any]:
    """A document as es-mappings/pages.json has it; what is not known is left out."""
    source = {
        "url": document.url,
        "url_id": capture.url_id,
        "capture_id": capture.capture_id,
        "generation": capture.generation,
        "site": site_key,
        "host": host_of(document.url),
        "path": urlsplit(document.url).path or "/",
        "title": document.title,
        "body": document.body,
        "description": document.description,
        "keywords": list(document.keywords),
        "author": document.author,
        "published_at": iso_time(document.published_at),
        "captured_at": iso_time(capture.captured_at),
        "language": document.language,
        "charset": document.charset,
        "kind": document.kind.value,
        "media_type": media_type(capture.content_type, b"") or None,
        "emails": list(document.emails),
        "digest": capture.digest,
        "size_bytes": capture.size_bytes,
        "fields": dict(document.fields),
    }
    return {name: value for name, value in source.items() if value not in (None, [], {})}


def run_indexer(
    settings: Settings, engine: Engine, stop: threading.Event, on_round: Callable[[], None] = lambda: None
) -> None:
    """Index until `stop` is set. What goes wrong with the database or Elasticsearch is waited for.

    `on_round` is called whenever the loop comes round.
    """
    worker = worker_name(control.WorkerKind.INDEXER)
    with (
        Elastic(credentials(settings, ElasticUser.WRITER), settings.index_prefix) as elastic,
        extracting_processes(settings) as pool,
    ):
        indexer = Indexer(settings, engine, elastic, pool, worker)
        try:
            _run(indexer, engine, worker, stop, on_round)
        finally:
            _take_leave(indexer, engine, worker)


def _run(indexer: Indexer, engine: Engine, worker: str, stop: threading.Event, on_round: Callable[[], None]) -> None:
    beaten_at = -BEAT_S
    while not stop.is_set():
        on_round()
        try:
            if time.monotonic() - beaten_at >= BEAT_S:
                control.beat(engine, worker, control.WorkerKind.INDEXER, os.getpid(), indexer.state())
                beaten_at = time.monotonic()
            if indexer.step():
                indexer.wait(0.05)
            else:
                stop.wait(IDLE_POLL_S)
        except DatabaseError as exc:
            log.warning("waiting for the database", error=str(exc))
            stop.wait(BEAT_S)


def _take_leave(indexer: Indexer, engine: Engine, worker: str) -> None:
    try:
        indexer.leave()
        control.forget(engine, worker)
    except DatabaseError as exc:
        log.warning("could not give captures back", error=str(exc))


def _extract(source: Source) -> Document:
    """In a process of the pool; links stay there, since the index does not hold them."""
    return replace(extract(source), links=())
