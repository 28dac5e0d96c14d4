import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from crawler.errors import BadUrl
from crawler.urls import (
    MAX_URL_CHARS,
    document_id,
    from_header,
    host_of,
    normalize,
    registrable_domain,
    urlhash,
    urlkey,
)

CASES = Path(__file__).parent / "cases"
PAGE = "http://h.example/dir/sub/page.html?q=1"


def test_all_spellings_of_a_chinese_host_are_one_key() -> None:
    table = json.loads((CASES / "c01_idn.json").read_text())
    for raw, name in table["rows"]:
        assert urlkey(raw) == table["keys"][name]
        assert urlkey(urlkey(raw)) == urlkey(raw)


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("list?id=3", "http://h.example/dir/sub/list?id=3"),
        ("?p=2", "http://h.example/dir/sub/page.html?p=2"),
        ("/abs", "http://h.example/abs"),
        ("#x", "http://h.example/dir/sub/page.html?q=1"),
        ("", "http://h.example/dir/sub/page.html?q=1"),
        ("//other.example/y", "http://other.example/y"),
        ("../up.html", "http://h.example/dir/up.html"),
        ("./here.html", "http://h.example/dir/sub/here.html"),
        ("a/../../b", "http://h.example/dir/b"),
        ("/%2e%2E/x", "http://h.example/x"),
        ("a/.", "http://h.example/dir/sub/a/"),
        ("/.well-known/x", "http://h.example/.well-known/x"),
        (" \n/sp ace\t ", "http://h.example/sp%20ace"),
        ("\\back\\slash", "http://h.example/back/slash"),
        ("/水库", "http://h.example/%E6%B0%B4%E5%BA%93"),
        ("HTTP://H.Example:80", "http://h.example/"),
        ("http://h.example?a", "http://h.example/?a"),
        ("http:rel.html", "http://h.example/dir/sub/rel.html"),
        ("//user:secret@h.example/x", "http://h.example/x"),
        ("https://h.example.:443/x", "https://h.example/x"),
        ("x?u=http://a/../b", "http://h.example/dir/sub/x?u=http://a/../b"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f.1./", "http://127.0.0.1/"),
        ("http://①②⑦.0.0.1/", "http://127.0.0.1/"),
        ("http://[::0:1]:80/", "http://[::1]/"),
        ("a:b/c", None),
        ("javascript:void(0)", None),
        ("mailto:a@b.example", None),
        ("ftp://h.example/", None),
        ("http://", None),
        ("http://a b/", None),
        ("http://./", None),
        ("http://h.example:99999/", None),
        ("http://" + "a" * 300 + "/", None),
        ("/" + "a" * MAX_URL_CHARS, None),
        ("/" + "a" * 100_000 + " ", None),
    ],
)
def test_a_reference_is_resolved_as_browsers_do(reference: str, target: str | None) -> None:
    if target is None:
        with pytest.raises(BadUrl):
            normalize(reference, PAGE)
    else:
        assert normalize(reference, PAGE) == target


def test_what_is_wrong_with_a_url_is_said_in_a_sentence() -> None:
    with pytest.raises(BadUrl, match=r"^javascript: URLs are not crawled: 'javascript:void\(0\)'$"):
        normalize("javascript:void(0)", PAGE)
    with pytest.raises(BadUrl, match=r"^not a URL: 'no base'$"):
        normalize("no base")
    with pytest.raises(BadUrl, match="longer than"):
        normalize("x" * 9_999, PAGE)


def test_a_query_is_sent_in_the_encoding_of_its_page_and_a_path_in_utf8() -> None:
    page = "http://h.example/s/index.html"
    assert normalize("3.asp?name=渠江", page, "gb18030") == "http://h.example/s/3.asp?name=%C7%FE%BD%AD"
    assert normalize("/目录/4.asp?name=渠#x", page, "gbk") == "http://h.example/%E7%9B%AE%E5%BD%95/4.asp?name=%C7%FE"
    assert normalize("?q=渠", page, "utf-16-le") == "http://h.example/s/index.html?q=%E6%B8%A0"
    assert normalize("?q=渠", page, "no-such-encoding") == "http://h.example/s/index.html?q=%E6%B8%A0"


def test_a_character_that_the_encoding_lacks_is_sent_as_browsers_do() -> None:
    assert normalize("?q=☃渠", "http://h.example/", "big5") == "http://h.example/?q=%26%239731%3B%B4%EB"
    # The second byte of 一 in Big5 is an ASCII letter, which stays bare.
    assert normalize("?q=一", "http://h.example/", "big5") == "http://h.example/?q=%A4@"


def test_gbk_bytes_survive_in_the_key_in_either_case() -> None:
    raw = urlkey(normalize("3.asp?name=渠江", "http://h.example/s/", "gb18030"))
    assert (
        raw == urlkey("http://h.example/s/3.asp?name=%c7%fe%bd%ad#top") == "http://h.example/s/3.asp?name=%C7%FE%BD%AD"
    )


def test_a_location_in_raw_bytes_reaches_the_server_as_it_was_sent() -> None:
    utf8, gbk = "/新闻/水库".encode().decode("latin-1"), "/新闻/水库".encode("gbk").decode("latin-1")
    assert from_header(utf8, PAGE) == "http://h.example/%E6%96%B0%E9%97%BB/%E6%B0%B4%E5%BA%93"
    assert from_header(gbk, PAGE) == "http://h.example/%D0%C2%CE%C5/%CB%AE%BF%E2"


def test_a_fragment_is_dropped_unless_it_is_a_route_that_was_kept() -> None:
    app = "http://h.example/app/"
    assert {normalize(ref, app) for ref in ("", "#top", "#!/n/1")} == {app}
    assert normalize("#!/n/1", app, keep_fragment=True) == "http://h.example/app/#!/n/1"
    assert urlkey("http://h.example/app/#!/n/1") == "http://h.example/app/#!/n/1"
    assert urlkey("http://h.example/app/#/n/1") == "http://h.example/app/#/n/1"
    assert urlkey("http://h.example/app/#top") == app


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://h/a?utm_source=x&id=1&utm_medium=y", "http://h/a?id=1"),
        ("http://h/a?UTM_Source=x", "http://h/a"),
        ("http://h/a?gclid=1&fbclid=2&spm=a.b.c&bd_vid=9", "http://h/a"),
        ("http://h/a;jsessionid=0A1B2C?x=1", "http://h/a?x=1"),
        ("http://h/a;JSESSIONID=0A1B2C/b;v=2", "http://h/a/b;v=2"),
        ("http://h/(S(lit3py55t21z5v55vlm25s55))/a.aspx", "http://h/a.aspx"),
        ("http://h/a?PHPSESSID=abc&p=2", "http://h/a?p=2"),
        ("http://h/a?ASPSESSIONIDQQCBBQQA=x", "http://h/a"),
        ("http://h/a?sid=0123456789abcdef0123456789abcdef", "http://h/a"),
        ("http://h/a?sid=12", "http://h/a?sid=12"),
        ("http://h/a?s=reservoir", "http://h/a?s=reservoir"),
        ("http://h/a?&&b=1&", "http://h/a?b=1"),
        ("http://h/a?", "http://h/a"),
        ("http://h/%41%7e%2fb%e6", "http://h/A~%2Fb%E6"),
        ("http://h/a?x[]=1&y={}", "http://h/a?x%5B%5D=1&y=%7B%7D"),
        ("http://h/a?x%5b%5d=1", "http://h/a?x%5B%5D=1"),
        ("http://h/100%", "http://h/100%25"),
        ("http://h/a?b=2&a=1", "http://h/a?b=2&a=1"),
        ("http://h/a//b/", "http://h/a//b/"),
        ("http://h/a?q=1+2%20", "http://h/a?q=1+2%20"),
        ("http://h/a?amp;p=3", "http://h/a?amp;p=3"),
        ("http://www.h.cn/a?ref=x", "http://www.h.cn/a?ref=x"),
    ],
)
def test_the_key_leaves_out_what_tells_no_pages_apart(url: str, key: str) -> None:
    assert urlkey(url) == key
    assert urlkey(key) == key


def test_a_host_is_named_with_its_port() -> None:
    assert host_of("http://h.example/a?b=http://c/") == "h.example:80"
    assert host_of("https://h.example") == "h.example:443"
    assert host_of("http://127.0.0.1:8080/") == "127.0.0.1:8080"
    assert host_of("https://[::1]/") == "[::1]:443"
    assert host_of("http://[::1]:81/") == "[::1]:81"
    assert host_of("http://例子。测试.:8080/") == "xn--fsqu00a.xn--0zwm56d:8080"


def test_the_registrable_domain_follows_the_public_suffix_list() -> None:
    assert registrable_domain("www.news.example.com.cn:80") == "example.com.cn"
    assert registrable_domain("example.com") == "example.com"
    assert registrable_domain("com.cn") == "com.cn"
    assert registrable_domain("someone.github.io") == "someone.github.io"
    assert registrable_domain("127.0.0.1:8080") == "127.0.0.1"
    assert registrable_domain("[::1]:80") == "[::1]"
    assert registrable_domain("localhost") == "localhost"


def test_a_key_has_one_hash_in_database_and_index() -> None:
    assert len(urlhash("http://h/")) == 16
    assert document_id("http://h/") == urlhash("http://h/").hex()
    assert urlhash("http://h/") != urlhash("https://h/")


URLISH = st.text(
    st.one_of(st.sampled_from("http:/?#[]@!%&;=.abcXYZ012 \\\t\n中。\udc80"), st.characters()), max_size=40
)


@given(
    URLISH, st.sampled_from([PAGE, "https://例子.测试/a/;jsessionid=x?b#c", None]), st.sampled_from(["utf-8", "gbk"])
)
@example("//a../", PAGE, "utf-8")
@example("http://0x7f.1../", None, "utf-8")
@example("?%%34%31", PAGE, "utf-8")
@example("/(S(aaaaaaaaaaaaaaaaaaaaaaaa))/(S(aaaaaaaaaaaaaaaaaaaaaaaa))/b;sid=1;;sid=2", PAGE, "utf-8")
@example("?;sid%3d=1&%70hpsessid=1&utm%5fx=2", PAGE, "utf-8")
@example("/;s;sid=1/id=1", PAGE, "utf-8")
def test_both_forms_are_stable_and_nothing_but_bad_url_is_raised(
    reference: str, base: str | None, encoding: str
) -> None:
    for keep_fragment in (False, True):
        try:
            url = normalize(reference, base, encoding, keep_fragment=keep_fragment)
        except BadUrl:
            continue
        assert url.isascii() and url.startswith(("http://", "https://"))
        assert normalize(url, keep_fragment=keep_fragment) == url
        key = urlkey(url)
        assert urlkey(key) == key
        assert host_of(key) == host_of(url)


@given(st.from_regex(r"(https?://[a-z0-9.]{1,9})?/?[\w./%?&=;:#-]{0,30}", fullmatch=True))
def test_the_quick_way_and_the_parser_agree(reference: str) -> None:
    """A leading blank is dropped by the standard and closes the quick way."""

    def outcome(text: str) -> str | None:
        try:
            return normalize(text, PAGE)
        except BadUrl:
            return None

    assert outcome(reference) == outcome(" " + reference)
