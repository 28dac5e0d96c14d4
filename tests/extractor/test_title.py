"""Titles without the site's name."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("name", ["05", "06", "08", "01", "02"])
def test_the_case_pages_are_called_by_their_own_title(read_case, name):
    assert read_case(name).title == "渡口的清晨"


@pytest.mark.parametrize(
    ("title", "body", "expected"),
    [
        ("渡口的清晨_河湾新闻网", "", "渡口的清晨"),
        ("渡口的清晨-社会频道-河湾在线", "", "渡口的清晨"),
        ("河湾新闻网_渡口的清晨", "<h1>渡口的清晨</h1>", "渡口的清晨"),
        ("The ferry at dawn | Riverbend Times", "", "The ferry at dawn"),
        ("C++ - a short tour", "", "C++ - a short tour"),
        ("10-20 公里的路 - 步行者论坛", "", "10-20 公里的路"),
        ("1.1. 什么是 Debian？", "<h2>1.1. 什么是 Debian？</h2>", "1.1. 什么是 Debian？"),
        ("无标题文档", "<h1>停水通知</h1>", "停水通知"),
        ("", "<h2>停水通知</h2>", "停水通知"),
        ("河湾县人民政府", "<h1><a href='/'>河湾县人民政府</a></h1>", "河湾县人民政府"),
    ],
)
def test_the_sites_name_is_taken_off(read, title, body, expected):
    assert (
        read(f"<html><head><title>{title}</title></head><body>{body}<p>正文一句。</p></body></html>").title == expected
    )


def test_the_name_that_the_site_states_is_taken_off(read):
    head = '<meta property="og:site_name" content="河湾"><title>渡口的清晨 - 河湾</title>'
    assert read(f"<html><head>{head}</head><body><p>正文。</p></body></html>").title == "渡口的清晨"


def test_a_title_cut_at_a_quote_in_a_meta_tag_is_not_taken(read):
    head = '<meta property="og:title" content="他说"来了"就走"><title>他说"来了"就走</title>'
    assert read(f"<html><head>{head}</head><body><p>正文。</p></body></html>").title == '他说"来了"就走'


def test_the_title_of_a_drawing_is_not_the_pages(read):
    assert read("<body><svg><title>箭头</title></svg><h1>停水通知</h1><p>正文。</p></body>").title == "停水通知"


def test_a_page_without_title_is_called_by_its_first_words(read):
    assert read("<body><p>今晚十点停水。</p></body>").title == "今晚十点停水。"
