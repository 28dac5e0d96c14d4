"""What kind of page this is, by simple rules on its address, its title, and the share of links in its text."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from extractor.page import Page
from extractor.records import PageKind

MIN_ARTICLE_CHARS = 100
MAX_ERROR_CHARS = 400
"""A page that says more than this is more than an error message."""
LIST_LINK_SHARE = 0.5
_ERROR_TITLE = re.compile(
    r"\b(?:404|410|403|500|502|503)\b|not found|no longer available|页面不存在|頁面不存在|找不到|无法找到|已删除|"
    r"已被删除|已下架|出错了|访问出错|不存在或已",
    re.IGNORECASE,
)
_HOME_PATH = re.compile(r"/(?:(?:index|default|home|main)\.\w+)?", re.IGNORECASE)


def page_kind(page: Page, title: str, body: str) -> PageKind:
    """The kind; PAGE where no rule is sure."""
    if _ERROR_TITLE.search(title) and len(body) <= MAX_ERROR_CHARS:
        return PageKind.ERROR
    link_share = _link_share(page)
    parts = urlsplit(page.url)
    if _HOME_PATH.fullmatch(parts.path or "/") and not parts.query and link_share > LIST_LINK_SHARE:
        return PageKind.HOME
    if page.posts:
        return PageKind.FORUM
    if link_share > LIST_LINK_SHARE:
        return PageKind.LIST
    return PageKind.ARTICLE if len(body) >= MIN_ARTICLE_CHARS else PageKind.PAGE


def _link_share(page: Page) -> float:
    """Of the characters outside furniture, those that are links."""
    blocks = [block for block in page.blocks if not block.furniture]
    return sum(block.link_chars for block in blocks) / max(1, sum(len(block.text) for block in blocks))
