import gzip
from dataclasses import replace
from datetime import timedelta

import pytest

from crawler.archive.warc import HttpMessage, member, page_members, parse_http, read_member, warcinfo_member
from crawler.errors import CaptureDamaged
from crawler.records import Fault, Original
from tests.crawler.archive.shelf import NOW, make_page

ORIGINAL = Original(7, "http://h.example/first", NOW - timedelta(days=1))


def _response(**page: object) -> HttpMessage:
    return parse_http(read_member(page_members(make_page(**page)).response).block)  # type: ignore[arg-type]


def test_a_page_becomes_a_response_and_its_request() -> None:
    members = page_members(make_page(body=b"<p>x</p>"))
    response, request = read_member(members.response), read_member(members.request)
    assert gzip.decompress(members.response).startswith(b"WARC/1.1\r\nWARC-Type: response\r\n")
    assert response.header("WARC-Target-URI") == "http://h.example/a"
    assert response.header("WARC-Date") == "2026-03-01T12:00:00Z"
    assert response.header("WARC-IP-Address") == "127.0.0.1"
    assert response.block.endswith(b"\r\n\r\n<p>x</p>")
    assert request.header("WARC-Concurrent-To") == response.header("WARC-Record-ID")
    assert request.block.startswith(b"GET /a HTTP/1.1\r\n")
    assert members.dom == b""


def test_the_rendered_dom_is_a_conversion_of_the_response() -> None:
    members = page_members(make_page(rendered="<p>水库\ud800</p>"))
    dom = read_member(members.dom)
    assert dom.header("WARC-Type") == "conversion"
    assert dom.header("WARC-Refers-To") == read_member(members.response).header("WARC-Record-ID")
    assert dom.block.decode() == "<p>水库?</p>"


def test_headers_that_no_longer_tell_the_truth_are_renamed() -> None:
    chunked = _response(headers=(("Transfer-Encoding", "chunked"), ("X", "1")))
    assert chunked.headers == (("X-Orig-Transfer-Encoding", "chunked"), ("X", "1"))
    cut = _response(headers=(("Content-Length", "99999"),), body=b"short")
    assert cut.headers == (("X-Orig-Content-Length", "99999"), ("Content-Length", "5"))
    right = _response(headers=(("Content-Length", "5"), ("Content-Encoding", "gzip")), body=gzip.compress(b"x")[:5])
    assert right.headers == (("Content-Length", "5"), ("Content-Encoding", "gzip"))


def test_a_coding_that_the_browser_undid_is_not_claimed() -> None:
    page = replace(make_page(headers=(("Content-Encoding", "br"),), body=b"<p>plain</p>"), faults=())
    head = parse_http(read_member(page_members(page).response).block).headers
    assert head == (("X-Orig-Content-Encoding", "br"),)


def test_a_head_of_another_protocol_is_written_as_http_1() -> None:
    block = read_member(page_members(make_page(protocol="HTTP/2")).response).block
    assert block.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_cut_page_says_why() -> None:
    page = replace(make_page(), faults=(Fault.PARTIAL, Fault.TOO_LARGE))
    assert read_member(page_members(page).response).header("WARC-Truncated") == "length"
    page = replace(make_page(), faults=(Fault.PARTIAL,))
    assert read_member(page_members(page).response).header("WARC-Truncated") == "disconnect"


def test_a_payload_that_is_known_becomes_a_reference() -> None:
    record = read_member(page_members(make_page(), ORIGINAL).response)
    assert record.header("WARC-Type") == "revisit"
    assert record.header("WARC-Profile").endswith("/revisit/identical-payload-digest")
    assert record.header("WARC-Refers-To-Target-URI") == "http://h.example/first"
    assert record.header("WARC-Refers-To-Date") == "2026-02-28T12:00:00Z"
    assert parse_http(record.block).body == b""
    not_modified = read_member(page_members(make_page(status=304, body=b""), ORIGINAL).response)
    assert not_modified.header("WARC-Profile").endswith("/revisit/server-not-modified")
    assert not_modified.block == b""


def test_a_head_is_read_whatever_its_line_ends_and_folds() -> None:
    message = parse_http(b"HTTP/1.0 200\nA: 1\n  folded\nno colon\nB: \xd0\xc2\n\nbody\n\nrest")
    assert (message.status, message.reason) == (200, "")
    assert message.headers == (("A", "1 folded"), ("B", "ÐÂ"))
    assert message.body == b"body\n\nrest"
    with pytest.raises(CaptureDamaged, match="no status line"):
        parse_http(b"<html>")


@pytest.mark.parametrize("how", ["flipped", "cut", "longer", "two", "no warc", "wrong length"])
def test_a_damaged_record_is_never_read(how: str) -> None:
    good = page_members(make_page(body=b"x" * 2_000)).response
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    damaged = {
        "flipped": bytes(flipped),
        "cut": good[:-1],
        "longer": good + b"\0",
        "two": good + good,
        "no warc": gzip.compress(b"HTTP/1.1 200 OK\r\n\r\n"),
        "wrong length": gzip.compress(gzip.decompress(good) + b"x"),
    }
    with pytest.raises(CaptureDamaged):
        read_member(damaged[how])


def test_a_file_begins_with_what_wrote_it() -> None:
    info = read_member(warcinfo_member("x.warc.gz", NOW))
    assert info.header("WARC-Type") == "warcinfo"
    assert info.header("WARC-Filename") == "x.warc.gz"
    assert b"software: Plumbline" in info.block


def test_a_member_takes_no_more_than_its_block() -> None:
    assert read_member(member([("WARC-Type", "resource")], b"")).block == b""
