import gzip
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crawler import database
from crawler.archive import captures
from crawler.archive.foreign import read_pages
from crawler.errors import ArchiveError
from crawler.records import Capture, Fault, IndexState
from tests.crawler.archive.shelf import Shelf, make_page

GBK_PAGE = "<html><meta charset=gb2312><p>两个地址，同一份公告：闸门维护。</p></html>".encode("gb18030")
DATE = "2009-05-04T03:02:01Z"


def _record(kind: str, block: bytes, version: str = "1.0", url: str = "http://h.example/old", **headers: str) -> bytes:
    fields = {
        "WARC-Type": kind,
        "WARC-Target-URI": url,
        "WARC-Date": DATE,
        "WARC-Record-ID": f"<urn:uuid:00000000-0000-0000-0000-{len(block):012d}>",
        "Content-Type": "application/http;msgtype=response",
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"WARC/{version}\r\n{head}Content-Length: {len(block)}\r\n\r\n".encode() + block + b"\r\n\r\n"


def _http(body: bytes, headers: str = "Content-Type: text/html\r\n") -> bytes:
    return f"HTTP/1.1 200 OK\r\n{headers}\r\n".encode() + body


def _write(path: Path, *records: bytes, packed: bool = False) -> Path:
    path.write_bytes(b"".join(map(gzip.compress, records)) if packed else b"".join(records))
    return path


def _imported(shelf: Shelf) -> list[Capture]:
    with database.read(shelf.engine) as conn:
        return [one.capture for one in captures.of_site(conn, shelf.site_id, 0, 100)]


@pytest.mark.parametrize("version", ["0.17", "0.18", "1.0", "1.1"])
@pytest.mark.parametrize("packed", [False, True])
def test_any_version_is_read_compressed_or_not(shelf: Shelf, tmp_path: Path, version: str, packed: bool) -> None:
    path = _write(tmp_path / "x.warc", _record("response", _http(GBK_PAGE), version), packed=packed)
    report = shelf.archive.import_warc(path, shelf.site_id)
    assert (report.captures, report.skipped, report.problem) == (1, 0, None)
    (capture,) = _imported(shelf)
    assert capture.captured_at == datetime(2009, 5, 4, 3, 2, 1, tzinfo=UTC)
    assert (capture.status, capture.index_state) == (200, IndexState.WAITING)
    assert shelf.archive.read(capture.capture_id).body == GBK_PAGE
    assert shelf.findings() == []


def test_an_arc_file_is_read(shelf: Shelf, tmp_path: Path) -> None:
    body = b"HTTP/1.0 200 OK\nContent-type: text/html\n\n" + GBK_PAGE
    about = b"1 0 InternetArchive\nURL IP-address Archive-date Content-type Archive-length\n"
    head = b"filedesc://x.arc 0.0.0.0 20090504030201 text/plain %d\n" % len(about) + about
    line = f"http://h.example/old 192.0.2.1 20090504030201 text/html {len(body)}\n".encode()
    path = _write(tmp_path / "x.arc", head + b"\n" + line + body + b"\n")
    assert shelf.archive.import_warc(path, shelf.site_id).captures == 1
    (capture,) = _imported(shelf)
    assert capture.captured_at == datetime(2009, 5, 4, 3, 2, 1, tzinfo=UTC)
    assert shelf.archive.read(capture.capture_id).body == GBK_PAGE


def test_chunked_bodies_are_joined_and_codings_undone(tmp_path: Path) -> None:
    packed = gzip.compress(GBK_PAGE * 2_000)
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (packed[:9], packed[9:])) + b"0\r\n\r\n"
    headers = "Content-Type: text/html\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n"
    path = _write(tmp_path / "x.warc", _record("response", _http(chunks, headers)))
    (foreign,) = read_pages(path, 10_000_000)
    assert foreign.page.wire_body == packed
    assert foreign.page.body == GBK_PAGE * 2_000


def test_a_body_that_only_says_chunked_is_taken_as_it_is(tmp_path: Path) -> None:
    headers = "Content-Type: text/html\r\nTransfer-Encoding: chunked\r\n"
    path = _write(tmp_path / "x.warc", _record("response", _http(GBK_PAGE, headers)))
    (foreign,) = read_pages(path, 10_000_000)
    assert foreign.page.body == GBK_PAGE


def test_requests_and_doms_find_their_page_whatever_the_order(tmp_path: Path) -> None:
    first = _http(b"<p>first</p>")
    second = _http(b"<p>the second</p>")
    first_id, second_id = (f"<urn:uuid:00000000-0000-0000-0000-{len(block):012d}>" for block in (first, second))
    path = _write(
        tmp_path / "x.warc",
        _record("request", b"GET /1 HTTP/1.1\r\n\r\n", WARC_Concurrent_To=first_id),
        _record("response", first),
        _record("response", second, url="http://h.example/2"),
        _record("request", b"GET /2 HTTP/1.1\r\n\r\n", WARC_Concurrent_To=second_id),
        _record("conversion", "<p>水</p>".encode(), WARC_Refers_To=second_id, Content_Type="text/html; charset=utf-8"),
    )
    one, two = read_pages(path, 10_000)
    assert (one.page.request_head[:6], one.page.rendered) == (b"GET /1", None)
    assert two.page.request_head[:6] == b"GET /2"
    assert two.page.rendered is not None and two.page.rendered.html == "<p>水</p>"


def test_a_resource_becomes_a_page_and_other_records_do_not(tmp_path: Path) -> None:
    path = _write(
        tmp_path / "x.warc",
        _record("warcinfo", b"software: x\r\n"),
        _record("resource", b"<p>r</p>", Content_Type="text/html"),
        _record("resource", b"1.2.3.4", url="dns:h.example", Content_Type="text/dns"),
        _record("metadata", b"a: b"),
        _record("response", b"no http at all"),
    )
    (foreign,) = read_pages(path, 10_000)
    assert (foreign.page.status, foreign.page.header("content-type"), foreign.page.body) == (
        200,
        "text/html",
        b"<p>r</p>",
    )


def test_a_record_that_was_cut_says_so(tmp_path: Path) -> None:
    path = _write(tmp_path / "x.warc", _record("response", _http(b"<p>"), WARC_Truncated="time"))
    (foreign,) = read_pages(path, 10_000)
    assert foreign.page.faults == (Fault.TOO_SLOW,)
    (foreign,) = read_pages(_write(tmp_path / "y.warc", _record("response", _http(b"x" * 500))), 100)
    assert (len(foreign.page.body), foreign.page.faults) == (100, (Fault.TOO_LARGE,))


def test_revisits_find_their_payload_by_digest_or_by_url_and_date(shelf: Shelf, tmp_path: Path) -> None:
    path = _write(
        tmp_path / "x.warc",
        _record("revisit", _http(b""), url="http://h.example/2", WARC_Payload_Digest="sha1:AAAA"),
        _record("response", _http(GBK_PAGE), WARC_Payload_Digest="sha1:AAAA"),
        _record(
            "revisit",
            b"HTTP/1.1 304 Not Modified\r\n\r\n",
            url="http://h.example/3",
            WARC_Refers_To_Target_URI="http://h.example/old",
            WARC_Refers_To_Date=DATE,
        ),
        _record("revisit", _http(b""), url="http://h.example/4", WARC_Payload_Digest="sha1:BBBB"),
    )
    report = shelf.archive.import_warc(path, shelf.site_id)
    assert (report.captures, report.skipped) == (3, 1)
    assert {shelf.archive.read(capture.capture_id).body for capture in _imported(shelf)} == {GBK_PAGE}


def test_an_old_page_does_not_take_the_place_of_a_newer_capture(shelf: Shelf, tmp_path: Path) -> None:
    new = shelf.keep(make_page("http://h.example/old", b"<p>new</p>"))
    path = _write(tmp_path / "x.warc", _record("response", _http(GBK_PAGE)))
    shelf.archive.import_warc(path, shelf.site_id)
    states = {capture.capture_id: capture.index_state for capture in _imported(shelf)}
    assert states.pop(new.capture_id) is IndexState.WAITING
    assert list(states.values()) == [IndexState.SKIPPED]


def test_what_comes_before_the_damage_is_imported(shelf: Shelf, tmp_path: Path) -> None:
    first, second = (gzip.compress(_record("response", _http(body))) for body in (GBK_PAGE, GBK_PAGE[::-1] * 9))
    path = tmp_path / "x.warc.gz"
    path.write_bytes(first + second[:40] + b"\xff" * 40 + second[80:])
    report = shelf.archive.import_warc(path, shelf.site_id)
    assert report.captures == 1
    assert report.problem is not None and report.problem.startswith("x.warc.gz cannot be read as WARC")


def test_a_file_that_is_no_warc_is_said(shelf: Shelf, tmp_path: Path) -> None:
    path = tmp_path / "x.warc"
    path.write_bytes(b"<html>no archive</html>\n" * 9)
    with pytest.raises(ArchiveError, match=r"^x\.warc cannot be read as WARC"):
        shelf.archive.import_warc(path, shelf.site_id)
    with pytest.raises(ArchiveError, match=r"cannot read .*none: No such file"):
        shelf.archive.import_warc(tmp_path / "none", shelf.site_id)
    assert shelf.files() == []
