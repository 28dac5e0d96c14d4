"""Workers that were killed are recognised by those that come after them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.frontier import Frontier
from crawler.records import (
    CrawlUrl,
    IndexState,
    NewCapture,
    SiteSettings,
    StoredRecords,
)
from services import control
from services.control import WorkerKind
from services.worker_names import free_the_dead, is_surely_dead, worker_name

LEASE_S = 300  # no test takes so long
SAY_NAME = """
import sys
from services.control import WorkerKind
from services.worker_names import worker_name
print(worker_name(WorkerKind.CRAWLER), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def other() -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A worker in a process of its own, and its name."""
    process = subprocess.Popen(
        [sys.executable, "-c", SAY_NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip(), process
    process.kill()
    process.communicate()


def test_a_name_is_the_same_all_life_long_and_says_the_kind() -> None:
    assert worker_name(WorkerKind.CRAWLER) == worker_name(WorkerKind.CRAWLER)
    assert worker_name(WorkerKind.INDEXER).startswith("indexer-")


def test_a_killed_worker_is_dead_before_and_after_its_parent_has_noticed(
    other: tuple[str, subprocess.Popen[str]],
) -> None:
    name, process = other
    assert not is_surely_dead(name)
    os.kill(process.pid, signal.SIGSTOP)
    assert not is_surely_dead(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_surely_dead(name)
    process.wait()
    assert is_surely_dead(name)


def test_a_later_process_with_its_number_is_not_the_worker() -> None:
    place_and_pid, _, start = worker_name(WorkerKind.CRAWLER).rpartition("-")
    assert is_surely_dead(f"{place_and_pid}-{int(start) - 1}")


@pytest.mark.parametrize("name", ["w1", "import", "crawler-host-0badf00d-99999999-5", "crawler-host-99999999-5", ""])
def test_of_workers_elsewhere_nothing_is_known(name: str) -> None:
    assert not is_surely_dead(name)


def test_what_a_dead_worker_held_is_given_back_at_once(any_engine: Engine, other: tuple[str, object]) -> None:
    name, process = other
    hold_everything(any_engine, name)
    assert free_the_dead(any_engine) == []
    assert claimable(any_engine) == (0, 0)
    process.kill()  # type: ignore[attr-defined]
    process.wait()  # type: ignore[attr-defined]
    assert free_the_dead(any_engine) == [name]
    assert claimable(any_engine) == (1, 1)
    assert not control.list_workers(any_engine)
    assert control.run_due(any_engine, "another scheduler", datetime.now(UTC)).holds_lease


def test_what_a_living_worker_or_one_elsewhere_holds_is_left_alone(any_engine: Engine) -> None:
    hold_everything(any_engine, worker_name(WorkerKind.CRAWLER))
    assert free_the_dead(any_engine) == []
    assert claimable(any_engine) == (0, 0)


def hold_everything(engine: Engine, worker: str) -> None:
    """The worker has leased a host and a capture, acts as the scheduler, and has spoken."""
    now = datetime.now(UTC)
    settings = SiteSettings(seeds=("http://a.cn/",))
    site_id = control.create_or_update(engine, "a.cn", settings, now)
    run_id = control.start(engine, site_id, "test", now).run_id
    frontier = Frontier(worker)
    with database.write(engine) as conn:
        frontier.begin_runs(conn, now)
        frontier.add(conn, [CrawlUrl("http://a.cn/", "http://a.cn/", "a.cn:80", site_id, run_id)], now)
        (claim,) = frontier.claim(conn, now, 1, 1, LEASE_S)
        stored = StoredRecords("a.warc.gz", 0, 10, None, None)
        capture = NewCapture(claim, now, 200, "text/html", "d", 1, (), stored, IndexState.WAITING, None)
        captures.insert(conn, [capture], worker)
        captures.claim_waiting(conn, worker, now, 1, LEASE_S)
    control.beat(engine, worker, WorkerKind.CRAWLER, 1, {}, now)
    control.run_due(engine, worker, now)


def claimable(engine: Engine) -> tuple[int, int]:
    """How many URLs and captures another worker would get, a moment later."""
    now = datetime.now(UTC)
    with engine.connect() as conn, conn.begin() as transaction:
        found = len(Frontier("w2").claim(conn, now, 5, 5, LEASE_S))
        waiting = len(captures.claim_waiting(conn, "w2", now, 5, LEASE_S))
        transaction.rollback()
    return found, waiting
