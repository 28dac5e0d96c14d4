"""Entries on their way into a log of Elasticsearch, in the background: whoever has one to add never waits.

A bounded buffer and one thread. While Elasticsearch is away entries are kept, up to a limit, then the oldest go, and
our own log says how many. That is on purpose: the logs are for looking at, and a page is never lost (see
services/indexer.py), but a crawl or a search that waited for its log would be worse than a gap in it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import structlog

from services.elastic import BulkOutcome, BulkResult, Elastic, IndexName, LogEntry

BUFFERED_ENTRIES = 20_000
"""About 20 MB at the most: a quarter of an hour of a busy crawler."""
BATCH_ENTRIES = 500
GATHER_S = 1.0
"""So long after the first entry a batch is sent, full or not."""
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
LEAVE_S = 3.0
"""How long the last entries may take when the process ends."""

log = structlog.get_logger(__name__)


class Appender:
    """Appends to one log. `add` may be called from any thread."""

    def __init__(
        self,
        elastic: Elastic,
        name: IndexName,
        buffered: int = BUFFERED_ENTRIES,
        gather_s: float = GATHER_S,
        first_pause_s: float = FIRST_PAUSE_S,
    ) -> None:
        self.lost = 0
        """Entries that never came into the log."""
        self._elastic = elastic
        self._name = name
        self._buffered = buffered
        self._gather_s = gather_s
        self._first_pause_s = first_pause_s
        self._entries: deque[LogEntry] = deque()
        self._lock = threading.Condition()
        self._ends_at: float | None = None
        self._told_lost = 0
        self._thread = threading.Thread(target=self._work, name=f"{name} appender", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Take entries; returns at once."""
        with self._lock:
            self._entries.extend(entries)
            while len(self._entries) > self._buffered:
                self._entries.popleft()
                self.lost += 1
            self._lock.notify()

    def close(self, within_s: float = LEAVE_S) -> None:
        """Send what is there, if that goes quickly, and end."""
        with self._lock:
            self._ends_at = time.monotonic() + within_s
            self._lock.notify()
        self._thread.join(within_s + 1.0)

    def _work(self) -> None:
        pause_s = 0.0
        while self._wait(pause_s):
            batch = self._take()
            try:
                held = self._send(batch)
            except Exception:  # A fault of ours must not end the thread: the buffer would fill for nothing.
                log.exception("log entries could not be sent", log=self._name.value)
                self.lost += len(batch)
                held = []
            self._give_back(held)
            self._tell_lost()
            if held and self._ends_at is not None:
                break
            pause_s = min(LONGEST_PAUSE_S, max(self._first_pause_s, 2 * pause_s)) if held else 0.0
        self.lost += len(self._entries)
        self._tell_lost()

    def _wait(self, pause_s: float) -> bool:
        """Until there is something to send and it is time to; False when all is over."""
        with self._lock:
            self._lock.wait_for(lambda: self._ends_at is not None or bool(self._entries))
            self._lock.wait_for(lambda: self._is_due(pause_s), timeout=pause_s or self._gather_s)
            is_late = self._ends_at is not None and time.monotonic() >= self._ends_at
            return bool(self._entries) and not is_late

    def _is_due(self, pause_s: float) -> bool:
        return self._ends_at is not None or (not pause_s and len(self._entries) >= BATCH_ENTRIES)

    def _take(self) -> list[LogEntry]:
        with self._lock:
            return [self._entries.popleft() for _ in range(min(BATCH_ENTRIES, len(self._entries)))]

    def _send(self, batch: list[LogEntry]) -> list[LogEntry]:
        """Those that must be sent again."""
        results = self._elastic.append(batch, self._name)
        refused = [result for result in results if result.outcome is BulkOutcome.REFUSED]
        if refused:
            self.lost += len(refused)
            log.warning("log entries refused", log=self._name.value, entries=len(refused), reason=refused[0].reason)
        return [entry for entry, result in zip(batch, results, strict=True) if _is_to_be_sent_again(result)]

    def _give_back(self, held: list[LogEntry]) -> None:
        with self._lock:
            room = max(0, self._buffered - len(self._entries))
            self.lost += max(0, len(held) - room)
            self._entries.extendleft(reversed(held[len(held) - min(room, len(held)) :]))

    def _tell_lost(self) -> None:
        if self.lost > self._told_lost:
            log.warning("log entries lost", log=self._name.value, entries=self.lost - self._told_lost)
            self._told_lost = self.lost


def _is_to_be_sent_again(result: BulkResult) -> bool:
    return result.outcome in (BulkOutcome.RETRY, BulkOutcome.BLOCKED)
