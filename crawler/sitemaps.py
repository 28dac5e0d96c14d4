"""What a sitemap file names: pages and further sitemaps. Bytes in, URLs out; no I/O, and nothing raises.

Read are the sitemap protocol's `urlset` and `sitemapindex` (sitemaps.org, with hreflang alternates), RSS and Atom
feeds, and plain lists of URLs; each also gzipped. What a file is, its bytes say: names and content types lie. XML
that is not well-formed is read as far as it goes, so that a bare ampersand costs nothing and a broken entry itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from lxml import etree

from crawler import content_coding, urls
from crawler.errors import BadUrl

MAX_BYTES: Final = 52_428_800
"""The protocol's own limit for one file, decompressed."""
MAX_ENTRIES: Final = 50_000
"""The protocol's own limit for one file."""

_BARE_AMPERSAND: Final = re.compile(rb"&(?!(?:#\d+|#x[0-9a-fA-F]+|\w+);)")
_CDATA: Final = re.compile(rb"<!\[CDATA\[.*?\]\]>", re.DOTALL)
_W3C_DATE: Final = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?$")
_LINE_OF_URL: Final = re.compile(r"https?://\S+$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page that a sitemap or feed names."""

    url: str
    modified_at: datetime | None = None
    """What the file claims; proves true or not."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """What one file names, each URL once, in its order."""

    pages: tuple[ListedPage, ...] = ()
    sitemaps: tuple[str, ...] = ()


def read_sitemap(body: bytes, url: str) -> Sitemap:
    """Read a sitemap file that came from `url` (its content coding undone)."""
    if body.startswith(content_coding.GZIP_MAGIC):
        body, _ = content_coding.decode(body, "gzip", "", MAX_BYTES)
    body = body[:MAX_BYTES]
    root = _root(body) if b"<" in body[:1024] else None
    if root is None:
        return Sitemap(tuple(_distinct(_lines(body), url)))
    match _name(root):
        case "sitemapindex":
            return Sitemap(sitemaps=tuple(page.url for page in _distinct(_entries(root, "sitemap"), url)))
        case "urlset":
            return Sitemap(tuple(_distinct(_entries(root, "url"), url)))
        case "rss" | "rdf" | "feed":
            return Sitemap(tuple(_distinct(_feed_entries(root), url)))
        case _:
            return Sitemap()


def _root(body: bytes) -> Any | None:
    parser = etree.XMLParser(
        recover=True, resolve_entities=False, no_network=True, huge_tree=False, remove_comments=True, remove_pis=True
    )
    try:
        return etree.fromstring(_with_ampersands_escaped(body.strip()), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def _with_ampersands_escaped(body: bytes) -> bytes:
    """Outside CDATA, where an ampersand is only itself."""
    pieces: list[bytes] = []
    end = 0
    for cdata in _CDATA.finditer(body):
        pieces += [_BARE_AMPERSAND.sub(b"&amp;", body[end : cdata.start()]), cdata.group()]
        end = cdata.end()
    return b"".join((*pieces, _BARE_AMPERSAND.sub(b"&amp;", body[end:])))


def _name(element: Any) -> str:
    return etree.QName(element).localname.lower() if isinstance(element.tag, str) else ""


def _entries(root: Any, name: str) -> Iterator[tuple[str, str]]:
    """(location, last modification) of each entry, and of its alternates in other languages."""
    for entry in root:
        if _name(entry) != name:
            continue
        children = {_name(child): child for child in reversed(entry)}
        modified = _text(children.get("lastmod"))
        yield _text(children.get("loc")), modified
        for child in entry:
            if _name(child) == "link" and child.get("rel", "").lower() == "alternate":
                yield child.get("href", ""), modified


def _feed_entries(root: Any) -> Iterator[tuple[str, str]]:
    for entry in root.iter():
        if _name(entry) not in {"item", "entry"}:
            continue
        children = {_name(child): child for child in reversed(entry)}
        dates = (_text(children.get(name)) for name in ("updated", "pubdate", "date", "published"))
        modified = next((date for date in dates if date), "")
        for child in entry:
            if _name(child) == "link" and child.get("rel", "alternate") == "alternate":
                yield child.get("href") or _text(child), modified


def _lines(body: bytes) -> Iterator[tuple[str, str]]:
    for line in body.decode("utf-8-sig", "replace").splitlines():
        if _LINE_OF_URL.match(line.strip()):
            yield line.strip(), ""


def _text(element: Any | None) -> str:
    return "" if element is None else "".join(element.itertext()).strip()


def _distinct(entries: Iterator[tuple[str, str]], base: str) -> Iterator[ListedPage]:
    seen: set[str] = set()
    for location, modified in entries:
        if len(seen) >= MAX_ENTRIES:
            return
        try:
            url = urls.normalize(location, base=base) if location else ""
        except BadUrl:
            continue
        if url and url not in seen:
            seen.add(url)
            yield ListedPage(url, _date(modified))


def _date(text: str) -> datetime | None:
    """W3C dates of sitemaps and Atom, e-mail dates of RSS; None for anything else."""
    short = _W3C_DATE.match(text)
    try:
        if short:
            year, month, day = (int(part or 1) for part in short.groups())
            return datetime(year, month, day, tzinfo=UTC)
        at = datetime.fromisoformat(text) if text[:4].isdigit() else parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
