"""Who wrote a page. An editor, a source or a site is not its author; nothing is said rather than a placeholder."""

from __future__ import annotations

import re
from collections.abc import Iterator

from extractor.metadata import Metadata
from extractor.page import Page, element_text, one_line

MAX_AUTHOR_CHARS = 60
MAX_BYLINE_CHARS = 150
MAX_SIGNATURE_CHARS = 80
_LABEL = re.compile(
    r"(?:作\s*者|撰\s*文|撰\s*稿人?|[记記]\s*者|通[讯訊]员)\s*[:：]\s*|(?:^|[\s|｜（(【\[·])文(?:/图)?\s*[:：/／|]\s*"
)
_REPORTER = re.compile(
    r"(?:本报|本网|本刊|新华社)?记者\s+([\u4e00-\u9fff·]{2,4}(?:[\s、]+[\u4e00-\u9fff·]{2,4})*)\s*(?:[)）]|$)"
)
_BY = re.compile(r"(?:^|[|·•]\s*)(?:written\s+)?by[:\s]+(?=(?-i:[A-Z\u4e00-\u9fff]))", re.IGNORECASE)
_NEXT_LABEL = re.compile(
    r"\s*(?:[|｜)）】\]/／;；]|\s{2,}|(?:责任|责任|執行|主)?[编編][辑輯审審]|来源|來源|出处|时间|時間|日期|发布|發佈|发表|阅读|浏览|"
    r"点击|评论|摄影|校对|审核|字号|\d{4}[-年/.]|\d{1,2}:\d\d|\bon\b|\bpublished\b|\bupdated\b|[-–—•·]\s)",
    re.IGNORECASE,
)
_NOT_A_NAME = re.compile(
    r"^(?:admin\w*|administrator|root|user|guest|author|editor|staff|unknown|anonymous|none|null|undefined|n/?a|test|webmaster|"
    r"管理员|系统管理员|超级管理员|编辑|小编|责任编辑|作者|佚名|匿名|未知|不详|本站|本网|本报|网络|互联网|转载|原创|发布者|网站管理员|无)$"
    r"|https?:|www\.|@|\.(?:com|cn|net|org)\b",
    re.IGNORECASE,
)
_EDITOR = re.compile(r"编辑|編輯|责编|责任|editor", re.IGNORECASE)
_COMMENT_NAME = re.compile(r"comment|reply|pinglun|user|avatar|related|recent|recommend", re.IGNORECASE)


def read_author(page: Page, metadata: Metadata, site_name: str | None = None) -> str | None:
    """The author's name as the page gives it: a label under the title, then what it states for machines."""
    return next((name for name in map(_as_name, _candidates(page, metadata)) if name and name != site_name), None)


def _candidates(page: Page, metadata: Metadata) -> Iterator[str]:
    yield from _labelled(page)
    yield from metadata.structured("author")
    for name in ("author", "article:author", "dc.creator", "dcterms.creator", "parsely-author", "citation_author"):
        yield from metadata.meta(name)
    yield from _marked_up(page)
    yield from _signed(page)


def _labelled(page: Page) -> Iterator[str]:
    for block in page.blocks:
        if block.furniture or len(block.text) > MAX_BYLINE_CHARS:
            continue
        for match in _LABEL.finditer(block.text):
            yield block.text[match.end() :]


def _marked_up(page: Page) -> Iterator[str]:
    if page.root is None:
        return
    wanted = "//*[@rel='author' or @itemprop='author' or contains(@class, 'author') or contains(@class, 'byline')]"
    for element in page.root.xpath(wanted):
        names = (
            f"{element.get('class', '')} {element.getparent().get('class', '')}"
            if element.getparent() is not None
            else ""
        )
        text = element_text(element)
        if len(text) <= MAX_AUTHOR_CHARS and not _EDITOR.search(f"{text} {names}") and not _COMMENT_NAME.search(names):
            yield _BY.sub("", text, count=1)


def _signed(page: Page) -> Iterator[str]:
    for block in page.blocks:
        if block.furniture:
            continue
        reporter = _REPORTER.search(block.text[-40:])
        if reporter:
            yield reporter[1]
        if len(block.text) <= MAX_SIGNATURE_CHARS and (by := _BY.match(block.text)):
            yield block.text[by.end() :]


def _as_name(text: str) -> str | None:
    """The name at the start of a text, up to the next label; None for editors, placeholders and sentences."""
    name = one_line(_NEXT_LABEL.split(one_line(text).lstrip(":： "), maxsplit=1)[0]).strip(" ,，、:：·-–—")
    if not 1 < len(name) <= MAX_AUTHOR_CHARS or _NOT_A_NAME.search(name) or _EDITOR.search(name):
        return None
    return None if re.search(r"[。！？!?]", name) or name.isdigit() else name
