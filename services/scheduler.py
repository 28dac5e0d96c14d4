"""The scheduler process: looks at the schedules every second, and starts the runs that are due.

APScheduler only ticks. Which runs are due, and which of several schedulers acts, is decided in the database by
`services.control.run_due`, so that restarts, several schedulers and changes of the clock are ours to get right.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from crawler.database import Engine
from crawler.errors import DatabaseError
from services import control
from services.errors import ServiceError
from services.worker_names import worker_name

TICK_S = 1.0
BEAT_S = 10.0
UPKEEP_S = 600.0
"""Between two looks at what has to be begun or deleted as time goes by."""

log = structlog.get_logger()


class Scheduler:
    """One scheduler process; several may stand by."""

    def __init__(
        self,
        engine: Engine,
        owner: str,
        clock: Callable[[], datetime],
        upkeep: Callable[[datetime], None] = lambda _now: None,
    ) -> None:
        """`upkeep` is called now and then by the one that acts; it may raise ServiceError."""
        self._engine = engine
        self._owner = owner
        self._clock = clock
        self._upkeep = upkeep
        self._holds_lease: bool | None = None
        self._beaten_at: datetime | None = None

    def tick(self) -> None:
        """One look. A database that is away is waited for; a fault is logged, and the next tick tries again."""
        try:
            now = self._clock()
            self._note(control.run_due(self._engine, self._owner, now))
            self._beat(now)
        except DatabaseError as exc:
            log.warning("waiting for the database", error=str(exc))
        except Exception:
            log.exception("tick failed")

    def keep_up(self) -> None:
        """Do the upkeep, if this scheduler is the one that acts. What fails is tried again the next time."""
        if not self._holds_lease:
            return
        try:
            self._upkeep(self._clock())
        except ServiceError as exc:
            log.warning("upkeep failed", error=str(exc))
        except Exception:
            log.exception("upkeep failed")

    def leave(self) -> None:
        """End in good order: the next scheduler may begin at once."""
        try:
            control.leave_lease(self._engine, self._owner)
            control.forget(self._engine, self._owner)
        except DatabaseError as exc:
            log.warning("could not give the lease back", error=str(exc))

    def _note(self, tick: control.Tick) -> None:
        if tick.holds_lease != self._holds_lease:
            log.info("acting as the scheduler" if tick.holds_lease else "standing by", owner=self._owner)
            self._holds_lease = tick.holds_lease
        for due in tick.due:
            if due.skipped is None:
                log.info("scheduled run begins", site=due.site_key, run=due.run_id, due_at=due.due_at.isoformat())
            else:
                log.warning("scheduled run skipped", site=due.site_key, reason=due.skipped, run=due.run_id)

    def _beat(self, now: datetime) -> None:
        if self._beaten_at is not None and abs((now - self._beaten_at).total_seconds()) < BEAT_S:
            return
        state = {"acting": bool(self._holds_lease)}
        control.beat(self._engine, self._owner, control.WorkerKind.SCHEDULER, os.getpid(), state, now)
        self._beaten_at = now


def run_scheduler(
    engine: Engine,
    stop: threading.Event,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    upkeep: Callable[[datetime], None] = lambda _now: None,
    on_round: Callable[[], None] = lambda: None,
) -> None:
    """Tick until `stop` is set. `on_round` is called after each tick."""
    owner = worker_name(control.WorkerKind.SCHEDULER)
    scheduler = Scheduler(engine, owner, clock, upkeep)
    ticker = BackgroundScheduler(timezone=UTC)

    def tick() -> None:
        scheduler.tick()
        on_round()

    job = ticker.add_job(
        tick, "interval", seconds=TICK_S, max_instances=1, coalesce=True, next_run_time=datetime.now(UTC)
    )
    soon = datetime.now(UTC) + timedelta(seconds=3 * TICK_S)
    ticker.add_job(scheduler.keep_up, "interval", seconds=UPKEEP_S, max_instances=1, coalesce=True, next_run_time=soon)
    ticker.start()
    try:
        while not stop.wait(TICK_S):
            # APScheduler waits for the time of day: a clock that was set back would keep it waiting.
            if job.next_run_time is not None and job.next_run_time > datetime.now(UTC) + timedelta(seconds=3 * TICK_S):
                job.modify(next_run_time=datetime.now(UTC))
    finally:
        ticker.shutdown(wait=True)
        scheduler.leave()
