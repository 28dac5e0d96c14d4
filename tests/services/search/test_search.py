"""Searching on the real node through the real mappings: what is found, marked and refused."""

from __future__ import annotations

import json
import time
from datetime import date
from pathlib import Path

import pytest

from services.search.records import SearchNote, Segment, Sort
from services.search.search import highlight_words

pytestmark = pytest.mark.node

QUICK_S = 8.0
"""Two seconds are right on a machine that does nothing else."""
CASES = Path(__file__).parents[1] / "cases"


def case(name):
    return json.loads((CASES / f"{name}.json").read_text("utf-8"))


def ids(page):
    return [hit.document_id for hit in page.hits]


def marked(snippet):
    return "".join(f"[{segment.text}]" if segment.hit else segment.text for segment in snippet)


def test_whatever_is_typed_gives_results_or_a_note(fill, find):
    fill([{"title": "水库", "body": "水库蓄水"}])
    odd = ["\ud800水库", "水库" * 5000, "\x00\x1b水库", "-水库", "的", "𠮷" * 600, " ".join("abcdefghij" * 30)]
    for text in case("c43_queries") + odd:
        began = time.monotonic()
        page = find(text)
        assert time.monotonic() - began < QUICK_S
        if "水库" in text and text != "-水库":
            assert page.total == 1, text
    assert find("😀").note is SearchNote.NOTHING_TO_SEARCH
    assert find("-水库").note is SearchNote.ONLY_EXCLUSIONS
    assert find("水库" * 5000).note is SearchNote.CUT
    assert find("水库", page=2000).note is SearchNote.TOO_FAR


def test_common_words_alone_find_only_what_holds_them(fill, find):
    documents = case("c44_stopwords")["docs"]
    fill([{**document, "site": "h", "host": "h.example:80"} for document in documents])
    for options in ({}, {"site": "h"}):
        assert set(ids(find("的", **options))) <= {"0", "1"}
        assert ids(find("it", **options)) == ["2"]
        page = find("水库 的", **options)
        assert ids(page)[0] == "1" and marked(page.hits[0].title) == "[水库]的蓄水"
    assert find("the").total == 0


def test_markup_in_text_and_query_stays_text(fill, find):
    documents = case("c49_xss_docs")
    fill(documents["docs"])
    shown = [(hit.document_id, hit.plain_title) for query in documents["queries"] for hit in find(query).hits]
    assert ("0", documents["docs"][0]["title"]) in shown
    assert all(title == documents["docs"][int(number)]["title"] for number, title in shown)
    hit = next(hit for hit in find("水库").hits if hit.document_id == "1")
    assert marked(hit.snippet) == "&lt;b&gt;[水库]&lt;/b&gt; 原文就写着转义符"


def test_exactly_the_words_of_the_query_are_marked(fill, find):
    sentences = case("c50_offsets")
    fill([{"title": f"第{n}号", "body": sentence} for n, sentence in enumerate(sentences["sentences"])])
    for query, number in sentences["queries"].items():
        page = find(query)
        assert ids(page)[0] == str(number)
        assert marked(page.hits[0].snippet) == sentences["sentences"][number].replace(query, f"[{query}]")


def test_either_script_and_width_finds_and_marks_the_other(fill, find):
    fill(
        [{"title": "地下水位監測站", "body": "ＡＢＣ公司在臺北設地下水位監測站"}, {"title": "无关", "body": "别的文章"}]
    )
    for query in ("地下水位监测站", "地下水位監測站"):
        page = find(query)
        assert ids(page) == ["0"]
        assert marked(page.hits[0].title) == "[地下水位監測站]"
    assert marked(find("abc").hits[0].snippet).startswith("[ＡＢＣ]公司")


def test_a_page_of_millions_of_characters_fails_no_search(fill, find):
    case_ = case("c41_long_doc")
    long = case_["long_doc"]
    parts = (long["prefix_repeat"], [long["marker_start"], 1], long["middle_repeat"], [long["marker_end"], 1])
    body = "".join(text * times for text, times in parts)
    body += "续编另记各渠修缮始末。" * ((5_000_000 - len(body)) // 11) + "全书终了"
    fill([{"title": long["title"], "body": body}, case_["normal_doc"]])
    page = find("渠首纪事")
    assert page.total == 2
    assert all("[渠首纪事]" in marked(hit.snippet).replace("][", "") for hit in page.hits)
    assert find("卷末索引").total == 1
    assert find("全书终了").total == 1
    began = time.monotonic()
    find("渠首纪事")
    assert time.monotonic() - began < QUICK_S


def test_phrases_exclusions_alternatives_and_titles(fill, find):
    fill(
        [
            {"title": "南门水厂", "body": "自来水公司抢修南门水厂的水管。"},
            {"title": "北门", "body": "南门的水，流过工厂。"},
            {"title": "大坝", "body": "大坝今天合龙。"},
        ]
    )
    assert ids(find('"南门水厂"')) == ["0"]
    assert ids(find("南门 -水厂")) == ["1"]
    assert set(ids(find("水厂 OR 大坝"))) == {"0", "2"}
    assert ids(find("intitle:大坝")) == ["2"]
    assert ids(find("intitle:水管")) == []
    assert ids(find('intitle:"南门水厂" 抢修')) == ["0"]


def test_filters(fill, find):
    common = {"body": "水库今天蓄水。", "kind": "article"}
    fill(
        [
            {**common, "title": "甲", "site": "a", "host": "www.a.example:443", "path": "/n/1.pdf", "language": "zh"}
            | {"published_at": "2024-03-05"},
            {
                **common,
                "title": "乙",
                "site": "b.example:80/n/",
                "host": "b.example:80",
                "path": "/n/2.html",
                "language": "en",
            }
            | {"published_at": "2024-05-06T08:00:00Z", "media_type": "text/html"},
            {**common, "title": "丙", "site": "nota", "host": "nota.example:80", "path": "/x", "kind": "list"},
        ]
    )
    assert set(ids(find("水库"))) == {"0", "1", "2"}
    assert ids(find("水库 site:a.example")) == ["0"]
    assert ids(find("水库 site:b.example/n")) == ["1"]
    assert ids(find("site:b.example:80")) == ["1"]
    assert ids(find("水库", site="nota")) == ["2"]
    assert ids(find("水库", host="b.example:80")) == ["1"]
    assert ids(find("水库 lang:en")) == ["1"]
    assert ids(find("水库", language="zh")) == ["0"]
    assert ids(find("水库 filetype:pdf")) == ["0"]
    assert ids(find("水库 filetype:html")) == ["1"]
    assert ids(find("水库", kind="list")) == ["2"]
    assert ids(find("水库 after:2024-03-06")) == ["1"]
    assert ids(find("水库 before:2024-05-06", sort=Sort.NEWEST)) == ["1", "0"]
    assert ids(find("水库", published_until=date(2024, 3, 5))) == ["0"]
    assert ids(find("水库", sort=Sort.NEWEST)) == ["1", "0", "2"]
    assert ids(find("水库", sort=Sort.OLDEST))[:2] == ["0", "1"]


def test_pages_of_results_follow_each_other(fill, find):
    fill([{"title": f"第{n}期", "body": "水库水情简报" + "水" * n} for n in range(25)])
    seen = [number for page in (1, 2, 3) for number in ids(find("水情简报", page=page))]
    assert len(seen) == len(set(seen)) == 25
    assert find("水情简报").last_page == 3
    assert find("水情简报", page=0, size=1000).query.size == 100


def test_addresses_are_found_as_typed(fill, find):
    fill(
        [
            {
                "title": "联系",
                "body": "来信请寄编辑部。",
                "url": "http://h.example/c?a=1&b=2",
                "emails": ["Editor@h.example"],
            },
            {"title": "别处", "body": "编辑部在二楼。", "url": "http://h.example/d"},
        ]
    )
    assert ids(find("editor@h.example"))[0] == "0"
    assert ids(find("http://h.example/c?a=1&b=2"))[0] == "0"


def test_the_better_page_comes_first(fill, find):
    fill(
        [
            {"title": "简报", "body": "各地水情：水库、泵站、渠道。" * 10},
            {"title": "水库蓄水量创新高", "body": "水库蓄水量比去年多一成。"},
            {"title": "泵站", "body": "泵站检修，蓄水不受影响，水库照常。"},
        ]
    )
    assert ids(find("水库蓄水量"))[0] == "1"


def test_a_page_without_the_word_in_its_body_shows_its_beginning(fill, find):
    fill([{"title": "水库", "body": "第一句话。" + "后面还有许多话。" * 100}])
    hit = find("水库").hits[0]
    assert hit.title == (Segment("水库", True),)
    assert marked(hit.snippet).startswith("第一句话。") and len(hit.snippet[0].text) < 400


def test_words_to_mark_in_a_snapshot(reader):
    assert highlight_words(reader, '什么是地下水位 "南门水厂" Ｔ恤 -大坝 site:h.example') == [
        "南门水厂",
        "地下水位",
        "Ｔ恤",
        "南门",
        "水厂",
    ]
    assert highlight_words(reader, "的") == ["的"]
    assert highlight_words(reader, "😀 -水库") == []
