"""The safe copy of an archived page: what it drops, what it keeps, and where it marks words."""

from __future__ import annotations

import re
import time
from html import escape

import pytest
from selectolax.lexbor import LexborHTMLParser

from web.marking import WordMarker
from web.sanitizer import SNAPSHOT_POLICY, safe_html, safe_text

NOTHING = WordMarker(())
URL = "http://archived.example/news/1.html"


def body_of(document: str) -> str:
    found = re.search(r"<body[^>]*>(.*)</body>", document, re.DOTALL)
    assert found
    return found[1]


def test_what_acts_is_left_out() -> None:
    document = safe_html(
        '<base href="http://evil.example/"><meta http-equiv="refresh" content="0;url=/x">'
        "<link rel=preconnect href=//e>"
        "<body onload=x()><script>x()</script>"
        "<svg onload=x()><script>y()</script></svg><object data=z><p>o</p></object>"
        "<iframe srcdoc='<script>z()</script>'></iframe><embed src=e>"
        "<form action=/admin><input type=submit formaction=/a><button formaction=/b>Go</button></form>"
        "<video src=v autoplay></video><p onclick=x()>text</p>",
        URL,
        NOTHING,
    )
    assert "evil.example" not in document
    for gone in (
        "<script",
        "onload",
        "onclick",
        "refresh",
        "<base",
        "<link",
        "<svg",
        "<iframe",
        "<form",
        "action=",
        "<video",
    ):
        assert gone not in document, gone
    assert '<button type="button">Go</button>' in document
    assert "<p>text</p>" in document


def test_the_policy_sandboxes_without_exception() -> None:
    directives = {part.split()[0]: part.split()[1:] for part in SNAPSHOT_POLICY.split("; ")}
    assert directives["sandbox"] == []
    assert directives["default-src"] == ["'none'"]
    assert "script-src" not in directives


@pytest.mark.parametrize(
    "href", ["javascript:alert(1)", " java\nscript:alert(1)", "data:text/html,x", "http://a.example/", "/x", "//a/"]
)
def test_links_to_anywhere_lead_nowhere(href: str) -> None:
    document = safe_html(f'<a href="{href}" target="_top" ping="/p">go</a>', URL, NOTHING)
    assert re.search(r"<a(?: title=\"http[^\"]*\")?>go</a>", document)


def test_links_within_the_page_work() -> None:
    assert '<a href="#part">' in safe_html('<a href="#part">to</a><h2 id=part>x</h2>', URL, NOTHING)


def test_a_link_says_where_it_led() -> None:
    document = safe_html('<base href="http://other.example/a/"><a href="b.html">b</a>', URL, NOTHING)
    assert '<a title="http://other.example/a/b.html">b</a>' in document


def test_only_pictures_that_stand_in_the_page_are_shown() -> None:
    inside = '<img src="data:image/png;base64,AAAA" alt="in">'
    assert body_of(safe_html(inside, URL, NOTHING)) == '<img alt="in" src="data:image/png;base64,AAAA">'
    outside = '<img src="/a.png" srcset="/b.png 2x" width=900 alt="a lock">'
    assert body_of(safe_html(outside, URL, NOTHING)) == '<img alt="a lock">'
    assert body_of(safe_html('<img src="data:image/svg+xml,<svg onload=x>">', URL, NOTHING)) == "<img>"


def test_styles_call_nobody() -> None:
    document = safe_html(
        "<style media=print>@import 'http://e/a.css'; p{background:url(http://e/x.png)} b{color:red}</style>"
        "<p style=\"background:url( '//e/y' );color:blue\">x</p>",
        URL,
        NOTHING,
    )
    assert "//e/" not in document
    assert "@media print {" in document
    assert "b{color:red}" in document
    assert "color:blue" in document


@pytest.mark.parametrize(
    "css",
    [
        "u\\rl(//e/1)",
        "\\75 rl(//e/1)",
        "\\000075\\000052\\00004c(//e/1)",
        "URL ( //e/1)".replace(" (", "("),
        "url(//e/1",
        "image-set('//e/1' 1x)",
        '-webkit-image-set("//e/1" 1x)',
        "src('//e/1')",
    ],
)
def test_no_spelling_of_a_call_is_left_in_a_style(css: str) -> None:
    assert "//e/" not in safe_html(f"<style>b{{background:{css}}}</style>", URL, NOTHING)
    assert "//e/" not in safe_html(f"<b style='background:{escape(css)}'>", URL, NOTHING)


def test_styles_that_call_nobody_stay_as_they_are() -> None:
    css = "a{content:'\\201C';background:url(data:image/png;base64,AA==)} .md\\:flex{color:red}"
    assert css in safe_html(f"<style>{css}</style>", URL, NOTHING)


def test_a_style_cannot_end_early() -> None:
    document = safe_html("<style>p{content:'<\\/style><b>'}</style><p>x</p>", URL, NOTHING)
    assert LexborHTMLParser(document).css_first("b") is None


def test_text_that_shows_markup_is_escaped_once() -> None:
    assert (
        body_of(safe_html("<p>&lt;b&gt;水库&lt;/b&gt; &amp;amp;</p>", URL, NOTHING))
        == "<p>&lt;b&gt;水库&lt;/b&gt; &amp;amp;</p>"
    )


def test_words_are_marked_in_text_alone() -> None:
    document = safe_html(
        "<title>闸门</title><style>.闸门{}</style>"
        "<p title='闸门'>闸门<textarea>闸门</textarea><select><option>闸门</select></p>",
        URL,
        WordMarker(["闸门"]),
    )
    assert document.count("<mark") == 1
    assert "<title>闸门</title>" in document


def test_a_word_is_marked_across_inline_elements_and_not_across_blocks() -> None:
    marker = WordMarker(["软件包"])
    assert body_of(safe_html("<p>软<b>件</b>包</p>", URL, marker)).count("<mark") == 3
    assert "<mark" not in body_of(safe_html("<p>软件</p><p>包</p>", URL, marker))
    assert "<mark" not in body_of(safe_html("软件<br>包", URL, marker))


def test_without_scripts_the_noscript_part_is_shown_and_in_a_rendered_page_it_is_not() -> None:
    html = "<noscript><p title='</noscript><img src=x onerror=alert(1)>'>static</p></noscript><p>x</p>"
    assert "static" in safe_html(html, URL, NOTHING)
    assert "<noscript" not in safe_html(html, URL, NOTHING)
    assert "static" not in safe_html("<noscript><p>static</p></noscript><p>x", URL, NOTHING, rendered=True)


def test_frames_are_named_in_place_of_being_shown() -> None:
    document = safe_html('<frameset><frame src="/left.html"></frameset>', URL, NOTHING)
    assert "▢ http://archived.example/left.html" in document


@pytest.mark.parametrize(
    "html", ["", "<", "<!--", "<html>", "\x00", "<p", "</p>", "<title>", "&#xD800;", "<template><p>x"]
)
def test_any_scrap_makes_a_whole_document(html: str) -> None:
    document = safe_html(html, URL, WordMarker(["x"]))
    assert document.endswith("</body></html>")
    document.encode()


def test_absurd_nesting_is_shown_as_text_in_little_time() -> None:
    started = time.perf_counter()
    document = safe_html("<div>" * 200_000 + "<script>no</script>软件包 &lt;x&gt;", URL, WordMarker(["软件包"]))
    assert time.perf_counter() - started < 5
    assert '<mark class="plumbline-mark">软件包</mark> &lt;x&gt;' in document
    assert ">no<" not in document


def test_many_siblings_are_not_absurd_nesting() -> None:
    assert "<p>5999</p>" in safe_html("".join(f"<p>{n}</p><br>" for n in range(6000)), URL, NOTHING)


def test_plain_text_is_escaped_and_marked() -> None:
    assert '&lt;b&gt; <mark class="plumbline-mark">apt</mark>' in safe_text("<b> apt", WordMarker(["apt"]))
