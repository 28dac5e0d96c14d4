"""The page of results: what stands on it, and that nothing which stands in a page or a query ever acts."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from flask import Flask, render_template
from flask.testing import FlaskClient
from selectolax.lexbor import LexborHTMLParser

from crawler.urls import document_id
from services.config import Settings
from services.elastic import BulkDocument, Elastic, ElasticUser, credentials
from services.search.records import SearchHit, SearchNote, SearchPage, SearchQuery, Segment
from tests.web.conftest import Keeper
from web import create_app
from web.asked import Asked

HOSTILE: dict[str, Any] = json.loads((Path(__file__).parent / "cases" / "c49_xss_docs.json").read_text())
HIT = SearchHit(
    document_id="0",
    url="http://a.example/茶/longjing.html",
    title=(Segment("西湖", False), Segment("龙井", True)),
    passages=((Segment("早春采", False), Segment("龙井", True)), (Segment("炒青。", False),)),
    score=1.0,
    capture_id=7,
    host="a.example:80",
    site="a.example:80",
    captured_at=datetime(2026, 3, 5, 8, tzinfo=UTC),
    published_at=date(2025, 4, 1),
)

Show = Callable[[SearchPage], LexborHTMLParser]


@pytest.fixture
def show(app: Flask) -> Show:
    def show(page: SearchPage) -> LexborHTMLParser:
        with app.test_request_context("/search", headers={"Accept-Language": "en"}):
            asked = Asked(page.query, page.last_page, [])
            return LexborHTMLParser(render_template("results.html", page=page, asked=asked))

    return show


def text_of(page: LexborHTMLParser, selector: str) -> str:
    node = page.css_first(selector)
    assert node is not None, f"nothing is {selector}"
    return " ".join(node.text().split())


def test_a_hit_shows_title_passages_place_dates_and_snapshot(show: Show) -> None:
    page = show(SearchPage(SearchQuery("龙井"), total=1234, took_ms=12, hits=(HIT,)))
    assert text_of(page, ".tally") == "1,234 results in 0.012 s"
    assert text_of(page, ".hit h2") == "西湖龙井"
    assert text_of(page, ".hit h2 mark") == "龙井"
    assert page.css_first(".hit h2 a").attributes["href"] == HIT.url
    assert text_of(page, ".hit-passages") == "Apr 1, 2025 — 早春采龙井…炒青。"
    assert text_of(page, ".hit-where") == "a.example/茶/longjing.html"
    assert page.css_first(".hit-more a").attributes["href"] == "/snapshot/7?q=%E9%BE%99%E4%BA%95"
    assert "as of Mar 5, 2026" in text_of(page, ".hit-more")
    assert page.css_first("title").text() == "龙井 · Plumbline"
    assert page.css_first("input[name=q]").attributes["value"] == "龙井"


def test_a_hit_without_a_title_is_called_by_its_address(show: Show) -> None:
    page = show(SearchPage(SearchQuery("x"), 1, 1, (replace(HIT, title=(Segment(" ", False),), capture_id=None),)))
    assert text_of(page, ".hit h2") == "a.example/茶/longjing.html"
    assert page.css_first(".hit-more a") is None


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (None, "Nothing found for “x”"),
        (SearchNote.NOTHING_TO_SEARCH, "There is no word in “x”"),
        (SearchNote.ONLY_EXCLUSIONS, "Please add a word"),
        (SearchNote.TOO_FAR, "nobody can page"),
    ],
)
def test_a_page_without_results_helps(show: Show, note: SearchNote | None, words: str) -> None:
    page = show(SearchPage(SearchQuery("x", language="zh"), 0, 1, note=note))
    assert words in text_of(page, ".nothing h1")
    assert "Search without the filters" in text_of(page, ".nothing ul")


def test_nothing_that_a_page_says_becomes_markup(show: Show) -> None:
    evil = "<img src=x onerror=alert(1)></title><script>alert(1)</script>&lt;b&gt;"
    hit = replace(
        HIT,
        url="javascript:alert(1)//",
        title=(Segment(evil, True), Segment(evil, False)),
        passages=((Segment(evil, True), Segment(evil, False)),),
    )
    page = show(
        SearchPage(SearchQuery(evil), 1, 1, (hit, replace(hit, url='http://h.example/"><svg onload=alert(3)>')))
    )
    assert not page.css(".hit img, .hit script, svg, [onerror], [onload]")
    assert len(page.css("script")) == len(page.css("script[src^='/static/']"))
    assert not [link for link in page.css("a") if not re.match(r"/|#|https?://", link.attributes["href"] or "")]
    assert text_of(page, ".hit h2 mark") == " ".join(evil.split())
    assert page.css_first("input[name=q]").attributes["value"] == evil


def test_a_page_of_results_is_light(app: Flask) -> None:
    long = (Segment("龙" * 60, False), Segment("井", True)) * 2
    hits = tuple(replace(HIT, title=long, passages=(long, long)) for _ in range(10))
    with app.test_request_context("/search"):
        page = SearchPage(SearchQuery("龙井 " * 20), 10_000, 5, hits)
        assert len(render_template("results.html", page=page, asked=Asked(page.query, 1000, [])).encode()) < 50_000


@pytest.mark.node
class TestOnTheNode:
    """The same over the real node, from the query to the page."""

    @pytest.fixture
    def portal(self, node_settings: Settings, keeper: Keeper) -> Iterator[FlaskClient]:
        here = keeper.settings
        places = {"database_url": here.effective_database_url, "archive": here.archive_folder}
        settings = node_settings.model_copy(update=places)
        with Elastic(credentials(settings, ElasticUser.WRITER), settings.index_prefix) as writer:
            writer.ensure_indices()
            writer.bulk([_document(n, document) for n, document in enumerate(HOSTILE["docs"])])
            writer.refresh()
        app = create_app(settings)
        client = app.test_client()
        client.environ_base["HTTP_ACCEPT_LANGUAGE"] = "en"
        yield client
        app.extensions["plumbline"].close()

    def test_hostile_documents_and_queries_stay_text(self, portal: FlaskClient) -> None:
        for query in HOSTILE["queries"]:
            answer = portal.get("/search", query_string={"q": query})
            assert answer.status_code == 200
            page = LexborHTMLParser(answer.text)
            assert not page.css(".hit img, .hit script, svg, [onmouseover], [onload], [onerror]")
            assert not [link for link in page.css("a") if (link.attributes["href"] or "").startswith("javascript:")]
        shown = text_of(LexborHTMLParser(portal.get("/search?q=水库").text), ".hits")
        assert "<b>水库</b> 原文就写着转义符" in shown

    def test_the_start_page_tells_what_the_portal_holds(self, portal: FlaskClient) -> None:
        page = portal.get("/").text
        assert "2 pages" in page

    def test_the_api_answers_in_the_programs_json(self, portal: FlaskClient) -> None:
        answer = portal.get("/api/v1/search?q=水库&size=1")
        found = answer.get_json()
        assert (found["total"], len(found["hits"])) == (2, 1)
        assert set(found["hits"][0]) >= {"url", "title", "snippet", "score", "snapshot_url", "captured_at", "fields"}
        assert {"text": "水库", "hit": True} in found["hits"][0]["snippet"]

    def test_words_are_marked_in_snapshots_as_the_analyzer_cuts_them(self, portal: FlaskClient, keeper: Keeper) -> None:
        capture = keeper.keep("<p>水库里有水泵。</p>")
        page = portal.get(f"/snapshot/{capture}/page", query_string={"q": "水库水泵"}).text
        assert re.findall(r"<mark[^>]*>([^<]*)", page) == ["水库", "水泵"]


def _document(number: int, document: dict[str, str]) -> BulkDocument:
    source = {
        "url": document["url"],
        "url_id": number,
        "capture_id": number + 1,
        "generation": 1,
        "site": "h.example:80",
        "host": "h.example:80",
        "path": "/",
        "title": document["title"],
        "body": document["body"].replace("&lt;", "<").replace("&gt;", ">"),
        "captured_at": "2026-03-05T08:00:00Z",
    }
    return BulkDocument(document_id(document["url"]), 1 << 20, source)
