from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from protego import Protego

from crawler.robots_rules import MAX_BYTES, canonical_path, parse


def allows(robots: str | bytes, path: str, product: str = "plumbline") -> bool:
    body = robots.encode() if isinstance(robots, str) else robots
    return parse(body, product).decide(path)[0]


@pytest.mark.parametrize(
    ("rule", "path", "matches"),
    [
        # RFC 9309 and Google's own table of examples.
        ("/fish", "/fish.html", True),
        ("/fish", "/Fish.asp", False),
        ("/fish", "/catfish", False),
        ("/fish", "/?id=fish", False),
        ("/fish*", "/fishheads/yummy.html", True),
        ("/fish/", "/fish", False),
        ("/fish/", "/fish/?id=anything", True),
        ("/*.php", "/folder/any.php.file.html", True),
        ("/*.php", "/windows.PHP", False),
        ("/*.php$", "/filename.php", True),
        ("/*.php$", "/filename.php?parameters", False),
        ("/*.php$", "/filename.php5", False),
        ("/fish*.php", "/fishheads/catfish.php?parameters", True),
        ("/fish*.php", "/Fish.PHP", False),
        ("/a$", "/a", True),
        ("/a$", "/ab", False),
        ("/$", "/", True),
        ("/$", "/x", False),
        ("/a$b", "/a$bc", True),
        ("*/print", "/x/print/1", True),
        ("*", "/anything", True),
        ("/a*b*c$", "/a1b2c", True),
        ("/a*b*c$", "/a1b2cd", False),
        ("/*a*a$", "/a", False),
        ("/**x", "/abcx", True),
        ("/?q=", "/?q=1", True),
        ("/foo/bar?baz=http://foo.bar", "/foo/bar?baz=http://foo.bar", True),
        ("/foo/bar/ツ", "/foo/bar/%E3%83%84", True),
        ("/foo/bar/%E3%83%84", "/foo/bar/%e3%83%84", True),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
        ("/a%2fb", "/a/b", False),
        ("/a%2fb", "/a%2Fb", True),
        ("/path/file-with-a-%2A.html", "/path/file-with-a-*.html", True),
        ("/path/foo-%24", "/path/foo-$", True),
        ("/a b", "/a%20b", True),
        ("/~joe/", "/%7Ejoe/x", True),
        # As people write them.
        ("admin", "/admin/x", True),
        ("http://h.example/private/", "/private/x", True),
        ("http://h.example", "/x", True),
    ],
)
def test_a_pattern_matches_as_the_standard_says(rule: str, path: str, matches: bool) -> None:
    assert allows(f"User-agent: *\nDisallow: {rule}\n", path) is not matches


@pytest.mark.parametrize(
    ("rules", "path", "allowed"),
    [
        ("Allow: /p\nDisallow: /", "/page", True),
        ("Disallow: /\nAllow: /p", "/page", True),
        ("Allow: /folder\nDisallow: /folder", "/folder/page", True),
        ("Allow: /page\nDisallow: /*.htm", "/page.htm", False),
        ("Allow: /page\nDisallow: /*.ph", "/page.php5", True),
        ("Allow: /$\nDisallow: /", "/", True),
        ("Allow: /$\nDisallow: /", "/page.htm", False),
        ("Allow: /x/index.html\nDisallow: /x", "/x/", True),
        ("Disallow:", "/x", True),
        ("Disallow: /\nDisallow:", "/x", False),
        ("", "/x", True),
        ("Disallow: /", "/robots.txt", True),
    ],
)
def test_the_longest_pattern_decides_and_allow_wins_a_tie(rules: str, path: str, allowed: bool) -> None:
    assert allows(f"User-agent: *\n{rules}\n", path) is allowed


@pytest.mark.parametrize(
    ("robots", "allowed"),
    [
        ("User-agent: Plumbline\nDisallow: /x\n\nUser-agent: *\nDisallow:", False),
        ("User-agent: PLUMBLINE/1.0 (x)\nDisallow: /x", False),
        ("User-agent: plumbline*\nDisallow: /x", False),
        ("User-agent: plumb\nDisallow: /x", True),
        ("User-agent: plumbline-news\nDisallow: /x", True),
        ("User-agent: *\nDisallow: /x\n\nUser-agent: Plumbline\nAllow: /", True),
        ("User-agent: Plumbline\n\nUser-agent: Other\nDisallow: /x", False),
        ("User-agent: Plumbline\nSitemap: http://h/s.xml\nUser-agent: Other\nDisallow: /x", False),
        ("User-agent: Plumbline\nCrawl-delay: 2\nUser-agent: Other\nDisallow: /x", True),
        ("User-agent: Plumbline\nDisallow: /y\nUser-agent: a\nDisallow: /\nUser-agent: Plumbline\nDisallow: /x", False),
        ("Disallow: /x\nUser-agent: *\nDisallow: /y", True),
        ("useragent: *\ndissallow : /x", False),
        ("User-agent * \n Disallow /x # no colons", False),
        ("User-agent: *\rDisallow: /x\r", False),
        ("User-agent: *\r\n\r\nDisallow: /x", False),
        ("# User-agent: *\nDisallow: /x", True),
        ("<html><body>User-agent: * Disallow: /x</body></html>", True),
    ],
)
def test_the_group_that_holds_is_found(robots: str, allowed: bool) -> None:
    assert allows(robots, "/x") is allowed


def test_a_byte_order_mark_hides_nothing(cases: Path) -> None:
    assert not allows((cases / "c10_robots_bom.txt").read_bytes(), "/x")


def test_bytes_that_are_no_utf8_are_compared_as_bytes() -> None:
    news, other = quote("新闻".encode("gbk")), quote("旧闻".encode("gbk"))
    for pattern in ("/新闻/".encode("gbk"), f"/{news}/".lower().encode()):
        robots = b"User-agent: *\nDisallow: " + pattern
        assert not allows(robots, f"/{news}/1")
        assert allows(robots, f"/{other}/1")


def test_the_rule_far_down_in_a_huge_file_counts_and_is_found_fast(cases: Path) -> None:
    body = (cases / "c13_robots_huge.txt").read_bytes()
    started_at = time.process_time()
    rules = parse(body, "plumbline")
    for n in range(1000):
        assert rules.decide(f"/open/{n}")[0]
    assert not rules.decide("/secret/1")[0]
    assert time.process_time() - started_at < 5


def test_what_lies_beyond_the_limit_is_cut_at_a_line() -> None:
    filler = b"# " + b"x" * 97 + b"\n"
    lines = filler * (MAX_BYTES // len(filler)) + b"Disallow: /open-and-more\nDisallow: /never\n"
    assert len(b"User-agent: *\n" + lines) > MAX_BYTES
    robots = b"User-agent: *\nDisallow: /x\n" + lines
    assert not allows(robots, "/x")
    assert allows(robots, "/never")
    assert allows(robots, "/open")


def test_the_line_that_decided_is_told() -> None:
    rules = parse("# 你好\nUser-agent: *\nDisallow: /私/ # secret\nAllow: /私/a\n".encode(), "plumbline")
    assert rules.decide("/%E7%A7%81/x") == (False, "3: Disallow: /私/ # secret")
    assert rules.decide("/%E7%A7%81/a") == (True, "4: Allow: /私/a")
    assert rules.decide("/else") == (True, None)


@pytest.mark.parametrize(
    ("value", "delay"), [("2", 2.0), ("0.5", 0.5), ("-1", None), ("inf", None), ("nan", None), ("soon", None)]
)
def test_the_crawl_delay_is_a_number_or_nothing(value: str, delay: float | None) -> None:
    assert parse(f"User-agent: *\nCrawl-delay: {value}".encode(), "plumbline").crawl_delay_s == delay


def test_the_crawl_delay_is_that_of_the_own_group() -> None:
    robots = (
        b"User-agent: *\nCrawl-delay: 9\nUser-agent: plumbline\nCrawl-delay: 1\nUser-agent: plumbline\nCrawl-delay: 3"
    )
    assert parse(robots, "plumbline").crawl_delay_s == 3
    assert parse(b"User-agent: *\nCrawl-delay: 9\nUser-agent: plumbline\nAllow: /", "plumbline").crawl_delay_s is None


def test_a_pattern_of_many_wildcards_takes_no_time() -> None:
    rules = parse(b"User-agent: *\nDisallow: /" + b"*a" * 2000 + b"$", "plumbline")
    started_at = time.process_time()
    rules.decide("/" + "a" * 1900 + "b")
    assert time.process_time() - started_at < 0.5


@given(st.binary(max_size=300))
def test_no_bytes_break_it(body: bytes) -> None:
    parse(body, "plumbline").decide("/x")
    parse(b"User-agent: *\nDisallow: /" + body, "plumbline").decide("/x")


PATHS = st.text("ab/.*$?=", max_size=8).map(lambda text: "/" + text)


@given(st.lists(st.tuples(st.sampled_from(["Allow", "Disallow"]), PATHS), max_size=5), st.text("ab/.?=", max_size=8))
def test_protego_says_the_same_of_common_files(rules: list[tuple[str, str]], tail: str) -> None:
    # Two habits of protego's are not ours: `$` is also tried as a plain character, and `/*` counts as longer than `/`.
    rules = [(word, pattern) for word, pattern in rules if not pattern.endswith(("*", "$")) and "**" not in pattern]
    robots = "User-agent: *\n" + "".join(f"{word}: {pattern}\n" for word, pattern in rules)
    path = "/" + tail
    if path.startswith("//"):
        return
    assert allows(robots, path) == Protego.parse(robots).can_fetch("http://h.example" + path, "plumbline"), robots


@given(st.text(max_size=30))
def test_the_canonical_path_is_stable(text: str) -> None:
    once = canonical_path("/" + text)
    assert canonical_path(once) == once
