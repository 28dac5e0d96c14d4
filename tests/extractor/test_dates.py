"""When a page was published: read in every form, and never guessed."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest

from extractor.dates import find_date, parse_date
from extractor.records import iso_time
from tests.extractor.conftest import CAPTURED_AT, CASES

PAGES = {row["name"]: row for row in json.loads((CASES / "c35_dates.json").read_text("utf-8"))}
VALUES = json.loads((CASES / "c46_dates.json").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(set(PAGES) - {"g"}))
def test_dates_as_chinese_sites_print_them(read, name):
    row = PAGES[name]
    published_at = read(row["html"]).published_at
    assert (published_at and published_at.isoformat()) == row["date"]


def test_hours_ago_count_from_the_capture(read):
    assert read(PAGES["g"]["html"]).published_at == CAPTURED_AT - timedelta(hours=2)


@pytest.mark.parametrize(("value", "expected"), VALUES)
def test_values_of_meta_tags_in_every_state(read, value, expected):
    meta = f'<meta property="article:published_time" content="{value}">'
    published_at = read(f"<html><head>{meta}</head><body><p>正文。</p></body></html>").published_at
    assert (iso_time(published_at) or "")[:10] == (expected or "")[:10]


def test_a_label_tells_the_date(read_case):
    assert read_case("09").published_at == date(2024, 3, 5)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("发布时间：2024年3月5日 10:20", date(2024, 3, 5)),
        ("apub:time 2024-03-05 10:20:33", date(2024, 3, 5)),
        ("2024年03月05日星期二", date(2024, 3, 5)),
        ("2024 年 3 月 5 号", date(2024, 3, 5)),
        ("２０２４年３月５日", date(2024, 3, 5)),
        ("二〇二四年三月五日", date(2024, 3, 5)),
        ("二○二三年十二月三十一日", date(2023, 12, 31)),
        ("一九九九年十月二十日", date(1999, 10, 20)),
        ("民國113年3月5日", date(2024, 3, 5)),
        ("2024/3/5", date(2024, 3, 5)),
        ("2024.03.05", date(2024, 3, 5)),
        ("March 5th, 2024", date(2024, 3, 5)),
        ("5 Mar 2024", date(2024, 3, 5)),
        ("2024-03-05T10:20:00+08:00", datetime(2024, 3, 5, 2, 20, tzinfo=UTC)),
        ("2024-03-05T10:20:00Z", datetime(2024, 3, 5, 10, 20, tzinfo=UTC)),
        ("3小时前", CAPTURED_AT - timedelta(hours=3)),
        ("半小时前", CAPTURED_AT - timedelta(minutes=30)),
        ("5 minutes ago", CAPTURED_AT - timedelta(minutes=5)),
        ("2天前", date(2026, 1, 18)),
        ("昨天 10:20", date(2026, 1, 19)),
        ("前天", date(2026, 1, 18)),
        ("2024年", None),
        ("3月5日", None),
        ("2024年13月5日", None),
        ("版本 1.2024.3.5", None),
        ("2027年3月5日", None),
        ("1985-03-05", None),
        ("农历甲辰年正月廿五", None),
        ("2023-02-30", None),
    ],
)
def test_dates_in_text(text, expected):
    assert find_date(text, CAPTURED_AT) == expected


@pytest.mark.parametrize("value", ["20240305", "20240305102033", "2024-03-05", "1709604000"])
def test_machine_forms(value):
    parsed = parse_date(value, CAPTURED_AT)
    assert (iso_time(parsed) or "")[:10] == "2024-03-05"


@pytest.mark.parametrize(
    "html",
    [
        "<body><h1>题</h1><p>本工程自2019年3月5日开工，历时三年，其间两次停工，今年全部完成，下月交付使用，请各村做好接收准备工作。</p></body>",
        "<body><h1>题</h1><p>正文。</p><ul><li><a href='/o'>另一篇很长的文章标题</a> 2024-03-05</li></ul></body>",
        "<body><h1>题</h1><p>正文。</p><div>Copyright © 2024-03-05 某站</div></body>",
        "<body><h1>题</h1><p>报名截止日期：2024年3月5日</p></body>",
    ],
    ids=["in a sentence", "of another page", "copyright", "a deadline"],
)
def test_what_is_not_the_pages_date(read, html):
    assert read(html).published_at is None


def test_the_address_tells_the_date_when_the_page_does_not(read):
    html = "<body><h1>题</h1><p>正文。</p></body>"
    assert read(html, "http://h.example/2024/03/05/a.html").published_at == date(2024, 3, 5)
    assert read(html, "http://h.example/zw/t20240305_123.html").published_at == date(2024, 3, 5)
    assert read(html, "http://h.example/item/20240399/a.html").published_at is None


def test_structured_data_come_first(read):
    data = '<script type="application/ld+json">{"@graph":[{"datePublished":"2024-03-05T08:00:00+08:00"}]}</script>'
    html = f"<html><head>{data}</head><body><div>2023-01-02</div><p>正文。</p></body></html>"
    assert iso_time(read(html).published_at) == "2024-03-05T00:00:00Z"
