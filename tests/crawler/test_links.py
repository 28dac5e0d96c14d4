import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.charset import decode
from crawler.links import MIN_STATIC_TEXT_CHARS, header_directives, needs_browser, read_links
from crawler.records import Link, LinkKind, PageLinks, RobotsDirectives

CASES = Path(__file__).parent / "cases"
PAGE = "http://h.example/dir/sub/page.html"
AGENT = "Mozilla/5.0 (compatible; Plumbline/0.1; +http://owner.example/)"


def _urls(html: str, url: str = PAGE) -> list[str]:
    return [link.url for link in read_links(html, url).links]


def _read_case(name: str, url: str, keep_hash_routes: bool = False) -> PageLinks:
    decoded = decode((CASES / name).read_bytes(), "text/html")
    return read_links(decoded.text, url, decoded.charset, keep_hash_routes)


def test_the_first_base_that_is_no_look_alike_counts() -> None:
    expected = json.loads((CASES / "c05_expect.json").read_text())
    page = _read_case("c05_base.html", expected["document"])
    assert {link.url for link in page.links} == set(expected["links"].values())
    assert page.base_url == "http://h.example/dir/data/index.php/"


def test_a_base_that_is_no_web_address_leaves_the_pages_own() -> None:
    assert _urls("<base href='javascript:x'><base href='http://wrong.example/'><a href=a>a</a>") == [
        "http://h.example/dir/sub/a"
    ]


def test_links_of_a_gbk_page_are_sent_as_their_server_knows_them() -> None:
    page = _read_case("c02_gbk_links.html", "http://h.example/s/index.html")
    assert page.links[0].url.upper() == "HTTP://H.EXAMPLE/S/3.ASP?NAME=%C7%FE%BD%AD"
    assert page.links[-1].url == "http://h.example/%E7%9B%AE%E5%BD%95/4.asp?name=%C7%FE"


def test_hash_routes_are_pages_only_where_they_are_kept() -> None:
    app = "http://h.example/app/"
    assert [link.url for link in _read_case("c04_hash_app.html", app).links] == [app]
    kept = _read_case("c04_hash_app.html", app, keep_hash_routes=True)
    assert [link.url for link in kept.links] == [app, f"{app}#!/n/1", f"{app}#!/n/2"]


def test_references_are_decoded_once_and_only_in_the_markup() -> None:
    assert _urls('<a href="/list?&amp;amp;p=3">3</a>') == ["http://h.example/list?&amp;p=3"]


@pytest.mark.parametrize("row", json.loads((CASES / "c22_meta_refresh.json").read_text()), ids=lambda row: row["name"])
def test_a_refresh_is_read_in_every_spelling(row: dict[str, str | None]) -> None:
    followed = f"http://h.example{row['follow']}" if row["follow"] else None
    assert read_links(row["html"] or "", PAGE).refresh == followed


@pytest.mark.parametrize(
    ("content", "target"),
    [
        ("0;URL=x", "x"),
        ("0 ;  url = x ", "x"),
        ('0;url="x"junk', "x"),
        ("0;url='x", "x"),
        (".5;x", "x"),
        ("1.5 x", "x"),
        ("30;url=x", "x"),
        ("31;url=x", None),
        ("url=x", None),
        ("0;url=", None),
        ("99999999999999999999;url=x", None),
        ("", None),
    ],
)
def test_a_refresh_follows_the_standards_steps(content: str, target: str | None) -> None:
    html = f"<meta http-equiv=refresh content='{content.replace(chr(39), '&#39;')}'>"
    assert read_links(html, PAGE).refresh == (f"http://h.example/dir/sub/{target}" if target else None)


def test_anchors_give_text_context_and_relation() -> None:
    html = """<p>昨天的消息： <b>要闻</b> <a href="/n/1" rel="NoFollow external"> 水库
        放水 </a> （组图） <a href="/n/2"><img src=x alt="渠首 全景"></a></p>"""
    first, second = read_links(html, PAGE).links
    assert first == Link(
        "http://h.example/n/1", "水库 放水", "昨天的消息： 要闻 （组图）", ("nofollow", "external"), LinkKind.LINK
    )
    assert first.nofollow and not second.nofollow
    assert second.text == "渠首 全景"
    assert read_links(html, PAGE, with_context=False).links[0].context == ""


def test_a_context_never_grows_over_its_limit() -> None:
    (link,) = read_links(f"<p>{'前' * 500}<a href=x>x</a>{'后' * 500}</p>", PAGE).links
    assert len(link.context) <= 120 and link.context.startswith("前") and link.context.endswith("后")


def test_two_links_to_one_page_are_one_with_the_better_words() -> None:
    html = "<a href=/a rel=nofollow><img src=x></a><a href=/a#top>标题</a><a href=/a rel=nofollow>更多</a>"
    assert read_links(html, PAGE).links == (Link("http://h.example/a", "标题", "标题 更多", (), LinkKind.LINK),)


def test_frames_areas_and_page_relations_are_links_too() -> None:
    html = """<link rel=next href=/p2><link rel=alternate hreflang=en href=/en><link rel=stylesheet href=/s.css>
        <link rel=alternate type=application/rss+xml href=/feed><link rel="alternate stylesheet" href=/t.css>
        <iframe src=/inner></iframe><map><area href=/area alt=区></map><iframe src=about:blank></iframe>"""
    kinds = {link.url.removeprefix("http://h.example"): link.kind for link in read_links(html, PAGE).links}
    assert kinds == {
        "/p2": LinkKind.LINK,
        "/en": LinkKind.LINK,
        "/inner": LinkKind.FRAME,
        "/area": LinkKind.LINK,
    }
    assert _urls("<frameset><frame src=a.html><frame src=b.html></frameset>") == [
        "http://h.example/dir/sub/a.html",
        "http://h.example/dir/sub/b.html",
    ]


def test_what_is_no_page_is_no_link() -> None:
    html = "".join(
        f"<a href='{href}'>x</a>"
        for href in (
            "javascript:go()",
            " JavaScript:x",
            "mailto:a@b.example",
            "tel:1",
            "data:,x",
            "http://",
            "ftp://h/",
        )
    )
    assert _urls(html + "<a name=x>no href</a><!-- <a href=/c>c</a> --><script>'<a href=/s>'</script>") == []


@pytest.mark.parametrize(
    ("head", "canonical"),
    [
        ("<link rel=canonical href=/a><link rel=canonical href=/a>", "http://h.example/a"),
        ("<link rel=canonical href=/a><link rel=canonical href=/c>", None),
        ("<link rel=canonical href=/a?utm_source=x><link rel=canonical href=/a>", "http://h.example/a?utm_source=x"),
        ("<link rel=canonical href=javascript:x>", None),
        ("<link rel='Canonical' href=e>", "http://h.example/dir/sub/e"),
        ("", None),
    ],
)
def test_a_canonical_counts_where_all_agree(head: str, canonical: str | None) -> None:
    assert read_links(f"<head>{head}</head>", PAGE).canonical == canonical


@pytest.mark.parametrize(
    ("meta", "directives"),
    [
        ("<meta name=robots content='noindex, nofollow'>", RobotsDirectives(True, True, False)),
        ("<META NAME=ROBOTS CONTENT=NONE>", RobotsDirectives(True, True, False)),
        (
            "<meta name=plumbline content=noarchive><meta name=robots content=noindex>",
            RobotsDirectives(True, False, True),
        ),
        ("<meta name=otherbot content=none>", RobotsDirectives()),
        ("<meta name=robots content='index,follow,all'>", RobotsDirectives()),
    ],
)
def test_robots_meta_elements_are_read(meta: str, directives: RobotsDirectives) -> None:
    assert read_links(meta, PAGE).directives == directives


@pytest.mark.parametrize(
    ("values", "directives"),
    [
        (["noindex, nofollow"], RobotsDirectives(True, True, False)),
        (["otherbot: noindex, nofollow"], RobotsDirectives()),
        (["otherbot: noindex", "Plumbline: noarchive"], RobotsDirectives(False, False, True)),
        (["otherbot: noindex, plumbline: nofollow"], RobotsDirectives(False, True, False)),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST, none"], RobotsDirectives(True, True, False)),
        ([], RobotsDirectives()),
    ],
)
def test_robots_headers_are_read(values: list[str], directives: RobotsDirectives) -> None:
    assert header_directives(values, AGENT) == directives


def test_a_shell_of_scripts_needs_a_browser() -> None:
    text = "字" * MIN_STATIC_TEXT_CHARS
    shell = "<title>标题</title><body><noscript>" + text + "</noscript><div id=app></div><script src=app.js></script>"
    data = "<script type=application/ld+json>{}</script><script type=text/template><p>x</p></script>"
    assert needs_browser(read_links(shell, PAGE))
    assert not needs_browser(read_links(f"{shell}<p>{text}</p>", PAGE))
    assert not needs_browser(read_links("<p>短页。</p>" + data, PAGE))
    assert needs_browser(_read_case("c04_hash_app.html", PAGE))


def test_only_text_that_people_see_is_counted() -> None:
    html = """<head><title>no</title><script>no</script></head><body><p>a b\u3000 c\n</p><style>no</style>
        <noscript><script>no</script>no</noscript><template>no</template><script>no</script></body>"""
    page = read_links(html, PAGE)
    assert (page.text_chars, page.scripts) == (3, 2)


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 100_000 + "<a href=/deep>deep</a>",
        "<ul><li>" * 50_000 + "<a href=/deep>deep</a>",
        "<b>" * 50_000 + "<p>" * 50_000 + "<a href=/deep>deep</a>",
        "<i " + " ".join(f"a{n}=1" for n in range(100_000)) + "><a href=/deep>deep</a>",
        "<p>长文。</p>" * 300_000 + "<a href=/deep>deep</a>",
        "<a href=/deep>" * 30_000,
    ],
    ids=["blocks", "lists", "formatting", "attributes", "long", "anchors"],
)
def test_giant_and_deep_pages_are_read_in_time(html: str) -> None:
    started = time.process_time()
    assert _urls(html) == ["http://h.example/deep"]
    assert time.process_time() - started < 5


@given(st.text(st.sampled_from("<>/\"'= abhrefscriptmetal#?&;:\x00\ud800字"), max_size=80))
def test_no_markup_raises(html: str) -> None:
    read_links(html, PAGE)
    read_links(f"<a href='{html}'><base href={html}><meta http-equiv=refresh content='{html}'>", PAGE)
