"""The archived HTML made safe to look at: nothing in it acts, and nothing in it asks anyone for anything.

What comes in is decoded HTML and the reader's words; what goes out is a complete document, written anew from the
parsed tree by lists of what is allowed, with the words marked in its text. It is the second wall: the response that
carries it is sandboxed by its Content-Security-Policy (`SNAPSHOT_POLICY`), which alone would do.
"""

from __future__ import annotations

import re
from html import escape, unescape
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser, LexborNode

from web.marking import WordMarker

SNAPSHOT_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'self'"
)
"""Sandboxed: no script, no form, no navigation of the tab, no pop-up, an origin of its own; and no request at all."""

# A copy that a reader saves has no headers; what a document can say for itself, it says.
_META_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; form-action 'none'"

# Looks of our own, without specificity, so that any style of the page wins. Style sheets in files are not archived,
# so that many a page has no other style than this one.
_BASE_STYLE = """
:where(html){color-scheme:light;background:#fff;color:#1b1f24}
:where(body){margin:0 auto;padding:1rem 1.25rem 3rem;max-width:56rem;line-height:1.65;overflow-wrap:break-word;\
font-family:system-ui,-apple-system,"Segoe UI","PingFang SC","Noto Sans CJK SC","Microsoft YaHei",sans-serif}
:where(a){color:#24507a;text-decoration:underline;text-decoration-color:#24507a66;text-underline-offset:2px}
:where(img){max-width:100%;height:auto}
:where(pre){overflow-x:auto}
:where(td,th){vertical-align:top}
:where(img:not([src]),.plumbline-frame){font-size:.85em;color:#6a7280}
:where(.plumbline-frame){border:1px dashed #b9c0ca;border-radius:4px;padding:.25em .6em;overflow-wrap:anywhere}
mark.plumbline-mark{background:#ffe08a!important;color:#1b1f24!important;border-radius:2px}
"""


def _names(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


# For pages without any style of their own: menus in a line, as their authors meant them.
_PLAIN_STYLE = """<style>
:where(nav,header) :where(ul,ol){display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;margin:.4rem 0;padding:0;list-style:none}
:where(dl){display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1.1rem}
:where(dd){margin:0}
</style>"""

_KEPT = _names(
    "a abbr acronym address article aside b bdi bdo big blockquote br button caption center cite code col colgroup "
    "dd del details dfn dialog dir div dl dt em fieldset figcaption figure font footer h1 h2 h3 h4 h5 h6 header hgroup "
    "hr i img input ins kbd label legend li main mark menu meter nav nobr ol optgroup option p pre progress q rp rt "
    "ruby s samp search section select small span strike strong sub summary sup table tbody td textarea tfoot th thead "
    "time tr tt u ul var wbr"
)

_WRITTEN_AS = {"form": "div", "noscript": "div", "xmp": "pre", "plaintext": "pre", "listing": "pre"}
"""Elements kept under another name; noscript as it would hide markup from whoever parses the copy with scripts on."""

_DROPPED = _names(
    "annotation annotation-xml applet area audio base basefont bgsound canvas desc embed fencedframe frame iframe link "
    "map meta noembed noframes object param portal script source style svg template title track video"
)
"""Left out with all that they hold. Of any other element only what it holds is kept."""

_VOID = _names("br col hr img input wbr")

_INLINE = _names(
    "a abbr acronym b bdi bdo big cite code del dfn em font i ins kbd label mark nobr q s samp small span strike "
    "strong sub sup time tt u var wbr"
)
"""Elements inside a line of text: a word may reach across their borders, and across no other's."""

_PLAIN_TEXT = frozenset({"textarea", "select", "option", "optgroup"})
"""Elements that can hold no markup: a mark in them would be seen as text."""

_ATTRIBUTES = _names(
    "abbr align alt axis bgcolor border cellpadding cellspacing char charoff checked class clear color cols colspan "
    "compact datetime dir face frame headers height hidden high hspace id label lang low max min multiple name "
    "noshade nowrap open optimum placeholder reversed role rowspan rows rules scope selected size span start style "
    "summary text title type valign value vspace width"
)
_ARIA = re.compile(r"aria-[a-z]+")

_INERT_INPUTS = {"submit": "button", "image": "button", "reset": "button", "file": "text", "password": "text"}
_IMAGE_DATA = re.compile(r"\s*data:image/(?:png|jpe?g|gif|webp|bmp|avif|x-icon)[;,]", re.IGNORECASE)
_MEDIA_QUERY = re.compile(r"[\w\s(),.:/=-]+")
_CSS_CALLS = re.compile(
    r"@import\b[^;]*;?|\b(?:url|src)\((?!\s*['\"]?data:)[^)]*\)?|(?:-webkit-)?image-set\([^)]*\)?", re.IGNORECASE
)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-f]{1,6})[ \t\r\n\f]?|([g-z-]))", re.IGNORECASE)

_MAX_NESTING = 4000
"""Elements inside one another. Browsers stop at 512; the parser takes 0.1 s at this depth and 12 s at 50,000."""

_TAG = re.compile(r"<(/?)([a-z][a-z0-9-]*)", re.IGNORECASE)
_ENDED_BY_NEXT = _names("p li dd dt tr td th thead tbody tfoot option optgroup colgroup rp rt html head body")
_NOSCRIPT = re.compile(r"<noscript\b[^>]*>.*?</noscript\s*>", re.IGNORECASE | re.DOTALL)
_INVISIBLE = re.compile(r"<(script|style|title|template)\b.*?</\1\s*>|<!--.*?-->", re.IGNORECASE | re.DOTALL)
_ANY_TAG = re.compile(r"</?[a-z!][^>]*>?", re.IGNORECASE)


def safe_html(html: str, url: str, marker: WordMarker, *, rendered: bool = False) -> str:
    """A whole document that shows what the page at `url` shows.

    `rendered`: `html` is a DOM in which the page's scripts have run, so that its noscript parts are not meant.
    """
    if rendered:
        # Written by a browser with scripts on, to which a noscript part is one piece of raw text.
        html = _NOSCRIPT.sub("", html)
    if _nests_absurdly(html):
        return safe_text(_bare_text(html), marker)
    tree = LexborHTMLParser(html)
    base = tree.css_first("base[href]")
    copy = _Copy(marker, _joined(url, base.attributes.get("href") if base is not None else None))
    if tree.root is not None:
        copy.walk(tree.root)
    return copy.document()


def safe_text(text: str, marker: WordMarker) -> str:
    """A whole document that shows plain text."""
    body = "".join(_marked([text], marker))
    return _document("", f'<pre style="white-space:pre-wrap">{body}</pre>')


def _nests_absurdly(html: str) -> bool:
    if html.count("<") <= _MAX_NESTING:
        return False
    depth = 0
    for tag in _TAG.finditer(html):
        name = tag[2].lower()
        if name in _VOID or name in _ENDED_BY_NEXT or name in ("meta", "link", "source", "base", "param"):
            continue
        depth = max(0, depth - 1) if tag[1] else depth + 1
        if depth > _MAX_NESTING:
            return True
    return False


def _bare_text(html: str) -> str:
    return unescape(_ANY_TAG.sub(" ", _INVISIBLE.sub(" ", html))).strip()


class _Copy:
    """Writes the allowed part of a tree; walks without recursion, since pages nest as deep as they like."""

    def __init__(self, marker: WordMarker, base_url: str) -> None:
        self._marker = marker
        self._base_url = base_url
        self._out: list[str] = []
        self._line: list[int] = []
        """Where in `_out` the texts of the current line of text stand, as long as it goes on."""
        self._styles: list[str] = []
        self._title = ""
        self._root_attributes = ""
        self._body_attributes = ""
        self._plain_text_depth = 0

    def document(self) -> str:
        self._end_line()
        head = f"<title>{escape(self._title)}</title>{''.join(self._styles) or _PLAIN_STYLE}"
        return _document(head, "".join(self._out), self._root_attributes, self._body_attributes)

    def walk(self, root: LexborNode) -> None:
        node: LexborNode | None = root
        opened: list[str] = []
        while node is not None:
            tag = self._open(node)
            child = node.child if tag is not None else None
            if child is not None and tag is not None:
                opened.append(tag)
                node = child
                continue
            self._close(tag or "")
            node = self._next(node, opened)

    def _next(self, node: LexborNode, opened: list[str]) -> LexborNode | None:
        """The node that follows in the document, closing what ends before it."""
        current: LexborNode | None = node
        while current is not None and opened:
            if current.next is not None:
                return current.next
            current = current.parent
            self._close(opened.pop())
        return None

    def _open(self, node: LexborNode) -> str | None:
        """Write what opens a node. The tag to close it with ("": none); None: its content is left out."""
        tag = str(node.tag)
        if tag == "-text":
            self._write_text(node.text_content or "")
            return None
        if tag in ("html", "body", "head"):
            return self._note_page_part(tag, node)
        if tag in _DROPPED or tag.startswith("-"):
            self._note_dropped(tag, node)
            return None
        tag = _WRITTEN_AS.get(tag, tag)
        if tag not in _KEPT:
            return ""
        self._write_tag(f"<{tag}{_attributes(node, tag, self._base_url)}>", tag)
        self._plain_text_depth += tag in _PLAIN_TEXT
        return "" if tag in _VOID else tag

    def _close(self, tag: str) -> None:
        if tag:
            self._plain_text_depth -= tag in _PLAIN_TEXT
            self._write_tag(f"</{tag}>", tag)

    def _note_page_part(self, tag: str, node: LexborNode) -> str:
        if tag == "html":
            self._root_attributes = _attributes(node, tag, self._base_url)
        elif tag == "body":
            self._body_attributes = _attributes(node, tag, self._base_url)
        return ""

    def _note_dropped(self, tag: str, node: LexborNode) -> None:
        """Of some elements that are left out something is kept elsewhere."""
        if tag == "title" and not self._title:
            self._title = node.text(deep=True).strip()
        elif tag == "style":
            self._styles.append(_style(node))
        elif tag in ("iframe", "frame") and (source := node.attributes.get("src")):
            address = escape(_joined(self._base_url, source))
            self._write_tag(f'<div class="plumbline-frame">▢ {address}</div>', "div")

    def _write_tag(self, markup: str, tag: str) -> None:
        if tag not in _INLINE:
            self._end_line()
        self._out.append(markup)

    def _write_text(self, text: str) -> None:
        if self._plain_text_depth:
            self._out.append(escape(text, quote=False))
            return
        self._line.append(len(self._out))
        self._out.append(text)

    def _end_line(self) -> None:
        """Escape and mark the texts of the line that ends here."""
        texts = [self._out[at] for at in self._line]
        for at, marked in zip(self._line, _marked(texts, self._marker), strict=True):
            self._out[at] = marked
        self._line.clear()


def _marked(texts: list[str], marker: WordMarker) -> list[str]:
    """The texts escaped, with marks around words; a word that reaches over several texts is marked in each."""
    spans = list(marker.spans("".join(texts)))
    marked, start, first = [], 0, 0
    for text in texts:
        end = start + len(text)
        while first < len(spans) and spans[first][1] <= start:
            first += 1
        inside, at = [], first
        while at < len(spans) and spans[at][0] < end:
            inside.append((max(spans[at][0] - start, 0), min(spans[at][1] - start, len(text))))
            at += 1
        marked.append(_with_marks(text, inside))
        start = end
    return marked


def _with_marks(text: str, spans: list[tuple[int, int]]) -> str:
    pieces, done = [], 0
    for start, end in spans:
        pieces.append(escape(text[done:start], quote=False))
        pieces.append(f'<mark class="plumbline-mark">{escape(text[start:end], quote=False)}</mark>')
        done = end
    pieces.append(escape(text[done:], quote=False))
    return "".join(pieces)


def _attributes(node: LexborNode, tag: str, base_url: str) -> str:
    given = {name.lower(): value or "" for name, value in node.attributes.items()}
    kept = {name: value for name, value in given.items() if name in _ATTRIBUTES or _ARIA.fullmatch(name)}
    if "style" in kept:
        kept["style"] = _safe_css(kept["style"])
    if tag == "a":
        kept |= _link(given, base_url)
    elif tag == "img":
        kept = _image(kept, given.get("src", ""))
    elif tag == "input":
        kind = given.get("type", "text").strip().lower()
        kept["type"] = _INERT_INPUTS.get(kind, kind)
    elif tag == "button":
        kept["type"] = "button"
    return "".join(f' {name}="{escape(value)}"' for name, value in kept.items())


def _link(given: dict[str, str], base_url: str) -> dict[str, str]:
    """A link within the page works; any other says where it led and leads nowhere."""
    href = given.get("href", "").strip()
    if href.startswith("#"):
        return {"href": href}
    target = _joined(base_url, href) if href else ""
    return {"title": target} if target.lower().startswith(("http://", "https://")) else {}


def _image(kept: dict[str, str], source: str) -> dict[str, str]:
    """A picture that stands in the page itself is shown, any other by its alternative text."""
    if _IMAGE_DATA.match(source):
        return {**kept, "src": source}
    return {name: value for name, value in kept.items() if name not in ("width", "height", "style")}


def _style(node: LexborNode) -> str:
    css = _safe_css(node.text(deep=True)).replace("</", "<\\/")
    media = (node.attributes.get("media") or "").strip()
    if media and _MEDIA_QUERY.fullmatch(media):
        return f"<style>@media {media} {{{css}}}</style>"
    return f"<style>{css}</style>"


def _safe_css(css: str) -> str:
    """Style sheets and attributes without what asks for a file, however it is spelled."""
    css = _CSS_ESCAPE.sub(_spelled_out, css) if "\\" in css else css
    return _CSS_CALLS.sub(lambda call: "" if call[0].startswith("@") else "none", css)


def _spelled_out(escaped: re.Match[str]) -> str:
    """A letter that was written as an escape, plain; other escapes stay."""
    char = escaped[2] or (chr(code) if (code := int(escaped[1], 16)) < 128 else "")
    return char if char.isalpha() or (char in "@(:-" and char) else escaped[0]


def _joined(base_url: str, reference: str | None) -> str:
    try:
        return urljoin(base_url, reference or "")
    except ValueError:
        return base_url


def _document(head: str, body: str, root_attributes: str = "", body_attributes: str = "") -> str:
    return (
        f'<!DOCTYPE html><html{root_attributes}><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_META_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_BASE_STYLE}</style>{head}</head><body{body_attributes}>{body}</body></html>"
    )
