import gzip
import subprocess
import sys
from pathlib import Path

import brotli
import pytest
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive, Severity
from crawler.errors import CaptureDamaged, CaptureMissing
from crawler.records import Capture, Fault, IndexState
from tests.crawler.archive.shelf import Shelf, make_page

HTML = ("Content-Type", "text/html; charset=gb2312")
PAGE = "<p>闸门维护。</p>".encode("gb18030") * 50


def _flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def test_a_page_comes_back_as_it_was_sent(shelf: Shelf) -> None:
    capture = shelf.keep(make_page(body=PAGE, headers=(HTML, ("X-Name", "渠".encode().decode("latin-1")))))
    page = shelf.archive.read(capture.capture_id)
    assert page.body == PAGE
    assert page.headers == (HTML, ("X-Name", "渠".encode().decode("latin-1")))
    assert page.dom_html is None
    assert page.capture == capture


@pytest.mark.parametrize(
    ("encoding", "wire_body", "body", "faults"),
    [
        ("gzip", gzip.compress(PAGE), PAGE, ()),
        ("br", brotli.compress(PAGE), PAGE, ()),
        ("gzip", PAGE, PAGE, (Fault.BAD_ENCODING,)),
        ("no-such", PAGE, PAGE, (Fault.BAD_ENCODING,)),
        ("gzip", b"", b"", ()),
        ("", gzip.compress(PAGE), PAGE, ()),
    ],
)
def test_content_codings_are_kept_on_disk_and_undone_at_reading(
    shelf: Shelf, encoding: str, wire_body: bytes, body: bytes, faults: tuple[Fault, ...]
) -> None:
    headers = (HTML, ("Content-Encoding", encoding)) if encoding else (HTML,)
    capture = shelf.keep(make_page(body=wire_body, headers=headers))
    assert capture.faults == faults
    assert shelf.archive.read(capture.capture_id).body == body
    assert shelf.findings() == []


def test_a_cut_stream_comes_back_as_far_as_it_went(shelf: Shelf) -> None:
    cut = gzip.compress(bytes(n * n % 251 for n in range(50_000)), 1)[:-500]
    capture = shelf.keep(make_page(body=cut, headers=(HTML, ("Content-Encoding", "gzip"))))
    assert capture.faults == (Fault.PARTIAL,)
    assert len(shelf.archive.read(capture.capture_id).body) == capture.size_bytes > 100


def test_a_rendered_page_comes_back_with_its_dom(shelf: Shelf) -> None:
    first = shelf.keep(make_page(body=b"<script>", rendered="<p>水库</p>"))
    assert shelf.archive.read(first.capture_id).dom_html == "<p>水库</p>"
    again = shelf.keep(make_page(status=304, body=b"", headers=()), first.capture_id, IndexState.SKIPPED)
    assert again.rendered
    assert shelf.archive.read(again.capture_id).dom_html == "<p>水库</p>"


def test_an_unchanged_page_reads_like_its_original(shelf: Shelf) -> None:
    first = shelf.keep(make_page(body=PAGE, headers=(HTML, ("ETag", '"1"'), ("Date", "old"))))
    size_before = shelf.files()[0].stat().st_size
    again = shelf.keep(
        make_page(status=304, body=b"", headers=(("Date", "new"),)), first.capture_id, IndexState.SKIPPED
    )
    assert shelf.files()[0].stat().st_size - size_before < 1_500
    page = shelf.archive.read(again.capture_id)
    assert page.body == PAGE
    assert dict(page.headers) == dict([HTML, ("ETag", '"1"'), ("Date", "old")])


def test_the_same_bytes_at_another_url_are_kept_once(shelf: Shelf) -> None:
    first = shelf.keep(make_page("http://h.example/first", PAGE, headers=(HTML,)))
    second = shelf.keep(make_page("http://h.example/second", PAGE, headers=(HTML, ("X", "2"))), first.capture_id)
    page = shelf.archive.read(second.capture_id)
    assert page.body == PAGE
    assert page.headers == (HTML, ("X", "2"))


def test_what_is_not_there_is_said(shelf: Shelf) -> None:
    with pytest.raises(CaptureMissing, match="there is no capture 7"):
        shelf.archive.read(7)
    capture = shelf.keep(make_page())
    shelf.files()[0].unlink()
    with pytest.raises(CaptureMissing, match=r"20260301.*\.warc\.gz is gone from the archive"):
        shelf.archive.read(capture.capture_id)
    findings = shelf.findings()
    assert [finding.severity for finding in findings] == [Severity.ERROR, Severity.ERROR]
    assert findings[0].capture_id == capture.capture_id


@pytest.mark.parametrize("where", ["head", "middle", "checksum"])
def test_one_flipped_bit_is_found_and_named(shelf: Shelf, where: str) -> None:
    before = shelf.keep(make_page("http://h.example/1", PAGE[::-1]))
    start = shelf.files()[0].stat().st_size
    damaged = shelf.keep(make_page("http://h.example/2", PAGE))
    after = shelf.keep(make_page("http://h.example/3", PAGE[:99]))
    assert shelf.findings() == []
    _flip(shelf.files()[0], {"head": start + 12, "middle": start + 300, "checksum": _end_of(shelf, damaged) - 6}[where])
    with pytest.raises(CaptureDamaged, match=r"20260301.*\.warc\.gz at \d+: "):
        shelf.archive.read(damaged.capture_id)
    errors = [finding for finding in shelf.findings() if finding.severity is Severity.ERROR]
    assert [(finding.capture_id, finding.offset) for finding in errors] == [(damaged.capture_id, start)]
    assert "http://h.example/2" in errors[0].message
    assert shelf.archive.read(before.capture_id).body and shelf.archive.read(after.capture_id).body


def _end_of(shelf: Shelf, capture: Capture) -> int:
    with database.read(shelf.engine) as conn:
        located = captures.locate(conn, capture.capture_id)
    assert located is not None
    return located.own.offset + located.own.length


def test_a_whole_record_of_another_page_is_not_given_out(shelf: Shelf) -> None:
    """As after a file was put back from a backup of another time."""
    first = shelf.keep(make_page("http://h.example/1", b"<p>aaaa</p>"))
    start = shelf.files()[0].stat().st_size
    second = shelf.keep(make_page("http://h.example/2", b"<p>bbbb</p>"))
    with database.write(shelf.engine) as conn:
        moved = database.captures.update().where(database.captures.c.id == first.capture_id)
        conn.execute(moved.values(offset=start, length=_end_of(shelf, second) - start))
    with pytest.raises(CaptureDamaged, match="SHA-256"):
        shelf.archive.read(first.capture_id)


def test_a_damaged_dom_is_found(shelf: Shelf) -> None:
    capture = shelf.keep(make_page(rendered="<p>" + "水库" * 500))
    _flip(shelf.files()[0], shelf.files()[0].stat().st_size - 20)
    with pytest.raises(CaptureDamaged):
        shelf.archive.read(capture.capture_id)
    assert [finding.severity for finding in shelf.findings()] == [Severity.ERROR]


def test_a_torn_tail_that_nothing_refers_to_is_a_note(shelf: Shelf) -> None:
    shelf.keep(make_page())
    with shelf.files()[0].open("ab") as file:
        file.write(gzip.compress(b"WARC/1.1 half a record")[:-9])
    (finding,) = shelf.findings()
    assert finding.severity is Severity.NOTE
    assert finding.message == "the last record is not whole, and nothing refers to it"


def test_a_damaged_request_between_pages_is_an_error_and_the_rest_is_looked_at(shelf: Shelf) -> None:
    first = shelf.keep(make_page("http://h.example/1"))
    shelf.keep(make_page("http://h.example/2"))
    _flip(shelf.files()[0], _end_of(shelf, first) + 100)
    (finding,) = shelf.findings()
    assert (finding.severity, finding.offset, finding.capture_id) == (
        Severity.ERROR,
        _end_of(shelf, first),
        None,
    )


def test_a_file_without_captures_is_a_note(shelf: Shelf) -> None:
    shelf.writer.append(make_page())
    shelf.writer.sync()
    (finding,) = shelf.findings()
    assert (finding.severity, finding.message) == (Severity.NOTE, "no capture lies in this file")


def _check(*files: Path) -> None:
    check = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", *map(str, files)], capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stdout + check.stderr


def test_an_export_is_a_whole_archive_of_its_own(shelf: Shelf, engine: Engine, tmp_path: Path) -> None:
    other_site = shelf.add_site("b.example:80")
    elsewhere = shelf.keep(make_page("http://b.example/", PAGE, headers=(HTML,)), site_id=other_site)
    shelf.keep(make_page("http://h.example/copy", PAGE, headers=(HTML,)), elsewhere.capture_id)
    packed = (HTML, ("Content-Encoding", "gzip"))
    first = shelf.keep(make_page("http://h.example/1", gzip.compress(b"one"), headers=packed, rendered="<p>one</p>"))
    shelf.keep(make_page("http://h.example/1", b"", status=304, headers=()), first.capture_id, IndexState.SKIPPED)
    files = shelf.archive.export(tmp_path / "out", shelf.site_id)
    _check(*files)
    _check(*shelf.files())

    copy = Archive(tmp_path / "copy", engine)
    third_site = shelf.add_site("c.example:80")
    report = copy.import_warc(files[0], third_site)
    assert (report.captures, report.skipped, report.problem) == (3, 0, None)
    with database.read(engine) as conn:
        imported = [one.capture for one in captures.of_site(conn, third_site, 0, 10)]
    pages = [copy.read(capture.capture_id) for capture in imported]
    assert {(page.capture.url, page.body) for page in pages} == {
        ("http://h.example/copy", PAGE),
        ("http://h.example/1", b"one"),
    }
    assert {page.dom_html for page in pages if page.capture.url.endswith("1")} == {"<p>one</p>"}


def test_an_export_begins_a_new_file_when_one_is_large(shelf: Shelf, tmp_path: Path) -> None:
    for n in range(3):
        shelf.keep(make_page(f"http://h.example/{n}", b"%d" % n))
    files = shelf.archive.export(tmp_path / "out", max_file_bytes=1)
    assert len(files) == 3
    _check(*files)
    assert shelf.archive.export(tmp_path / "none", 99) == []
