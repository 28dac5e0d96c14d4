"""The main text of a page. The only user of trafilatura.

trafilatura reads a tree from which boxes that mislead it are taken out first (consent boxes, teasers of other
pages), and text that it would lose is moved to where it keeps it. A reading of our own, by blocks and their share
of links, stands beside it: blocks of the main element that look like those that trafilatura kept are added to them,
and where it kept hardly anything of what the page says, ours takes its place. A page that shows any text never comes
out empty: in the end it is all that it shows.
"""

from __future__ import annotations

import copy
import logging
import re
from collections import Counter
from collections.abc import Iterable
from html import unescape

import trafilatura
from lxml.html import HtmlElement

from extractor.page import Block, Page, clean_text, element_text, is_consent_box, one_line

logging.getLogger("trafilatura").setLevel(logging.ERROR)  # It warns of every page that it reads nothing from.

MIN_KEPT_SHARE = 0.25
"""Of our own reading's letters; below it trafilatura has lost the page. A larger share costs Chinese articles more
than it brings threads (bench/extract: 0.4 gives 0.930 for 0.945)."""
MIN_MAIN_SHARE = 0.6
"""Of the prose of the page stands in its main element (bench/extract: 0.75 is worse on each of the three sets)."""
MAX_LINK_SHARE = 0.5
MAX_LOST_LINK_SHARE = 0.05
MIN_TELLING_CHARS = 20
"""A kept block must be so long to tell how text looks on the page."""
MIN_GROUP = 3
"""Alike neighbours that make a list."""
MAX_TEASER_CHARS = 200
_NOT_LETTERS = re.compile(r"[\W_]+")
_ENDS_SENTENCE = re.compile(r"[。！？!?…]|[.](?:\s|$)")
_MARKUP = re.compile(r"<!--.*?-->|<(head|script|style|noscript)\b.*?</\1\s*>|<[^<>]*>", re.IGNORECASE | re.DOTALL)
_COPYRIGHT = re.compile(r"©|copyright|版权所有|版權所有|all rights reserved|ICP备|公网安备", re.IGNORECASE)


def read_body(page: Page) -> str:
    """The main text, one paragraph a line; "" only if the page shows no text at all."""
    if page.root is None:
        return _without_markup(page.html)
    tree = _prepared(page.root, page.url)
    prose = _prose_blocks(Page.of_tree(tree, page.url))
    main = _main_blocks(prose)
    by_blocks = _text_of(main)
    if page.posts and by_blocks:
        return by_blocks
    if _is_index(page, by_blocks):
        return _text_of(block for block in page.blocks if not block.furniture)
    by_trafilatura = _trafilatura_text(tree)
    if _letters(by_trafilatura) > MIN_KEPT_SHARE * _letters(by_blocks):
        return _filled(by_trafilatura, prose, main)
    return by_blocks or page.visible_text or page.hidden_text or _without_markup(page.html)


def _without_markup(html: str) -> str:
    """Of what is too deeply nested for a tree (2,048 levels), or no markup at all."""
    return one_line(unescape(_MARKUP.sub(" ", html)))


def _is_index(page: Page, prose: str) -> bool:
    """Hardly any prose but many links: a table of contents is what its entries say."""
    shown = [block for block in page.blocks if not block.furniture]
    links = sum(block.link_chars for block in shown)
    return links > MAX_LINK_SHARE * sum(len(block.text) for block in shown) and links > 3 * len(prose)


def _trafilatura_text(tree: HtmlElement) -> str:
    """Its reading in precision mode: 0.027 F1 better on Chinese articles than its default, and no worse on English."""
    try:
        text = trafilatura.extract(tree, favor_precision=True, include_comments=False, include_tables=True)
    except (ValueError, TypeError, AttributeError, KeyError, IndexError, AssertionError, RecursionError):
        return ""  # Odd trees make it stumble in many ways; our own reading stands in.
    return _tidy((text or "").split("\n"))


def _filled(text: str, prose: list[Block], main: list[Block]) -> str:
    """A reading with the blocks of the main element that it lost though they look like those that it kept.

    Manuals lose whole sections otherwise: of two with 812 pages it keeps 0.71 of the text alone, 0.93 so, at the
    price of 0.004 F1 on Chinese articles.
    """
    letters = _NOT_LETTERS.sub("", text)
    kept = [block for block in prose if _NOT_LETTERS.sub("", block.text) in letters]
    looks = {_look(block) for block in kept if len(block.text) >= MIN_TELLING_CHARS}
    lost = {block for block in main if block.link_share <= MAX_LOST_LINK_SHARE and _look(block) in looks}
    lost.difference_update(kept)
    wanted = lost.union(kept)
    return _text_of(block for block in prose if block in wanted) if lost else text


def _look(block: Block) -> tuple[str, str | None]:
    return block.element.tag, block.element.get("class")


def _prose_blocks(page: Page) -> list[Block]:
    """Blocks that are prose or headings: no furniture, links or copyright line."""
    return [
        block
        for block in page.blocks
        if not block.furniture and block.link_share <= MAX_LINK_SHARE and not _COPYRIGHT.search(block.text)
    ]


def _main_blocks(prose: list[Block]) -> list[Block]:
    """Those in the main element."""
    main = _main_element(prose)
    return [block for block in prose if main is None or block.element is main or main in block.element.iterancestors()]


def _main_element(blocks: list[Block]) -> HtmlElement | None:
    """The innermost element that holds most of the text of these blocks."""
    chars: Counter[HtmlElement] = Counter()
    for block in blocks:
        for element in (block.element, *block.element.iterancestors()):
            chars[element] += len(block.text)
    enough = MIN_MAIN_SHARE * sum(len(block.text) for block in blocks)
    holding = [element for element, held in chars.items() if held >= enough]
    return min(holding, key=chars.__getitem__, default=None)


def _text_of(blocks: Iterable[Block]) -> str:
    return _tidy(block.text for block in blocks)


def _tidy(lines: Iterable[str]) -> str:
    """Cleaned lines without empty ones and without the same line twice in a row."""
    kept: list[str] = []
    for line in map(one_line, lines):
        if line and (not kept or kept[-1] != line):
            kept.append(line)
    return clean_text("\n".join(kept))


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))


def _prepared(root: HtmlElement, url: str) -> HtmlElement:
    """A copy of the tree, mended for trafilatura."""
    tree = copy.deepcopy(root)
    _drop_consent_boxes(tree)
    _unwrap_image_links(tree)
    _forget_inline_names(tree)
    _promote_main_aside(tree)
    _drop_teasers(tree)
    return tree


def _drop_consent_boxes(tree: HtmlElement) -> None:
    whole = len(element_text(tree))
    for element in [
        element for element in tree.iter("div", "section", "aside", "dialog", "form") if is_consent_box(element)
    ]:
        has_page = element.find(".//h1") is not None or element.find(".//article") is not None
        if not has_page and len(element_text(element)) < whole and element.getparent() is not None:
            element.drop_tree()


def _unwrap_image_links(tree: HtmlElement) -> None:
    """`<a><img></a>` becomes nothing, its tail stays: trafilatura drops the text behind such links."""
    for link in list(tree.iter("a")):
        if link.find(".//img") is not None and not element_text(link) and link.getparent() is not None:
            link.drop_tree()


def _forget_inline_names(tree: HtmlElement) -> None:
    """Words inside a sentence are no menu, whatever their class says (`<span class="guimenu">` in a manual)."""
    for element in tree.xpath("//p//*[@class or @id] | //li//span[@class or @id] | //dd//span[@class or @id]"):
        element.attrib.pop("class", None)
        element.attrib.pop("id", None)


def _promote_main_aside(tree: HtmlElement) -> None:
    """An aside that holds the page's only main heading is the page."""
    headings = list(tree.iter("h1"))
    for aside in list(tree.iter("aside")) if len(headings) == 1 else ():
        if headings[0] in aside.iter("h1"):
            aside.tag = "article"


def _drop_teasers(tree: HtmlElement) -> None:
    """Take out rows of short texts that each lead to another page, if the page says something beside them."""
    groups = [
        group
        for parent in tree.iter("div", "ul", "ol", "section", "dl", "tbody", "aside")
        if (group := _teasers(parent))
    ]
    if not groups:
        return
    rows = {row for group in groups for row in group}
    prose = sum(len(text) for text in _prose_outside(tree, rows))
    if prose < 20:
        return
    for row in rows:
        if row.getparent() is not None:
            row.drop_tree()


def _teasers(parent: HtmlElement) -> list[HtmlElement]:
    """The children of a list of links to other pages: each is one link with a short text, or little else."""
    rows = [
        child for child in parent if isinstance(child.tag, str) and child.tag not in ("script", "style", "br", "hr")
    ]
    if len(rows) < MIN_GROUP or len({row.tag for row in rows}) > 1 or rows[0].tag in ("p", "a", "span"):
        return []
    teasers = [row for row in rows if _is_teaser(row)]
    return teasers if len(teasers) >= max(MIN_GROUP, 0.8 * len(rows)) else []


def _is_teaser(row: HtmlElement) -> bool:
    text = element_text(row)
    if not text or len(text) > MAX_TEASER_CHARS:
        return False
    headline = next((link for link in row.iter("a") if element_text(link)), None)
    if headline is None:
        return False
    is_heading = headline.getparent().tag in ("h2", "h3", "h4", "h5", "h6", "dt", "strong")
    return len(element_text(headline)) > 0.6 * len(text) or is_heading


def _prose_outside(tree: HtmlElement, rows: set[HtmlElement]) -> list[str]:
    texts = (element_text(paragraph) for paragraph in tree.iter("p") if rows.isdisjoint(paragraph.iterancestors()))
    return [text for text in texts if _ENDS_SENTENCE.search(text) and not _COPYRIGHT.search(text)]
