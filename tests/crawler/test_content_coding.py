import gzip
import json
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from crawler.content_coding import MAX_CODINGS, decode
from crawler.records import Fault

HTML = "text/html; charset=utf-8"
PAGE = b"<!doctype html>" + b"".join(b"<p>%d of line %d</p>" % (n, n * 7919 % 1000) for n in range(12000))
PLENTY = 10_000_000


def _raw_deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(9, zlib.DEFLATED, -15)
    return coder.compress(data) + coder.flush()


CODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda data: brotli.compress(data, quality=5),
    "zstd": zstandard.compress,
}
each_coding = pytest.mark.parametrize("label", CODERS)


@each_coding
def test_a_coded_body_is_read_whatever_the_case_of_its_label(label: str) -> None:
    assert decode(CODERS[label](PAGE), label.upper(), HTML, PLENTY) == (PAGE, ())


@each_coding
def test_a_stream_that_ends_early_gives_what_it_held(label: str) -> None:
    coded = CODERS[label](PAGE)
    body, faults = decode(coded[:-40], label, HTML, PLENTY)
    assert faults == (Fault.PARTIAL,)
    assert body and PAGE.startswith(body)


@pytest.mark.parametrize("label", ["gzip", "deflate", "br"])
def test_a_stream_broken_in_the_middle_gives_what_came_before(label: str) -> None:
    coded = bytearray(CODERS[label](PAGE))
    middle = len(coded) // 2
    coded[middle : middle + 40] = b"\xff" * 40
    body, faults = decode(bytes(coded), label, HTML, PLENTY)
    assert faults == (Fault.PARTIAL,)
    assert body[:5_000] == PAGE[:5_000]


@each_coding
@pytest.mark.parametrize("page", [PAGE, PAGE[:40], "水库停水通知".encode(), "水库停水通知".encode("gb18030")])
def test_plain_bytes_under_a_false_label_are_kept(label: str, page: bytes) -> None:
    assert decode(page, label, HTML, PLENTY) == (page, (Fault.BAD_ENCODING,))


@each_coding
def test_a_bomb_is_cut_at_the_limit(label: str) -> None:
    body, faults = decode(CODERS[label](b"\0" * 3_000_000), label, HTML, 100_000)
    assert (len(body), faults) == (100_000, (Fault.TOO_LARGE,))


@each_coding
def test_a_body_of_exactly_the_limit_is_whole(label: str) -> None:
    assert decode(CODERS[label](PAGE), label, HTML, len(PAGE)) == (PAGE, ())


def test_raw_deflate_and_mixed_up_labels_are_read() -> None:
    assert decode(_raw_deflate(PAGE), "deflate", HTML, PLENTY) == (PAGE, ())
    assert decode(gzip.compress(PAGE), "deflate", HTML, PLENTY) == (PAGE, ())
    assert decode(zlib.compress(PAGE), "gzip", HTML, PLENTY) == (PAGE, ())


def test_stacked_codings_are_undone_from_the_last_to_the_first() -> None:
    assert decode(gzip.compress(brotli.compress(PAGE)), "br, gzip", HTML, PLENTY) == (PAGE, ())
    assert decode(gzip.compress(PAGE), "identity, gzip", HTML, PLENTY) == (PAGE, ())


def test_a_tower_of_codings_is_not_climbed() -> None:
    label = ", ".join(["gzip"] * (MAX_CODINGS + 1))
    coded = gzip.compress(PAGE)
    assert decode(coded, label, "application/pdf", PLENTY) == (coded, (Fault.BAD_ENCODING,))


@pytest.mark.parametrize("label", ["gzip", "zstd"])
def test_all_members_count_and_padding_does_not(label: str) -> None:
    members = CODERS[label](PAGE) + CODERS[label](PAGE)
    assert decode(members, label, HTML, PLENTY) == (PAGE + PAGE, ())
    if label == "gzip":
        assert decode(members + b"\0" * 9, label, HTML, PLENTY) == (PAGE + PAGE, ())


def test_a_page_that_is_gzip_without_saying_so_is_inflated_once() -> None:
    coded = gzip.compress(PAGE)
    assert decode(coded, "", HTML, PLENTY) == (PAGE, ())
    assert decode(gzip.compress(coded), "gzip", HTML, PLENTY) == (PAGE, ())
    assert decode(gzip.compress(coded), "", HTML, PLENTY) == (coded, ())


def test_a_download_that_is_gzip_stays_gzip() -> None:
    coded = gzip.compress(PAGE)
    assert decode(coded, "", "application/gzip", PLENTY) == (coded, ())


def test_an_empty_body_has_no_fault() -> None:
    assert decode(b"", "gzip", HTML, PLENTY) == (b"", ())


def test_the_false_labels_that_were_reported_leave_readable_pages() -> None:
    routes = json.loads((Path(__file__).parent / "cases" / "c17_encoding_site.json").read_text())
    seen = {}
    for route in routes[1:]:
        headers = dict(route["headers"])
        wire = bytes.fromhex(route["body_hex"]) if "body_hex" in route else route["body"].encode()
        body, faults = decode(wire, headers.get("Content-Encoding", ""), headers["Content-Type"], PLENTY)
        assert "其实没有压缩" in body.decode()
        seen[route["path"]] = faults
    false_label = (Fault.BAD_ENCODING,)
    assert seen == {"/e1": false_label, "/e2": (), "/e3": (), "/e4": false_label, "/e5": ()}


@given(st.binary(max_size=300), st.sampled_from([*CODERS, "utf-8", "gzip, br", ",", "deflate, zstd"]))
def test_no_bytes_under_any_label_raise_or_exceed_the_limit(wire_body: bytes, label: str) -> None:
    body, _ = decode(wire_body, label, HTML, 200)
    assert len(body) <= 200
