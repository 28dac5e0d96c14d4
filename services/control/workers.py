"""Which processes of the stack live, by their heartbeats in the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from crawler import database
from crawler.database import leases, workers

ALIVE_S = 40.0
"""Seconds after its last heartbeat that a worker counts as alive; they beat every few seconds."""
FORGET_AFTER = timedelta(days=7)


class WorkerKind(StrEnum):
    CRAWLER = "crawler"
    INDEXER = "indexer"
    SCHEDULER = "scheduler"
    WEB = "web"


@dataclass(frozen=True, slots=True)
class Worker:
    """One process as it last spoke."""

    worker_id: str
    kind: WorkerKind
    pid: int
    started_at: datetime
    seen_at: datetime
    state: Mapping[str, Any]
    """What it is doing, for people."""
    alive: bool


def beat(
    engine: Engine,
    worker_id: str,
    kind: WorkerKind,
    pid: int,
    state: Mapping[str, Any],
    now: datetime | None = None,
) -> None:
    """Say that a worker lives, and what it does. Workers that have not spoken for a week are forgotten."""
    at = now or datetime.now(UTC)
    row = {"id": worker_id, "kind": kind.value, "pid": pid, "started_at": at, "seen_at": at, "state": dict(state)}
    with database.write(engine) as conn:
        statement = database.insert(conn, workers).values(row)
        conn.execute(
            statement.on_conflict_do_update(
                index_elements=["id"],
                set_={name: statement.excluded[name] for name in ("pid", "seen_at", "state")},
            )
        )
        conn.execute(sa.delete(workers).where(workers.c.seen_at < at - FORGET_AFTER))


def forget(engine: Engine, worker_id: str) -> None:
    """A worker that ends in good order takes leave."""
    with database.write(engine) as conn:
        conn.execute(sa.delete(workers).where(workers.c.id == worker_id))


def worker_ids(conn: Connection) -> set[str]:
    """All workers that have not taken leave, and the scheduler that acts."""
    named = set(conn.execute(sa.select(workers.c.id)).scalars())
    return named | set(conn.execute(sa.select(leases.c.owner)).scalars())


def bury(conn: Connection, dead: Sequence[str]) -> None:
    """Forget workers that are known to be dead, and end what leases they have."""
    conn.execute(sa.delete(workers).where(workers.c.id.in_(dead)))
    conn.execute(sa.delete(leases).where(leases.c.owner.in_(dead)))


def list_workers(engine: Engine, now: datetime | None = None) -> list[Worker]:
    """All known workers, those that spoke last first."""
    at = now or datetime.now(UTC)
    with database.read(engine) as conn:
        rows = conn.execute(sa.select(workers).order_by(workers.c.seen_at.desc(), workers.c.id)).all()
    return [
        Worker(
            worker_id=row.id,
            kind=WorkerKind(row.kind),
            pid=row.pid,
            started_at=row.started_at,
            seen_at=row.seen_at,
            state=row.state,
            alive=row.seen_at > at - timedelta(seconds=ALIVE_S),
        )
        for row in rows
    ]


def is_alive(conn: Connection, kind: WorkerKind, now: datetime) -> bool:
    """Whether any worker of a kind has spoken lately."""
    since = now - timedelta(seconds=ALIVE_S)
    return (
        conn.execute(
            sa.select(workers.c.id).where(workers.c.kind == kind.value, workers.c.seen_at > since).limit(1)
        ).first()
        is not None
    )
