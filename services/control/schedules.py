"""Schedules: when a site is crawled by itself. Rows; the scheduler that holds the lease acts on them.

`run_due` is one transaction: it takes or keeps the lease, starts what is due, and writes down when it is due next.
So two schedulers, a kill at any moment and a clock that is set back never start one due time twice; due times that
were missed become one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from crawler import database
from crawler.database import leases, schedules, sites
from services.control.runs import start_in
from services.cron import next_due, parse_cron, parse_zone
from services.errors import ConfigurationError, NotFound

LEASE = "scheduler"
LEASE_S = 15.0
"""A scheduler that was killed is replaced after this long at the latest."""
SHORTEST_INTERVAL_S = 1.0
WRONG_CLOCK = timedelta(days=1)
"""A last run that far in the future was started by a clock that was wrong."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a site is crawled: by a timetable or at an interval."""

    cron: str | None = None
    """Five fields, see `services.cron`."""
    interval_s: float | None = None
    time_zone: str = "UTC"
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class KeptSchedule:
    """A schedule as it stands in the database."""

    site_id: int
    schedule: Schedule
    next_due_at: datetime | None
    last_run_at: datetime | None


@dataclass(frozen=True, slots=True)
class DueRun:
    """What became of a due time."""

    site_id: int
    site_key: str
    due_at: datetime
    run_id: int | None
    skipped: str | None = None
    """Why no run was started."""


@dataclass(frozen=True, slots=True)
class Tick:
    """What one look at the schedules did."""

    holds_lease: bool
    due: tuple[DueRun, ...] = ()


def check_schedule(schedule: Schedule, where: str) -> None:
    """Raise ConfigurationError for a schedule that says nothing, or two things."""
    if (schedule.cron is None) == (schedule.interval_s is None):
        raise ConfigurationError(f"{where}: either cron or interval_s, one of the two")
    parse_zone(schedule.time_zone)
    if schedule.cron is not None:
        parse_cron(schedule.cron)
    elif schedule.interval_s is not None and not SHORTEST_INTERVAL_S <= schedule.interval_s < 1e9:
        raise ConfigurationError(
            f"{where}: interval_s: seconds, {SHORTEST_INTERVAL_S:g} or more (got {schedule.interval_s})"
        )


def set_schedule(engine: Engine, site_id: int, schedule: Schedule, now: datetime | None = None) -> None:
    """Give a site its schedule, in place of the one it had. Raises ConfigurationError, NotFound.

    The same schedule set again keeps its due time, so that applying a portal file over and over puts nothing off.
    """
    check_schedule(schedule, "schedule")
    at = now or datetime.now(UTC)
    with database.write(engine) as conn:
        if conn.execute(sa.select(sites.c.id).where(sites.c.id == site_id)).first() is None:
            raise NotFound(f"there is no site {site_id}")
        kept = conn.execute(sa.select(schedules).where(schedules.c.site_id == site_id)).first()
        if kept is not None and _kept(kept).schedule == schedule:
            return
        row = {
            "site_id": site_id,
            "cron": schedule.cron,
            "interval_s": schedule.interval_s,
            "time_zone": schedule.time_zone,
            "enabled": schedule.enabled,
            "next_due_at": _next_due(schedule, None, at) if schedule.enabled else None,
        }
        statement = database.insert(conn, schedules).values(row)
        conn.execute(statement.on_conflict_do_update(index_elements=["site_id"], set_=row))


def get_schedule(engine: Engine, site_id: int) -> KeptSchedule | None:
    with database.read(engine) as conn:
        row = conn.execute(sa.select(schedules).where(schedules.c.site_id == site_id)).first()
    return None if row is None else _kept(row)


def list_schedules(engine: Engine) -> list[KeptSchedule]:
    """All schedules, by site."""
    with database.read(engine) as conn:
        return [_kept(row) for row in conn.execute(sa.select(schedules).order_by(schedules.c.site_id))]


def remove_schedule(engine: Engine, site_id: int) -> None:
    """From now on the site is crawled only when somebody starts it."""
    with database.write(engine) as conn:
        conn.execute(sa.delete(schedules).where(schedules.c.site_id == site_id))


def run_due(engine: Engine, owner: str, now: datetime) -> Tick:
    """Start the runs that are due, if `owner` holds or gets the scheduler's lease."""
    with database.write(engine) as conn:
        if not _take_lease(conn, owner, now):
            return Tick(holds_lease=False)
        rows = conn.execute(
            sa.select(schedules, sites.c.key, sites.c.settings)
            .join(sites, sites.c.id == schedules.c.site_id)
            .where(schedules.c.enabled.is_(True))
            .order_by(schedules.c.next_due_at, schedules.c.site_id)
        ).all()
        return Tick(holds_lease=True, due=tuple(_act(conn, rows, now)))


def leave_lease(engine: Engine, owner: str) -> None:
    """A scheduler that ends in good order lets the next one begin at once."""
    with database.write(engine) as conn:
        conn.execute(sa.delete(leases).where(leases.c.name == LEASE, leases.c.owner == owner))


def _take_lease(conn: Connection, owner: str, now: datetime) -> bool:
    """Take the lease if it is free, ended, ours, or from a future that a clock set back has taken away."""
    until = now + timedelta(seconds=LEASE_S)
    from_the_future = leases.c.until > now + timedelta(seconds=2 * LEASE_S)
    statement = database.insert(conn, leases).values(name=LEASE, owner=owner, until=until)
    statement = statement.on_conflict_do_update(
        index_elements=["name"],
        set_={"owner": owner, "until": until},
        where=sa.or_(leases.c.owner == owner, leases.c.until <= now, from_the_future),
    )
    return conn.execute(statement.returning(leases.c.owner)).scalar() == owner


def _act(conn: Connection, rows: Sequence[Any], now: datetime) -> list[DueRun]:
    done = []
    for row in rows:
        kept = _kept(row)
        if kept.next_due_at is None or (kept.last_run_at is not None and kept.last_run_at > now + WRONG_CLOCK):
            _write_due(conn, kept, _next_due(kept.schedule, None, now), None)
        elif kept.next_due_at <= now:
            due = _start_due(conn, row, kept, now)
            _write_due(conn, kept, _next_due(kept.schedule, kept.next_due_at, now), now)
            done.append(due)
    return done


def _start_due(conn: Connection, row: Any, kept: KeptSchedule, now: datetime) -> DueRun:
    due_at = kept.next_due_at or now
    if not row.settings.enabled:
        return DueRun(kept.site_id, row.key, due_at, None, "the site is switched off")
    started = start_in(conn, kept.site_id, "schedule", now)
    if started.already_running:
        return DueRun(kept.site_id, row.key, due_at, started.run_id, "the run before is still going on")
    return DueRun(kept.site_id, row.key, due_at, started.run_id)


def _next_due(schedule: Schedule, due_at: datetime | None, now: datetime) -> datetime:
    """The first due time after now; an interval keeps its beat."""
    if schedule.cron is not None:
        return next_due(parse_cron(schedule.cron), parse_zone(schedule.time_zone), now)
    step = timedelta(seconds=schedule.interval_s or SHORTEST_INTERVAL_S)
    if due_at is None:
        return now + step
    return due_at + step * ((now - due_at) // step + 1)


def _write_due(conn: Connection, kept: KeptSchedule, next_due_at: datetime, ran_at: datetime | None) -> None:
    conn.execute(
        sa.update(schedules)
        .where(schedules.c.site_id == kept.site_id)
        .values(next_due_at=next_due_at, last_run_at=ran_at)
    )


def _kept(row: Any) -> KeptSchedule:
    schedule = Schedule(row.cron, row.interval_s, row.time_zone, row.enabled)
    return KeptSchedule(row.site_id, schedule, row.next_due_at, row.last_run_at)
