from __future__ import annotations

import itertools
import multiprocessing
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Engine

from crawler import database
from crawler.records import SiteSettings
from services import control, scheduler
from services.control.schedules import LEASE_S
from services.errors import ConfigurationError, SearchUnavailable
from services.scheduler import Scheduler, run_scheduler

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def site_id(any_engine: Engine) -> int:
    return control.create_or_update(any_engine, "a.cn:80", SiteSettings(("http://a.cn/",)), NOW)


def schedule(engine: Engine, site_id: int, **given: object) -> None:
    control.set_schedule(engine, site_id, control.Schedule(**given), NOW)  # type: ignore[arg-type]


def started(engine: Engine, site_id: int) -> list[datetime]:
    """When each run of the site was made, oldest first."""
    return [item.run.created_at for item in reversed(control.history(engine, site_id, 1000))]


def finish_run(engine: Engine, site_id: int) -> None:
    with database.write(engine) as conn:
        conn.execute(sa.update(database.runs).where(database.runs.c.site_id == site_id).values(state="finished"))


def test_a_run_begins_when_it_is_due_and_not_before(any_engine: Engine, site_id: int, clock: Clock) -> None:
    schedule(any_engine, site_id, interval_s=3600.0)
    ticking = Scheduler(any_engine, "one", clock)
    clock.go(3599)
    ticking.tick()
    assert started(any_engine, site_id) == []
    clock.go(1)
    ticking.tick()
    assert started(any_engine, site_id) == [clock.now]


def test_a_timetable_follows_the_clock_on_the_wall(any_engine: Engine, site_id: int, clock: Clock) -> None:
    schedule(any_engine, site_id, cron="30 3 * * *", time_zone="Asia/Shanghai")
    kept = control.get_schedule(any_engine, site_id)
    assert kept is not None
    assert kept.next_due_at == datetime(2026, 3, 1, 19, 30, tzinfo=UTC)


def test_missed_runs_become_one_and_the_beat_is_kept(any_engine: Engine, site_id: int, clock: Clock) -> None:
    schedule(any_engine, site_id, interval_s=600.0)
    ticking = Scheduler(any_engine, "one", clock)
    clock.go(6 * 600 + 7)
    ticking.tick()
    ticking.tick()
    assert len(started(any_engine, site_id)) == 1
    kept = control.get_schedule(any_engine, site_id)
    assert kept is not None
    assert kept.next_due_at == NOW + timedelta(seconds=7 * 600)


def test_a_due_run_is_skipped_while_the_one_before_goes_on(any_engine: Engine, site_id: int, clock: Clock) -> None:
    schedule(any_engine, site_id, interval_s=600.0)
    clock.go(600)
    first = control.run_due(any_engine, "one", clock.now)
    clock.go(600)
    second = control.run_due(any_engine, "one", clock.now)
    assert [due.skipped for due in (*first.due, *second.due)] == [None, "the run before is still going on"]
    assert len(started(any_engine, site_id)) == 1
    finish_run(any_engine, site_id)
    clock.go(600)
    control.run_due(any_engine, "one", clock.now)
    assert len(started(any_engine, site_id)) == 2


def test_a_site_that_is_switched_off_is_not_crawled(any_engine: Engine, site_id: int, clock: Clock) -> None:
    control.create_or_update(any_engine, "a.cn:80", SiteSettings(("http://a.cn/",), enabled=False), NOW)
    schedule(any_engine, site_id, interval_s=600.0)
    clock.go(600)
    (due,) = control.run_due(any_engine, "one", clock.now).due
    assert due.skipped == "the site is switched off"
    assert started(any_engine, site_id) == []


def test_a_schedule_that_is_switched_off_or_removed_starts_nothing(
    any_engine: Engine, site_id: int, clock: Clock
) -> None:
    schedule(any_engine, site_id, interval_s=600.0, enabled=False)
    clock.go(6000)
    assert control.run_due(any_engine, "one", clock.now).due == ()
    schedule(any_engine, site_id, interval_s=600.0)
    control.remove_schedule(any_engine, site_id)
    clock.go(6000)
    assert control.run_due(any_engine, "one", clock.now).due == ()


def test_a_schedule_set_again_unchanged_keeps_its_due_time(any_engine: Engine, site_id: int) -> None:
    wanted = control.Schedule(interval_s=3600.0)
    control.set_schedule(any_engine, site_id, wanted, NOW)
    control.set_schedule(any_engine, site_id, wanted, NOW + timedelta(minutes=59))
    kept = control.get_schedule(any_engine, site_id)
    assert kept is not None
    assert kept.next_due_at == NOW + timedelta(hours=1)


def test_one_of_two_schedulers_acts_and_the_other_takes_over_when_it_dies(
    any_engine: Engine, site_id: int, clock: Clock
) -> None:
    schedule(any_engine, site_id, interval_s=10.0)
    acting = Counter[str]()
    for second in range(120):
        clock.go(1)
        names = ("one", "two") if second < 50 else ("two",)  # "one" is killed, and gives nothing back
        for name in names:
            tick = control.run_due(any_engine, name, clock.now)
            acting[name] += tick.holds_lease
        finish_run(any_engine, site_id)
    runs = started(any_engine, site_id)
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(runs)]
    assert acting["one"] == 50
    assert acting["two"] == 70 - (LEASE_S - 1)
    assert max(gaps) <= 2 * 10 + LEASE_S
    slots = [(run - NOW) // timedelta(seconds=10) for run in runs]
    assert len(slots) == len(set(slots))


def test_the_lease_is_at_most_thirty_seconds() -> None:
    assert LEASE_S <= 30


def test_a_scheduler_that_ends_gives_the_lease_back_at_once(any_engine: Engine, clock: Clock) -> None:
    one = Scheduler(any_engine, "one", clock)
    one.tick()
    assert not control.run_due(any_engine, "two", clock.now).holds_lease
    one.leave()
    assert control.run_due(any_engine, "two", clock.now).holds_lease


def test_a_clock_that_is_set_back_doubles_nothing(any_engine: Engine, site_id: int, clock: Clock) -> None:
    schedule(any_engine, site_id, cron="0 13 * * *")
    for _ in range(4):
        clock.now = datetime(2026, 3, 1, 13, 0, 1, tzinfo=UTC)
        control.run_due(any_engine, "one", clock.now)
        finish_run(any_engine, site_id)
        clock.now = datetime(2026, 3, 1, 12, 50, tzinfo=UTC)
        control.run_due(any_engine, "one", clock.now)
    assert len(started(any_engine, site_id)) == 1
    clock.now = datetime(2026, 3, 2, 13, 0, tzinfo=UTC)
    control.run_due(any_engine, "one", clock.now)
    assert len(started(any_engine, site_id)) == 2


def test_a_clock_that_was_a_year_ahead_does_not_put_the_schedule_off_for_a_year(
    any_engine: Engine, site_id: int, clock: Clock
) -> None:
    schedule(any_engine, site_id, interval_s=3600.0)
    clock.go(365 * 86_400)
    control.run_due(any_engine, "one", clock.now)
    finish_run(any_engine, site_id)
    clock.now = NOW
    control.run_due(any_engine, "one", clock.now)
    clock.go(3600)
    assert len(control.run_due(any_engine, "one", clock.now).due) == 1


def test_a_lease_from_the_future_keeps_nobody_waiting(any_engine: Engine, clock: Clock) -> None:
    clock.go(86_400)
    control.run_due(any_engine, "killed", clock.now)
    clock.now = NOW
    assert control.run_due(any_engine, "two", clock.now).holds_lease


def test_schedulers_in_several_processes_start_each_due_time_once(
    any_engine: Engine, site_id: int, database_url: str
) -> None:
    schedule(any_engine, site_id, interval_s=10.0)
    any_engine.dispose()
    processes = multiprocessing.get_context("fork")
    start = processes.Barrier(3)
    workers = [processes.Process(target=_tick_through, args=(database_url, f"s{i}", start)) for i in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    kept = control.get_schedule(any_engine, site_id)
    assert kept is not None
    assert started(any_engine, site_id) == [NOW + timedelta(seconds=10)]
    assert kept.next_due_at == NOW + timedelta(seconds=20)


def test_the_process_ticks_says_that_it_lives_and_leaves_in_good_order(any_engine: Engine, site_id: int) -> None:
    control.set_schedule(any_engine, site_id, control.Schedule(interval_s=1.0), NOW)
    stop = threading.Event()
    seen = threading.Event()

    def clock() -> datetime:
        if started(any_engine, site_id):
            seen.set()
        return NOW + timedelta(seconds=5)

    process = threading.Thread(target=run_scheduler, args=(any_engine, stop, clock))
    process.start()
    try:
        assert seen.wait(20)
        (worker,) = control.list_workers(any_engine, NOW)
        assert (worker.kind, worker.state) == (control.WorkerKind.SCHEDULER, {"acting": True})
    finally:
        stop.set()
        process.join(20)
    assert not process.is_alive()
    assert control.list_workers(any_engine) == []
    assert control.run_due(any_engine, "next", NOW).holds_lease


def test_a_tick_that_fails_is_logged_and_the_next_one_tries_again(
    any_engine: Engine, site_id: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule(any_engine, site_id, interval_s=10.0)
    ticking = Scheduler(any_engine, "one", clock)
    clock.go(10)
    with monkeypatch.context() as broken:
        broken.setattr(scheduler.control, "run_due", _fail)
        ticking.tick()
    ticking.tick()
    assert len(started(any_engine, site_id)) == 1


def test_only_the_scheduler_that_acts_does_the_upkeep(engine: Engine, clock: Clock) -> None:
    kept: list[tuple[str, datetime]] = []
    one = Scheduler(engine, "one", clock, lambda now: kept.append(("one", now)))
    two = Scheduler(engine, "two", clock, lambda now: kept.append(("two", now)))
    for each in (one, two):
        each.keep_up()
    for each in (one, two):
        each.tick()
        each.keep_up()
    assert kept == [("one", NOW)]


def test_upkeep_that_fails_is_logged_and_tried_again(engine: Engine, clock: Clock) -> None:
    errors: list[Exception] = [SearchUnavailable("away"), ValueError("a fault of ours")]
    done: list[datetime] = []

    def upkeep(now: datetime) -> None:
        if errors:
            raise errors.pop(0)
        done.append(now)

    acting = Scheduler(engine, "one", clock, upkeep)
    acting.tick()
    with structlog.testing.capture_logs() as logged:
        for _ in range(3):
            acting.keep_up()
    assert [(line["event"], line["log_level"]) for line in logged] == [
        *(("upkeep failed", "warning"), ("upkeep failed", "error"))
    ]
    assert done == [NOW]


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        (control.Schedule(), "either cron or interval_s"),
        (control.Schedule(cron="0 0 * * *", interval_s=60.0), "either cron or interval_s"),
        (control.Schedule(cron="0 0 * *"), "five fields"),
        (control.Schedule(interval_s=0.0), "interval_s: seconds, 1 or more"),
        (control.Schedule(interval_s=float("nan")), "interval_s: seconds, 1 or more"),
        (control.Schedule(interval_s=60.0, time_zone="Nowhere"), "there is no time zone"),
    ],
)
def test_a_wrong_schedule_is_refused_in_words(
    any_engine: Engine, site_id: int, wrong: control.Schedule, complaint: str
) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        control.set_schedule(any_engine, site_id, wrong, NOW)
    assert control.list_schedules(any_engine) == []


def _fail(*_args: object) -> control.Tick:
    raise RuntimeError("a fault of ours")


def _tick_through(url: str, name: str, start: object) -> None:
    """Tick through 15 seconds of one and the same clock, as often as the others."""
    engine = database.open_database(url)
    start.wait(30)  # type: ignore[attr-defined]
    for second in range(16):
        control.run_due(engine, name, NOW + timedelta(seconds=second))
    engine.dispose()
