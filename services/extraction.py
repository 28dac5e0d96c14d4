"""The processes in which pages are read: apart from the indexer, so that a page that hangs or dies costs only itself.

They are replaced when they end, or have read many pages. Where the pool itself is broken (pebble's is when one of
its processes is killed while none has anything to do) a new one takes its place.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

import structlog
from pebble import ProcessPool

from services.config import Settings

TASKS_PER_PROCESS = 1000
"""Then it is replaced: what leaks in a parser does not add up."""
PROCESS_MEMORY_BYTES = 4 << 30
"""Address space of an extracting process; a page that wants more is refused."""
LEAVE_S = 5.0

A = TypeVar("A")
R = TypeVar("R")

log = structlog.get_logger(__name__)


@contextmanager
def extracting_processes(settings: Settings) -> Iterator[ExtractingProcesses]:
    """Processes that are there until the end of the block."""
    processes = ExtractingProcesses(process_count(settings))
    try:
        yield processes
    finally:
        processes.close()


def process_count(settings: Settings) -> int:
    """One for each core unless the settings say otherwise."""
    return settings.extract_processes or os.cpu_count() or 1


class ExtractingProcesses:
    """A pool that outlives its processes."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._pool = _pool(count)

    def schedule(self, function: Callable[[A], R], argument: A, timeout_s: float) -> Future[R]:
        """Have a process call the function. The future raises TimeoutError, or ProcessExpired or BrokenProcessPool
        if the process, or all of them, ended meanwhile.
        """
        try:
            return self._pool.schedule(function, args=(argument,), timeout=timeout_s)
        except RuntimeError:
            log.warning("the extracting processes were killed; new ones are started")
            self.close()
            self._pool = _pool(self._count)
            return self._pool.schedule(function, args=(argument,), timeout=timeout_s)

    def close(self) -> None:
        """End them, with what they are at."""
        self._pool.stop()  # type: ignore[no-untyped-call]
        self._pool.join(LEAVE_S)


def _pool(count: int) -> ProcessPool:
    return ProcessPool(
        max_workers=count, max_tasks=TASKS_PER_PROCESS, initializer=_limit_memory, context=_process_context()
    )


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (PROCESS_MEMORY_BYTES, PROCESS_MEMORY_BYTES))


def _process_context() -> multiprocessing.context.BaseContext:
    """Processes are forked from a small one that has the extractor loaded, never from this one and its threads."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["extractor.extract"])
    return context
