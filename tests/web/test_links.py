"""Addresses: which lead on, and how they are shown."""

from __future__ import annotations

import pytest

from web.links import ShownUrl, is_web_url, local_path, shown_url


@pytest.mark.parametrize("path", ["/", "/admin/", "/search?q=%E8%8C%B6&page=2"])
def test_paths_of_the_portal_are_followed(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["", "//e.example", "/\\e.example", "\\\\e", "http://e.example", "admin", "/a\nb", "/a\tb", "/" + "a" * 3000],
)
def test_whatever_else_is_not(path: str) -> None:
    assert local_path(path, "/home") == "/home"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://a.example/", True),
        ("https://a.example:8443/x?y", True),
        ("javascript:alert(1)//水库", False),
        ("JAVASCRIPT:alert(1)", False),
        ("data:text/html,x", False),
        ("file:///etc/passwd", False),
        ("http:///x", False),
        ("http://[broken", False),
        ("", False),
    ],
)
def test_only_web_addresses_become_links(url: str, expected: bool) -> None:
    assert is_web_url(url) is expected


def test_addresses_are_shown_as_people_read_them() -> None:
    assert shown_url("http://茶.example/%E8%8C%B6/a%20b?q=%E7%BB%BF") == ShownUrl("茶.example", "/茶/a b?q=绿")
    assert shown_url("http://user:secret@a.example/") == ShownUrl("a.example", "/")
    assert shown_url("http://a.example/%B2%E8.html").path == "/%B2%E8.html"
    assert len(shown_url("http://a.example/" + "x" * 1000).path) < 100
    assert shown_url("javascript:alert(1)") == ShownUrl("", "javascript:alert(1)")
