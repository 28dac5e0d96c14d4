"""Elasticsearch's answers, read: marks become segments, and nothing else is made of the text."""

from __future__ import annotations

from datetime import UTC, date, datetime

from services.search.records import SearchQuery, Segment
from services.search.results import read_page, read_snippet

ANSWER = {
    "took": 7,
    "hits": {
        "total": {"value": 41, "relation": "eq"},
        "hits": [
            {
                "_id": "a",
                "_score": 3.5,
                "_source": {
                    "url": "http://h.example/a",
                    "title": "南门水厂",
                    "host": "h.example:80",
                    "site": "h",
                    "capture_id": 12,
                    "captured_at": "2026-01-20T03:00:00Z",
                    "published_at": "2024-03-05",
                    "fields": {"公司": "甲"},
                },
                "highlight": {
                    "title": ["\x02南门\x03\x02水厂\x03"],
                    "body": ["抢修 \x02水厂\x03\n</em> 完毕", "另一处"],
                },
            },
            {
                "_id": "b",
                "_score": None,
                "_source": {"url": "http://h.example/b", "title": "<b>", "description": "概要"},
            },
        ],
    },
}


def test_marks_become_segments_and_touching_ones_are_joined():
    assert read_snippet("甲\x02乙\x03\x02丙\x03丁") == (
        Segment("甲", False),
        Segment("乙丙", True),
        Segment("丁", False),
    )
    assert read_snippet("") == ()
    assert read_snippet("没有标记") == (Segment("没有标记", False),)


def test_a_mark_that_is_not_closed_is_text():
    assert read_snippet("甲\x02乙") == (Segment("甲乙", False),)


def test_a_page_of_results():
    page = read_page(SearchQuery("南门水厂"), ANSWER)
    first, second = page.hits
    assert (page.total, page.took_ms, page.last_page) == (41, 7, 5)
    assert first.title == (Segment("南门水厂", True),)
    assert first.snippet == (
        Segment("抢修 ", False),
        Segment("水厂", True),
        Segment(" </em> 完毕", False),
        Segment(" … ", False),
        Segment("另一处", False),
    )
    assert first.captured_at == datetime(2026, 1, 20, 3, tzinfo=UTC)
    assert first.published_at == date(2024, 3, 5)
    assert second.plain_title == "<b>" and second.score is None and second.capture_id is None
    assert second.passages == ((Segment("概要", False),),)


def test_the_json_form():
    hit = read_page(SearchQuery("x"), ANSWER).to_json(lambda capture_id: f"/snapshot/{capture_id}")["hits"][0]
    assert hit["snippet"][1] == {"text": "水厂", "hit": True}
    assert {key: hit[key] for key in ("url", "title", "score", "snapshot_url", "captured_at", "fields")} == {
        "url": "http://h.example/a",
        "title": "南门水厂",
        "score": 3.5,
        "snapshot_url": "/snapshot/12",
        "captured_at": "2026-01-20T03:00:00Z",
        "fields": {"公司": "甲"},
    }


def test_deep_pages_end_where_people_can_go():
    page = read_page(SearchQuery("x", size=10), {"took": 1, "hits": {"total": {"value": 123_456}, "hits": []}})
    assert page.last_page == 1000
