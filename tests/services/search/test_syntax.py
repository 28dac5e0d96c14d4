"""The query language: what is an operator, and that everything else is words."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.search.records import MAX_QUERY_CHARS
from services.search.syntax import ParsedQuery, Term, parse

TYPED = json.loads((Path(__file__).parents[1] / "cases" / "c43_queries.json").read_text("utf-8"))


def test_words_stand_apart():
    assert parse("水库 泵　站") == ParsedQuery(chunks=("水库", "泵", "站"))


@pytest.mark.parametrize("text", ['"南门 水厂"', "“南门 水厂”", "「南门 水厂」", "『南门 水厂』"])
def test_quotes_make_a_phrase(text):
    assert parse(text) == ParsedQuery(required=((Term("南门 水厂"),),))


def test_quotes_within_running_text_are_no_operators():
    text = "「境」在馬祖所代表的意義為？ 战国“三杰”是谁"
    assert parse(text) == ParsedQuery(chunks=("境」在馬祖所代表的意義為？", "战国“三杰”是谁"))


def test_minus_and_not_exclude():
    assert parse('水库 -泵站 NOT 大坝 -"南门 水厂"').excluded == (Term("泵站"), Term("大坝"), Term("南门 水厂"))
    assert parse("well-known e-mail") == ParsedQuery(chunks=("well-known", "e-mail"))


def test_or_makes_alternatives():
    assert parse('水库 OR "南门 水厂" | 泵站 蓄水') == ParsedQuery(
        chunks=("蓄水",), required=((Term("水库"), Term("南门 水厂"), Term("泵站")),)
    )


def test_and_means_nothing():
    assert parse("水库 AND 泵站") == parse("水库 泵站")


def test_filters():
    parsed = parse("水库 site:H.Example lang:zh filetype:pdf after:2024-03 before:2024-02 site：b.example")
    assert parsed.chunks == ("水库",)
    assert (parsed.sites, parsed.languages, parsed.file_types) == (("h.example", "b.example"), ("zh",), ("pdf",))
    assert (parsed.published_from, parsed.published_until) == (date(2024, 3, 1), date(2024, 2, 29))


def test_a_year_is_all_of_it():
    parsed = parse("after:2023 before:2023")
    assert (parsed.published_from, parsed.published_until) == (date(2023, 1, 1), date(2023, 12, 31))


def test_title_words():
    assert parse('intitle:水库 intitle:"南门 水厂"').required == ((Term("水库", True),), (Term("南门 水厂", True),))


@pytest.mark.parametrize(
    ("text", "chunks"),
    [
        ("title:", ("title:",)),
        ("site:", ("site:",)),
        ("before:昨天", ("before:昨天",)),
        ("before:2024-13", ("before:2024-13",)),
        ("a:b", ("a:b",)),
        ("http://h.example/?x=1&y=2", ("http://h.example/?x=1&y=2",)),
        ('"水库', ("水库",)),
        ("水库 { 泵", ("水库", "泵")),
        ("C++ (入门", ("C++", "(入门")),
    ],
)
def test_what_is_no_operator_is_words(text, chunks):
    assert parse(text) == ParsedQuery(chunks=chunks)


@pytest.mark.parametrize("text", ["", "   ", "　", "+", "-", "!", "*", "OR", "AND OR NOT", "😀", '""', "-“”", "//"])
def test_signs_and_operators_alone_ask_for_nothing(text):
    parsed = parse(text)
    assert not parsed.wants_something and not parsed.has_filter


def test_a_long_query_is_cut():
    parsed = parse("水" * 10_000)
    assert parsed.was_cut and len(parsed.text) == MAX_QUERY_CHARS


def test_what_nobody_types_is_dropped():
    assert parse("水\x00库 \ud800泵\u200b站").text.encode("utf-8").decode() == "水 库 泵 站"


@pytest.mark.parametrize("text", TYPED)
def test_words_in_odd_queries_are_found(text):
    parsed = parse(text)
    assert ("水库" in text) <= ("水库" in parsed.text)


@given(st.text(st.characters(), max_size=300))
def test_anything_can_be_typed(text):
    parse(text).text.encode("utf-8")
