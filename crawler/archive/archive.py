"""The archive as a whole: captures read and checked, all of it proved, copied out as standard WARC.

Every read checks the SHA-256 of the payload against the row; bytes that differ are never given out.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Final

from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures, warc
from crawler.archive.captures import Located
from crawler.archive.foreign import ForeignPage, read_pages
from crawler.archive.warc import HttpMessage, WarcRecord, header, parse_http
from crawler.archive.writer import MAX_FILE_BYTES, ArchiveWriter, WarcFile
from crawler.content_coding import decode
from crawler.errors import ArchiveError, BadUrl, CaptureDamaged, CaptureMissing
from crawler.fingerprint import digest
from crawler.records import (
    ArchivedPage,
    Capture,
    Claim,
    CrawlUrl,
    IndexState,
    LinkKind,
    NewCapture,
    Original,
    StoredRecords,
    Validators,
)
from crawler.urls import host_of, normalize, urlkey

_PAGE_OF_ROWS: Final = 1_000
_READ_BYTES: Final = 262_144
_IMPORT_BATCH: Final = 100
_INDEXED_TYPES: Final = ("text/html", "application/xhtml+xml", "text/plain")
MAX_IMPORTED_BYTES: Final = 20_000_000


class Severity(StrEnum):
    """ERROR: something is lost or wrong. NOTE: nothing is, and somebody may wonder."""

    ERROR = "error"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    """What `verify` has to say of one record, or of one file (offset None)."""

    severity: Severity
    path: str
    offset: int | None
    message: str
    capture_id: int | None = None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import has brought."""

    captures: int
    skipped: int
    """Records that are no page of the web, or revisits whose payload is not in the file."""
    problem: str | None = None
    """Why the file could not be read to its end; what came before is imported."""


class Archive:
    """The WARC files of a folder and the rows of a crawl database that point into them."""

    def __init__(self, folder: Path, engine: Engine) -> None:
        self._folder = folder
        self._engine = engine

    def read(self, capture_id: int) -> ArchivedPage:
        """A capture, whole and checked; raises CaptureMissing or CaptureDamaged."""
        with database.read(self._engine) as conn:
            located = captures.locate(conn, capture_id)
        if located is None:
            raise CaptureMissing(f"there is no capture {capture_id}")
        return self._page(located)

    def verify(self) -> Iterator[Finding]:
        """Prove every row against its bytes, and every file to its end; yields what is wrong or odd.

        Reads the whole archive once. A file that is being written may show a record that has no row yet: a note.
        """
        with database.read(self._engine) as conn:
            known = captures.file_paths(conn)
        for file_id, path in sorted(known.items(), key=lambda item: item[1]):
            with database.read(self._engine) as conn:
                located = captures.in_file(conn, file_id)
            yield from self._verify_rows(located)
            yield from self._verify_file(path, located)
        on_disk = {file.relative_to(self._folder).as_posix() for file in self._folder.rglob("*.warc.gz")}
        for path in sorted(on_disk - set(known.values())):
            yield Finding(Severity.NOTE, path, None, "no capture lies in this file")

    def fetch_anew(self, damaged: Collection[int]) -> int:
        """Have the pages of damaged captures fetched whole by the next run of their sites, and archived anew.

        While they are unchanged they would only be referred to, and stay lost. Returns how many pages.
        """
        with database.write(self._engine) as conn:
            return captures.forget_validators(conn, damaged)

    def export(self, folder: Path, site_id: int | None = None, *, max_file_bytes: int = MAX_FILE_BYTES) -> list[Path]:
        """Copy the captures of a site (None: of all) into new WARC files under `folder`; returns the files.

        Records are copied as they are. A revisit whose payload is not part of the export becomes a full response,
        so that the files can be read without any others. Raises on the first damaged capture.
        """
        files: list[WarcFile] = []
        exported: set[int] = set()
        for located in self._captures(site_id):
            if not files or files[-1].size_bytes >= max_file_bytes:
                now = datetime.now(UTC)
                files.append(WarcFile(folder / f"{now:%Y%m%d%H%M%S}-export-{len(files) + 1:05d}.warc.gz", now))
            files[-1].append(self._export_members(located, exported))
            exported.add(located.capture.capture_id)
        for file in files:
            file.sync()
            file.close()
        return [file.path for file in files]

    def import_warc(
        self, path: Path, site_id: int, *, worker: str = "import", max_body_bytes: int = MAX_IMPORTED_BYTES
    ) -> ImportReport:
        """Make captures of a site out of any WARC or ARC file; its pages wait for the indexer like crawled ones.

        An old page never takes the place of a newer capture. Raises ArchiveError if nothing of it can be read.
        """
        with ArchiveWriter(self._folder, worker) as writer:
            taken = _Import(self._engine, writer, site_id, worker)
            problem = None
            try:
                for foreign in read_pages(path, max_body_bytes):
                    taken.take(foreign)
            except ArchiveError as exc:
                problem = str(exc)
            taken.flush()
        if problem is not None and not taken.captures:
            raise ArchiveError(problem)
        return ImportReport(taken.captures, taken.skipped, problem)

    def _page(self, located: Located) -> ArchivedPage:
        capture = located.capture
        record = self._record(located.own)
        source = self._payload(located, record)
        message = parse_http(record.block) if record.block else source
        return ArchivedPage(capture, message.headers, _checked_body(capture, source), self._dom(located))

    def _payload(self, located: Located, record: WarcRecord) -> HttpMessage:
        """The response that holds the payload: the capture's own record, or the one that it refers to."""
        if located.payload is not None:
            return parse_http(self._record(located.payload).block)
        if record.header("WARC-Type") != "response":
            raise CaptureDamaged(f"capture {located.capture.capture_id}: its record is no response")
        return parse_http(record.block)

    def _dom(self, located: Located) -> str | None:
        for stored in filter(None, (located.own, located.payload)):
            if stored.dom_offset is not None and stored.dom_length is not None:
                record = warc.read_member(self._bytes(stored.warc_path, stored.dom_offset, stored.dom_length))
                if record.header("WARC-Block-Digest") != warc.digest_of(record.block):
                    raise CaptureDamaged(f"{stored.warc_path} at {stored.dom_offset}: the rendered page is damaged")
                return record.block.decode("utf-8", "replace")
        return None

    def _record(self, stored: StoredRecords) -> WarcRecord:
        try:
            return warc.read_member(self._bytes(stored.warc_path, stored.offset, stored.length))
        except CaptureDamaged as exc:
            raise CaptureDamaged(f"{stored.warc_path} at {stored.offset}: {exc}") from exc

    def _bytes(self, path: str, offset: int, length: int) -> bytes:
        try:
            with (self._folder / path).open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), length, offset)
        except FileNotFoundError as exc:
            raise CaptureMissing(f"{path} is gone from the archive") from exc
        except OSError as exc:
            raise ArchiveError(f"cannot read {path}: {exc.strerror}") from exc
        if len(data) != length:
            raise CaptureDamaged(f"{path} ends before {offset + length}")
        return data

    def _verify_rows(self, located: list[Located]) -> Iterator[Finding]:
        for one in located:
            try:
                self._page(one)
            except ArchiveError as exc:
                yield Finding(
                    Severity.ERROR,
                    one.own.warc_path,
                    one.own.offset,
                    f"capture {one.capture.capture_id} of {one.capture.url}: {exc}",
                    one.capture.capture_id,
                )

    def _verify_file(self, path: str, located: list[Located]) -> Iterator[Finding]:
        """Every record of a file, those without a row too."""
        pointed_at = {one.own.offset for one in located}
        pointed_at |= {one.own.dom_offset for one in located if one.own.dom_offset is not None}
        try:
            with (self._folder / path).open("rb", buffering=0) as file:
                yield from _verify_members(file.fileno(), path, pointed_at)
        except FileNotFoundError:
            yield Finding(Severity.ERROR if located else Severity.NOTE, path, None, "this file is gone")

    def _captures(self, site_id: int | None) -> Iterator[Located]:
        after_id = 0
        while True:
            with database.read(self._engine) as conn:
                page = captures.of_site(conn, site_id, after_id, _PAGE_OF_ROWS)
            if not page:
                return
            yield from page
            after_id = page[-1].capture.capture_id

    def _export_members(self, located: Located, exported: set[int]) -> bytes:
        own = located.own
        page, record = self._page(located), self._record(own)
        dom = b""
        if located.payload is not None and located.capture.revisit_of not in exported:
            response = _resolved_member(record, self._payload(located, record))
            if page.dom_html is not None:
                shared = [(name, record.header(name)) for name in ("WARC-Target-URI", "WARC-Date")]
                dom = warc.dom_member(page.dom_html, record.header("WARC-Record-ID"), shared)
        else:
            response = self._bytes(own.warc_path, own.offset, own.length)
            if own.dom_offset is not None and own.dom_length is not None:
                dom = self._bytes(own.warc_path, own.dom_offset, own.dom_length)
        return response + self._request(own, record) + dom

    def _request(self, own: StoredRecords, response: WarcRecord) -> bytes:
        """The request that stands behind a response, if one does."""
        after = own.offset + own.length
        try:
            with (self._folder / own.warc_path).open("rb", buffering=0) as file:
                length = _member_length(file.fileno(), after)
                data = os.pread(file.fileno(), length, after)
            record = warc.read_member(data)
        except (CaptureDamaged, FileNotFoundError):
            return b""
        is_its_own = record.header("WARC-Concurrent-To") == response.header("WARC-Record-ID")
        return data if is_its_own else b""


class _Import:
    """Foreign pages on their way into the archive, a batch at a time."""

    def __init__(self, engine: Engine, writer: ArchiveWriter, site_id: int, worker: str) -> None:
        self._engine = engine
        self._writer = writer
        self._site_id = site_id
        self._worker = worker
        self._batch: list[tuple[ForeignPage, CrawlUrl]] = []
        self._originals: dict[str, Original] = {}
        self.captures = 0
        self.skipped = 0

    def take(self, foreign: ForeignPage) -> None:
        """Add a page to the batch."""
        try:
            url = normalize(foreign.page.url)
            key = urlkey(url)
        except BadUrl:
            self.skipped += 1
            return
        target = CrawlUrl(url, key, host_of(url), self._site_id, run_id=0, kind=LinkKind.PUSHED)
        self._batch.append((foreign, target))
        if len(self._batch) >= _IMPORT_BATCH:
            self.flush()

    def flush(self) -> None:
        """Write the batch: payloads first, so that revisits find the rows of theirs."""
        batch, self._batch = self._batch, []
        self._write([one for one in batch if not one[0].refers_to])
        self._write([one for one in batch if one[0].refers_to])

    def _write(self, batch: list[tuple[ForeignPage, CrawlUrl]]) -> None:
        found = [(foreign, target, self._original(foreign)) for foreign, target in batch]
        kept = [one for one in found if one[2] is not None or not one[0].refers_to]
        self.skipped += len(found) - len(kept)
        stored = [self._writer.append(foreign.page, original) for foreign, _, original in kept]
        self._writer.sync()
        newest: dict[int, datetime] = {}
        with database.write(self._engine) as conn:
            new = []
            for (foreign, target, original), records in zip(kept, stored, strict=True):
                url_id, generation = captures.adopt_url(conn, target, foreign.page.fetched_at)
                latest = newest.get(url_id) or captures.newest_at(conn, url_id)
                is_newest = latest is None or latest <= foreign.page.fetched_at
                if is_newest:
                    newest[url_id] = foreign.page.fetched_at
                claim = Claim(target, url_id, generation, 0, Validators())
                new.append(_imported(foreign, claim, records, original, is_newest))
            ids = captures.insert(conn, new, self._worker)
        self.captures += len(ids)
        for (foreign, target, original), capture_id in zip(kept, ids, strict=True):
            if original is None:
                holder = Original(capture_id, target.url, foreign.page.fetched_at)
                self._originals.update(dict.fromkeys(foreign.names, holder))

    def _original(self, foreign: ForeignPage) -> Original | None:
        return next((self._originals[name] for name in foreign.refers_to if name in self._originals), None)


def _imported(
    foreign: ForeignPage, claim: Claim, stored: StoredRecords, original: Original | None, is_newest: bool
) -> NewCapture:
    page = foreign.page
    content_type = page.header("Content-Type") or ""
    is_text = content_type.partition(";")[0].strip().lower() in _INDEXED_TYPES
    is_indexed = is_newest and original is None and page.status == 200 and is_text and bool(page.body)
    return NewCapture(
        claim=claim,
        captured_at=page.fetched_at,
        status=page.status,
        content_type=content_type,
        digest=digest(page.body),
        size_bytes=len(page.body),
        faults=page.faults,
        stored=stored,
        index_state=IndexState.WAITING if is_indexed else IndexState.SKIPPED,
        revisit_of=original.capture_id if original else None,
    )


def _checked_body(capture: Capture, source: HttpMessage) -> bytes:
    """The decoded payload that the row's digest is of.

    A false Content-Encoding may have been judged otherwise by an older crawler: the bytes as they came count too.
    """
    encoding = header(source.headers, "Content-Encoding")
    decoded, _ = decode(source.body, encoding, header(source.headers, "Content-Type"), capture.size_bytes)
    for body in (decoded, source.body[: capture.size_bytes]):
        if digest(body) == capture.digest:
            return body
    raise CaptureDamaged("the payload's SHA-256 is not the one of the capture")


def _resolved_member(revisit: WarcRecord, source: HttpMessage) -> bytes:
    """A revisit as the response that it stands for, under the head that tells the payload's coding right."""
    head = source.head
    if revisit.block:
        own = parse_http(revisit.block)
        if header(own.headers, "Content-Encoding") == header(source.headers, "Content-Encoding"):
            head = own.head
    dropped = {"warc-type", "warc-profile", "warc-truncated", "content-length"}
    dropped |= {"warc-refers-to-target-uri", "warc-refers-to-date", "warc-payload-digest", "warc-block-digest"}
    headers = [pair for pair in revisit.headers if pair[0].lower() not in dropped]
    digest_header = ("WARC-Payload-Digest", warc.digest_of(source.body))
    return warc.member([("WARC-Type", "response"), *headers, digest_header], head + source.body)


def _member_length(fd: int, offset: int) -> int:
    """How many bytes the gzip member at an offset takes; raises CaptureDamaged if it is not whole."""
    return warc.member_length(_pieces(fd, offset))


def _pieces(fd: int, offset: int) -> Iterator[bytes]:
    while piece := os.pread(fd, _READ_BYTES, offset):
        yield piece
        offset += len(piece)


def _verify_members(fd: int, path: str, pointed_at: set[int]) -> Iterator[Finding]:
    """Damaged records that no row points at; the others are found through their rows."""
    size, offset = os.fstat(fd).st_size, 0
    while offset < size:
        try:
            offset += _member_length(fd, offset)
        except CaptureDamaged as exc:
            following = min((start for start in pointed_at if start > offset), default=None)
            if following is None and offset not in pointed_at:
                yield Finding(Severity.NOTE, path, offset, "the last record is not whole, and nothing refers to it")
            elif offset not in pointed_at:
                yield Finding(Severity.ERROR, path, offset, str(exc))
            offset = size if following is None else following
