"""Rows of captures: written after their bytes are synced, waited on by the indexer, read for snapshots.

All functions work inside the caller's transaction. A capture waits until the indexer has Elasticsearch's word:
`claim_waiting` leases it to one indexer, `mark` ends its waiting, `defer` puts it off, `requeue` makes the newest
captures wait again. Only the newest capture of a URL waits; those before it are skipped.

A revisit carries the place of its payload itself, besides the number of the capture that first held it. So deleting
that capture's row (its page, its site) leaves every later one readable; the bytes stay in their file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from crawler.database import QueueState, captures, hosts, urls, warc_files, withdrawals
from crawler.database import insert as insert_into
from crawler.records import (
    Capture,
    CrawlStatus,
    CrawlUrl,
    Fault,
    IndexState,
    NewCapture,
    Original,
    StoredRecords,
    Withdrawal,
)
from crawler.urls import urlhash

T = TypeVar("T")

_CHUNK: Final = 500
"""Rows of one statement; SQLite takes 32,766 parameters."""

LONGEST_HOLD: Final = timedelta(minutes=10)
"""Nobody holds a capture, or puts one off, for longer at a time."""

_PAYLOAD: Final = ("payload_file_id", "payload_offset", "payload_length", "payload_dom_offset", "payload_dom_length")
_payload_files = warc_files.alias("payload_files")
_COLUMNS: Final = (captures, urls.c.url, urls.c.urlkey)


@dataclass(frozen=True, slots=True)
class Located:
    """A capture with the places of its bytes."""

    capture: Capture
    own: StoredRecords
    payload: StoredRecords | None
    """Where the payload lies, if the capture is only a reference."""


def insert(conn: Connection, new: Sequence[NewCapture], writer: str) -> list[int]:
    """The rows of captures whose bytes are synced; their ids in the same order.

    A revisit takes digest, size and payload's place from its original. Waiting captures of the same URLs are skipped
    in favour of the new ones.
    """
    if not new:
        return []
    file_ids = _file_ids(conn, {capture.stored.warc_path for capture in new}, writer, new[0].captured_at)
    originals = _rows(conn, {capture.revisit_of for capture in new if capture.revisit_of is not None})
    ids: list[int] = []
    for chunk in _chunks(new):
        rows = [_new_row(capture, file_ids, originals) for capture in chunk]
        statement = sa.insert(captures).returning(captures.c.id, sort_by_parameter_order=True)
        ids += conn.execute(statement, rows).scalars()
    waiting = {
        capture.claim.url_id: capture_id
        for capture, capture_id in zip(new, ids, strict=True)
        if capture.index_state is IndexState.WAITING
    }
    _supersede(conn, waiting)
    return ids


def get(conn: Connection, capture_id: int) -> Capture | None:
    """One capture."""
    located = locate(conn, capture_id)
    return located.capture if located else None


def locate(conn: Connection, capture_id: int) -> Located | None:
    """One capture and where its bytes lie."""
    return next(iter(_located(conn, captures.c.id == capture_id)), None)


def of_url(conn: Connection, urlkey: str, limit: int = 100) -> list[Capture]:
    """The captures of a page, newest first."""
    query = _select().where(urls.c.urlhash == urlhash(urlkey)).order_by(captures.c.id.desc()).limit(limit)
    return [_capture(row) for row in conn.execute(query)]


def latest(conn: Connection, urlkey: str) -> Capture | None:
    """The newest good capture of a page: an answer of 2xx or 304, a whole one if there is any."""
    is_cut = captures.c.faults.contains(Fault.PARTIAL.value)
    is_good = captures.c.status.between(200, 299) | (captures.c.status == 304)
    query = _select().where(urls.c.urlhash == urlhash(urlkey), is_good).order_by(is_cut, captures.c.id.desc()).limit(1)
    row = conn.execute(query).first()
    return None if row is None else _capture(row)


def by_digest(conn: Connection, digests: Collection[str]) -> dict[str, Original]:
    """For each payload that the archive holds already, the first whole capture that holds it."""
    query = (
        sa.select(captures.c.digest, captures.c.id, captures.c.captured_at, urls.c.url)
        .join(urls, urls.c.id == captures.c.url_id)
        .where(captures.c.digest.in_(sa.bindparam("digests", expanding=True)))
        .where(captures.c.revisit_of.is_(None), captures.c.faults == "", captures.c.dom_offset.is_(None))
        .order_by(captures.c.id.desc())
    )
    rows = [row for chunk in _chunks(list(digests)) for row in conn.execute(query, {"digests": chunk})]
    return {row.digest: Original(row.id, row.url, row.captured_at) for row in rows}


def originals(conn: Connection, capture_ids: Collection[int]) -> dict[int, Original]:
    """What a revisit has to say of the captures that it refers to."""
    query = (
        sa.select(captures.c.id, captures.c.captured_at, urls.c.url)
        .join(urls, urls.c.id == captures.c.url_id)
        .where(captures.c.id.in_(sa.bindparam("ids", expanding=True)))
    )
    rows = [row for chunk in _chunks(list(capture_ids)) for row in conn.execute(query, {"ids": chunk})]
    return {row.id: Original(row.id, row.url, row.captured_at) for row in rows}


def claim_waiting(conn: Connection, worker: str, now: datetime, limit: int, lease_s: float) -> list[Capture]:
    """Lease up to `limit` waiting captures to one indexer, oldest first; nobody else gets them until the lease ends."""
    query = (
        _select()
        .where(captures.c.index_state == IndexState.WAITING.value, _is_free(now))
        .order_by(captures.c.id)
        .limit(limit)
        .with_for_update(skip_locked=True, of=captures)
    )
    claimed = [_capture(row) for row in conn.execute(query)]
    lease = {
        "index_owner": worker,
        "index_not_before": now + timedelta(seconds=lease_s),
        "index_tries": captures.c.index_tries + 1,
    }
    for chunk in _chunks([capture.capture_id for capture in claimed]):
        conn.execute(sa.update(captures).where(captures.c.id.in_(chunk)).values(lease))
    return claimed


def has_waiting(conn: Connection, now: datetime) -> bool:
    """Whether `claim_waiting` would find any; asked by idle indexers, since it takes no write lock."""
    query = sa.select(captures.c.id).where(captures.c.index_state == IndexState.WAITING.value, _is_free(now)).limit(1)
    return conn.execute(query).first() is not None


def mark(conn: Connection, worker: str, capture_ids: Iterable[int], state: IndexState, error: str | None = None) -> int:
    """End the waiting of captures that this worker holds; returns how many still waited for it.

    One that was superseded, requeued or given to another worker meanwhile is left as it is.
    """
    ended = {"index_state": state.value, "index_error": error, "index_owner": None, "index_not_before": None}
    return _update_held(conn, worker, capture_ids, ended)


def defer(conn: Connection, worker: str, capture_ids: Iterable[int], until: datetime | None, error: str | None) -> int:
    """Put captures that this worker holds back; nobody gets them before `until`."""
    return _update_held(
        conn, worker, capture_ids, {"index_owner": None, "index_not_before": until, "index_error": error}
    )


def renew(conn: Connection, worker: str, capture_ids: Iterable[int], now: datetime, lease_s: float) -> int:
    """Hold on to captures for longer."""
    return _update_held(conn, worker, capture_ids, {"index_not_before": now + timedelta(seconds=lease_s)})


def index_owners(conn: Connection) -> set[str]:
    """The indexers that hold captures."""
    query = sa.select(captures.c.index_owner).where(
        captures.c.index_state == IndexState.WAITING.value, captures.c.index_owner.is_not(None)
    )
    return {owner for owner in conn.execute(query.distinct()).scalars() if owner is not None}


def free(conn: Connection, dead: Sequence[str]) -> int:
    """Let others have at once what indexers held that are known to be dead; how many captures."""
    statement = sa.update(captures).where(
        captures.c.index_state == IndexState.WAITING.value, captures.c.index_owner.in_(dead)
    )
    return conn.execute(statement.values(index_owner=None, index_not_before=None)).rowcount


def tries(conn: Connection, capture_ids: Collection[int]) -> dict[int, int]:
    """How often each capture was claimed since it began to wait."""
    query = sa.select(captures.c.id, captures.c.index_tries).where(captures.c.id.in_(list(capture_ids)))
    return {row.id: row.index_tries for row in conn.execute(query)}


def requeue(conn: Connection, *, site_id: int | None = None, refused_only: bool = False) -> int:
    """Make the newest capture of each page (of a site) that was indexed or refused wait again."""
    states = [IndexState.REFUSED.value] if refused_only else [IndexState.INDEXED.value, IndexState.REFUSED.value]
    is_page = captures.c.index_state != IndexState.SKIPPED.value
    newest = sa.select(sa.func.max(captures.c.id)).where(is_page).group_by(captures.c.url_id)
    if site_id is not None:
        newest = newest.where(captures.c.site_id == site_id)
    again = {"index_state": IndexState.WAITING.value, "index_error": None, "index_owner": None}
    statement = (
        sa.update(captures)
        .where(captures.c.id.in_(newest), captures.c.index_state.in_(states))
        .values(again | {"index_not_before": None, "index_tries": 0})
    )
    return conn.execute(statement).rowcount


def withdraw(conn: Connection, url_ids: Iterable[int], now: datetime) -> None:
    """Have the documents of these URLs leave the index, if they are in it; their captures stay."""
    for chunk in _chunks(list(url_ids)):
        leaving = sa.select(urls.c.urlhash, urls.c.generation, sa.literal(now, withdrawals.c.withdrawn_at.type)).where(
            urls.c.id.in_(chunk), urls.c.capture_id.is_not(None)
        )
        columns = ["urlhash", "generation", "withdrawn_at"]
        conn.execute(sa.insert(withdrawals).from_select(columns, leaving.order_by(urls.c.id)))


def withdrawn(conn: Connection, limit: int) -> list[Withdrawal]:
    """The documents that are still to leave the index, oldest first. Doing one twice does no harm."""
    query = sa.select(withdrawals).order_by(withdrawals.c.id).limit(limit)
    return [Withdrawal(row.id, row.urlhash.hex(), row.generation) for row in conn.execute(query)]


def forget_withdrawn(conn: Connection, withdrawal_ids: Collection[int]) -> None:
    """They have left."""
    conn.execute(sa.delete(withdrawals).where(withdrawals.c.id.in_(list(withdrawal_ids))))


def count_waiting(conn: Connection) -> int:
    """How many captures are on their way into Elasticsearch."""
    query = sa.select(sa.func.count()).where(captures.c.index_state == IndexState.WAITING.value)
    return int(conn.execute(query).scalar_one())


def file_paths(conn: Connection) -> dict[int, str]:
    """All files that the archive knows, by id."""
    return {row.id: row.path for row in conn.execute(sa.select(warc_files.c.id, warc_files.c.path))}


def in_file(conn: Connection, file_id: int) -> list[Located]:
    """The captures whose own records lie in a file, in its order."""
    return _located(conn, captures.c.warc_file_id == file_id, captures.c.offset)


def of_site(conn: Connection, site_id: int | None, after_id: int, limit: int) -> list[Located]:
    """Captures of a site (of all), a page at a time by id."""
    of_it = (
        captures.c.id > after_id if site_id is None else (captures.c.id > after_id) & (captures.c.site_id == site_id)
    )
    return _located(conn, of_it, captures.c.id, limit)


def forget_validators(conn: Connection, capture_ids: Collection[int]) -> int:
    """Have pages whose last good capture is one of these fetched whole at their next visit; how many pages."""
    nothing = dict.fromkeys(("etag", "last_modified", "digest", "capture_id"))
    pages = 0
    for chunk in _chunks(list(capture_ids)):
        held = sa.select(captures.c.url_id).where(captures.c.id.in_(chunk))
        statement = sa.update(urls).where(urls.c.id.in_(held), urls.c.capture_id.in_(chunk))
        pages += conn.execute(statement.values(nothing)).rowcount
    return pages


def adopt_url(conn: Connection, target: CrawlUrl, now: datetime) -> tuple[int, int]:
    """The id of a URL that a capture is imported for, made if it is new, and a new generation of it."""
    conn.execute(
        insert_into(conn, hosts).on_conflict_do_nothing(index_elements=["host"]),
        {"host": target.host, "next_request_at": datetime.fromtimestamp(0, now.tzinfo)},
    )
    row = {
        "urlhash": urlhash(target.urlkey),
        "url": target.url,
        "urlkey": None if target.urlkey == target.url else target.urlkey,
        "host_id": conn.execute(sa.select(hosts.c.id).where(hosts.c.host == target.host)).scalar_one(),
        "site_id": target.site_id,
        "run_id": None,
        "queue_state": QueueState.DONE.value,
        "priority": target.priority,
        "depth": target.depth,
        "kind": target.kind.value,
        "discovered_at": now,
        "status": CrawlStatus.FETCHED.value,
    }
    conn.execute(insert_into(conn, urls).on_conflict_do_nothing(index_elements=["urlhash"]), row)
    grown = (
        sa.update(urls)
        .where(urls.c.urlhash == row["urlhash"])
        # A worker that has the URL leased right now goes on with its generation.
        .values(generation=urls.c.generation + sa.case((urls.c.queue_state == QueueState.LEASED.value, 0), else_=1))
        .returning(urls.c.id, urls.c.generation)
    )
    url_id, generation = conn.execute(grown).one()
    return url_id, generation


def newest_at(conn: Connection, url_id: int) -> datetime | None:
    """When a URL was captured last."""
    newest: datetime | None = conn.execute(
        sa.select(sa.func.max(captures.c.captured_at, type_=captures.c.captured_at.type)).where(
            captures.c.url_id == url_id
        )
    ).scalar_one()
    return newest


def _is_free(now: datetime) -> sa.ColumnElement[bool]:
    """Not held; or held from a future that a clock set back has taken away."""
    until = captures.c.index_not_before
    return until.is_(None) | (until <= now) | (until > now + LONGEST_HOLD)


def _file_ids(conn: Connection, paths: set[str], writer: str, created_at: datetime) -> dict[str, int]:
    rows = [{"path": path, "writer": writer, "created_at": created_at} for path in sorted(paths)]
    conn.execute(insert_into(conn, warc_files).on_conflict_do_nothing(index_elements=["path"]), rows)
    query = sa.select(warc_files.c.path, warc_files.c.id).where(warc_files.c.path.in_(sorted(paths)))
    return {row.path: row.id for row in conn.execute(query)}


def _rows(conn: Connection, capture_ids: set[int]) -> dict[int, Any]:
    query = sa.select(captures).where(captures.c.id.in_(sa.bindparam("ids", expanding=True)))
    found = [row for chunk in _chunks(sorted(capture_ids)) for row in conn.execute(query, {"ids": chunk})]
    return {row.id: row for row in found}


def _new_row(new: NewCapture, file_ids: dict[str, int], originals: dict[int, Any]) -> dict[str, Any]:
    original = originals.get(new.revisit_of) if new.revisit_of is not None else None
    row = {
        "url_id": new.claim.url_id,
        "site_id": new.claim.target.site_id,
        "run_id": new.claim.target.run_id or None,
        "captured_at": new.captured_at,
        "status": new.status,
        "content_type": new.content_type,
        "digest": new.digest,
        "size_bytes": new.size_bytes,
        "generation": new.claim.generation,
        "faults": ",".join(new.faults),
        "revisit_of": new.revisit_of,
        "warc_file_id": file_ids[new.stored.warc_path],
        "offset": new.stored.offset,
        "length": new.stored.length,
        "dom_offset": new.stored.dom_offset,
        "dom_length": new.stored.dom_length,
        "index_state": new.index_state.value,
        **dict.fromkeys(_PAYLOAD),
    }
    return row if original is None else row | _of_original(new, original)


def _of_original(new: NewCapture, original: Any) -> dict[str, Any]:
    """An original that is a revisit itself points on to where the payload lies."""
    place = (original.warc_file_id, original.offset, original.length, original.dom_offset, original.dom_length)
    if original.payload_file_id is not None:
        place = tuple(getattr(original, name) for name in _PAYLOAD)
    return {
        "revisit_of": original.revisit_of if original.revisit_of is not None else original.id,
        "content_type": new.content_type or original.content_type,
        "digest": original.digest,
        "size_bytes": original.size_bytes,
        **dict(zip(_PAYLOAD, place, strict=True)),
    }


def _supersede(conn: Connection, waiting: dict[int, int]) -> None:
    """Of each URL only the newest capture goes on waiting."""
    if not waiting:
        return
    statement = (
        sa.update(captures)
        .where(
            captures.c.url_id == sa.bindparam("b_url_id"),
            captures.c.id < sa.bindparam("b_id"),
            captures.c.index_state == IndexState.WAITING.value,
        )
        .values(index_state=IndexState.SKIPPED.value, index_owner=None, index_not_before=None)
    )
    older = _urls_with_waiting(conn, waiting)
    if older:
        conn.execute(statement, [{"b_url_id": url_id, "b_id": waiting[url_id]} for url_id in older])


def _urls_with_waiting(conn: Connection, waiting: dict[int, int]) -> list[int]:
    """Those of the URLs that have more than the new capture waiting."""
    query = (
        sa.select(captures.c.url_id)
        .where(captures.c.url_id.in_(sa.bindparam("ids", expanding=True)))
        .where(captures.c.index_state == IndexState.WAITING.value)
        .group_by(captures.c.url_id)
        .having(sa.func.count() > 1)
    )
    return [url_id for chunk in _chunks(sorted(waiting)) for url_id in conn.execute(query, {"ids": chunk}).scalars()]


def _update_held(conn: Connection, worker: str, capture_ids: Iterable[int], values: dict[str, Any]) -> int:
    held = 0
    for chunk in _chunks(list(capture_ids)):
        statement = sa.update(captures).where(
            captures.c.id.in_(chunk),
            captures.c.index_owner == worker,
            captures.c.index_state == IndexState.WAITING.value,
        )
        held += conn.execute(statement.values(values)).rowcount
    return held


def _select() -> sa.Select[Any]:
    return sa.select(*_COLUMNS).join(urls, urls.c.id == captures.c.url_id)


def _located(
    conn: Connection,
    which: sa.ColumnElement[bool],
    order: sa.ColumnElement[Any] = captures.c.id,
    limit: int | None = None,
) -> list[Located]:
    query = (
        sa.select(*_COLUMNS, warc_files.c.path, _payload_files.c.path.label("payload_path"))
        .join(urls, urls.c.id == captures.c.url_id)
        .join(warc_files, warc_files.c.id == captures.c.warc_file_id)
        .outerjoin(_payload_files, _payload_files.c.id == captures.c.payload_file_id)
        .where(which)
        .order_by(order)
        .limit(limit)
    )
    return [
        Located(
            _capture(row),
            StoredRecords(row.path, row.offset, row.length, row.dom_offset, row.dom_length),
            _payload(row) if row.payload_path is not None else None,
        )
        for row in conn.execute(query)
    ]


def _payload(row: Any) -> StoredRecords:
    return StoredRecords(
        row.payload_path, row.payload_offset, row.payload_length, row.payload_dom_offset, row.payload_dom_length
    )


def _capture(row: Any) -> Capture:
    return Capture(
        capture_id=row.id,
        url_id=row.url_id,
        site_id=row.site_id,
        run_id=row.run_id,
        url=row.url,
        urlkey=row.urlkey or row.url,
        captured_at=row.captured_at,
        status=row.status,
        content_type=row.content_type,
        digest=row.digest,
        size_bytes=row.size_bytes,
        generation=row.generation,
        faults=tuple(Fault(word) for word in row.faults.split(",") if word),
        revisit_of=row.revisit_of,
        rendered=row.dom_offset is not None or row.payload_dom_offset is not None,
        index_state=IndexState(row.index_state),
        index_error=row.index_error,
    )


def _chunks(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK)]
