"""What did not work and why: failures, refusals, refused documents, and all that is known of one URL."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from crawler import database
from crawler.database import QueueState, captures, run_counts, runs, sites, urls
from crawler.database import rejections as rejections_table
from crawler.errors import BadUrl
from crawler.records import CrawlStatus, CrawlUrl, IndexState, LinkKind, Rejection
from crawler.scope import Scope
from crawler.urls import host_of, normalize, urlhash, urlkey

SHOWN_URLS = 20
"""URLs shown of each group unless more are asked for."""
SHOWN_CAPTURES = 50

# As in the partial indexes, or they are not used.
_HAS_FAILED = urls.c.status.in_((sa.literal_column("'fetch_error'"), sa.literal_column("'gone'")))
_IS_REFUSED = captures.c.index_state == sa.literal_column(f"'{IndexState.REFUSED.value}'")


@dataclass(frozen=True, slots=True)
class FailedUrl:
    url: str
    message: str | None
    visited_at: datetime | None
    parent_url: str | None


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The URLs of a run that failed for one cause."""

    cause: str
    """A FetchErrorKind value, or "gone"."""
    n: int
    urls: tuple[FailedUrl, ...]
    """Some of them."""


@dataclass(frozen=True, slots=True)
class RejectedGroup:
    """The URLs that a run left out for one reason."""

    reason: Rejection
    n: int
    urls: tuple[FailedUrl, ...]
    """Some of them."""


@dataclass(frozen=True, slots=True)
class RefusedDocument:
    """A capture that the extractor or Elasticsearch refused."""

    capture_id: int
    site_id: int
    url: str
    captured_at: datetime
    error: str


@dataclass(frozen=True, slots=True)
class KnownUrl:
    """A URL of the frontier as it stands."""

    url_id: int
    url: str
    urlkey: str
    site_id: int
    site_key: str
    run_id: int | None
    state: str
    """queued, leased or done."""
    depth: int
    priority: float
    kind: LinkKind
    parent_url: str | None
    anchor: str
    discovered_at: datetime
    generation: int
    tries: int
    status: CrawlStatus
    reason: str | None
    message: str | None
    visited_at: datetime | None
    next_visit_at: datetime | None
    capture_id: int | None


@dataclass(frozen=True, slots=True)
class SeenCapture:
    """One capture of a URL, for people."""

    capture_id: int
    run_id: int | None
    captured_at: datetime
    status: int
    content_type: str
    size_bytes: int
    digest: str
    faults: tuple[str, ...]
    rendered: bool
    unchanged: bool
    """It only refers to an earlier capture with the same payload."""
    index_state: IndexState
    index_error: str | None


@dataclass(frozen=True, slots=True)
class SeenRejection:
    """A run left the URL out."""

    site_key: str
    run_id: int
    reason: Rejection
    parent_url: str | None
    rejected_at: datetime


@dataclass(frozen=True, slots=True)
class ScopeVerdict:
    """What the scope of a site says of the URL now."""

    site_id: int
    site_key: str
    refusal: Rejection | None


@dataclass(frozen=True, slots=True)
class UrlHistory:
    """All that the crawl database knows of one URL, found or not."""

    url: str
    urlkey: str
    known: KnownUrl | None
    captures: tuple[SeenCapture, ...]
    """Newest first."""
    rejections: tuple[SeenRejection, ...]
    """Newest first; of the runs that still have their list."""
    scopes: tuple[ScopeVerdict, ...]
    """Of the site that has it, or else of all sites."""


def failures(engine: Engine, run_id: int, limit: int = SHOWN_URLS) -> list[FailureGroup]:
    """The failures of a run by cause, most frequent first, with some URLs of each."""
    with database.read(engine) as conn:
        counts = _counts_of_kind(conn, run_id, "error:") | _counts_named(conn, run_id, "gone")
        groups = [FailureGroup(cause, n, _failed_urls(conn, run_id, cause, limit)) for cause, n in counts.items()]
    return sorted(groups, key=lambda group: (-group.n, group.cause))


def rejections(engine: Engine, run_id: int, limit: int = SHOWN_URLS) -> list[RejectedGroup]:
    """What a run left out by reason, most frequent first, with some URLs of each."""
    with database.read(engine) as conn:
        counts = _counts_of_kind(conn, run_id, "rejected:")
        groups = [
            RejectedGroup(Rejection(reason), n, _rejected_urls(conn, run_id, reason, limit))
            for reason, n in counts.items()
        ]
    return sorted(groups, key=lambda group: (-group.n, group.reason))


def refused_documents(
    engine: Engine, site_id: int | None = None, limit: int = 100, run_id: int | None = None
) -> list[RefusedDocument]:
    """Captures that the index does not take, newest first."""
    statement = (
        sa.select(captures.c.id, captures.c.site_id, urls.c.url, captures.c.captured_at, captures.c.index_error)
        .join(urls, urls.c.id == captures.c.url_id)
        .where(_IS_REFUSED)
        .order_by(captures.c.id.desc())
        .limit(limit)
    )
    if site_id is not None:
        statement = statement.where(captures.c.site_id == site_id)
    if run_id is not None:
        statement = statement.where(captures.c.run_id == run_id)
    with database.read(engine) as conn:
        return [
            RefusedDocument(row.id, row.site_id, row.url, row.captured_at, row.index_error or "")
            for row in conn.execute(statement)
        ]


def explain(engine: Engine, url: str) -> UrlHistory:
    """All that is known of a URL. Raises BadUrl."""
    normal = normalize(url)
    key = urlkey(normal)
    digest = urlhash(key)
    with database.read(engine) as conn:
        row = conn.execute(
            sa.select(urls, sites.c.key.label("site_key"))
            .join(sites, sites.c.id == urls.c.site_id)
            .where(urls.c.urlhash == digest)
        ).first()
        return UrlHistory(
            url=normal,
            urlkey=key,
            known=None if row is None else _known(row),
            captures=() if row is None else _captures(conn, row.id),
            rejections=_seen_rejections(conn, digest),
            scopes=_scope_verdicts(conn, normal, key, row),
        )


def _counts_of_kind(conn: Connection, run_id: int, prefix: str) -> dict[str, int]:
    rows = conn.execute(
        sa.select(run_counts.c.name, sa.func.sum(run_counts.c.n).label("n"))
        .where(run_counts.c.run_id == run_id, run_counts.c.name.startswith(prefix))
        .group_by(run_counts.c.name)
    )
    return {row.name.removeprefix(prefix): int(row.n) for row in rows if row.n}


def _counts_named(conn: Connection, run_id: int, name: str) -> dict[str, int]:
    n = conn.execute(
        sa.select(sa.func.sum(run_counts.c.n)).where(run_counts.c.run_id == run_id, run_counts.c.name == name)
    ).scalar()
    return {name: int(n)} if n else {}


def _failed_urls(conn: Connection, run_id: int, cause: str, limit: int) -> tuple[FailedUrl, ...]:
    of_cause = urls.c.status == CrawlStatus.GONE.value if cause == CrawlStatus.GONE else urls.c.reason == cause
    rows = conn.execute(
        sa.select(urls.c.url, urls.c.message, urls.c.visited_at, urls.c.parent_url)
        .where(urls.c.run_id == run_id, _HAS_FAILED, of_cause, urls.c.queue_state == QueueState.DONE.value)
        .order_by(urls.c.id)
        .limit(limit)
    )
    return tuple(FailedUrl(row.url, row.message, row.visited_at, row.parent_url) for row in rows)


def _rejected_urls(conn: Connection, run_id: int, reason: str, limit: int) -> tuple[FailedUrl, ...]:
    """Some refused URLs; those that were refused at a visit have a sentence that says why."""
    table = rejections_table
    rows = conn.execute(
        sa.select(table.c.url, table.c.rejected_at, table.c.parent_url, urls.c.message)
        .outerjoin(urls, sa.and_(urls.c.urlhash == table.c.urlhash, urls.c.run_id == run_id))
        .where(table.c.run_id == run_id, table.c.reason == reason)
        .limit(limit)
    )
    return tuple(FailedUrl(row.url, row.message, row.rejected_at, row.parent_url) for row in rows)


def _known(row: Any) -> KnownUrl:
    return KnownUrl(
        url_id=row.id,
        url=row.url,
        urlkey=row.urlkey or row.url,
        site_id=row.site_id,
        site_key=row.site_key,
        run_id=row.run_id,
        state=QueueState(row.queue_state).name.lower(),
        depth=row.depth,
        priority=row.priority,
        kind=LinkKind(row.kind),
        parent_url=row.parent_url,
        anchor=row.anchor,
        discovered_at=row.discovered_at,
        generation=row.generation,
        tries=row.tries,
        status=CrawlStatus(row.status),
        reason=row.reason,
        message=row.message,
        visited_at=row.visited_at,
        next_visit_at=row.next_visit_at,
        capture_id=row.capture_id,
    )


def _captures(conn: Connection, url_id: int) -> tuple[SeenCapture, ...]:
    rows = conn.execute(
        sa.select(captures).where(captures.c.url_id == url_id).order_by(captures.c.id.desc()).limit(SHOWN_CAPTURES)
    )
    return tuple(
        SeenCapture(
            capture_id=row.id,
            run_id=row.run_id,
            captured_at=row.captured_at,
            status=row.status,
            content_type=row.content_type,
            size_bytes=row.size_bytes,
            digest=row.digest,
            faults=tuple(filter(None, row.faults.split(","))),
            rendered=row.dom_offset is not None,
            unchanged=row.revisit_of is not None,
            index_state=IndexState(row.index_state),
            index_error=row.index_error,
        )
        for row in rows
    )


def _seen_rejections(conn: Connection, digest: bytes) -> tuple[SeenRejection, ...]:
    """By the newest run of each site: its list of refusals is asked for this one URL."""
    newest = sa.select(sa.func.max(runs.c.id).label("run_id"), runs.c.site_id).group_by(runs.c.site_id).subquery()
    table = rejections_table
    rows = conn.execute(
        sa.select(sites.c.key, table.c.run_id, table.c.reason, table.c.parent_url, table.c.rejected_at)
        .select_from(newest)
        .join(sites, sites.c.id == newest.c.site_id)
        .join(table, sa.and_(table.c.run_id == newest.c.run_id, table.c.urlhash == digest))
        .order_by(table.c.rejected_at.desc())
    )
    return tuple(
        SeenRejection(row.key, row.run_id, Rejection(row.reason), row.parent_url, row.rejected_at) for row in rows
    )


def _scope_verdicts(conn: Connection, url: str, key: str, row: Any) -> tuple[ScopeVerdict, ...]:
    statement = sa.select(sites.c.id, sites.c.key, sites.c.settings).order_by(sites.c.key)
    if row is not None:
        statement = statement.where(sites.c.id == row.site_id)
    verdicts = []
    for site in conn.execute(statement):
        target = CrawlUrl(
            url, key, host_of(url), site.id, 0, depth=row.depth if row is not None else 0, kind=_kind(row)
        )
        verdicts.append(ScopeVerdict(site.id, site.key, _refusal(conn, site, target)))
    return _telling(verdicts)


def _kind(row: Any) -> LinkKind:
    return LinkKind.LINK if row is None else LinkKind(row.kind)


def _refusal(conn: Connection, site: Any, target: CrawlUrl) -> Rejection | None:
    try:
        scope = Scope(site.settings, database.seed_hosts(conn, [site.id]).get(site.id, frozenset()))
    except BadUrl:
        return Rejection.BAD_URL
    return scope.refusal(target)


def _telling(verdicts: Sequence[ScopeVerdict]) -> tuple[ScopeVerdict, ...]:
    """Sites that would take the URL, or leave it out for more than being on another host; all if there are none."""
    telling = [verdict for verdict in verdicts if verdict.refusal is not Rejection.SCOPE]
    return tuple(telling or verdicts)
