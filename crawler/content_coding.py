"""Content codings undone (RFC 9110 §8.4): the body as on the wire in, the body to read out, never more than asked for.

Servers lie. A false label leaves the bytes as they came (BAD_ENCODING), a stream that ends early or breaks gives
what it held up to there (PARTIAL), and what grows over the limit is cut (TOO_LARGE). Nothing raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import brotli
import zstandard
from isal import isal_zlib

from crawler.records import Fault

MAX_CODINGS: Final = 4
"""More codings on one body than any honest server applies."""

GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP_WBITS, _ZLIB_WBITS, _RAW_WBITS = 31, 15, -15
_SALVAGE_BYTES = 64
"""Slice in which a broken stream is read again, to lose no more than that before the break."""
_ZSTD_SLICE_BYTES = 256
"""zstandard has no output limit: a slice of this size grows to 8 MB at the very most."""
_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024  # RFC 9659
_DEFLATE_ERROR: Final[type[Exception]] = isal_zlib.error  # type: ignore[assignment]  # its stub takes it for a value
_NO_CODING = frozenset({"", "identity", "none"})
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\x1b")
_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})


@dataclass(frozen=True, slots=True)
class _Inflated:
    body: bytes
    complete: bool
    """The stream's own end was reached."""


_Decoder = Callable[[bytes, int], _Inflated]


def decode(
    wire_body: bytes, content_encoding: str, content_type: str, max_bytes: int
) -> tuple[bytes, tuple[Fault, ...]]:
    """The body with its codings undone, and what was wrong.

    `content_encoding` is the header's value ("" if there is none; several headers joined by commas). An HTML page
    that is gzip without saying so, or once more than it says, is inflated once.
    """
    if not wire_body:
        return b"", ()
    body, faults = wire_body, set[Fault]()
    labels = [label for label in _labels(content_encoding) if label not in _NO_CODING]
    if len(labels) > MAX_CODINGS:
        return _cut(wire_body, {Fault.BAD_ENCODING}, max_bytes)
    for label in reversed(labels):
        body, fault = _undo(body, label, max_bytes)
        faults |= fault
        if Fault.BAD_ENCODING in fault:
            break
    if body.startswith(GZIP_MAGIC) and _is_html(content_type):
        body, fault = _undo(body, "gzip", max_bytes)
        faults |= fault
    return _cut(body, faults, max_bytes)


def _labels(content_encoding: str) -> list[str]:
    return [label.strip().lower() for label in content_encoding.split(",")] if content_encoding else []


def _is_html(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() in _HTML_TYPES


def _cut(body: bytes, faults: set[Fault], max_bytes: int) -> tuple[bytes, tuple[Fault, ...]]:
    if len(body) > max_bytes:
        body = body[:max_bytes]
        # That the stream was not read to its end is our own doing.
        faults = faults - {Fault.PARTIAL} | {Fault.TOO_LARGE}
    return body, tuple(sorted(faults))


def _undo(body: bytes, label: str, max_bytes: int) -> tuple[bytes, set[Fault]]:
    decoder = _DECODERS.get(label)
    if decoder is None:
        return body, {Fault.BAD_ENCODING}
    inflated = decoder(body, max_bytes)
    if inflated.complete:
        return inflated.body, set()
    if not inflated.body or _is_plain(body):
        return body, {Fault.BAD_ENCODING}
    return inflated.body, {Fault.PARTIAL}


def _is_plain(body: bytes) -> bool:
    """Whether the bytes begin as text does; 64 compressed bytes without a control character hardly exist."""
    return all(byte >= 0x20 or byte in _TEXT_CONTROLS for byte in body[:64])


def _inflate_gzip(body: bytes, max_bytes: int) -> _Inflated:
    if not body.startswith(GZIP_MAGIC):
        return _inflate_deflate(body, max_bytes) if _has_zlib_header(body) else _Inflated(b"", False)
    parts: list[bytes] = []
    size = 0
    while True:
        member, rest = _inflate(body, _GZIP_WBITS, max_bytes - size)
        parts.append(member.body)
        size += len(member.body)
        # What follows the last member (padding, a stray newline) is no part of the stream.
        if not member.complete or size > max_bytes or not rest.startswith(GZIP_MAGIC):
            return _Inflated(b"".join(parts), member.complete)
        body = rest


def _inflate_deflate(body: bytes, max_bytes: int) -> _Inflated:
    """`deflate` means zlib's format, and many servers send raw deflate."""
    if body.startswith(GZIP_MAGIC):
        return _inflate_gzip(body, max_bytes)
    if _has_zlib_header(body):
        inflated, _ = _inflate(body, _ZLIB_WBITS, max_bytes)
        if inflated.body:
            return inflated
    return _inflate(body, _RAW_WBITS, max_bytes)[0]


def _has_zlib_header(body: bytes) -> bool:
    return len(body) >= 2 and body[0] & 0x0F == 8 and int.from_bytes(body[:2], "big") % 31 == 0


def _inflate(body: bytes, wbits: int, max_bytes: int) -> tuple[_Inflated, bytes]:
    """One stream, and what follows it. One byte over the limit is enough to know that there is more."""
    stream = isal_zlib.decompressobj(wbits)
    try:
        inflated = stream.decompress(body, max_bytes + 1)
    except _DEFLATE_ERROR:
        return _Inflated(_salvage(body, wbits, max_bytes), False), b""
    return _Inflated(inflated, stream.eof or len(inflated) > max_bytes), stream.unused_data


def _salvage(body: bytes, wbits: int, max_bytes: int) -> bytes:
    stream = isal_zlib.decompressobj(wbits)
    salvaged = bytearray()
    try:
        for piece in _slices(body, _SALVAGE_BYTES):
            salvaged += stream.decompress(piece, max_bytes + 1 - len(salvaged))
            if len(salvaged) > max_bytes:
                break
    except _DEFLATE_ERROR:
        pass  # The break; what came before it is what was looked for.
    return bytes(salvaged)


def _inflate_brotli(body: bytes, max_bytes: int) -> _Inflated:
    stream = brotli.Decompressor()
    parts: list[bytes] = []
    size, given = 0, body
    try:
        while not stream.is_finished() and size <= max_bytes:
            part = stream.process(given, output_buffer_limit=max_bytes + 1 - size)
            given = b""
            if not part and stream.can_accept_more_data():
                break
            parts.append(part)
            size += len(part)
    except brotli.error:
        return _Inflated(b"".join(parts) or _salvage_brotli(body, max_bytes), False)
    return _Inflated(b"".join(parts), stream.is_finished() or size > max_bytes)


def _salvage_brotli(body: bytes, max_bytes: int) -> bytes:
    stream = brotli.Decompressor()
    salvaged = bytearray()
    try:
        for piece in _slices(body, _SALVAGE_BYTES):
            salvaged += stream.process(piece, output_buffer_limit=max_bytes + 1)
            if len(salvaged) > max_bytes or not stream.can_accept_more_data():
                break
    except brotli.error:
        pass  # The break; what came before it is what was looked for.
    return bytes(salvaged)


def _inflate_zstd(body: bytes, max_bytes: int) -> _Inflated:
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    stream = decompressor.decompressobj()
    inflated = bytearray()
    try:
        for piece in _slices(body, _ZSTD_SLICE_BYTES):
            rest = piece
            while rest:
                if stream.eof:
                    stream = decompressor.decompressobj()
                inflated += stream.decompress(rest)
                rest = stream.unused_data if stream.eof else b""
            if len(inflated) > max_bytes:
                return _Inflated(bytes(inflated), True)
    except zstandard.ZstdError:
        return _Inflated(bytes(inflated), False)
    return _Inflated(bytes(inflated), stream.eof)


def _slices(body: bytes, size: int) -> Iterator[bytes]:
    return (body[start : start + size] for start in range(0, len(body), size))


_DECODERS: Final[dict[str, _Decoder]] = {
    "gzip": _inflate_gzip,
    "x-gzip": _inflate_gzip,
    "deflate": _inflate_deflate,
    "br": _inflate_brotli,
    "zstd": _inflate_zstd,
}
