from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.database import urls
from crawler.errors import CaptureMissing
from crawler.records import Capture, Fault, IndexState
from tests.crawler.archive.shelf import NOW, Shelf, make_page

LEASE_S = 60.0


def _claim(shelf: Shelf, worker: str, limit: int = 10, after_s: float = 0) -> list[int]:
    with database.write(shelf.engine) as conn:
        claimed = captures.claim_waiting(conn, worker, NOW + timedelta(seconds=after_s), limit, LEASE_S)
    return [capture.capture_id for capture in claimed]


def _mark(shelf: Shelf, worker: str, capture: Capture, state: IndexState, error: str | None = None) -> int:
    with database.write(shelf.engine) as conn:
        return captures.mark(conn, worker, [capture.capture_id], state, error)


def _state(shelf: Shelf, capture: Capture) -> IndexState:
    with database.read(shelf.engine) as conn:
        current = captures.get(conn, capture.capture_id)
    assert current is not None
    return current.index_state


def test_a_row_says_all_that_was_known_of_the_page(shelf: Shelf) -> None:
    capture = shelf.keep(make_page("http://h.example/a?utm_source=x", b"<p>page</p>", rendered="<p>r</p>"))
    assert (capture.url, capture.urlkey) == ("http://h.example/a?utm_source=x", "http://h.example/a")
    assert (capture.status, capture.size_bytes, capture.generation) == (200, 11, 1)
    assert (capture.captured_at, capture.content_type) == (shelf.now, "text/html; charset=utf-8")
    assert capture.rendered and capture.revisit_of is None and capture.run_id is None
    with database.read(shelf.engine) as conn:
        assert captures.get(conn, 99) is None


def test_faults_survive_their_row(shelf: Shelf) -> None:
    false_label = (("Content-Type", "text/html"), ("Content-Encoding", "gzip"))
    assert shelf.keep(make_page(headers=false_label)).faults == (Fault.BAD_ENCODING,)


def test_a_waiting_capture_is_given_to_one_indexer_until_its_lease_ends(shelf: Shelf) -> None:
    first, second = shelf.keep(make_page("http://h.example/1")), shelf.keep(make_page("http://h.example/2"))
    assert _claim(shelf, "one", limit=1) == [first.capture_id]
    assert _claim(shelf, "two") == [second.capture_id]
    assert _claim(shelf, "one", after_s=LEASE_S - 1) == []
    assert _claim(shelf, "two", after_s=LEASE_S) == [first.capture_id, second.capture_id]
    assert _mark(shelf, "one", first, IndexState.INDEXED) == 0
    assert _mark(shelf, "two", first, IndexState.INDEXED) == 1
    assert _state(shelf, first) is IndexState.INDEXED
    with database.read(shelf.engine) as conn:
        assert captures.tries(conn, [first.capture_id, second.capture_id]) == {
            first.capture_id: 2,
            second.capture_id: 2,
        }
        assert captures.count_waiting(conn) == 1


def test_a_lease_can_be_held_for_longer(shelf: Shelf) -> None:
    capture = shelf.keep(make_page())
    _claim(shelf, "one")
    with database.write(shelf.engine) as conn:
        assert captures.renew(conn, "one", [capture.capture_id], NOW + timedelta(seconds=50), LEASE_S) == 1
    assert _claim(shelf, "two", after_s=LEASE_S + 40) == []
    assert _claim(shelf, "two", after_s=LEASE_S + 50) == [capture.capture_id]


def test_a_deferred_capture_waits_until_its_time(shelf: Shelf) -> None:
    capture = shelf.keep(make_page())
    _claim(shelf, "one")
    with database.write(shelf.engine) as conn:
        assert captures.defer(conn, "one", [capture.capture_id], NOW + timedelta(seconds=500), "429") == 1
    assert _claim(shelf, "two", after_s=499) == []
    assert _claim(shelf, "two", after_s=500) == [capture.capture_id]


def test_only_the_newest_capture_of_a_page_waits(shelf: Shelf) -> None:
    old = shelf.keep(make_page(body=b"<p>old</p>"))
    assert _claim(shelf, "one") == [old.capture_id]
    new = shelf.keep(make_page(body=b"<p>new</p>"))
    other = shelf.keep(make_page("http://h.example/other"))
    assert _state(shelf, old) is IndexState.SKIPPED
    assert _mark(shelf, "one", old, IndexState.INDEXED) == 0
    assert _claim(shelf, "two") == [new.capture_id, other.capture_id]


def test_an_unchanged_page_lets_the_earlier_capture_wait_on(shelf: Shelf) -> None:
    first = shelf.keep(make_page())
    shelf.keep(make_page(status=304, body=b"", headers=()), first.capture_id, IndexState.SKIPPED)
    assert _claim(shelf, "one") == [first.capture_id]


def test_a_refusal_keeps_its_reason_and_can_be_tried_again(shelf: Shelf) -> None:
    good, bad = shelf.keep(make_page("http://h.example/1")), shelf.keep(make_page("http://h.example/2"))
    _claim(shelf, "one")
    _mark(shelf, "one", good, IndexState.INDEXED)
    _mark(shelf, "one", bad, IndexState.REFUSED, "field too long")
    with database.write(shelf.engine) as conn:
        refused = captures.get(conn, bad.capture_id)
        assert refused is not None and refused.index_error == "field too long"
        assert captures.requeue(conn, refused_only=True) == 1
    assert _claim(shelf, "one") == [bad.capture_id]


def test_extraction_begins_again_with_the_newest_capture_of_each_page(shelf: Shelf) -> None:
    other_site = shelf.add_site("b.example:80")
    old = shelf.keep(make_page(body=b"<p>old</p>"))
    _claim(shelf, "one")
    _mark(shelf, "one", old, IndexState.INDEXED)
    new = shelf.keep(make_page(body=b"<p>new</p>"))
    foreign = shelf.keep(make_page("http://b.example/"), site_id=other_site)
    _claim(shelf, "one")
    _mark(shelf, "one", new, IndexState.INDEXED)
    _mark(shelf, "one", foreign, IndexState.INDEXED)
    with database.write(shelf.engine) as conn:
        assert captures.requeue(conn, site_id=shelf.site_id) == 1
    assert _claim(shelf, "one") == [new.capture_id]
    with database.write(shelf.engine) as conn:
        assert captures.requeue(conn) == 1
    assert _claim(shelf, "two") == [foreign.capture_id]


def test_the_latest_good_capture_is_a_whole_page(shelf: Shelf) -> None:
    good = shelf.keep(make_page(body=b"<p>good</p>"))
    cut = shelf.keep(make_page(body=b"\x1f\x8b\x08", headers=(("Content-Encoding", "gzip"),)))
    assert cut.faults == (Fault.BAD_ENCODING,)
    failed = shelf.keep(make_page(status=503, body=b"busy"), state=IndexState.SKIPPED)
    with database.write(shelf.engine) as conn:
        conn.execute(
            sa.update(database.captures).where(database.captures.c.id == cut.capture_id).values(faults="partial")
        )
        assert [capture.capture_id for capture in captures.of_url(conn, "http://h.example/a")] == [
            failed.capture_id,
            cut.capture_id,
            good.capture_id,
        ]
        latest = captures.latest(conn, "http://h.example/a")
        assert latest is not None and latest.capture_id == good.capture_id
        assert captures.latest(conn, "http://h.example/none") is None


def test_a_payload_is_known_by_its_digest_once_it_was_kept_whole(shelf: Shelf) -> None:
    first = shelf.keep(make_page("http://h.example/1", b"same"))
    again = shelf.keep(make_page("http://h.example/2", b"same"), first.capture_id)
    shelf.keep(make_page("http://h.example/3", b"rendered", rendered="<p>"))
    with database.read(shelf.engine) as conn:
        known = captures.by_digest(conn, [first.digest, "0" * 64])
    assert {digest: original.capture_id for digest, original in known.items()} == {first.digest: first.capture_id}
    assert known[first.digest].url == "http://h.example/1"
    assert again.revisit_of == first.capture_id


def test_a_reference_to_a_reference_leads_to_the_payload(shelf: Shelf) -> None:
    first = shelf.keep(make_page(body=b"<p>page</p>"))
    second = shelf.keep(make_page(status=304, body=b"", headers=()), first.capture_id, IndexState.SKIPPED)
    third = shelf.keep(make_page(status=304, body=b"", headers=()), second.capture_id, IndexState.SKIPPED)
    assert third.revisit_of == first.capture_id
    assert (third.digest, third.size_bytes, third.content_type) == (first.digest, 11, "text/html; charset=utf-8")
    assert shelf.archive.read(third.capture_id).body == b"<p>page</p>"


def test_a_payload_outlives_the_row_that_it_came_with(shelf: Shelf) -> None:
    other_site = shelf.add_site("b.example:80")
    first = shelf.keep(make_page("http://h.example/first", b"<p>same</p>"))
    second = shelf.keep(make_page("http://b.example/second", b"<p>same</p>"), first.capture_id, site_id=other_site)
    with database.write(shelf.engine) as conn:
        conn.execute(sa.delete(urls).where(urls.c.id == first.url_id))
    with pytest.raises(CaptureMissing):
        shelf.archive.read(first.capture_id)
    assert shelf.archive.read(second.capture_id).body == b"<p>same</p>"
    assert shelf.findings() == []


def test_an_imported_url_joins_the_one_that_is_known(shelf: Shelf) -> None:
    first, second = shelf.claim("http://h.example/a"), shelf.claim("http://h.example/a#x")
    assert (second.url_id, second.generation) == (first.url_id, first.generation + 1)


def test_many_captures_get_their_ids_in_order(any_engine: Engine, tmp_path: Path) -> None:
    shelf = Shelf(any_engine, tmp_path / "archive")
    pages = [make_page(f"http://h.example/{n}", b"%d" % n) for n in range(12)]
    kept = [shelf.keep(page) for page in pages]
    shelf.writer.close()
    assert [shelf.archive.read(capture.capture_id).body for capture in kept] == [page.body for page in pages]
    assert _claim(shelf, "one", limit=100) == [capture.capture_id for capture in kept]
