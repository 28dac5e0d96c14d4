"""The main text: what is kept, what is left out, and that nothing comes out empty."""

from __future__ import annotations

import pytest

PARAGRAPH = "清晨的河面上浮着一层薄雾，渡船的马达声从对岸慢慢传来。镇上的图书馆每周三下午开放，管理员会提前把杂志摆好。"


def test_a_short_article_is_not_drowned_by_teasers(read_case):
    body = read_case("01").body
    assert "薄雾" in body and "风筝" in body
    assert "邻县消息" not in body


def test_a_short_notice_comes_without_menu_and_hot_list(read_case):
    body = read_case("c34").body
    assert "柳荫街片区" in body and body.count("请居民提前储水") == 1
    assert "跨江大桥" not in body and "民生" not in body


def test_an_article_in_an_aside_is_found_and_the_consent_box_is_not(read_case):
    body = read_case("c32").body
    sentences = (
        "渠首管理处十二日通报，今年",
        "水库当前蓄水量为一亿两千",
        "沿线村组已经提前清理支渠",
        "管理处提醒，补水期间严禁",
    )
    assert all(sentence in body for sentence in sentences)
    assert "Cookie" not in body


def test_text_behind_an_image_link_is_kept(read_case):
    assert "平安就好" in read_case("14").body


def test_a_box_that_scrolls_is_kept(read_case):
    assert "薄雾" in read_case("15").body


def test_every_post_of_a_thread_is_kept(read_case):
    body = read_case("17").body
    assert all(words in body for words in ("木船。", "零八年", "船板", "四十个人", "末班船"))


@pytest.mark.parametrize(
    ("name", "words"), [("11", "薄雾"), ("12", "薄雾"), ("12", "风筝"), ("18", "停航"), ("c25", "汉字")]
)
def test_odd_charsets_are_read(read_case, name, words):
    body = read_case(name).body
    assert words in body
    assert "\ufffd" not in body or name == "12"  # which has one broken byte


def test_sections_that_look_like_what_was_kept_are_not_lost(read):
    sections = "".join(
        f"<div class='section'><h3 class='title'>第{n}节</h3><div class='para'>{n}：{PARAGRAPH}</div>"
        f"<div class='example'><div class='para'>例{n}：<code>apt install p{n}</code> 之后再看输出。</div></div></div>"
        for n in range(12)
    )
    body = read(f"<html><body><div class='book'>{sections}</div></body></html>").body
    assert all(f"例{n}：" in body for n in range(12))


def test_words_of_a_manual_are_no_menu_whatever_their_class(read):
    menu = '<span class="guimenu">滤镜</span> → <span class="guimenuitem">模糊</span>'
    html = f"<p>{PARAGRAPH}</p><p>该滤镜位于 {menu} 之下，双击即可打开。</p>"
    assert "滤镜 → 模糊" in read(f"<html><body><div class='main'>{html}</div></body></html>").body


def test_a_table_of_contents_is_what_its_entries_say(read):
    entries = "".join(f'<li><a href="c{n}.html">第{n}章 关于渡口的第{n}件事</a></li>' for n in range(30))
    body = read(f"<html><body><h1>目录</h1><ul>{entries}</ul></body></html>").body
    assert "第7章" in body and "第29章" in body


@pytest.mark.parametrize(
    "html",
    [
        "<html><body><nav><a href='/'>首页</a></nav></body></html>",
        "<html><body><a href='/x'>仅有一个链接</a></body></html>",
        "<html><body><footer>版权所有 某站</footer></body></html>",
        "<html><body><form><button>按</button><p>请登录</p></form></body></html>",
        "<html><frameset><noframes>此页使用框架</noframes></frameset></html>",
        "<title>只有标题</title>",
        "纯文本，没有任何标记",
    ],
)
def test_a_page_that_shows_anything_is_never_empty(read, html):
    assert read(html).body


def test_a_page_without_anything_is_empty(read):
    assert read("<html><head><script>var a = 1;</script></head><body></body></html>").body == ""


def test_scripts_and_styles_are_not_text(read):
    body = read(
        "<body><style>p{color:red}</style><script>alert('渠')</script><p>正文在此。</p><noscript>请启用</noscript></body>"
    ).body
    assert body == "正文在此。"


def test_what_no_text_can_hold_is_dropped(read):
    body = read("<p>甲\x00乙\x07丙&#xD800;丁\ufeff戊\u202e己</p>".encode("utf-8", "surrogatepass")).body
    assert body.replace("\ufffd", "") == "甲乙丙丁戊己"
    body.encode("utf-8")


@pytest.mark.parametrize(
    "html",
    [
        "<div>" * 3000 + "深处" + "</div>" * 3000,
        "<p " + "a=1 " * 20_000 + ">属性</p>",
        "<b>" * 5000 + "粗",
        "行" * 500_000,
    ],
    ids=["deep nesting", "many attributes", "unclosed", "one long line"],
)
def test_monstrous_markup_is_read(read, html):
    assert read(html).body
