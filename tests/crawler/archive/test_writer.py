import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crawler.archive import writer
from crawler.archive.warc import member_length, parse_http, read_member
from crawler.archive.writer import ArchiveWriter
from crawler.errors import ArchiveError
from crawler.records import StoredRecords
from tests.crawler.archive.shelf import make_page

CLOCK = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def _open(folder: Path, **settings: int) -> ArchiveWriter:
    return ArchiveWriter(folder, "crawler/1 ", clock=lambda: CLOCK, **settings)


def _body(folder: Path, stored: StoredRecords) -> bytes:
    data = (folder / stored.warc_path).read_bytes()[stored.offset : stored.offset + stored.length]
    return parse_http(read_member(data).block).body


def _members(path: Path) -> list[int]:
    data, lengths = path.read_bytes(), []
    while data:
        lengths.append(member_length([data]))
        data = data[lengths[-1] :]
    return lengths


def test_each_record_can_be_read_alone(tmp_path: Path) -> None:
    with _open(tmp_path) as archive:
        places = [archive.append(make_page(body=b"%d" % n, rendered="<p>" if n == 1 else None)) for n in range(3)]
    assert [_body(tmp_path, place) for place in places] == [b"0", b"1", b"2"]
    dom = places[1]
    assert dom.dom_offset is not None and dom.dom_length is not None
    data = (tmp_path / dom.warc_path).read_bytes()[dom.dom_offset : dom.dom_offset + dom.dom_length]
    assert read_member(data).block == b"<p>"


def test_files_are_named_by_time_worker_and_number(tmp_path: Path) -> None:
    with _open(tmp_path) as archive:
        assert archive.append(make_page()).warc_path == "2026/03/20260301120000000000-crawler-1-00001.warc.gz"


def test_a_file_is_closed_when_it_is_large_enough(tmp_path: Path) -> None:
    with _open(tmp_path, max_file_bytes=2_000) as archive:
        places = [archive.append(make_page(body=os.urandom(1_500))) for _ in range(3)]
    assert len({place.warc_path for place in places}) == 3
    assert all(place.offset > 0 for place in places)


def test_nobody_writes_to_a_file_that_is_there(tmp_path: Path) -> None:
    with _open(tmp_path) as first:
        first.append(make_page())
    with _open(tmp_path) as second, pytest.raises(ArchiveError, match=r"cannot create .*: File exists"):
        second.append(make_page())


def test_a_writer_that_wrote_nothing_leaves_no_file(tmp_path: Path) -> None:
    with _open(tmp_path) as archive:
        archive.sync()
    assert list(tmp_path.iterdir()) == []


def test_a_group_is_synced_once_with_its_new_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(writer.os, "fsync", lambda fd: synced.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    with _open(tmp_path / "archive") as archive:
        archive.append(make_page())
        archive.append(make_page())
        archive.sync()
        first, synced[:] = list(synced), []
        archive.append(make_page())
        archive.sync()
        archive.sync()
    assert [Path(path).name for path in first[1:]] == ["03", "2026", "archive", tmp_path.name]
    assert first[0].endswith(".warc.gz")
    assert synced == [first[0]]


@contextmanager
def _full_disk(monkeypatch: pytest.MonkeyPatch, room: int) -> Iterator[None]:
    """The next writes find `room` bytes left: the kernel writes what fits, then refuses."""
    real_write = os.write

    def write(fd: int, data: memoryview) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = real_write(fd, data[:room])
        room -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(writer.os, "write", write)
        yield


def test_a_full_disk_voids_the_group_and_leaves_whole_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _open(tmp_path) as archive:
        kept = archive.append(make_page(body=b"kept"))
        archive.sync()
        archive.append(make_page(body=b"void"))
        with _full_disk(monkeypatch, 100), pytest.raises(ArchiveError, match="No space left on device"):
            archive.append(make_page(body=b"too much"))
        again = archive.append(make_page(body=b"again"))
    assert _body(tmp_path, kept) == b"kept"
    assert _body(tmp_path, again) == b"again"
    assert again.warc_path == kept.warc_path
    assert len(_members(tmp_path / kept.warc_path)) == 5  # warcinfo, and two of response and request


def test_a_full_disk_at_the_first_record_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _open(tmp_path) as archive:
        with _full_disk(monkeypatch, 10), pytest.raises(ArchiveError, match="No space left"):
            archive.append(make_page())
        assert list(tmp_path.rglob("*.gz")) == []
        with _full_disk(monkeypatch, 500), pytest.raises(ArchiveError, match="No space left"):
            archive.append(make_page(body=os.urandom(2_000)))
        assert _body(tmp_path, archive.append(make_page(body=b"at last"))) == b"at last"


def test_a_file_whose_sync_failed_is_not_written_to_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with _open(tmp_path) as archive:
        lost = archive.append(make_page(body=b"lost"))
        with monkeypatch.context() as patch:
            patch.setattr(writer.os, "fsync", fail)
            with pytest.raises(ArchiveError, match=r"cannot sync .*: Input/output error"):
                archive.sync()
        again = archive.append(make_page(body=b"again"))
    assert again.warc_path != lost.warc_path
    assert _body(tmp_path, again) == b"again"


def test_standard_tools_find_nothing_wrong(tmp_path: Path) -> None:
    with _open(tmp_path) as archive:
        first = make_page(headers=(("Content-Type", "text/html"), ("Transfer-Encoding", "chunked")), body=b"<p>x</p>")
        archive.append(first)
        place = archive.append(make_page(protocol="HTTP/2", body=b"", rendered="<p>水</p>"))
    check = subprocess.run(
        [sys.executable, "-m", "warcio.cli", "check", "-v", str(tmp_path / place.warc_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert check.returncode == 0, check.stdout + check.stderr
    assert check.stdout.count("digest pass") == 6
