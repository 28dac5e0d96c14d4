"""A page's title without the site's name.

The `<title>` is the base; headings tell which part of it is the page's own: sites append (or prepend) their name,
channel and slogan behind `_`, `|`, ` - ` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from lxml.html import HtmlElement

from extractor.metadata import Metadata
from extractor.page import Page, element_text, one_line

MAX_TITLE_CHARS = 300
_SEPARATOR = re.compile(
    r"\s*(?:[_|｜¦»«]+|--+|——+|::)\s*|\s+[-–—·•:/<>]\s+|(?<=[\u4e00-\u9fff])[-–—](?=[\u4e00-\u9fff])"
)
_SITE_WORD = re.compile(
    r"(?:网|網|网站|網站|在线|在線|新闻|新聞|频道|頻道|门户|论坛|論壇|吧|博客|日报|晚报|晨报|早报|时报|日報|時報|社区|中心|"
    r"政府|政府网站|人民政府|官网|首页|平台|百科|资讯|杂志|电视台|大学|学院|公司|客户端|文库|问答|专栏|"
    r"\.(?:com|cn|net|org)\b.*)$",
    re.IGNORECASE,
)
_EMPTY_TITLE = re.compile(
    r"(?:untitled|无标题|無標題|new page|document|首页|home|index|loading)[\w\s.-]*", re.IGNORECASE
)
_HEADING_NAME = re.compile(r"(?:^|[\s_-])(?:\w*title\w*|tit|headline|bt|biaoti)(?=$|[\s_-])", re.IGNORECASE)
_NOT_LETTERS = re.compile(r"[\W_]+")


def read_title(page: Page, metadata: Metadata) -> str:
    """The page's own title; "" only if it has neither title nor heading."""
    headings = tuple(dict.fromkeys(_headings(page)))
    site = metadata.first("og:site_name", "application-name") or ""
    stated = _title_element(page)
    title = _without_site(stated, headings, site)
    if title and not _EMPTY_TITLE.fullmatch(title) and not _same(title, site):
        return title[:MAX_TITLE_CHARS]
    others = [metadata.first("og:title", "twitter:title") or "", *metadata.structured("headline"), *headings]
    chosen = next((_without_site(other, headings, site) for other in others if other), "")
    return (chosen or title)[:MAX_TITLE_CHARS]


def _title_element(page: Page) -> str:
    if page.root is None:
        return ""
    titles = (element_text(title) for title in page.root.iter("title") if title.getparent().tag != "svg")
    return next((title for title in titles if title), "")


def _headings(page: Page) -> Iterator[str]:
    """Headings that may name this page: not in furniture, and not links to other pages."""
    if page.root is None:
        return
    for element in page.root.iter("h1", "h2", "h3", "div", "p", "span"):
        if element.tag[0] != "h" and not _HEADING_NAME.search(f"{element.get('class', '')} {element.get('id', '')}"):
            continue
        text = element_text(element)
        if 1 < len(text) <= MAX_TITLE_CHARS and not _leads_away(element, page.url):
            yield text


def _leads_away(heading: HtmlElement, url: str) -> bool:
    """A heading that is a link to another page names that page (or the site), not this one."""
    links = list(heading.iter("a")) or list(heading.iterancestors("a"))
    return any(_other_page(link.get("href"), url) for link in links)


def _other_page(href: str | None, url: str) -> bool:
    if not href or href.startswith("#"):
        return False
    try:
        target, here = urlsplit(urljoin(url, href.strip())), urlsplit(url)
    except ValueError:
        return False
    return (target.netloc, target.path, target.query) != (here.netloc, here.path, here.query)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a title between separators, and the separator that follows it."""

    start: int
    end: int
    separator: str


def _without_site(title: str, headings: tuple[str, ...], site: str) -> str:
    title = one_line(title)
    pieces = _split(title)
    if len(pieces) < 2:
        return title
    named = _run_of_heading(title, pieces, headings)
    if named:
        return named
    own = [piece for piece in pieces if not _same(title[piece.start : piece.end], site)] or pieces
    while len(own) > 1 and _is_site_name(title[own[-1].start : own[-1].end], own[-2].separator):
        own = own[:-1]
    return title[own[0].start : own[-1].end]


def _split(title: str) -> list[_Piece]:
    pieces: list[_Piece] = []
    start = 0
    for match in _SEPARATOR.finditer(title):
        pieces.append(_Piece(start, match.start(), match[0].strip()))
        start = match.end()
    pieces.append(_Piece(start, len(title), ""))
    return [piece for piece in pieces if piece.start < piece.end]


def _run_of_heading(title: str, pieces: list[_Piece], headings: tuple[str, ...]) -> str | None:
    """The longest run of parts that a heading shows, if it leaves something out."""
    for length in range(len(pieces) - 1, 0, -1):
        for first in range(len(pieces) - length + 1):
            run = title[pieces[first].start : pieces[first + length - 1].end]
            if any(_same(run, heading) for heading in headings):
                return run
    return None


def _is_site_name(part: str, separator: str) -> bool:
    """`_` and `|` hardly stand in titles; behind a dash only what ends as names of sites do is one."""
    return separator in ("_", "|", "｜", "--", "»", "::") or _SITE_WORD.search(part) is not None


def _same(one: str, other: str) -> bool:
    letters = _NOT_LETTERS.sub("", one).casefold()
    return bool(letters) and letters == _NOT_LETTERS.sub("", other).casefold()
