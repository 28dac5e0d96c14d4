"""Sitemaps and feeds, honest and not."""

from __future__ import annotations

import gzip
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.sitemaps import ListedPage, read_sitemap

BASE = "http://h.example/sitemap.xml"
XMLNS = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'


def urls_of(body: str | bytes) -> list[str]:
    return [page.url for page in read_sitemap(body.encode() if isinstance(body, str) else body, BASE).pages]


def test_pages_come_with_what_is_claimed_of_their_last_change() -> None:
    body = f"""<?xml version="1.0"?><urlset {XMLNS}>
        <url><loc> http://h.example/a </loc><lastmod>2026-03-05T08:00:00+08:00</lastmod></url>
        <url><loc>http://h.example/b</loc><lastmod>2026-03</lastmod></url>
        <url><loc>http://h.example/c</loc><lastmod>not a date</lastmod></url></urlset>"""
    assert read_sitemap(body.encode(), BASE).pages == (
        ListedPage("http://h.example/a", datetime(2026, 3, 5, tzinfo=UTC)),
        ListedPage("http://h.example/b", datetime(2026, 3, 1, tzinfo=UTC)),
        ListedPage("http://h.example/c", None),
    )


def test_an_index_names_sitemaps_and_no_pages() -> None:
    body = f"<sitemapindex {XMLNS}><sitemap><loc>/s1.xml.gz</loc></sitemap></sitemapindex>"
    sitemap = read_sitemap(body.encode(), BASE)
    assert sitemap.sitemaps == ("http://h.example/s1.xml.gz",)
    assert sitemap.pages == ()


@pytest.mark.parametrize(
    "location",
    ["http://h.example/z?a=1&b=2", "http://h.example/z?a=1&amp;b=2", "<![CDATA[http://h.example/z?a=1&b=2]]>"],
)
def test_ampersands_are_read_however_they_are_written(location: str) -> None:
    assert urls_of(f"<urlset {XMLNS}><url><loc>{location}</loc></url></urlset>") == ["http://h.example/z?a=1&b=2"]


def test_gzip_is_told_by_its_magic_bytes() -> None:
    body = gzip.compress(f"<urlset {XMLNS}><url><loc>http://h.example/a</loc></url></urlset>".encode())
    assert urls_of(body) == ["http://h.example/a"]
    assert urls_of(body[:-12]) == ["http://h.example/a"]


def test_alternates_in_other_languages_are_pages_too() -> None:
    body = f"""<urlset {XMLNS} xmlns:xhtml="http://www.w3.org/1999/xhtml"><url><loc>http://h.example/zh</loc>
        <xhtml:link rel="alternate" hreflang="en" href="http://h.example/en"/></url></urlset>"""
    assert urls_of(body) == ["http://h.example/zh", "http://h.example/en"]


def test_feeds_and_plain_lists_are_read() -> None:
    date = "<pubDate>Thu, 05 Mar 2026 08:00:00 GMT</pubDate>"
    item = f"<item><link>http://h.example/1</link>{date}</item>"
    rss = f"<rss><channel><link>http://h.example/</link>{item}</channel></rss>"
    entry = '<entry><link href="http://h.example/2"/><link rel="edit" href="/e"/></entry>'
    atom = f'<feed xmlns="http://www.w3.org/2005/Atom">{entry}</feed>'
    assert read_sitemap(rss.encode(), BASE).pages == (
        ListedPage("http://h.example/1", datetime(2026, 3, 5, 8, tzinfo=UTC)),
    )
    assert urls_of(atom) == ["http://h.example/2"]
    assert urls_of("\ufeffhttp://h.example/x\r\n\r\nno url\nhttp://h.example/y\n") == [
        "http://h.example/x",
        "http://h.example/y",
    ]


def test_a_broken_end_costs_only_itself() -> None:
    assert urls_of(f"<urlset {XMLNS}><url><loc>http://h.example/a</loc></url><url><loc>http://h.ex")[:1] == [
        "http://h.example/a"
    ]
    assert urls_of(f"<urlset {XMLNS}><url><loc>http://[bad/</loc></url><url><loc>/ok</loc></url></urlset>") == [
        "http://h.example/ok"
    ]


def test_an_entity_bomb_and_outside_entities_bring_nothing() -> None:
    bomb = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 9))
    body = f'<!DOCTYPE u [<!ENTITY e0 "x"><!ENTITY f SYSTEM "file:///etc/passwd">{bomb}]><urlset {XMLNS}><url><loc>http://h.example/&e8;&f;</loc></url></urlset>'
    assert all(len(url) < 100 and "root" not in url for url in urls_of(body))


@given(st.binary(max_size=200) | st.text(alphabet="<urlset>loc/&;![CDATA]", max_size=200).map(str.encode))
def test_nothing_raises(body: bytes) -> None:
    read_sitemap(body, BASE)
