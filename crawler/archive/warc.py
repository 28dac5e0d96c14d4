"""WARC 1.1 records (ISO 28500:2017) as bytes and back: a page in, gzip members out, one member a record.

What is written, so that standard tools read it:
- `response`: the head as received and the body with its content coding kept. The transfer coding is undone, so its
  header becomes `X-Orig-Transfer-Encoding`; a Content-Length that is not the body's becomes
  `X-Orig-Content-Length`, and a Content-Encoding that was undone already (by the browser) `X-Orig-Content-Encoding`;
  a status line of HTTP/2 or of no HTTP is written as HTTP/1.1.
- `revisit` in its place where the payload is that of an earlier capture: with profile identical-payload-digest the
  head alone; with server-not-modified (a 304) nothing, or replay servers would answer 304 to who never asked.
- `request`: the head as sent.
- `conversion`: the rendered DOM as UTF-8, referring to the response.

Digests are SHA-256 of what stands in the record: of the payload, content coding kept, and of the block.
"""

from __future__ import annotations

import base64
import hashlib
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from isal import isal_zlib

from crawler.errors import CaptureDamaged
from crawler.records import Fault, FetchedPage, Original

SOFTWARE: Final = "Plumbline/0.1"
COMPRESSION_LEVEL: Final = 2
"""isal's level 2 writes 231 MB/s, SHA-1 included, where zlib's 9 wrote 33, for 4 % more bytes."""

Headers = Sequence[tuple[str, str]]

_VERSION: Final = b"WARC/1.1\r\n"
_GZIP_WBITS: Final = 31
_STANDARD: Final = "http://netpreserve.org/warc/1.1/"
_TRUNCATED: Final = ((Fault.TOO_LARGE, "length"), (Fault.TOO_SLOW, "time"), (Fault.PARTIAL, "disconnect"))
_HTTP_1: Final = re.compile(rb"HTTP/1\.[01] \d{3}(?: |$)")
_HEAD_END: Final = re.compile(rb"\r?\n\r?\n")
_DAMAGE: Final[type[Exception]] = isal_zlib.error  # type: ignore[assignment]  # its stub takes it for a value


@dataclass(frozen=True, slots=True)
class WarcRecord:
    """One record: its own headers, and its block."""

    headers: tuple[tuple[str, str], ...]
    block: bytes

    def header(self, name: str) -> str:
        """The value of a header, "" if there is none."""
        return header(self.headers, name)


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """A response as it lies in a block."""

    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    head: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class PageMembers:
    """The gzip members of one page, in the order of the file; empty where there is no such record."""

    response: bytes
    request: bytes
    dom: bytes


def page_members(page: FetchedPage, original: Original | None = None) -> PageMembers:
    """The records of a page; with an `original`, a revisit in place of the response."""
    response_id = new_record_id()
    shared = [("WARC-Target-URI", page.url), ("WARC-Date", warc_date(page.fetched_at))]
    if page.ip:
        shared.append(("WARC-IP-Address", page.ip))
    response = _revisit(page, original) if original else _response(page)
    headers = [*response.headers[:1], ("WARC-Record-ID", response_id), *shared, *response.headers[1:]]
    return PageMembers(
        response=member(headers, response.block),
        request=_request_member(page, response_id, shared) if page.request_head else b"",
        dom=dom_member(page.rendered.html, response_id, shared[:2]) if page.rendered else b"",
    )


def warcinfo_member(filename: str, created_at: datetime) -> bytes:
    """What every file begins with."""
    fields = f"software: {SOFTWARE}\r\nformat: WARC File Format 1.1\r\nconformsTo: {_STANDARD}\r\nrobots: obey\r\n"
    headers = [
        ("WARC-Type", "warcinfo"),
        ("WARC-Record-ID", new_record_id()),
        ("WARC-Date", warc_date(created_at)),
        ("WARC-Filename", filename),
        ("Content-Type", "application/warc-fields"),
    ]
    return member(headers, fields.encode())


def dom_member(html: str, response_id: str, shared: Headers) -> bytes:
    """The record of a rendered DOM; `shared` names its URL and time."""
    headers = [
        ("WARC-Type", "conversion"),
        ("WARC-Record-ID", new_record_id()),
        *shared,
        ("WARC-Refers-To", response_id),
        ("Content-Type", "text/html; charset=utf-8"),
    ]
    return member(headers, html.encode("utf-8", "replace"))


def member(headers: Headers, block: bytes) -> bytes:
    """A record as one gzip member; Content-Length and block digest are added."""
    lines = [f"{name}: {value}\r\n" for name, value in headers]
    lines.append(f"WARC-Block-Digest: {digest_of(block)}\r\nContent-Length: {len(block)}\r\n\r\n")
    head = "".join(lines).encode("utf-8", "replace")
    packed: bytes = isal_zlib.compress(b"".join((_VERSION, head, block, b"\r\n\r\n")), COMPRESSION_LEVEL, _GZIP_WBITS)
    return packed


def read_member(data: bytes) -> WarcRecord:
    """The record of one whole gzip member; raises CaptureDamaged."""
    stream = isal_zlib.decompressobj(_GZIP_WBITS)
    try:
        content = stream.decompress(data)
    except _DAMAGE as exc:
        raise CaptureDamaged(f"a record cannot be decompressed: {exc}") from exc
    if not stream.eof or stream.unused_data:
        raise CaptureDamaged("a record is not as long as its row says")
    return _parse_record(content)


def member_length(pieces: Iterable[bytes]) -> int:
    """How many bytes the gzip member takes that the pieces begin with; raises CaptureDamaged if it is not whole."""
    stream = isal_zlib.decompressobj(_GZIP_WBITS)
    length = 0
    try:
        for piece in pieces:
            stream.decompress(piece)
            length += len(piece)
            if stream.eof:
                return length - len(stream.unused_data)
    except _DAMAGE as exc:
        raise CaptureDamaged(f"a record cannot be decompressed: {exc}") from exc
    raise CaptureDamaged("a record ends early")


def parse_http(block: bytes) -> HttpMessage:
    """A response's head and body; raises CaptureDamaged."""
    end = _HEAD_END.search(block)
    head, body = (block[: end.end()], block[end.end() :]) if end else (block, b"")
    status_line, *lines = head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    words = status_line.decode("latin-1").split(" ", 2)
    if len(words) < 2 or not words[1].isdecimal():
        raise CaptureDamaged("a response has no status line")
    return HttpMessage(int(words[1]), words[2] if len(words) > 2 else "", parse_headers(lines), head, body)


def parse_headers(lines: Sequence[bytes]) -> tuple[tuple[str, str], ...]:
    """Header lines as names and values, read as latin-1, folded lines joined."""
    headers: list[tuple[str, str]] = []
    for line in lines:
        text = line.decode("latin-1")
        name, colon, value = text.partition(":")
        if text[:1] in (" ", "\t") and headers:
            headers[-1] = (headers[-1][0], headers[-1][1] + " " + text.strip(" \t"))
        elif colon:
            headers.append((name.strip(" \t"), value.strip(" \t")))
    return tuple(headers)


def header(headers: Headers, name: str) -> str:
    """All values of a header joined by commas, "" if there is none."""
    wanted = name.lower()
    return ", ".join(value for key, value in headers if key.lower() == wanted)


def digest_of(data: bytes) -> str:
    """A digest as WARC headers write it."""
    return "sha256:" + base64.b32encode(hashlib.sha256(data).digest()).decode()


def warc_date(at: datetime) -> str:
    """To the second, which every tool reads; rows keep the fractions."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def new_record_id() -> str:
    return f"<urn:uuid:{uuid.uuid4()}>"


def _response(page: FetchedPage) -> WarcRecord:
    headers = [
        ("WARC-Type", "response"),
        ("Content-Type", "application/http;msgtype=response"),
        ("WARC-Payload-Digest", digest_of(page.wire_body)),
    ]
    reason = next((word for fault, word in _TRUNCATED if fault in page.faults), None)
    if reason is not None:
        headers.append(("WARC-Truncated", reason))
    return WarcRecord(tuple(headers), _standard_head(page) + page.wire_body)


def _revisit(page: FetchedPage, original: Original) -> WarcRecord:
    is_304 = page.status == 304
    headers = [
        ("WARC-Type", "revisit"),
        ("Content-Type", "application/http;msgtype=response"),
        ("WARC-Profile", _STANDARD + "revisit/" + ("server-not-modified" if is_304 else "identical-payload-digest")),
        ("WARC-Refers-To-Target-URI", original.url),
        ("WARC-Refers-To-Date", warc_date(original.captured_at)),
        ("WARC-Truncated", "length"),
    ]
    if not is_304:
        headers.append(("WARC-Payload-Digest", digest_of(page.wire_body)))
    return WarcRecord(tuple(headers), b"" if is_304 else _standard_head(page))


def _request_member(page: FetchedPage, response_id: str, shared: Headers) -> bytes:
    headers = [
        ("WARC-Type", "request"),
        ("WARC-Record-ID", new_record_id()),
        *shared,
        ("WARC-Concurrent-To", response_id),
        ("Content-Type", "application/http;msgtype=request"),
    ]
    return member(headers, page.request_head)


def _standard_head(page: FetchedPage) -> bytes:
    """The head as received, but for what is no longer true of the body."""
    lines = page.response_head.replace(b"\r\n", b"\n").rstrip(b"\n").split(b"\n")
    if not _HTTP_1.match(lines[0]):
        lines[0] = f"HTTP/1.1 {page.status} {page.reason}".encode("latin-1", "replace")
    body_length = str(len(page.wire_body)).encode()
    has_body = bool(page.wire_body)
    is_undone = page.body == page.wire_body and Fault.BAD_ENCODING not in page.faults
    kept: list[bytes] = []
    for line in lines:
        name, _, value = line.partition(b":")
        match name.strip().lower():
            case b"transfer-encoding":
                kept.append(b"X-Orig-" + line)
            case b"content-length" if has_body and value.strip() != body_length:
                kept += [b"X-Orig-" + line, b"Content-Length: " + body_length]
            case b"content-encoding" if has_body and is_undone and value.strip().lower() not in (b"", b"identity"):
                kept.append(b"X-Orig-" + line)
            case _:
                kept.append(line)
    return b"\r\n".join(kept) + b"\r\n\r\n"


def _parse_record(content: bytes) -> WarcRecord:
    head, separator, rest = content.partition(b"\r\n\r\n")
    version, *lines = head.split(b"\r\n")
    if not separator or not version.startswith(b"WARC/1."):
        raise CaptureDamaged("a record has no WARC header")
    headers = tuple(
        (name.decode("utf-8", "replace"), value.strip().decode("utf-8", "replace"))
        for name, _, value in (line.partition(b":") for line in lines)
    )
    length = header(headers, "Content-Length")
    if not length.isdecimal() or len(rest) != int(length) + 4:
        raise CaptureDamaged("a record's length is not what its header says")
    return WarcRecord(headers, rest[:-4])
