"""Snapshots over a real archive: what is shown, what is downloaded, and what is said when something is wrong."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from crawler.records import Fault
from tests.web.conftest import Keeper

CASES = Path(__file__).parent / "cases"


def test_the_frame_says_what_is_shown(client: FlaskClient, keeper: Keeper) -> None:
    first = keeper.keep("<p>old", "http://archived.example/茶?a=1&b=2")
    second = keeper.keep("<p>new", "http://archived.example/茶?a=1&b=2", faults=(Fault.PARTIAL,))
    page = client.get(f"/snapshot/{second}?q=tea").text
    assert 'href="http://archived.example/%E8%8C%B6?a=1&amp;b=2"' in page
    assert f'<iframe src="/snapshot/{second}/page?q=tea" sandbox ' in page
    assert f'href="/snapshot/{first}?q=tea"' in page
    assert f'href="/snapshot/{second}/raw"' in page
    assert "2 captures" in page
    assert "the page ended early" in page
    assert "March 2026" in page or "Mar 2026" in page


def test_the_archived_page_is_sandboxed_even_when_opened_by_itself(client: FlaskClient, keeper: Keeper) -> None:
    capture = keeper.keep((CASES / "c37_snapshot_active.html").read_bytes())
    answer = client.get(f"/snapshot/{capture}/page")
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox;")
    assert "allow-" not in policy
    assert "default-src 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "闸门公告" in answer.text
    for active in (
        "<script",
        "refresh",
        "onload",
        "onerror",
        "javascript:",
        "<form",
        "<iframe",
        "<base",
        "evil.example",
    ):
        assert active not in answer.text


def test_old_charsets_are_readable_and_the_bytes_stay(client: FlaskClient, keeper: Keeper) -> None:
    original = (CASES / "c38_snapshot_gbk.html").read_bytes()
    capture = keeper.keep(original, content_type="text/html")
    page = client.get(f"/snapshot/{capture}/page")
    assert "快照编码：东闸、西闸、镕炉。" in page.text
    assert 'charset="utf-8"' in page.text
    assert "gb" not in page.text[:400].lower()
    raw = client.get(f"/snapshot/{capture}/raw")
    assert hashlib.sha256(raw.data).hexdigest() == hashlib.sha256(original).hexdigest()


def test_the_bytes_are_an_attachment_that_no_browser_opens(client: FlaskClient, keeper: Keeper) -> None:
    body = "<script>alert(1)</script>"
    capture = keeper.keep(body)
    answer = client.get(f"/snapshot/{capture}/raw")
    assert answer.data == body.encode()
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="capture-{capture}.html"'
    assert "sandbox" in answer.headers["Content-Security-Policy"]


def test_words_are_marked_as_typed_while_the_analyzer_is_away(client: FlaskClient, keeper: Keeper) -> None:
    capture = keeper.keep("<title>水库</title><p>水库在山里。</p>")
    page = client.get(f"/snapshot/{capture}/page", query_string={"q": "水库"}).text
    assert page.count('<mark class="plumbline-mark">水库</mark>') == 1
    assert "<mark" not in client.get(f"/snapshot/{capture}/page", query_string={"q": "水库", "marks": "off"}).text
    frame = client.get(f"/snapshot/{capture}", query_string={"q": "水库"}).text
    assert "Marks: on" in frame
    assert "marks=off" in frame


def test_a_rendered_page_is_shown_as_the_browser_had_it(client: FlaskClient, keeper: Keeper) -> None:
    capture = keeper.keep("<div id=app></div><script>…</script>", dom="<html><body><p>written by a script</p>")
    assert "written by a script" in client.get(f"/snapshot/{capture}/page").text


def test_plain_text_is_shown_as_text(client: FlaskClient, keeper: Keeper) -> None:
    capture = keeper.keep("一 <b>二".encode("gb18030"), content_type="text/plain; charset=gbk")
    assert "一 &lt;b&gt;二" in client.get(f"/snapshot/{capture}/page").text


def test_html_without_a_type_is_shown_as_html(client: FlaskClient, keeper: Keeper) -> None:
    capture = keeper.keep("<!-- x --><html><p>page</p>", content_type="")
    assert "<p>page</p>" in client.get(f"/snapshot/{capture}/page").text


def test_other_files_are_only_downloaded(client: FlaskClient, keeper: Keeper) -> None:
    capture = keeper.keep(b"%PDF-1.7 \x00\xff", content_type="application/pdf")
    assert "This is a file, not a page" in client.get(f"/snapshot/{capture}/page").text
    assert client.get(f"/snapshot/{capture}/raw").data == b"%PDF-1.7 \x00\xff"


@pytest.mark.parametrize("part", ["", "/page", "/raw"])
@pytest.mark.parametrize("number", ["999999", str(2**63 - 1), str(2**63), "0", "-1", "1e3", "%2e%2e", "１"])
def test_what_is_not_there_is_404(client: FlaskClient, part: str, number: str) -> None:
    answer = client.get(f"/snapshot/{number}{part}")
    assert answer.status_code == 404
    assert "Not found" in answer.text


@pytest.mark.parametrize("part", ["/page", "/raw"])
def test_a_damaged_snapshot_is_said_in_words(client: FlaskClient, keeper: Keeper, part: str) -> None:
    capture = keeper.keep("<p>" + "x" * 5000)
    (file,) = keeper.settings.archive_folder.rglob("*.warc.gz")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    answer = client.get(f"/snapshot/{capture}{part}")
    assert answer.status_code == 410
    assert "damaged" in answer.text
    file.unlink()
    assert client.get(f"/snapshot/{capture}{part}").status_code == 404
    assert client.get(f"/snapshot/{capture}").status_code == 200


@pytest.mark.parametrize("url", ['http://h.example/"><svg onload=alert(3)>', "http://h.example/?q=%3Cscript%3E"])
def test_hostile_addresses_are_only_text(client: FlaskClient, keeper: Keeper, url: str) -> None:
    capture = keeper.keep("<p>x", url)
    page = client.get(f"/snapshot/{capture}", query_string={"q": '"><script>alert(1)</script>'}).text
    assert "<svg onload" not in page
    assert "<script>" not in page
