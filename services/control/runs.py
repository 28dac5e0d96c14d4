"""Runs: starting and stopping, progress and history, and whether all is done.

A site has at most one run that is not finished; the database refuses a second one, so clicks and schedules may
cross in any order. What counts are called is said in `crawler.database`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from crawler import database
from crawler.database import SAMPLE_S, QueueState, captures, hosts, run_counts, run_samples, runs, sites, urls
from crawler.records import IndexState, Rejection, RunState
from services.control.workers import WorkerKind, is_alive
from services.errors import NotFound

RATE_S = 60
"""Pages a second are those of the last minute."""
STOPPED_BY_OWNER = "stopped"

_IS_LEASED = urls.c.queue_state == sa.literal_column(str(QueueState.LEASED.value))
_IS_WAITING = captures.c.index_state == sa.literal_column(f"'{IndexState.WAITING.value}'")
_IS_ALIVE = runs.c.state != RunState.FINISHED.value


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a site."""

    run_id: int
    site_id: int
    state: RunState
    reason: str | None
    """Why it ended, one sentence."""
    asked_by: str
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Started:
    """The run that a start led to."""

    run_id: int
    already_running: bool
    """Another start was first; this one changed nothing."""


@dataclass(frozen=True, slots=True)
class RunProgress:
    """A run in figures. All counts are of distinct URLs, but `retried`."""

    run: Run
    fetched: int = 0
    unchanged: int = 0
    redirected: int = 0
    gone: int = 0
    retried: int = 0
    """Failed tries that are or were repeated."""
    queued: int = 0
    """Still to be visited, what is under way included."""
    leased: int = 0
    """Under way."""
    rejected: Mapping[str, int] = field(default_factory=dict)
    """By Rejection value."""
    errors: Mapping[str, int] = field(default_factory=dict)
    """URLs given up, by FetchErrorKind value."""
    waiting: int = 0
    """Captures that are not in the index yet."""
    indexed: int | None = None
    """Captures in the index; None in lists of runs, where counting them all would take long."""
    refused: int = 0
    """Captures that extractor or index refused."""
    pages_per_s: float = 0.0
    """Over the last minute of the run."""
    seconds: float = 0.0
    """Since it was begun, until it ended."""
    stalled: bool = False
    """It should be running, but no crawler has given a sign of life for a while."""
    other: Mapping[str, int] = field(default_factory=dict)
    """What else the crawler counts (`bytes`)."""

    @property
    def state(self) -> str:
        """The state as people should read it: never "running" when no crawler lives."""
        return "stalled" if self.stalled else self.run.state.value

    @property
    def errors_total(self) -> int:
        return sum(self.errors.values())


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """The last line of `plumbline crawl --json`, over one or several runs."""

    fetched: int
    unchanged: int
    indexed: int
    rejected: Mapping[str, int]
    errors: Mapping[str, int]
    seconds: float
    pages_per_s: float
    harvest_rate: float | None = None
    """Relevant pages among those that a topic judged; None without a topic."""

    def to_json(self) -> dict[str, Any]:
        return {
            "fetched": self.fetched,
            "unchanged": self.unchanged,
            "indexed": self.indexed,
            "rejected": dict(self.rejected),
            "errors": dict(self.errors),
            "seconds": round(self.seconds, 2),
            "pages_per_s": round(self.pages_per_s, 2),
            "harvest_rate": self.harvest_rate,
        }


def start(engine: Engine, site_id: int, asked_by: str, now: datetime | None = None) -> Started:
    """Start a site's run, or go on with a stopped one. Raises NotFound.

    A second start while one is queued or running changes nothing; a start while a run is stopping takes the stop
    back. `asked_by` is a user's name, "command line" or "schedule".
    """
    with database.write(engine) as conn:
        return start_in(conn, site_id, asked_by, now or datetime.now(UTC))


def resume(engine: Engine, site_id: int, asked_by: str, now: datetime | None = None) -> Started:
    """Go on with a stopped run; the same as `start`."""
    return start(engine, site_id, asked_by, now)


def start_in(conn: Connection, site_id: int, asked_by: str, now: datetime) -> Started:
    """`start`, as a part of the caller's transaction."""
    if conn.execute(sa.select(sites.c.id).where(sites.c.id == site_id)).first() is None:
        raise NotFound(f"there is no site {site_id}")
    run = _alive_run(conn, site_id)
    if run is None:
        row = {"site_id": site_id, "state": RunState.QUEUED.value, "asked_by": asked_by, "created_at": now}
        statement = database.insert(conn, runs).values(row).on_conflict_do_nothing().returning(runs.c.id)
        run_id = conn.execute(statement).scalar()
        if run_id is not None:
            return Started(run_id, already_running=False)
        run = _alive_run(conn, site_id)
        if run is None:  # PostgreSQL: the other start's run has come and gone within this statement
            return start_in(conn, site_id, asked_by, now)
    if run.state in (RunState.QUEUED.value, RunState.RUNNING.value):
        return Started(run.id, already_running=True)
    conn.execute(sa.update(runs).where(runs.c.id == run.id).values(state=RunState.QUEUED.value, reason=None))
    return Started(run.id, already_running=False)


def stop(engine: Engine, site_id: int, now: datetime | None = None) -> int | None:
    """Stop a site's run, if it has one; the run's id. What is under way still ends; a second stop changes nothing."""
    with database.write(engine) as conn:
        run = _alive_run(conn, site_id)
        if run is None:
            return None
        if run.state in (RunState.QUEUED.value, RunState.RUNNING.value, RunState.STOPPING.value):
            busy = _is_leased(conn, run.id, now or datetime.now(UTC))
            state = RunState.STOPPING if busy else RunState.STOPPED
            reason = None if busy else STOPPED_BY_OWNER
            conn.execute(sa.update(runs).where(runs.c.id == run.id).values(state=state.value, reason=reason))
        return int(run.id)


def progress(engine: Engine, run_id: int, now: datetime | None = None) -> RunProgress:
    """A run in figures. Raises NotFound."""
    at = now or datetime.now(UTC)
    with database.read(engine) as conn:
        row = conn.execute(sa.select(runs).where(runs.c.id == run_id)).first()
        if row is None:
            raise NotFound(f"there is no run {run_id}")
        (figures,) = _progress(conn, [_run(row)], at)
        return replace(figures, indexed=_indexed(conn, run_id))


def latest_runs(engine: Engine, now: datetime | None = None) -> dict[int, RunProgress]:
    """The newest run of each site that ever had one, by site id."""
    at = now or datetime.now(UTC)
    of_site = runs.alias("of_site")
    newest = sa.select(sa.func.max(of_site.c.id)).where(of_site.c.site_id == sites.c.id).scalar_subquery()
    with database.read(engine) as conn:
        rows = conn.execute(sa.select(runs).join(sites, runs.c.id == newest)).all()
        return {item.run.site_id: item for item in _progress(conn, [_run(row) for row in rows], at)}


def history(engine: Engine, site_id: int, limit: int = 50, now: datetime | None = None) -> list[RunProgress]:
    """The runs of a site, newest first."""
    at = now or datetime.now(UTC)
    with database.read(engine) as conn:
        rows = conn.execute(
            sa.select(runs).where(runs.c.site_id == site_id).order_by(runs.c.id.desc()).limit(limit)
        ).all()
        return _progress(conn, [_run(row) for row in rows], at)


def pace(engine: Engine, run_id: int, limit: int = 1000) -> list[tuple[datetime, float]]:
    """Pages a second over the last part of a run, for a plot: (time, pages a second), oldest first."""
    with database.read(engine) as conn:
        rows = conn.execute(
            sa.select(run_samples.c.at, sa.func.sum(run_samples.c.pages).label("pages"))
            .where(run_samples.c.run_id == run_id)
            .group_by(run_samples.c.at)
            .order_by(run_samples.c.at.desc())
            .limit(limit)
        ).all()
    return [(datetime.fromtimestamp(row.at, UTC), int(row.pages) / SAMPLE_S) for row in reversed(rows)]


def is_idle(engine: Engine) -> bool:
    """Whether nothing is left to do: no run under way, nothing leased, no capture that waits for the index."""
    under_way = (RunState.QUEUED.value, RunState.RUNNING.value, RunState.STOPPING.value)
    with database.read(engine) as conn:
        return not any(
            conn.execute(statement.limit(1)).first()
            for statement in (
                sa.select(runs.c.id).where(runs.c.state.in_(under_way)),
                sa.select(urls.c.host_id).where(_IS_LEASED),
                sa.select(captures.c.id).where(_IS_WAITING),
            )
        )


def summary(engine: Engine, run_ids: Sequence[int], seconds: float, now: datetime | None = None) -> CrawlSummary:
    """What some runs brought together, for `crawl --json`. `seconds` is what the caller waited. Raises NotFound."""
    parts = [progress(engine, run_id, now) for run_id in run_ids]
    fetched = sum(part.fetched for part in parts)
    unchanged = sum(part.unchanged for part in parts)
    rejected = _added(part.rejected for part in parts)
    relevant = sum(part.other.get("relevant", 0) for part in parts)
    judged = relevant + rejected.get(Rejection.IRRELEVANT.value, 0)
    return CrawlSummary(
        fetched=fetched,
        unchanged=unchanged,
        indexed=sum(part.indexed or 0 for part in parts),
        rejected=rejected,
        errors=_added(part.errors for part in parts),
        seconds=seconds,
        pages_per_s=(fetched + unchanged) / seconds if seconds > 0 else 0.0,
        harvest_rate=relevant / judged if judged else None,
    )


def _added(parts: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, n in part.items():
            total[name] = total.get(name, 0) + n
    return dict(sorted(total.items()))


def _alive_run(conn: Connection, site_id: int) -> Any:
    return conn.execute(
        sa.select(runs.c.id, runs.c.state).where(runs.c.site_id == site_id, _IS_ALIVE).with_for_update()
    ).first()


def _is_leased(conn: Connection, run_id: int, now: datetime) -> bool:
    leased = (
        sa.select(urls.c.host_id)
        .join(hosts, hosts.c.id == urls.c.host_id)
        .where(_IS_LEASED, urls.c.run_id == run_id, hosts.c.lease_until > now)
        .limit(1)
    )
    return conn.execute(leased).first() is not None


def _run(row: Any) -> Run:
    return Run(
        run_id=row.id,
        site_id=row.site_id,
        state=RunState(row.state),
        reason=row.reason,
        asked_by=row.asked_by,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def _progress(conn: Connection, wanted: list[Run], now: datetime) -> list[RunProgress]:
    run_ids = [run.run_id for run in wanted]
    if not run_ids:
        return []
    counts = _counts(conn, run_ids)
    leased = _leased(conn)
    indexing = _indexing(conn, run_ids)
    pages = _recent_pages(conn, run_ids, now)
    crawler_lives = is_alive(conn, WorkerKind.CRAWLER, now)
    return [
        _one_progress(
            run,
            counts.get(run.run_id, {}),
            leased.get(run.run_id, 0),
            indexing.get(run.run_id, {}),
            pages.get(run.run_id, 0),
            crawler_lives,
            now,
        )
        for run in wanted
    ]


def _one_progress(
    run: Run,
    counts: Mapping[str, int],
    leased: int,
    indexing: Mapping[str, int],
    recent_pages: int,
    crawler_lives: bool,
    now: datetime,
) -> RunProgress:
    ended = run.finished_at or now
    seconds = max(0.0, (ended - run.started_at).total_seconds()) if run.started_at else 0.0
    is_under_way = run.state in (RunState.QUEUED, RunState.RUNNING, RunState.STOPPING)
    named = {"queued", "left", "fetched", "unchanged", "redirected", "gone", "retried"}
    return RunProgress(
        run=run,
        fetched=counts.get("fetched", 0),
        unchanged=counts.get("unchanged", 0),
        redirected=counts.get("redirected", 0),
        gone=counts.get("gone", 0),
        retried=counts.get("retried", 0),
        queued=max(0, counts.get("queued", 0) - counts.get("left", 0)),
        leased=leased,
        rejected=_of_kind(counts, "rejected:"),
        errors=_of_kind(counts, "error:"),
        waiting=indexing.get(IndexState.WAITING, 0),
        refused=indexing.get(IndexState.REFUSED, 0),
        pages_per_s=recent_pages / min(RATE_S, max(seconds, 1.0)),
        seconds=seconds,
        stalled=is_under_way and not crawler_lives,
        other={name: n for name, n in counts.items() if ":" not in name and name not in named},
    )


def _of_kind(counts: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): n for name, n in sorted(counts.items()) if name.startswith(prefix)}


def _counts(conn: Connection, run_ids: list[int]) -> dict[int, dict[str, int]]:
    rows = conn.execute(
        sa.select(run_counts.c.run_id, run_counts.c.name, sa.func.sum(run_counts.c.n).label("n"))
        .where(run_counts.c.run_id.in_(run_ids))
        .group_by(run_counts.c.run_id, run_counts.c.name)
    )
    counts: dict[int, dict[str, int]] = {}
    for row in rows:
        if row.n:
            counts.setdefault(row.run_id, {})[row.name] = int(row.n)
    return counts


def _leased(conn: Connection) -> dict[int, int]:
    """URLs under way by run; all crawlers together hold some thousands at most."""
    rows = conn.execute(sa.select(urls.c.run_id, sa.func.count().label("n")).where(_IS_LEASED).group_by(urls.c.run_id))
    return {row.run_id: row.n for row in rows}


def _indexing(conn: Connection, run_ids: list[int]) -> dict[int, dict[str, int]]:
    """Captures that wait or were refused, by run, from their index."""
    rows = conn.execute(
        sa.select(captures.c.run_id, captures.c.index_state, sa.func.count().label("n"))
        .where(
            captures.c.run_id.in_(run_ids),
            captures.c.index_state.in_((IndexState.WAITING.value, IndexState.REFUSED.value)),
        )
        .group_by(captures.c.run_id, captures.c.index_state)
    )
    found: dict[int, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row.run_id, {})[row.index_state] = row.n
    return found


def _indexed(conn: Connection, run_id: int) -> int:
    return conn.execute(
        sa.select(sa.func.count()).where(
            captures.c.run_id == run_id, captures.c.index_state == IndexState.INDEXED.value
        )
    ).scalar_one()


def _recent_pages(conn: Connection, run_ids: list[int], now: datetime) -> dict[int, int]:
    since = (now - timedelta(seconds=RATE_S)).timestamp()
    rows = conn.execute(
        sa.select(run_samples.c.run_id, sa.func.sum(run_samples.c.pages).label("pages"))
        .where(run_samples.c.run_id.in_(run_ids), run_samples.c.at > since)
        .group_by(run_samples.c.run_id)
    )
    return {row.run_id: int(row.pages) for row in rows}
