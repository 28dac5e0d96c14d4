"""WARC and ARC files of other programs, read as pages: any version, compressed or not, chunked bodies, odd heads."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from warcio.archiveiterator import ArchiveIterator
from warcio.bufferedreaders import ChunkedDataReader
from warcio.exceptions import ArchiveLoadFailed
from warcio.timeutils import iso_date_to_datetime

from crawler.archive.warc import HttpMessage, header, parse_http
from crawler.content_coding import decode
from crawler.errors import ArchiveError, CaptureDamaged
from crawler.records import Fault, FetchedPage, RenderedDom

_MAX_HEAD_BYTES: Final = 1_000_000
_PIECE_BYTES: Final = 65_536
_TRUNCATED: Final = {"length": Fault.TOO_LARGE, "time": Fault.TOO_SLOW}


@dataclass(frozen=True, slots=True)
class ForeignPage:
    """A page out of a file, and the names by which revisits speak of it."""

    page: FetchedPage
    record_id: str
    names: tuple[str, ...]
    """Record id, payload digest, and URL with date."""
    refers_to: tuple[str, ...] = ()
    """Of a revisit: the names of its payload, best first."""


def read_pages(path: Path, max_body_bytes: int) -> Iterator[ForeignPage]:
    """The pages of a file in its order, with their requests and rendered DOMs.

    Raises ArchiveError where the file cannot be read (on); what was yielded before holds.
    """
    early_requests: dict[str, bytes] = {}
    page: ForeignPage | None = None
    records = _records(path, max_body_bytes + _MAX_HEAD_BYTES)
    while True:
        try:
            record, block = next(records)
        except (StopIteration, ArchiveError) as end:
            if page is not None:
                yield page
            if isinstance(end, ArchiveError):
                raise
            return
        partner = _get(record, "WARC-Concurrent-To") or _get(record, "WARC-Refers-To")
        if record.rec_type == "request":
            if page is not None and partner == page.record_id:
                page = replace(page, page=replace(page.page, request_head=block))
            else:
                early_requests = {partner: block}
        elif record.rec_type == "conversion":
            if page is not None and partner == page.record_id and _is_html(record):
                page = replace(page, page=replace(page.page, rendered=_rendered(block, page.page.url)))
        elif (foreign := _foreign_page(record, block, max_body_bytes)) is not None:
            if page is not None:
                yield page
            request = early_requests.get(foreign.record_id, b"")
            page = replace(foreign, page=replace(foreign.page, request_head=request))


def _records(path: Path, max_bytes: int) -> Iterator[tuple[Any, bytes]]:
    """Each record with its block, read as far as `max_bytes`."""
    try:
        with path.open("rb") as file:
            for record in ArchiveIterator(file, no_record_parse=True, arc2warc=True):
                yield record, record.raw_stream.read(max_bytes)
    except (ArchiveLoadFailed, ValueError, EOFError, zlib.error) as exc:
        raise ArchiveError(f"{path.name} cannot be read as WARC: {str(exc).strip() or type(exc).__name__}") from exc
    except OSError as exc:
        raise ArchiveError(f"cannot read {path}: {exc.strerror or exc}") from exc


def _foreign_page(record: Any, block: bytes, max_body_bytes: int) -> ForeignPage | None:
    """The page of a response, resource or revisit record; None for anything else."""
    url, date = _get(record, "WARC-Target-URI").strip("<>"), _get(record, "WARC-Date")
    if record.rec_type not in ("response", "resource", "revisit") or not url.lower().startswith(("http:", "https:")):
        return None
    try:
        message = _message(record, block)
        fetched_at = iso_date_to_datetime(date).replace(tzinfo=UTC)
    except (CaptureDamaged, ValueError, TypeError):
        return None
    names = [_get(record, "WARC-Record-ID"), _get(record, "WARC-Payload-Digest"), f"{url} {date}"]
    refers_to: list[str] = []
    if record.rec_type == "revisit":
        place = f"{_get(record, 'WARC-Refers-To-Target-URI')} {_get(record, 'WARC-Refers-To-Date')}"
        refers_to = [_get(record, "WARC-Refers-To"), place, _get(record, "WARC-Payload-Digest")]
    page = _page(record, url, fetched_at, message, max_body_bytes)
    return ForeignPage(page, names[0], tuple(filter(None, names)), tuple(filter(str.strip, refers_to)))


def _page(record: Any, url: str, fetched_at: datetime, message: HttpMessage, max_body_bytes: int) -> FetchedPage:
    wire_body = message.body
    if "chunked" in header(message.headers, "Transfer-Encoding").lower():
        wire_body = _joined(wire_body)
    body, faults = decode(
        wire_body,
        header(message.headers, "Content-Encoding"),
        header(message.headers, "Content-Type"),
        max_body_bytes,
    )
    truncated = _get(record, "WARC-Truncated")
    if truncated and record.rec_type != "revisit":
        faults = tuple(sorted({*faults, _TRUNCATED.get(truncated, Fault.PARTIAL)}))
    return FetchedPage(
        url=url,
        status=message.status,
        reason=message.reason,
        headers=message.headers,
        request_head=b"",
        response_head=message.head,
        wire_body=wire_body,
        body=body,
        fetched_at=fetched_at,
        ip=_get(record, "WARC-IP-Address") or None,
        faults=faults,
    )


def _joined(chunked: bytes) -> bytes:
    """The chunks of a body in one piece; a body that only says that it is chunked is left as it is."""
    reader = ChunkedDataReader(io.BytesIO(chunked))
    return b"".join(iter(lambda: bytes(reader.read(_PIECE_BYTES)), b""))


def _message(record: Any, block: bytes) -> HttpMessage:
    if record.rec_type == "resource":
        return _resource(record, block)
    if record.rec_type == "revisit" and not block:
        head = b"HTTP/1.1 304 Not Modified\r\n\r\n"
        return HttpMessage(304, "Not Modified", (), head, b"")
    return parse_http(block)


def _resource(record: Any, block: bytes) -> HttpMessage:
    """A resource record has no HTTP head; it is given one."""
    content_type = _get(record, "Content-Type")
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode("latin-1", "replace")
    return HttpMessage(200, "OK", (("Content-Type", content_type),), head, block)


def _rendered(block: bytes, url: str) -> RenderedDom:
    return RenderedDom(block.decode("utf-8", "replace"), url)


def _is_html(record: Any) -> bool:
    return _get(record, "Content-Type").lower().startswith("text/html")


def _get(record: Any, name: str) -> str:
    return record.rec_headers.get_header(name) or ""
