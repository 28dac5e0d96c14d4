"""One page, all that is known of it: `extract(Source) -> Document`.

HTML is read through its tree, plain text and feeds as text. Pure and without network or state, so that it can run
in a process that may be ended at any moment.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit

from crawler.charset import decode
from crawler.links import read_links
from extractor.author import read_author
from extractor.body import read_body
from extractor.dates import published_at
from extractor.errors import NotText
from extractor.kind import page_kind
from extractor.language import language_of
from extractor.metadata import Metadata
from extractor.page import Page, clean_text, one_line
from extractor.records import Document, DocumentLink, PageKind, Source
from extractor.title import read_title

HTML_TYPES = frozenset(("text/html", "application/xhtml+xml"))
TEXT_TYPES = frozenset(("text/plain", "text/markdown", "text/csv"))
MAX_BODY_CHARS = 5_000_000
"""Of a document's text; what is longer is cut (one Chinese book has about a million characters)."""
MAX_LINKS = 10_000
MAX_EMAILS = 100
MAX_FALLBACK_TITLE_CHARS = 80
_EMAIL = re.compile(
    r"(?<![\w.+%-])[A-Za-z0-9][\w.+%-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,5}[A-Za-z]{2,24}(?![\w-])",
    re.ASCII,
)
_FILE_ENDINGS = frozenset(("png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ico"))
_MARKUP = re.compile(rb"\s*<(?:!doctype|html|head|body|\?xml|!--|div|p|meta|title|script)\b", re.IGNORECASE)
_XML_TAG = re.compile(r"<!\[CDATA\[|\]\]>|<[^<>]*>")


def extract(source: Source) -> Document:
    """The document of one capture.

    Raises:
        NotText: the payload is of a type that holds no text to read.
    """
    kind = media_type(source.content_type, source.body)
    if source.dom_html is None and kind not in HTML_TYPES:
        return _plain_document(source, kind)
    decoded = decode(source.body, source.content_type)
    html = decoded.text if source.dom_html is None else source.dom_html
    return _html_document(source.url, html, decoded.charset, source)


def is_readable(content_type: str, body: bytes = b"") -> bool:
    """Whether `extract` would read a payload of this type."""
    kind = media_type(content_type, body)
    return kind in HTML_TYPES or kind in TEXT_TYPES or _is_xml(kind)


def media_type(content_type: str, body: bytes) -> str:
    """The type without parameters; looks at the first bytes where the header says nothing."""
    stated = content_type.partition(";")[0].strip().lower()
    if stated and stated not in ("application/octet-stream", "application/x-unknown", "text/plain"):
        return stated
    if _MARKUP.match(body[:1024]) and stated != "text/plain":
        return "text/html"
    return stated or ("text/plain" if b"\0" not in body[:1024] else "application/octet-stream")


def _is_xml(kind: str) -> bool:
    return kind in ("text/xml", "application/xml") or (kind.endswith("+xml") and not kind.startswith("image/"))


def _html_document(url: str, html: str, charset: str, source: Source) -> Document:
    page = Page(html, url)
    metadata = Metadata(page)
    body = read_body(page)[:MAX_BODY_CHARS]
    title = read_title(page, metadata)
    return Document(
        url=url,
        title=title or _fallback_title(body, url),
        body=body or title,
        author=read_author(page, metadata, metadata.first("og:site_name")),
        published_at=published_at(page, metadata, source.captured_at),
        description=metadata.description,
        keywords=metadata.keywords,
        language=language_of(body or title, page),
        charset=charset,
        emails=_emails(page.visible_text, html),
        links=_links(html, url, charset),
        kind=page_kind(page, title, body),
    )


def _plain_document(source: Source, kind: str) -> Document:
    if kind not in TEXT_TYPES and not _is_xml(kind):
        raise NotText(f"pages of type {kind} are not read")
    decoded = decode(source.body, source.content_type)
    text = _XML_TAG.sub(" ", decoded.text) if _is_xml(kind) else decoded.text
    body = clean_text("\n".join(line.rstrip() for line in text.splitlines() if line.strip()))[:MAX_BODY_CHARS]
    return Document(
        url=source.url,
        title=_file_name(source.url) or _fallback_title(body, source.url),
        body=body,
        language=language_of(body, None),
        charset=decoded.charset,
        emails=_emails(body, ""),
        kind=PageKind.PAGE,
    )


def _fallback_title(body: str, url: str) -> str:
    """A page without a title is called by its first words, or by its address."""
    first = one_line(body.partition("\n")[0])
    return first[:MAX_FALLBACK_TITLE_CHARS] or url


def _file_name(url: str) -> str:
    return one_line(unquote(urlsplit(url).path.rpartition("/")[2]))


def _emails(text: str, html: str) -> tuple[str, ...]:
    """Addresses in mailto links and in the text, in order, each once; domains in lower case."""
    mailto = (unquote(match) for match in re.findall(r"mailto:([^\"'?<>\s]+)", html, re.IGNORECASE))
    found: dict[str, None] = {}
    for address in (match[0] for part in (*mailto, text) for match in _EMAIL.finditer(part)):
        local, _, domain = address.rpartition("@")
        if domain.rpartition(".")[2].lower() not in _FILE_ENDINGS:
            found[f"{local}@{domain.lower()}"] = None
    return tuple(found)[:MAX_EMAILS]


def _links(html: str, url: str, charset: str) -> tuple[DocumentLink, ...]:
    links = read_links(html, url, charset).links[:MAX_LINKS]
    return tuple(DocumentLink(link.url, one_line(link.text), link.rel) for link in links)
