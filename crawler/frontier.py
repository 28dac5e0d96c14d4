"""The frontier: which URLs are known, which are wanted, and who may fetch which host now.

`CrawlUrl`s come in from seeds and links, `Claim`s go out, `CrawlOutcome`s come back; nothing else changes a URL.
Every method takes the caller's connection and is one part of its transaction (`database.write`).

The unit of claiming is the host: a worker leases hosts whose next-request time has come and gets their best URLs.
`hosts.ready_at` says when a host is worth a look, so a host without anything queued costs nothing, and neither
does a leased one. A lease that ends unrenewed gives its URLs back to the next claimer. Each claim of a URL hands
out a new generation, and only the newest generation may report.

On PostgreSQL, workers add to one run one after the other and lock rows in order, so that they do not deadlock.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import groupby, islice
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from crawler.database import (
    IS_SEED,
    SAMPLE_S,
    QueueState,
    hosts,
    insert,
    rejections,
    run_counts,
    run_samples,
    runs,
    seed_hosts,
    sites,
    urls,
)
from crawler.politeness import MAX_RETRY_AFTER_S
from crawler.records import (
    Claim,
    CrawlOutcome,
    CrawlStatus,
    CrawlUrl,
    FetchErrorKind,
    LinkKind,
    RejectedUrl,
    Rejection,
    RobotsFile,
    RunState,
    SiteSettings,
    Validators,
)
from crawler.urls import urlhash

T = TypeVar("T")

CHUNK = 500
"""Rows asked for by one IN list; SQLite's and PostgreSQL's limits are far beyond."""
REFUSALS_KEPT_RUNS = 2
"""Runs of a site whose refused URLs are kept one by one; of older ones only the counts are."""
OLD_RUNS_LOOKED_AT = 10
FORGET_CHUNK = 5_000
"""Refused URLs of old runs deleted at one call of `settle_runs`."""
REQUEUE_CHUNK = 20_000
"""Known URLs queued again, or dropped, by one call: some tenths of a second of the write lock."""
LONGEST_PAUSE_S = 2 * MAX_RETRY_AFTER_S
"""No host or URL is put off for longer."""
SHARDS = 16
"""Rows among which the workers' counts of one run are spread."""
VISITED = {
    CrawlStatus.FETCHED: "fetched",
    CrawlStatus.UNCHANGED: "unchanged",
    CrawlStatus.REDIRECTION: "redirected",
    CrawlStatus.LISTING: "listings",
    CrawlStatus.GONE: "gone",
}
"""Name in run_counts of each status that ends a visit with an answer."""
PAGES = ("fetched", "unchanged")
"""The run_counts that a page budget counts."""
ADDING = 1
"""Class of the advisory locks (PostgreSQL) of runs that are being added to."""
NEVER_ASKED = datetime.fromtimestamp(0, UTC)
OF_THE_WAY = frozenset({Rejection.DEPTH, Rejection.NOFOLLOW, Rejection.BUDGET})
"""Reasons that speak of how a URL was found, and mean nothing once it is in the run by another way."""

# A partial index is only used if the query holds the same literal as the index.
_IS_QUEUED = urls.c.queue_state == sa.literal_column(str(QueueState.QUEUED.value))
_IS_LEASED = urls.c.queue_state == sa.literal_column(str(QueueState.LEASED.value))
_IS_NOT_LEASED = urls.c.queue_state != sa.literal_column(str(QueueState.LEASED.value))
_GIVES_OUT = sa.and_(runs.c.state == RunState.RUNNING.value, runs.c.is_spent.is_(False))


@dataclass(frozen=True, slots=True)
class RunInfo:
    """A run as the crawl loop needs it."""

    run_id: int
    site_id: int
    key: str
    """What the owner calls the site by."""
    settings: SiteSettings
    needs_browser: bool | None
    """Learned by `render = auto`; None: not known yet."""
    extra_hosts: frozenset[str]
    """Hosts of the seeds and of where seeds redirected to."""
    pages: int
    """Pages of this run so far, as its budget counts them."""
    resumed: bool = False
    """It was begun before, and stopped."""


class Frontier:
    """One worker's way into the frontier. Holds nothing but the worker's name."""

    def __init__(self, worker: str) -> None:
        self.worker = worker
        self._shard = zlib.crc32(worker.encode()) % SHARDS

    # What is found.

    def add(self, conn: Connection, found: Iterable[CrawlUrl], now: datetime) -> int:
        """Queue what is new, and what only earlier runs know; returns how many joined the queue.

        A URL that this run (or a newer one) has already is left alone, but while it is still queued it takes over
        a better priority and a shallower depth. URLs of runs that have ended are ignored.
        """
        wanted = self._of_open_runs(conn, _best_of_each(found))
        _queue_up(conn, {target.run_id for target in wanted.values()})
        known = _known(conn, sorted(wanted))
        new, again, better, seeds = [], [], [], []
        for digest, target in wanted.items():
            row = known.get(digest)
            if row is None:
                new.append(digest)
            elif row.run_id is None or row.run_id < target.run_id:
                if row.queue_state != QueueState.LEASED:
                    again.append(digest)
            elif row.run_id == target.run_id:
                if row.queue_state == QueueState.QUEUED and _is_better(target, row):
                    better.append(digest)
                if target.kind is LinkKind.SEED and row.kind != LinkKind.SEED:
                    seeds.append(row.id)
        if better:
            conn.execute(_IMPROVE, [_improvement(digest, wanted[digest]) for digest in better])
        if seeds:
            conn.execute(sa.update(urls).where(urls.c.id.in_(seeds)).values(kind=LinkKind.SEED.value))
        if not new and not again:
            return 0
        host_ids = _host_ids(conn, {wanted[digest].host for digest in (*new, *again)})
        counts: Counter[tuple[int, str]] = Counter()
        for run_id, hashes in _by_run(new, wanted):
            rows = [_new_row(h, wanted[h], host_ids, now) for h in hashes]
            counts[run_id, "queued"] += _inserted(conn, _insert_new(conn.dialect.name), rows)
        for run_id, hashes in _by_run(again, wanted):
            rows = [_again_row(h, wanted[h], host_ids) for h in hashes]
            counts[run_id, "queued"] += conn.execute(_QUEUE_AGAIN, rows).rowcount
            counts.update((known[h].run_id, "left") for h in hashes if _leaves_queue(known[h]))
        for run_id, hashes in _by_run((*new, *again), wanted):
            self._take_back_rejections(conn, run_id, hashes, counts)
        _wake(conn, host_ids.values())
        self._count(conn, counts)
        return sum(n for (_, name), n in counts.items() if name == "queued")

    def reject(self, conn: Connection, rejected: Iterable[RejectedUrl], now: datetime) -> int:
        """Keep why URLs are not crawled, each once a run (the first reason stays); returns how many were news."""
        first: dict[tuple[int, bytes], RejectedUrl] = {}
        for url in rejected:
            first.setdefault((url.run_id, urlhash(url.urlkey)), url)
        existing = _existing_runs(conn, {run_id for run_id, _ in first})
        distinct = {key: url for key, url in first.items() if key[0] in existing}
        in_run = _known(conn, [key[1] for key, url in distinct.items() if url.reason in OF_THE_WAY])
        rows: dict[tuple[int, Rejection], list[dict[str, Any]]] = {}
        for (run_id, digest), url in sorted(distinct.items()):
            row = in_run.get(digest)
            if row is not None and row.run_id is not None and row.run_id >= run_id:
                continue
            rows.setdefault((run_id, url.reason), []).append(_rejection_row(digest, url, now))
        counts: Counter[tuple[int, str]] = Counter()
        for (run_id, reason), of_reason in rows.items():
            counts[run_id, f"rejected:{reason.value}"] += _inserted(
                conn, _insert_rejections(conn.dialect.name), of_reason
            )
        self._count(conn, counts)
        return counts.total()

    def count(self, conn: Connection, run_id: int, counts: Mapping[str, int]) -> None:
        """Add to a run's counts."""
        if _existing_runs(conn, {run_id}):
            self._count(conn, Counter({(run_id, name): n for name, n in counts.items()}))

    # What is given out.

    def claim(self, conn: Connection, now: datetime, max_hosts: int, urls_per_host: int, lease_s: float) -> list[Claim]:
        """Lease up to `max_hosts` hosts that may be asked now; their best URLs, best first within each host."""
        claims: list[Claim] = []
        until = now + timedelta(seconds=lease_s)
        held = 0
        while held < max_hosts:
            ready = conn.execute(_READY, {"now": now, "n": max_hosts - held}).all()
            if not ready:
                break
            _give_back(conn, [host.id for host in ready if host.lease_owner is not None])
            chosen = _best_ids(conn, [host.id for host in ready], now, urls_per_host)
            taken = _take(conn, [id_ for host in ready for id_ in chosen.get(host.id, ())], ready, now)
            named = {claim.target.host for claim in taken}
            leased = [host.id for host in ready if host.host in named]
            if leased:
                conn.execute(
                    sa.update(hosts)
                    .where(hosts.c.id.in_(leased))
                    .values(lease_owner=self.worker, lease_until=until, ready_at=until)
                )
            _put_aside(conn, [host for host in ready if host.host not in named])
            claims += taken
            held += len(leased)
        return claims

    def renew(self, conn: Connection, now: datetime, lease_s: float) -> frozenset[str]:
        """Prolong all leases of this worker; the hosts it still holds (others may have been taken over).

        Leases of others that end later than any lease could were made before the clock was set back: they are
        shortened, so that a killed worker's hosts do not wait for the old time to come again.
        """
        until = now + timedelta(seconds=lease_s)
        conn.execute(
            sa.update(hosts)
            .where(hosts.c.lease_owner.is_not(None), hosts.c.lease_until > now + timedelta(seconds=2 * lease_s))
            .values(lease_until=until, ready_at=until)
        )
        held = conn.execute(
            sa.update(hosts)
            .where(hosts.c.lease_owner == self.worker)
            .values(lease_until=until, ready_at=until)
            .returning(hosts.c.host)
        )
        return frozenset(held.scalars())

    def end_far_pauses(self, conn: Connection, now: datetime) -> None:
        """End pauses that are longer than any is: they were made before the clock was set back.

        Looks at everything that is queued: for the start of a worker, and when its clock goes backwards.
        """
        far = now + timedelta(seconds=LONGEST_PAUSE_S)
        conn.execute(sa.update(urls).where(_IS_QUEUED, urls.c.next_visit_at > far).values(next_visit_at=None))
        conn.execute(
            sa.update(hosts)
            .where(hosts.c.lease_owner.is_(None), sa.or_(hosts.c.ready_at > far, hosts.c.next_request_at > far))
            .values(next_request_at=now, ready_at=now)
        )

    def current(self, conn: Connection, claims: Iterable[Claim]) -> frozenset[int]:
        """The url ids of those claims that may still report (and stay so until the transaction ends)."""
        wanted = {claim.url_id: claim.generation for claim in claims}
        return frozenset(
            row.id
            for chunk in _chunks(sorted(wanted))
            for row in conn.execute(_FENCE, {"ids": chunk})
            if row.generation == wanted[row.id] and row.queue_state != QueueState.DONE
        )

    def report(self, conn: Connection, outcomes: Sequence[CrawlOutcome], now: datetime) -> frozenset[int]:
        """Write down what became of claims; the url ids of late ones, which changed nothing.

        An outcome is late if its URL has been claimed again since, or is gone. A retry puts the URL back into
        the queue, not before `next_visit_at`.
        """
        current = self.current(conn, [outcome.claim for outcome in outcomes])
        last = {outcome.claim.url_id: outcome for outcome in outcomes if outcome.claim.url_id in current}
        accepted = [last[url_id] for url_id in sorted(last)]
        retries = [outcome for outcome in accepted if _is_retry(outcome)]
        ended = [outcome for outcome in accepted if not _is_retry(outcome)]
        if retries:
            conn.execute(_RETRY, [_outcome_row(outcome, now) for outcome in retries])
        for keeps_validators, statement in ((True, _END), (False, _END_WITH_VALIDATORS)):
            rows = [_outcome_row(o, now) for o in ended if (o.validators is None) == keeps_validators]
            if rows:
                conn.execute(statement, rows)
        self.reject(conn, [_rejected(o) for o in ended if o.status is CrawlStatus.REJECTED], now)
        self._count_outcomes(conn, retries, ended, now)
        return frozenset(outcome.claim.url_id for outcome in outcomes) - current

    def release(self, conn: Connection, claims: Iterable[Claim]) -> None:
        """Give back claims that were not visited; their tries are unchanged."""
        current = self.current(conn, claims)
        for chunk in _chunks(sorted(current)):
            conn.execute(_UNLEASE, {"ids": chunk})

    def leave_hosts(self, conn: Connection, left: Mapping[str, tuple[datetime, int]]) -> None:
        """End leases: host -> (no request before, failed requests in a row). Hosts lost meanwhile stay as they are.

        What is still leased of a host goes back into the queue.
        """
        if not left:
            return
        mine = conn.execute(
            sa.select(hosts.c.id, hosts.c.host)
            .where(hosts.c.host.in_(sorted(left)), hosts.c.lease_owner == self.worker)
            .order_by(hosts.c.id)
            .with_for_update()
        ).all()
        _give_back(conn, [host.id for host in mine])
        if mine:
            conn.execute(
                _LEAVE,
                [{"b_id": host.id, "b_at": left[host.host][0], "b_failures": left[host.host][1]} for host in mine],
            )

    # Runs.

    def begin_runs(self, conn: Connection, now: datetime) -> list[RunInfo]:
        """Take over all runs that wait to be begun.

        The caller adds their seeds in the same transaction: a run without anything queued is over.
        """
        waiting = conn.execute(
            sa.select(runs.c.id, runs.c.started_at)
            .where(runs.c.state == RunState.QUEUED.value)
            .order_by(runs.c.id)
            .with_for_update(skip_locked=True)
        ).all()
        if not waiting:
            return []
        conn.execute(
            sa.update(runs)
            .where(runs.c.id.in_([run.id for run in waiting]))
            .values(
                state=RunState.RUNNING.value,
                reason=None,
                started_at=sa.func.coalesce(runs.c.started_at, sa.literal(now, runs.c.started_at.type)),
            )
        )
        resumed = {run.id for run in waiting if run.started_at is not None}
        for run_id in sorted(resumed):
            _wake_run(conn, run_id)
        return _run_infos(conn, runs.c.id.in_([run.id for run in waiting]), resumed)

    def running(self, conn: Connection) -> list[RunInfo]:
        """All runs that give out URLs now."""
        return _run_infos(conn, _GIVES_OUT, set())

    def requeue_known(self, conn: Connection, site_id: int, run_id: int, now: datetime) -> int:
        """Queue again, for this run, the next part of what earlier runs know of its site; how many joined.

        `settle_runs` goes on with the rest. Pages that were gone are looked at once more in each run; refused ones
        only come back if they are found again.
        """
        after = conn.execute(sa.select(runs.c.requeued_up_to).where(runs.c.id == run_id)).scalar()
        if after is None:
            return 0
        part = conn.execute(
            sa.select(urls.c.id, urls.c.run_id, urls.c.queue_state, urls.c.status, urls.c.host_id)
            .where(urls.c.site_id == site_id, urls.c.id > after)
            .order_by(urls.c.id)
            .limit(REQUEUE_CHUNK)
        ).all()
        known = [row for row in part if _is_requeued(row, run_id)]
        counts: Counter[tuple[int, str]] = Counter((row.run_id, "left") for row in known if _leaves_queue(row))
        for chunk in _chunks([row.id for row in known]):
            counts[run_id, "queued"] += conn.execute(_REQUEUE, {"ids": chunk, "b_run_id": run_id}).rowcount
        _wake(conn, {row.host_id for row in known})
        self._count(conn, counts)
        conn.execute(
            sa.update(runs)
            .where(runs.c.id == run_id)
            .values(requeued_up_to=part[-1].id if len(part) == REQUEUE_CHUNK else None)
        )
        return counts[run_id, "queued"]

    def drop_queue(self, conn: Connection, run_id: int, reason: Rejection, now: datetime) -> int:
        """Give out nothing more of this run, and refuse the next part of its queue; how many were refused.

        `settle_runs` goes on with the rest, also with what is still found or given back.
        """
        conn.execute(sa.update(runs).where(runs.c.id == run_id).values(is_spent=True))
        dropped = conn.execute(_QUEUED_OF_RUN, {"run_id": run_id, "n": REQUEUE_CHUNK}).all()
        for chunk in _chunks(sorted(row.id for row in dropped)):
            conn.execute(_DROP, {"ids": chunk, "b_reason": reason.value})
        rows = [
            {"run_id": run_id, "urlhash": row.urlhash, "url": row.url, "reason": reason.value}
            | {"parent_url": row.parent_url, "rejected_at": now}
            for row in sorted(dropped, key=lambda row: row.urlhash)
        ]
        if not rows:
            return 0
        news = _inserted(conn, _insert_rejections(conn.dialect.name), rows)
        self._count(conn, Counter({(run_id, "left"): len(rows), (run_id, f"rejected:{reason.value}"): news}))
        return len(rows)

    def settle_runs(self, conn: Connection, now: datetime) -> list[tuple[int, RunState]]:
        """Move every run on, and end those that are over: (run id, STOPPED or FINISHED) of each that ended."""
        alive = conn.execute(
            sa.select(runs.c.id, runs.c.site_id, runs.c.state, runs.c.is_spent, runs.c.requeued_up_to)
            .where(runs.c.state.in_((RunState.RUNNING.value, RunState.STOPPING.value)))
            .order_by(runs.c.id)
            .with_for_update(skip_locked=True)
        ).all()
        ended = []
        for run in alive:
            _forget_refusals(conn, run)
            state = self._settled(conn, run, now)
            if state is not None:
                ended.append((run.id, state))
        return ended

    def learn_browser(self, conn: Connection, site_id: int, needs_browser: bool) -> None:
        """Remember of a site with `render = auto` whether its pages need the browser."""
        conn.execute(sa.update(sites).where(sites.c.id == site_id).values(needs_browser=needs_browser))

    # robots.txt, kept with its host.

    def load_robots(self, conn: Connection, host: str) -> RobotsFile | None:
        """The last answer to the host's robots.txt, expired or not; None if it was never asked."""
        row = conn.execute(
            sa.select(hosts.c.robots_status, hosts.c.robots_body, hosts.c.robots_expires_at).where(
                hosts.c.host == host, hosts.c.robots_status.is_not(None)
            )
        ).first()
        return (
            None if row is None else RobotsFile(host, row.robots_status, row.robots_body or b"", row.robots_expires_at)
        )

    def save_robots(self, conn: Connection, robots_file: RobotsFile) -> None:
        """Keep the answer to a host's robots.txt."""
        _host_ids(conn, {robots_file.host})
        conn.execute(
            sa.update(hosts)
            .where(hosts.c.host == robots_file.host)
            .values(
                robots_status=robots_file.status,
                robots_body=robots_file.body,
                robots_expires_at=robots_file.expires_at,
            )
        )

    # Counting and ending.

    def _count(self, conn: Connection, counts: Counter[tuple[int, str]]) -> None:
        rows = [
            {"run_id": run_id, "name": name, "shard": self._shard, "n": n}
            for (run_id, name), n in sorted(counts.items())
            if n
        ]
        if rows:
            conn.execute(_add_counts(conn.dialect.name), rows)

    def _count_outcomes(
        self, conn: Connection, retries: list[CrawlOutcome], ended: list[CrawlOutcome], now: datetime
    ) -> None:
        counts = Counter((outcome.claim.target.run_id, "retried") for outcome in retries)
        visits: Counter[int] = Counter()
        for outcome in ended:
            run_id = outcome.claim.target.run_id
            counts[run_id, "left"] += 1
            if outcome.status in VISITED:
                counts[run_id, VISITED[outcome.status]] += 1
                visits[run_id] += 1
            elif outcome.status is CrawlStatus.FETCH_ERROR:
                counts[run_id, f"error:{outcome.reason or FetchErrorKind.INTERNAL.value}"] += 1
        existing = _existing_runs(conn, {run_id for run_id, _ in counts})
        self._count(conn, Counter({key: n for key, n in counts.items() if key[0] in existing}))
        at = int(now.timestamp()) // SAMPLE_S * SAMPLE_S
        samples = [
            {"run_id": run_id, "at": at, "shard": self._shard, "pages": n}
            for run_id, n in sorted(visits.items())
            if run_id in existing
        ]
        if samples:
            conn.execute(_add_samples(conn.dialect.name), samples)

    def _of_open_runs(self, conn: Connection, wanted: dict[bytes, CrawlUrl]) -> dict[bytes, CrawlUrl]:
        run_ids = {target.run_id for target in wanted.values()}
        ended = RunState.FINISHED.value
        is_open = set(
            conn.execute(
                sa.select(runs.c.id)
                .where(runs.c.id.in_(sorted(run_ids)), runs.c.state != ended)
                .with_for_update(read=True, key_share=True)
            ).scalars()
        )
        if run_ids <= is_open:
            return wanted
        return {digest: target for digest, target in wanted.items() if target.run_id in is_open}

    def _take_back_rejections(
        self, conn: Connection, run_id: int, hashes: list[bytes], counts: Counter[tuple[int, str]]
    ) -> None:
        """What is queued after all is not refused any more (found deeper first, then within the depth)."""
        for chunk in _chunks(hashes):
            reasons = conn.execute(_UNREJECT, {"run_id": run_id, "hashes": chunk}).scalars()
            counts.subtract((run_id, f"rejected:{reason}") for reason in reasons)

    def _settled(self, conn: Connection, run: Any, now: datetime) -> RunState | None:
        """End one run if it is over."""
        if run.state == RunState.STOPPING.value:
            if _is_any(conn, _LEASED_ALIVE, run.id, now):
                return None
            conn.execute(_UNLEASE_RUN, {"b_run_id": run.id})
            return _end(conn, run.id, RunState.STOPPED, "stopped", now)
        if run.is_spent:
            self.drop_queue(conn, run.id, Rejection.BUDGET, now)
        elif run.requeued_up_to is not None:
            self.requeue_known(conn, run.site_id, run.id, now)
            if conn.execute(sa.select(runs.c.requeued_up_to).where(runs.c.id == run.id)).scalar() is not None:
                return None
        if _is_any(conn, _QUEUED_ANY, run.id, now) or _is_any(conn, _LEASED_ANY, run.id, now):
            return None
        return _end(conn, run.id, RunState.FINISHED, _why_finished(conn, run.id, run.is_spent), now)


def lease_owners(conn: Connection) -> set[str]:
    """The workers that hold hosts."""
    return set(
        conn.execute(sa.select(hosts.c.lease_owner).where(hosts.c.lease_owner.is_not(None)).distinct()).scalars()
    )


def free_hosts(conn: Connection, dead: Sequence[str], now: datetime) -> int:
    """End the leases of workers that are known to be dead, and queue again what they held; how many hosts."""
    theirs = conn.execute(
        sa.select(hosts.c.id).where(hosts.c.lease_owner.in_(dead)).order_by(hosts.c.id).with_for_update()
    )
    ids = list(theirs.scalars())
    _give_back(conn, ids)
    for chunk in _chunks(ids):
        conn.execute(
            sa.update(hosts).where(hosts.c.id.in_(chunk)).values(lease_owner=None, lease_until=None, ready_at=now)
        )
    return len(ids)


def totals(conn: Connection, run_id: int) -> dict[str, int]:
    """A run's counts by name."""
    rows = conn.execute(
        sa.select(run_counts.c.name, sa.func.sum(run_counts.c.n).label("n"))
        .where(run_counts.c.run_id == run_id)
        .group_by(run_counts.c.name)
    )
    return {row.name: int(row.n) for row in rows if row.n}


# Statements that are used over and over, built once. Parameters that name columns of an UPDATE begin with b_.

_KNOWN = sa.select(
    urls.c.urlhash, urls.c.id, urls.c.run_id, urls.c.queue_state, urls.c.priority, urls.c.depth, urls.c.kind
).where(urls.c.urlhash.in_(sa.bindparam("hashes", expanding=True)))

_IMPROVE = (
    sa.update(urls)
    .where(urls.c.urlhash == sa.bindparam("b_urlhash"), _IS_QUEUED)
    .values(
        priority=sa.case(
            (urls.c.priority < sa.bindparam("b_priority"), sa.bindparam("b_priority")), else_=urls.c.priority
        ),
        depth=sa.case((urls.c.depth > sa.bindparam("b_depth"), sa.bindparam("b_depth")), else_=urls.c.depth),
        parent_url=sa.case(
            (urls.c.depth > sa.bindparam("b_depth"), sa.bindparam("b_parent_url", type_=sa.Text)),
            else_=urls.c.parent_url,
        ),
    )
)

_QUEUE_AGAIN = (
    sa.update(urls)
    .where(
        urls.c.urlhash == sa.bindparam("b_urlhash"),
        _IS_NOT_LEASED,
        sa.or_(urls.c.run_id.is_(None), urls.c.run_id < sa.bindparam("b_run_id")),
    )
    .values(
        queue_state=QueueState.QUEUED.value,
        site_id=sa.bindparam("b_site_id"),
        run_id=sa.bindparam("b_run_id"),
        url=sa.bindparam("b_url"),
        host_id=sa.bindparam("b_host_id"),
        priority=sa.bindparam("b_priority"),
        depth=sa.bindparam("b_depth"),
        kind=sa.bindparam("b_kind"),
        parent_url=sa.bindparam("b_parent_url"),
        anchor=sa.bindparam("b_anchor"),
        redirects=sa.bindparam("b_redirects"),
        tries=0,
        next_visit_at=None,
    )
)

_REQUEUE = (
    sa.update(urls)
    .where(urls.c.id.in_(sa.bindparam("ids", expanding=True)), _IS_NOT_LEASED)
    .values(
        queue_state=QueueState.QUEUED.value,
        run_id=sa.bindparam("b_run_id"),
        # What was a seed is none any more unless it is added as one again.
        kind=sa.case((IS_SEED, LinkKind.LINK.value), else_=urls.c.kind),
        tries=0,
        next_visit_at=None,
    )
)

_READY = (
    sa.select(hosts.c.id, hosts.c.host, hosts.c.lease_owner, hosts.c.next_request_at)
    .where(hosts.c.ready_at <= sa.bindparam("now"))
    .order_by(hosts.c.ready_at)
    .limit(sa.bindparam("n"))
    .with_for_update(skip_locked=True)
)

_TAKE = (
    sa.update(urls)
    .where(urls.c.id.in_(sa.bindparam("ids", expanding=True)), _IS_QUEUED)
    .values(
        queue_state=QueueState.LEASED.value,
        generation=sa.case(
            (urls.c.generation < sa.bindparam("floor"), sa.bindparam("floor")), else_=urls.c.generation + 1
        ),
    )
    .returning(
        urls.c.id,
        urls.c.url,
        urls.c.urlkey,
        urls.c.host_id,
        urls.c.site_id,
        urls.c.run_id,
        urls.c.depth,
        urls.c.priority,
        urls.c.kind,
        urls.c.parent_url,
        urls.c.anchor,
        urls.c.redirects,
        urls.c.generation,
        urls.c.tries,
        urls.c.etag,
        urls.c.last_modified,
        urls.c.digest,
        urls.c.capture_id,
        urls.c.status,
    )
)

_FENCE = (
    sa.select(urls.c.id, urls.c.generation, urls.c.queue_state)
    .where(urls.c.id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(urls.c.id)
    .with_for_update()
)

_RETRY = (
    sa.update(urls)
    .where(urls.c.id == sa.bindparam("b_id"))
    .values(
        queue_state=QueueState.QUEUED.value,
        status=sa.bindparam("b_status"),
        reason=sa.bindparam("b_reason"),
        message=sa.bindparam("b_message"),
        visited_at=sa.bindparam("b_visited_at"),
        next_visit_at=sa.bindparam("b_next_visit_at"),
        tries=urls.c.tries + 1,
    )
)

_END = (
    sa.update(urls)
    .where(urls.c.id == sa.bindparam("b_id"))
    .values(
        queue_state=QueueState.DONE.value,
        status=sa.bindparam("b_status"),
        reason=sa.bindparam("b_reason"),
        message=sa.bindparam("b_message"),
        visited_at=sa.bindparam("b_visited_at"),
        next_visit_at=sa.bindparam("b_next_visit_at"),
        tries=sa.case((sa.bindparam("b_failed", type_=sa.Boolean), urls.c.tries + 1), else_=0),
    )
)

_END_WITH_VALIDATORS = _END.values(
    etag=sa.bindparam("b_etag"),
    last_modified=sa.bindparam("b_last_modified"),
    digest=sa.bindparam("b_digest"),
    capture_id=sa.bindparam("b_capture_id"),
)

_UNLEASE = (
    sa.update(urls)
    .where(urls.c.id.in_(sa.bindparam("ids", expanding=True)), _IS_LEASED)
    .values(queue_state=QueueState.QUEUED.value)
)

_UNLEASE_RUN = (
    sa.update(urls)
    .where(_IS_LEASED, urls.c.run_id == sa.bindparam("b_run_id"))
    .values(queue_state=QueueState.QUEUED.value)
)

_UNLEASE_HOSTS = (
    sa.update(urls)
    .where(urls.c.host_id.in_(sa.bindparam("ids", expanding=True)), _IS_LEASED)
    .values(queue_state=QueueState.QUEUED.value)
)

_LEAVE = (
    sa.update(hosts)
    .where(hosts.c.id == sa.bindparam("b_id"))
    .values(
        lease_owner=None,
        lease_until=None,
        next_request_at=sa.bindparam("b_at"),
        ready_at=sa.bindparam("b_at", type_=hosts.c.ready_at.type),
        failures=sa.bindparam("b_failures"),
    )
)

_DROP = (
    sa.update(urls)
    .where(urls.c.id.in_(sa.bindparam("ids", expanding=True)), _IS_QUEUED)
    .values(queue_state=QueueState.DONE.value, reason=sa.bindparam("b_reason"), next_visit_at=None)
)

_QUEUED_OF_RUN = (
    sa.select(urls.c.id, urls.c.urlhash, urls.c.url, urls.c.parent_url)
    .where(urls.c.run_id == sa.bindparam("run_id"), _IS_QUEUED)
    .limit(sa.bindparam("n"))
    .with_for_update()
)

_UNREJECT = (
    sa.delete(rejections)
    .where(
        rejections.c.run_id == sa.bindparam("run_id"),
        rejections.c.urlhash.in_(sa.bindparam("hashes", expanding=True)),
    )
    .returning(rejections.c.reason)
)

_QUEUED_ANY = sa.select(urls.c.id).where(urls.c.run_id == sa.bindparam("run_id"), _IS_QUEUED).limit(1)
_LEASED_ANY = sa.select(urls.c.host_id).where(urls.c.run_id == sa.bindparam("run_id"), _IS_LEASED).limit(1)
_LEASED_ALIVE = (
    sa.select(urls.c.host_id)
    .join(hosts, hosts.c.id == urls.c.host_id)
    .where(urls.c.run_id == sa.bindparam("run_id"), _IS_LEASED, hosts.c.lease_until > sa.bindparam("now"))
    .limit(1)
)


@cache
def _dialect_insert(dialect: str, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


@cache
def _insert_new(dialect: str) -> sa.Insert:
    return _dialect_insert(dialect, urls).on_conflict_do_nothing(index_elements=["urlhash"])


@cache
def _insert_rejections(dialect: str) -> sa.Insert:
    return _dialect_insert(dialect, rejections).on_conflict_do_nothing()


@cache
def _add_counts(dialect: str) -> sa.Insert:
    statement = _dialect_insert(dialect, run_counts)
    return statement.on_conflict_do_update(
        index_elements=["run_id", "name", "shard"], set_={"n": run_counts.c.n + statement.excluded.n}
    )


@cache
def _add_samples(dialect: str) -> sa.Insert:
    statement = _dialect_insert(dialect, run_samples)
    return statement.on_conflict_do_update(
        index_elements=["run_id", "at", "shard"], set_={"pages": run_samples.c.pages + statement.excluded.pages}
    )


@cache
def _best_urls(dialect: str) -> sa.Select[tuple[int, int, float]]:
    """The best queued URLs of each of some hosts and each running run, a few of each.

    PostgreSQL wants a lateral join where SQLite, which has none, looks up an IN list that depends on the outer row.
    """
    q = urls.alias("q")
    best = (
        sa.select(q.c.id)
        .where(
            q.c.run_id == runs.c.id,
            q.c.host_id == hosts.c.id,
            q.c.queue_state == sa.literal_column(str(QueueState.QUEUED.value)),
            sa.or_(q.c.next_visit_at.is_(None), q.c.next_visit_at <= sa.bindparam("now")),
        )
        .order_by(q.c.priority.desc(), q.c.id)
        .limit(sa.bindparam("n"))
        .correlate(runs, hosts)
    )
    among = hosts.c.id.in_(sa.bindparam("hosts", expanding=True))
    columns = sa.select(urls.c.host_id, urls.c.id, urls.c.priority)
    if dialect == "postgresql":
        lateral = best.lateral("best")
        pairs = hosts.join(runs, _GIVES_OUT).join(lateral, sa.true()).join(urls, urls.c.id == lateral.c.id)
    else:
        pairs = hosts.join(runs, _GIVES_OUT).join(urls, urls.c.id.in_(best))
    return columns.select_from(pairs).where(among)


def _inserted(conn: Connection, statement: sa.Insert, rows: list[dict[str, Any]]) -> int:
    """Insert rows; how many were not there before."""
    return conn.execute(statement, rows, execution_options={"preserve_rowcount": True}).rowcount


def _chunks(items: Sequence[T]) -> Iterator[list[T]]:
    return (list(items[start : start + CHUNK]) for start in range(0, len(items), CHUNK))


def _best_of_each(found: Iterable[CrawlUrl]) -> dict[bytes, CrawlUrl]:
    """Each URL once, as the newest run, the best priority and then the least depth has it; in order of discovery."""
    best: dict[bytes, CrawlUrl] = {}
    for target in found:
        digest = urlhash(target.urlkey)
        other = best.get(digest)
        if other is None or _rank(target) > _rank(other):
            best[digest] = target
    return best


def _rank(target: CrawlUrl) -> tuple[int, bool, float, int]:
    return target.run_id, target.kind is LinkKind.SEED, target.priority, -target.depth


def _queue_up(conn: Connection, run_ids: set[int]) -> None:
    """PostgreSQL: workers add to one run one after the other, or they could wait for each other's new URLs."""
    if conn.dialect.name == "postgresql":
        for run_id in sorted(run_ids):
            conn.execute(sa.select(sa.func.pg_advisory_xact_lock(ADDING, run_id % 2**31)))


def _known(conn: Connection, hashes: Sequence[bytes]) -> dict[bytes, Any]:
    return {row.urlhash: row for chunk in _chunks(hashes) for row in conn.execute(_KNOWN, {"hashes": chunk})}


def _is_better(target: CrawlUrl, row: Any) -> bool:
    return bool(target.priority > row.priority or target.depth < row.depth)


def _leaves_queue(row: Any) -> bool:
    """A URL that an older run still had queued goes over to a newer one."""
    return row.run_id is not None and row.queue_state == QueueState.QUEUED


def _is_requeued(row: Any, run_id: int) -> bool:
    return bool(
        (row.run_id is None or row.run_id < run_id)
        and row.queue_state != QueueState.LEASED
        and row.status != CrawlStatus.REJECTED
    )


def _by_run(hashes: Iterable[bytes], wanted: Mapping[bytes, CrawlUrl]) -> Iterator[tuple[int, list[bytes]]]:
    """The hashes of each run; in order of discovery within a run."""
    in_order = sorted(hashes, key=lambda digest: wanted[digest].run_id)
    for run_id, group in groupby(in_order, key=lambda digest: wanted[digest].run_id):
        yield run_id, list(group)


def _improvement(digest: bytes, target: CrawlUrl) -> dict[str, Any]:
    return {
        "b_urlhash": digest,
        "b_priority": target.priority,
        "b_depth": target.depth,
        "b_parent_url": target.parent_url,
    }


def _new_row(digest: bytes, target: CrawlUrl, host_ids: Mapping[str, int], now: datetime) -> dict[str, Any]:
    return {
        "urlhash": digest,
        "url": target.url,
        "urlkey": None if target.urlkey == target.url else target.urlkey,
        "host_id": host_ids[target.host],
        "site_id": target.site_id,
        "run_id": target.run_id,
        "queue_state": 0,
        "priority": target.priority,
        "depth": target.depth,
        "kind": target.kind.value,
        "parent_url": target.parent_url,
        "anchor": target.anchor,
        "redirects": target.redirects,
        "discovered_at": now,
        "status": "discovered",
    }


def _again_row(digest: bytes, target: CrawlUrl, host_ids: Mapping[str, int]) -> dict[str, Any]:
    return {
        "b_urlhash": digest,
        "b_url": target.url,
        "b_host_id": host_ids[target.host],
        "b_site_id": target.site_id,
        "b_run_id": target.run_id,
        "b_priority": target.priority,
        "b_depth": target.depth,
        "b_kind": target.kind.value,
        "b_parent_url": target.parent_url,
        "b_anchor": target.anchor,
        "b_redirects": target.redirects,
    }


def _rejection_row(digest: bytes, url: RejectedUrl, now: datetime) -> dict[str, Any]:
    return {
        "run_id": url.run_id,
        "urlhash": digest,
        "url": url.url,
        "reason": url.reason.value,
        "parent_url": url.parent_url,
        "rejected_at": now,
    }


def _rejected(outcome: CrawlOutcome) -> RejectedUrl:
    target = outcome.claim.target
    return RejectedUrl(target.run_id, target.url, target.urlkey, Rejection(outcome.reason or ""), target.parent_url)


def _is_retry(outcome: CrawlOutcome) -> bool:
    return outcome.status is CrawlStatus.FETCH_ERROR and outcome.next_visit_at is not None


def _outcome_row(outcome: CrawlOutcome, now: datetime) -> dict[str, Any]:
    row = {
        "b_id": outcome.claim.url_id,
        "b_status": outcome.status.value,
        "b_reason": outcome.reason,
        "b_message": outcome.message,
        "b_visited_at": now,
        "b_next_visit_at": outcome.next_visit_at,
    }
    if _is_retry(outcome):
        return row
    row["b_failed"] = outcome.status in (CrawlStatus.FETCH_ERROR, CrawlStatus.GONE)
    if outcome.validators is not None:
        row |= {
            "b_etag": outcome.validators.etag,
            "b_last_modified": outcome.validators.last_modified,
            "b_digest": outcome.validators.digest,
            "b_capture_id": outcome.validators.capture_id,
        }
    return row


def _existing_runs(conn: Connection, run_ids: set[int]) -> set[int]:
    """Those runs that are there, and stay so until the transaction ends (their site may be deleted meanwhile)."""
    if not run_ids:
        return set()
    wanted = runs.c.id.in_(sorted(run_ids))
    return set(conn.execute(sa.select(runs.c.id).where(wanted).with_for_update(read=True, key_share=True)).scalars())


def _host_ids(conn: Connection, names: set[str]) -> dict[str, int]:
    """The ids of hosts, made where they are new."""
    wanted = sorted(names)
    ids = _stored_host_ids(conn, wanted)
    missing = [name for name in wanted if name not in ids]
    if missing:
        rows = [{"host": name, "next_request_at": NEVER_ASKED} for name in missing]
        conn.execute(insert(conn, hosts).on_conflict_do_nothing(index_elements=["host"]), rows)
        ids |= _stored_host_ids(conn, missing)
    return ids


def _stored_host_ids(conn: Connection, names: Sequence[str]) -> dict[str, int]:
    select = sa.select(hosts.c.host, hosts.c.id).where(hosts.c.host.in_(sa.bindparam("names", expanding=True)))
    return {row.host: row.id for chunk in _chunks(names) for row in conn.execute(select, {"names": chunk})}


def _wake(conn: Connection, host_ids: Iterable[int]) -> None:
    """Hosts that got something queued are worth a look, as soon as they may be asked."""
    for chunk in _chunks(sorted(host_ids)):
        if conn.dialect.name == "postgresql":  # locks in order; a claimer that found the host empty is waited for
            conn.execute(sa.select(hosts.c.id).where(hosts.c.id.in_(chunk)).order_by(hosts.c.id).with_for_update())
        conn.execute(
            sa.update(hosts)
            .where(hosts.c.id.in_(chunk), hosts.c.lease_owner.is_(None))
            .values(ready_at=hosts.c.next_request_at)
        )


def _wake_run(conn: Connection, run_id: int) -> None:
    """All hosts of which this run has something queued are worth a look."""
    has_queue = sa.exists().where(urls.c.run_id == run_id, urls.c.host_id == hosts.c.id, _IS_QUEUED)
    ids = list(conn.execute(sa.select(hosts.c.id).where(has_queue)).scalars())
    _wake(conn, ids)


def _give_back(conn: Connection, host_ids: list[int]) -> None:
    """What a lost lease still held is queued again."""
    for chunk in _chunks(host_ids):
        conn.execute(_UNLEASE_HOSTS, {"ids": chunk})


def _best_ids(conn: Connection, host_ids: list[int], now: datetime, n: int) -> dict[int, list[int]]:
    """The ids of the best `n` queued URLs of each host, over all its runs."""
    best: dict[int, list[int]] = {}
    rows = conn.execute(_best_urls(conn.dialect.name), {"hosts": host_ids, "now": now, "n": n})
    in_order = sorted(rows, key=lambda row: (row.host_id, -row.priority, row.id))
    for host_id, group in groupby(in_order, key=lambda row: row.host_id):
        best[host_id] = [row.id for row in islice(group, n)]
    return best


def _take(conn: Connection, ids: list[int], ready: Sequence[Any], now: datetime) -> list[Claim]:
    """Lease URLs: a new generation of each.

    A generation is never below the time in seconds, so that it grows past what the index knows also after a URL
    was deleted and found again, or the database was restored from an older copy.
    """
    names = {host.id: host.host for host in ready}
    order = {id_: position for position, id_ in enumerate(ids)}
    floor = int(now.timestamp())
    taken: list[Any] = []
    for chunk in _chunks(sorted(ids)):
        taken += conn.execute(_TAKE, {"ids": chunk, "floor": floor}).all()
    return [_claim(row, names[row.host_id]) for row in sorted(taken, key=lambda row: order[row.id])]


def _claim(row: Any, host: str) -> Claim:
    target = CrawlUrl(
        url=row.url,
        urlkey=row.urlkey or row.url,
        host=host,
        site_id=row.site_id,
        run_id=row.run_id,
        depth=row.depth,
        priority=row.priority,
        kind=LinkKind(row.kind),
        parent_url=row.parent_url,
        anchor=row.anchor,
        redirects=row.redirects,
    )
    validators = Validators(row.etag, row.last_modified, row.digest, row.capture_id)
    return Claim(target, row.id, row.generation, row.tries, validators, CrawlStatus(row.status))


def _put_aside(conn: Connection, idle: Sequence[Any]) -> None:
    """Hosts with nothing to give now: looked at again when their earliest retry comes, or when something is added."""
    if not idle:
        return
    earliest = (
        sa.select(sa.func.min(urls.c.next_visit_at))
        .join(runs, sa.and_(runs.c.id == urls.c.run_id, _GIVES_OUT))
        .where(urls.c.host_id == hosts.c.id, _IS_QUEUED)
        .scalar_subquery()
    )
    for chunk in _chunks([host.id for host in idle]):
        conn.execute(
            sa.update(hosts).where(hosts.c.id.in_(chunk)).values(lease_owner=None, lease_until=None, ready_at=earliest)
        )


def _run_infos(conn: Connection, which: sa.ColumnElement[bool], resumed: set[int]) -> list[RunInfo]:
    rows = conn.execute(
        sa.select(runs.c.id, runs.c.site_id, sites.c.key, sites.c.settings, sites.c.needs_browser)
        .join(sites, sites.c.id == runs.c.site_id)
        .where(which)
        .order_by(runs.c.id)
    ).all()
    if not rows:
        return []
    pages = _pages(conn, [row.id for row in rows])
    extra_hosts = seed_hosts(conn, [row.site_id for row in rows])
    return [
        RunInfo(
            run_id=row.id,
            site_id=row.site_id,
            key=row.key,
            settings=row.settings,
            needs_browser=row.needs_browser,
            extra_hosts=extra_hosts.get(row.site_id, frozenset()),
            pages=pages.get(row.id, 0),
            resumed=row.id in resumed,
        )
        for row in rows
    ]


def _pages(conn: Connection, run_ids: list[int]) -> dict[int, int]:
    rows = conn.execute(
        sa.select(run_counts.c.run_id, sa.func.sum(run_counts.c.n).label("n"))
        .where(run_counts.c.run_id.in_(run_ids), run_counts.c.name.in_(PAGES))
        .group_by(run_counts.c.run_id)
    )
    return {row.run_id: int(row.n) for row in rows}


def _forget_refusals(conn: Connection, run: Any) -> None:
    """Delete some of the refused URLs of runs that are no longer looked at."""
    recent = (
        sa.select(runs.c.id)
        .where(runs.c.site_id == run.site_id, runs.c.id < run.id)
        .order_by(runs.c.id.desc())
        .limit(REFUSALS_KEPT_RUNS - 1 + OLD_RUNS_LOOKED_AT)
    )
    for old_id in list(conn.execute(recent).scalars())[REFUSALS_KEPT_RUNS - 1 :]:
        hashes = conn.execute(
            sa.select(rejections.c.urlhash).where(rejections.c.run_id == old_id).limit(FORGET_CHUNK)
        ).scalars()
        chunks = list(_chunks(list(hashes)))
        for chunk in chunks:
            conn.execute(_UNREJECT, {"run_id": old_id, "hashes": chunk})
        if chunks:
            return


def _is_any(conn: Connection, statement: sa.Select[Any], run_id: int, now: datetime) -> bool:
    parameters = {"run_id": run_id, "now": now} if statement is _LEASED_ALIVE else {"run_id": run_id}
    return conn.execute(statement, parameters).first() is not None


def _end(conn: Connection, run_id: int, state: RunState, reason: str, now: datetime) -> RunState:
    finished_at = now if state is RunState.FINISHED else None
    conn.execute(
        sa.update(runs).where(runs.c.id == run_id).values(state=state.value, reason=reason, finished_at=finished_at)
    )
    return state


def _why_finished(conn: Connection, run_id: int, is_spent: bool) -> str:
    counts = totals(conn, run_id)
    if is_spent:
        return f"page budget reached ({sum(counts.get(name, 0) for name in PAGES)} pages)"
    if not any(counts.get(name) for name in (*PAGES, VISITED[CrawlStatus.REDIRECTION])):
        return "no page could be fetched"
    return "every URL visited"
