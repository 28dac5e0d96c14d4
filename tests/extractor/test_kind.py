"""Kinds of pages, by their structure."""

from __future__ import annotations

from extractor.records import PageKind

PROSE = "".join(
    f"<p>第{n}天清晨的河面上浮着一层薄雾，渡船的马达声从对岸慢慢传来。镇上的图书馆每周三下午开放，管理员会提前把杂志摆好。</p>"
    for n in range(9)
)
LINKS = "".join(f'<li><a href="/n/{n}">第{n}条新闻的标题在这里</a></li>' for n in range(30))


def test_prose_is_an_article(read):
    assert read(f"<body><h1>渡口</h1>{PROSE}</body>").kind is PageKind.ARTICLE


def test_links_are_a_list(read):
    assert read(f"<body><h1>新闻</h1><ul>{LINKS}</ul></body>", "http://h.example/news/").kind is PageKind.LIST


def test_links_at_the_root_are_a_home_page(read):
    assert read(f"<body><ul>{LINKS}</ul></body>", "http://h.example/").kind is PageKind.HOME
    assert read(f"<body><ul>{LINKS}</ul></body>", "http://h.example/index.html").kind is PageKind.HOME


def test_posts_are_a_thread(read_case):
    assert read_case("17").kind is PageKind.FORUM


def test_a_page_that_says_it_is_not_there_is_an_error(read):
    assert read("<title>404 页面不存在</title><body><p>返回首页</p></body>").kind is PageKind.ERROR


def test_an_article_about_an_error_is_none(read):
    assert read(f"<title>为什么网页会 404</title><body>{PROSE}</body>").kind is PageKind.ARTICLE
