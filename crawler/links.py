"""What a page's HTML tells the crawler, in one pass: links, base, canonical, refresh, robots wishes. Pure functions.

Text comes in, decoded by `charset`; the parser decodes character references, exactly once. URLs are resolved by the
WHATWG rules against the first usable <base>, queries in the page's own encoding. Broken and hostile markup gives
fewer links, never an exception.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from selectolax.lexbor import LexborHTMLParser, LexborNode

from crawler.errors import BadUrl
from crawler.records import Link, LinkKind, PageLinks, RobotsDirectives
from crawler.urls import normalize, urlkey

ROBOT_NAME: Final = "plumbline"
"""Robots meta elements of this name are meant for us."""
MAX_TEXT_CHARS: Final = 300
MAX_CONTEXT_CHARS: Final = 120
MAX_REFRESH_DELAY_S: Final = 30
"""A refresh after more than this lets people read the page first: it stays a page."""
MIN_STATIC_TEXT_CHARS: Final = 120
"""A page of scripts with less text than this is a shell that its scripts fill."""

_ANCHORS: Final = "a[href],area[href]"
_OTHERS: Final = (
    "base[href],link[href],meta[content],iframe,frame[src],script,style,title,noscript,template,textarea,select"
)
_UNSEEN: Final = frozenset({"script", "style", "title", "noscript", "template", "iframe", "textarea", "select"})
_WHITE_SPACE: Final = " \n\r\t\xa0\u3000"
_NO_PAGE: Final = re.compile(r"[\s\x00-\x1f]*(?:javascript|mailto|tel|data|about|sms|blob|file):", re.IGNORECASE)
_ROUTE: Final = re.compile(r"[^#]*#[!/]")
_REFRESH: Final = re.compile(
    r"\s*(?P<delay>\d*)(?:\.[\d.]*)?\s*[;,\s]\s*(?:url\s*=\s*)?(?P<target>\"[^\"]*|'[^']*|.*)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
_JAVASCRIPT: Final = re.compile(
    r"(?:module|(?:text|application)/(?:x-)?(?:java|ecma|live|j)script\S*.*)?", re.IGNORECASE
)
_FEED: Final = re.compile(r"rss|atom|json|xml(?!\+?html)|oembed|stylesheet", re.IGNORECASE)
_PRODUCT: Final = re.compile(r"([A-Za-z][\w\-]*)/")
_VALUED_DIRECTIVES: Final = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})
_INLINE: Final = frozenset(
    {"b", "strong", "i", "em", "span", "font", "small", "time", "code", "u", "s", "sub", "sup", "mark", "a", "label"}
)
_NEIGHBOURS: Final = 3
"""Siblings on each side that are asked for a link's context."""

# The parser takes time with the square of the depth of open blocks and of a tag's attributes.
_MANY_TAGS: Final = 8_000
_MAX_DEPTH: Final = 4_000
_TAG: Final = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_CLOSED_BY_ITSELF: Final = frozenset(
    {"p", "li", "td", "th", "tr", "tbody", "thead", "option", "optgroup", "dd", "dt", "br", "img", "input", "hr", "a"}
    | {
        "meta",
        "link",
        "base",
        "area",
        "col",
        "embed",
        "source",
        "wbr",
        "param",
        "frame",
        "track",
        "html",
        "head",
        "body",
    }
)
_ANY_BUT_WANTED: Final = re.compile(
    r"</?(?!(?:a|area|iframe|frame|link|meta|base|script|style|noscript|template|title)\b)[a-zA-Z][^>]*>", re.IGNORECASE
)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_GIANT_TAG: Final = re.compile(r"<[a-zA-Z][^>]{20000,}>")
_MAX_ATTRIBUTES: Final = 1_000


def _never(_url: str) -> bool:
    return False


def read_links(
    html: str,
    url: str,
    charset: str = "utf-8",
    keep_hash_routes: bool = False,
    with_context: bool = True,
    with_text: bool = False,
    is_known: Callable[[str], bool] = _never,
) -> PageLinks:
    """Everything that a page's HTML tells the crawler.

    `url` is where the page came from, `charset` what its bytes were in. With `keep_hash_routes`, links to `#!…` and
    `#/…` are pages of their own (for sites that are rendered). `with_context=False` leaves the text around the
    links out, which takes a third of the time; `with_text` gives title and visible text of the page.
    Anchors to URLs that are known (`is_known`) are left out too: most links of a site stand on all of its pages.
    """
    tree = LexborHTMLParser(_tamed(html))
    others = tree.css(_OTHERS)
    page = _Page(_base_url(others, url), charset, keep_hash_routes, with_context, is_known)
    for node in tree.css(_ANCHORS):
        page.take_anchor(node)
    unseen_chars = 0
    for node in others:
        tag = node.tag or ""
        if _is_part_of_unseen(node, tag):
            continue
        page.take_other(node, tag)
        if tag in _UNSEEN:
            unseen_chars += _chars(node.text())
    title, text = _title_and_text(tree) if with_text else ("", "")
    return PageLinks(
        links=tuple(page.links.values()),
        base_url=page.base_url,
        canonical=page.canonical(),
        refresh=page.refresh,
        directives=page.directives,
        text_chars=max(0, _chars(tree.root.text()) - unseen_chars) if tree.root else 0,
        scripts=page.scripts,
        title=title,
        text=text,
    )


def _title_and_text(tree: LexborHTMLParser) -> tuple[str, str]:
    """What a reader sees. The tree is of no other use after that."""
    title = tree.css_first("title")
    shown = "" if title is None else " ".join(title.text().split())
    tree.strip_tags(list(_UNSEEN))
    return shown, "" if tree.body is None else tree.body.text(separator=" ")


def needs_browser(page: PageLinks) -> bool:
    """Whether the static page is but a shell: hardly any text, but scripts."""
    return page.scripts > 0 and page.text_chars < MIN_STATIC_TEXT_CHARS


def header_directives(values: Iterable[str], user_agent: str) -> RobotsDirectives:
    """What X-Robots-Tag headers ask of us: `noindex`, `otherbot: noindex, nofollow`, `none`, …"""
    ours = {product.lower() for product in _PRODUCT.findall(user_agent)} - {"mozilla"} | {ROBOT_NAME, "*"}
    found = RobotsDirectives()
    for value in values:
        is_ours = True
        for part in value.split(","):
            agent, colon, rest = part.partition(":")
            if colon and agent.strip().lower() not in _VALUED_DIRECTIVES:
                is_ours, part = agent.strip().lower() in ours, rest
            if is_ours:
                found |= _directives(part)
    return found


class _Page:
    """What the pass has found so far."""

    def __init__(
        self,
        base_url: str,
        charset: str,
        keep_hash_routes: bool,
        with_context: bool,
        is_known: Callable[[str], bool],
    ) -> None:
        self.base_url = base_url
        self.charset = charset
        self.keep_hash_routes = keep_hash_routes
        self.with_context = with_context
        self.is_known = is_known
        self.links: dict[str, Link] = {}
        self.canonicals: dict[str, str] = {}
        self.refresh: str | None = None
        self.directives = RobotsDirectives()
        self.scripts = 0

    def take_other(self, node: LexborNode, tag: str) -> None:
        match tag:
            case "script":
                self.scripts += _runs(node)
            case "meta":
                self._take_meta(node)
            case "link":
                self._take_link_element(node)
            case "iframe" | "frame":
                self._add(self._resolve(node.attributes.get("src")), LinkKind.FRAME)

    def take_anchor(self, node: LexborNode) -> None:
        attributes = node.attributes
        url = self._resolve(attributes["href"])
        if url is None or self.is_known(url):
            return
        rel = _tokens(attributes.get("rel"))
        known = self.links.get(url)
        if known is None:
            context = _context(node) if self.with_context else ""
            self.links[url] = Link(url, _anchor_text(node, attributes), context, rel)
        elif not known.text or (known.nofollow and "nofollow" not in rel):
            # A picture and a headline lead to one page: one link, with the words of the headline.
            text = known.text or _anchor_text(node, attributes)
            self.links[url] = replace(known, text=text, rel=rel if known.nofollow else known.rel)

    def canonical(self) -> str | None:
        """The one target that all canonical links agree on."""
        return next(iter(self.canonicals.values())) if len(self.canonicals) == 1 else None

    def _take_link_element(self, node: LexborNode) -> None:
        attributes = node.attributes
        rel = _tokens(attributes.get("rel"))
        if "canonical" in rel:
            target = self._resolve(attributes.get("href"))
            if target is not None:
                self.canonicals.setdefault(urlkey(target), target)
        elif "next" in rel or "prev" in rel or ("alternate" in rel and _is_page(attributes, rel)):
            self._add(self._resolve(attributes.get("href")), LinkKind.LINK, rel)

    def _take_meta(self, node: LexborNode) -> None:
        attributes = node.attributes
        content = attributes.get("content") or ""
        if (attributes.get("http-equiv") or "").strip().lower() == "refresh":
            if self.refresh is None and not _is_inside(node, "noscript"):
                self.refresh = self._resolve(_refresh_target(content))
        elif (attributes.get("name") or "").strip().lower() in ("robots", ROBOT_NAME):
            self.directives |= _directives(content)

    def _add(self, url: str | None, kind: LinkKind, rel: tuple[str, ...] = ()) -> None:
        if url is not None and url not in self.links:
            self.links[url] = Link(url, rel=rel, kind=kind)

    def _resolve(self, reference: str | None) -> str | None:
        if reference is None or _NO_PAGE.match(reference):
            return None
        keep = self.keep_hash_routes and _ROUTE.match(reference) is not None
        try:
            return normalize(reference, self.base_url, self.charset, keep_fragment=keep)
        except BadUrl:
            return None


def _base_url(nodes: Iterable[LexborNode], url: str) -> str:
    """The first <base> with an href counts, even if it is of no use."""
    for node in nodes:
        if node.tag == "base":
            try:
                return normalize(node.attributes.get("href") or "", url)
            except BadUrl:
                return url
    return url


def _tokens(value: str | None) -> tuple[str, ...]:
    return tuple(value.lower().split()) if value else ()


def _anchor_text(node: LexborNode, attributes: dict[str, str | None]) -> str:
    text = " ".join(node.text().split())
    if not text:
        picture = node.css_first("img[alt]")
        alt = picture.attributes.get("alt") if picture is not None else attributes.get("alt")
        text = " ".join((alt or attributes.get("title") or "").split())
    return text[:MAX_TEXT_CHARS]


def _context(node: LexborNode) -> str:
    """The text beside a link in its line: what stands before and after it, half of the room each."""
    half = MAX_CONTEXT_CHARS // 2
    before, after = _beside(node, forward=False), _beside(node, forward=True)
    if not before and not after and node.parent is not None:
        before, after = _beside(node.parent, forward=False), _beside(node.parent, forward=True)
    return f"{before[-half:]} {after[: half - 1]}".strip()


def _beside(node: LexborNode, *, forward: bool) -> str:
    parts: list[str] = []
    sibling = node.next if forward else node.prev
    while sibling is not None and len(parts) < _NEIGHBOURS:
        tag = sibling.tag
        if tag != "-text" and tag not in _INLINE:
            break
        parts.append(sibling.text())
        sibling = sibling.next if forward else sibling.prev
    return " ".join(" ".join(parts if forward else reversed(parts)).split())


def _is_page(attributes: dict[str, str | None], rel: tuple[str, ...]) -> bool:
    return not _FEED.search(f"{attributes.get('type') or ''} {' '.join(rel)}")


def _runs(script: LexborNode) -> bool:
    return _JAVASCRIPT.fullmatch((script.attributes.get("type") or "").strip()) is not None


def _is_inside(node: LexborNode, tag: str) -> bool:
    parent = node.parent
    while parent is not None:
        if parent.tag == tag:
            return True
        parent = parent.parent
    return False


def _refresh_target(content: str) -> str | None:
    """The URL of a refresh that happens soon, as browsers read it (HTML, "shared declarative refresh steps")."""
    refresh = _REFRESH.match(content)
    if refresh is None or content.lstrip()[:1] not in tuple("0123456789."):
        return None
    delay, target = refresh["delay"], refresh["target"].strip("\"'").strip()
    if not target or len(delay) > 9 or int(delay or 0) > MAX_REFRESH_DELAY_S:
        return None
    return target


def _directives(content: str) -> RobotsDirectives:
    words = frozenset(content.lower().replace(",", " ").split())
    return RobotsDirectives(
        noindex=not words.isdisjoint(("noindex", "none")),
        nofollow=not words.isdisjoint(("nofollow", "none")),
        noarchive=not words.isdisjoint(("noarchive", "nocache")),
    )


def _is_part_of_unseen(node: LexborNode, tag: str) -> bool:
    """A script in a noscript or template does not run, and is part of its text."""
    return tag in ("script", "style") and node.parent is not None and node.parent.tag in ("noscript", "template")


def _chars(text: str) -> int:
    return len(text) - sum(map(text.count, _WHITE_SPACE))


def _tamed(html: str) -> str:
    """The page without what would stop the parser, or keep it busy for minutes."""
    if _SURROGATE.search(html):
        html = _SURROGATE.sub("\ufffd", html)
    if len(html) > 20_000 and _GIANT_TAG.search(html):
        html = _GIANT_TAG.sub(lambda tag: "" if tag[0].count("=") > _MAX_ATTRIBUTES else tag[0], html)
    if html.count("<") > _MANY_TAGS and _is_too_deep(html):
        html = _ANY_BUT_WANTED.sub(" ", html)
    return html


def _is_too_deep(html: str) -> bool:
    depth = 0
    for closing, name in _TAG.findall(html):
        if name.lower() not in _CLOSED_BY_ITSELF:
            depth = max(0, depth - 1) if closing else depth + 1
            if depth > _MAX_DEPTH:
                return True
    return False
