"""A page as the readers need it: a tree, and its visible text as blocks with their links and surroundings.

In goes HTML as text; out come the lxml tree and `Block`s in document order. Nothing here decides what the main
text is; it only knows what is markup, what is shown, and what a site itself marks as furniture (menus, footers,
consent boxes, recommendations).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

from lxml import etree
from lxml.html import HtmlElement, HTMLParser, document_fromstring

UNSEEN_TAGS = frozenset((
    "script", "style", "noscript", "template", "head", "svg", "object", "iframe", "select", "option", "textarea",
    "button",
))  # fmt: skip
BLOCK_TAGS = frozenset((
    "address", "article", "aside", "blockquote", "body", "br", "caption", "center", "dd", "details", "dialog", "div",
    "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header",
    "hr", "legend", "li", "main", "menu", "nav", "ol", "p", "pre", "section", "summary", "table", "tbody", "td",
    "tfoot", "th", "thead", "tr", "ul",
))  # fmt: skip
FURNITURE_TAGS = frozenset(("nav", "footer", "aside", "menu", "dialog"))
FURNITURE_ROLES = frozenset(("navigation", "contentinfo", "complementary", "menu", "menubar", "search", "dialog"))
_FURNITURE_NAME = re.compile(
    r"(?:^|[\s_-])(?:nav\w*|menus?|foot|footer|side|sidebar|crumbs?|breadcrumbs?|copyright|share|related|rec|recommend\w*|"
    r"hot|hotlist|hots|rank\w*|ads?|advert\w*|banner|login|pager|pagination|toolbar|tags?|cookie\w*|consent|gdpr|"
    r"friendlink|links|popup|modal)(?=$|[\s_-])",
    re.IGNORECASE,
)
_CONSENT_NAME = re.compile(r"cookie|consent|gdpr|privacy-(?:banner|notice|popup)", re.IGNORECASE)
_POST_NAME = re.compile(r"(?:^|[\s_-])(?:l_)?(?:post|reply|floor|comment|message)(?:[_-]?\w+)?(?=$|\s)", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(r"display\s*:\s*none", re.IGNORECASE)
_SPACE = re.compile(r"\s+")
# Control characters, lone surrogates, noncharacters, the byte order mark and direction overrides: none of them is text.
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufeff\ufdd0-\ufdef\ufffe\uffff\u202a-\u202e]")
MIN_POSTS = 3
MAX_FURNITURE_SHARE = 0.5
"""What holds more of a page's text than this is not furniture, whatever it is called."""


@dataclass(frozen=True, slots=True)
class Block:
    """A run of text between two block boundaries, white space collapsed."""

    text: str
    link_chars: int
    element: HtmlElement
    """The nearest block-level element around it."""
    furniture: bool
    """In a menu, footer, consent box, recommendation: by tag, role, class or id."""

    @property
    def link_share(self) -> float:
        return self.link_chars / max(1, len(self.text))


class Page:
    """A parsed page. `root` is None where there is no markup that could be parsed."""

    def __init__(self, html: str, url: str) -> None:
        self.html = html
        self.url = url
        self.root = parse(html)

    @classmethod
    def of_tree(cls, root: HtmlElement, url: str) -> Page:
        """A page whose tree is there already."""
        page = cls.__new__(cls)
        page.html, page.url, page.root = "", url, root
        return page

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        if self.root is None:
            return ()
        return tuple(_blocks(self.root, self.furniture))

    @cached_property
    def furniture(self) -> frozenset[HtmlElement]:
        """The outermost elements that the site marks as furniture, unless they hold the page itself."""
        return frozenset() if self.root is None else _furniture(self.root)

    @cached_property
    def posts(self) -> tuple[HtmlElement, ...]:
        """The posts of a thread: alike siblings, named as posts, that hold most of the page's text."""
        return () if self.root is None else _posts(self.root, self.blocks)

    @cached_property
    def visible_text(self) -> str:
        """All that is shown, menus included, one block a line."""
        return "\n".join(block.text for block in self.blocks)

    @cached_property
    def hidden_text(self) -> str:
        """All text, also what only a script would show."""
        blocks = () if self.root is None else _blocks(self.root, frozenset(), with_hidden=True)
        return "\n".join(block.text for block in blocks)


def clean_text(text: str) -> str:
    """Text without what no text can hold (NULs, controls, lone surrogates, noncharacters); line ends as `\\n`."""
    return _NOT_TEXT.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str | None) -> str:
    """Cleaned text with each run of white space as one blank."""
    return _SPACE.sub(" ", clean_text(text)).strip() if text else ""


def parse(html: str) -> HtmlElement | None:
    """The tree of a page, or None if it holds no element. Lone surrogates and controls are dropped first."""
    data = clean_text(html).encode("utf-8")
    parser = HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        return document_fromstring(data, parser=parser)
    except (etree.LxmlError, ValueError, AssertionError):
        return None


def element_text(element: HtmlElement) -> str:
    return one_line("".join(element.itertext()))


def is_consent_box(element: HtmlElement) -> bool:
    """A box that asks for consent to cookies, by its class, id or label."""
    name = f"{element.get('class', '')} {element.get('id', '')} {element.get('aria-label', '')}"
    return _CONSENT_NAME.search(name) is not None


def _furniture(root: HtmlElement) -> frozenset[HtmlElement]:
    suspects = [element for element in root.iter(etree.Element) if _looks_like_furniture(element)]
    if not suspects:
        return frozenset()
    sizes = _measure(root)
    return frozenset(
        element for element in suspects if is_consent_box(element) or _is_small_part(sizes[element], sizes[root])
    )


def _looks_like_furniture(element: HtmlElement) -> bool:
    if element.tag in ("html", "body", "article", "main", "h1", "p", "a", "span"):
        return False
    if element.tag in FURNITURE_TAGS or element.get("role", "").lower() in FURNITURE_ROLES:
        return True
    return _FURNITURE_NAME.search(f"{element.get('class', '')} {element.get('id', '')}") is not None


def _posts(root: HtmlElement, blocks: tuple[Block, ...]) -> tuple[HtmlElement, ...]:
    groups: dict[tuple[HtmlElement, str], list[HtmlElement]] = {}
    for element in root.iter("div", "li", "article", "table", "section"):
        name = element.get("class", "")
        if name and _POST_NAME.search(name):
            groups.setdefault((element.getparent(), name.split()[0]), []).append(element)
    threads = [posts for posts in groups.values() if len(posts) >= MIN_POSTS]
    if not threads:
        return ()
    sizes = _measure(root)
    chars, posts = max(((sum(sizes[post].text_chars for post in posts), posts) for posts in threads), key=itemgetter(0))
    whole = sum(len(block.text) for block in blocks if not block.furniture)
    return tuple(posts) if chars > 0.5 * whole else ()


@dataclass(slots=True)
class _Size:
    text_chars: int = 0
    link_chars: int = 0
    headings: int = 0


def _is_small_part(part: _Size, whole: _Size) -> bool:
    if part.headings and part.headings == whole.headings:
        return False
    return part.text_chars <= MAX_FURNITURE_SHARE * whole.text_chars or part.link_chars > 0.5 * part.text_chars


def _measure(root: HtmlElement) -> dict[HtmlElement, _Size]:
    """Characters of shown text and of links, and main headings, in and under each element: one pass, leaves first."""
    sizes: dict[HtmlElement, _Size] = {}
    for _, element in etree.iterwalk(root, events=("end",)):
        size = sizes[element] = _Size()
        if not isinstance(element.tag, str) or element.tag in UNSEEN_TAGS:
            continue
        size.text_chars = len((element.text or "").strip())
        size.headings = int(element.tag == "h1")
        for child in element:
            part = sizes[child]
            size.text_chars += part.text_chars + len((child.tail or "").strip())
            size.link_chars += part.link_chars
            size.headings += part.headings
        if element.tag == "a":
            size.link_chars = size.text_chars
    return sizes


def _blocks(root: HtmlElement, furniture: frozenset[HtmlElement], with_hidden: bool = False) -> Iterator[Block]:
    walk = _Walk(furniture, _is_no_text if with_hidden else _is_unseen)
    for event, element in etree.iterwalk(root, events=("start", "end")):
        if not isinstance(element.tag, str):
            continue
        if event == "start":
            yield from walk.enter(element)
        else:
            yield from walk.leave(element)
    yield from walk.flush()


class _Walk:
    """Gathers text between block boundaries; counts how deep it is in links, furniture and unseen elements."""

    def __init__(self, furniture: frozenset[HtmlElement], is_unseen: Callable[[HtmlElement], bool]) -> None:
        self._furniture = furniture
        self._is_unseen = is_unseen
        self._unseen = 0
        self._links = 0
        self._in_furniture = 0
        self._pieces: list[str] = []
        self._link_chars = 0
        self._block: list[HtmlElement] = []
        self._inner: HtmlElement | None = None

    def enter(self, element: HtmlElement) -> Iterator[Block]:
        if element.tag in BLOCK_TAGS:
            yield from self.flush()
            if element.tag != "br":
                self._block.append(element)
        self._unseen += self._is_unseen(element)
        self._links += element.tag == "a"
        self._in_furniture += element in self._furniture
        self._inner = element
        self._take(element.text)

    def leave(self, element: HtmlElement) -> Iterator[Block]:
        if element.tag in BLOCK_TAGS:
            yield from self.flush()
            if element.tag != "br":
                self._block.pop()
        self._unseen -= self._is_unseen(element)
        self._links -= element.tag == "a"
        self._in_furniture -= element in self._furniture
        self._take(element.tail)

    def flush(self) -> Iterator[Block]:
        text = one_line("".join(self._pieces))
        if text and self._inner is not None:
            element = self._block[-1] if self._block else self._inner
            yield Block(text, min(self._link_chars, len(text)), element, self._in_furniture > 0)
        self._pieces.clear()
        self._link_chars = 0

    def _take(self, text: str | None) -> None:
        if not text or self._unseen:
            return
        self._pieces.append(text)
        if self._links:
            self._link_chars += len(text.strip())


def _is_no_text(element: HtmlElement) -> bool:
    return element.tag in UNSEEN_TAGS


def _is_unseen(element: HtmlElement) -> bool:
    if element.tag in UNSEEN_TAGS or element.get("hidden") is not None:
        return True
    style = element.get("style")
    return style is not None and _HIDDEN_STYLE.search(style) is not None
