"""The whole document: every field, every type of payload."""

from __future__ import annotations

import pytest

from extractor.errors import NotText
from extractor.extract import is_readable

PAGE = """<!doctype html><html lang="zh-CN"><head><meta charset="utf-8"><title>渡口的清晨_河湾新闻网</title>
<meta name="description" content="薄雾中的渡口。"><meta name="keywords" content="渡口，清晨,渡口;航运">
<meta property="article:published_time" content="2024-03-05T10:20:00+08:00"></head>
<body><h1>渡口的清晨</h1><div>作者：李在山</div><p>清晨的河面上浮着一层薄雾，渡船的马达声从对岸慢慢传来。</p>
<p>来信请寄 Editor@H.Example，或 <a href="mailto:news@h.example?subject=x">写信</a>，图标 a@2x.png 不算。</p>
<a href="/next" rel="nofollow">下一篇</a></body></html>"""


def test_the_json_form_holds_everything(read):
    assert read(PAGE).to_json() == {
        "url": "http://h.example/news/1.html",
        "title": "渡口的清晨",
        "body": read(PAGE).body,
        "author": "李在山",
        "published_at": "2024-03-05T02:20:00Z",
        "description": "薄雾中的渡口。",
        "keywords": ["渡口", "清晨", "航运"],
        "language": "zh",
        "charset": "utf-8",
        "emails": ["news@h.example", "Editor@h.example"],
        "links": [
            {"url": "http://h.example/next", "text": "下一篇", "rel": ["nofollow"]},
        ],
        "kind": "page",
        "fields": {},
    }


def test_the_rendered_dom_is_read_in_place_of_the_body(read):
    document = read("<body><script>write()</script></body>", dom="<html><body><p>脚本写出的话。</p></body></html>")
    assert document.body == "脚本写出的话。"


def test_a_byte_order_mark_is_in_neither_title_nor_text(read_case):
    document = read_case("c26")
    assert document.title == "记号优先"
    assert "\ufeff" not in document.title + document.body


def test_a_late_declaration_of_the_charset_is_found(read_case):
    assert read_case("c25").title == "迟到的编码声明"


def test_plain_text_is_indexed_as_it_stands(read):
    document = read("第一行\r\n\r\n第二行 a@h.example\x00", "http://h.example/d/%E8%AF%B4%E6%98%8E.txt", "text/plain")
    assert (document.title, document.body, document.emails) == (
        "说明.txt",
        "第一行\n第二行 a@h.example",
        ("a@h.example",),
    )


def test_a_feed_is_its_text(read):
    item = "<item><title><![CDATA[开闸]]></title></item>"
    feed = f'<?xml version="1.0"?><rss><channel><title>河湾</title>{item}</channel></rss>'
    assert "开闸" in read(feed, "http://h.example/feed", "application/rss+xml").body


@pytest.mark.parametrize(
    "kind", ["image/png", "application/json", "application/octet-stream", "video/mp4", "image/svg+xml"]
)
def test_what_is_no_text_is_refused(read, kind):
    assert not is_readable(kind, b"\x00\x01")
    with pytest.raises(NotText):
        read(b"\x00\x01", content_type=kind)


def test_html_without_a_type_is_recognised(read):
    assert read("<!DOCTYPE html><p>正文一句。</p>", content_type="").body == "正文一句。"


@pytest.mark.parametrize(
    ("html", "language"),
    [
        ("<p>清晨的河面上浮着一层薄雾，渡船的马达声从对岸慢慢传来。</p>", "zh"),
        ("<p>The ferry leaves at nine in the morning and comes back before noon.</p>", "en"),
        ("<p>渡し船は朝九時に出て、正午までには戻ってくる。</p>", "ja"),
        ("<p>나룻배는 아침 아홉 시에 떠나서 정오 전에 돌아온다.</p>", "ko"),
        ("<html lang='fr'><p>Oui.</p></html>", "fr"),
        ("<p>12:30</p>", None),
    ],
)
def test_languages(read, html, language):
    assert read(html).language == language
