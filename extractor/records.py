"""What goes into the extractor and what comes out: `Source` and `Document`, and the document's JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]

PublishedAt = date | datetime
"""A datetime (aware, UTC) where the page states an instant, a bare date where it names only the day or a
local time whose zone is not known."""


class PageKind(StrEnum):
    """What a page is, from its structure, links and text."""

    ARTICLE = "article"
    LIST = "list"
    FORUM = "forum"
    HOME = "home"
    ERROR = "error"
    """Says that there is nothing here, whatever its status (soft 404)."""
    PAGE = "page"
    """None of the others."""


@dataclass(frozen=True, slots=True)
class Source:
    """One capture as the extractor needs it."""

    url: str
    body: bytes
    """Content encoding undone."""
    content_type: str
    """The Content-Type header as sent, "" if none."""
    captured_at: datetime
    dom_html: str | None = None
    """The rendered DOM; read in place of the body where there is one."""


@dataclass(frozen=True, slots=True)
class DocumentLink:
    """A link of the page, resolved."""

    url: str
    text: str
    rel: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Document:
    """What is known of a page from its content alone."""

    url: str
    title: str
    body: str
    """The main text, one paragraph a line; never empty for a page that shows any text."""
    author: str | None = None
    published_at: PublishedAt | None = None
    description: str | None = None
    keywords: tuple[str, ...] = ()
    language: str | None = None
    """ISO 639-1."""
    charset: str = "utf-8"
    emails: tuple[str, ...] = ()
    links: tuple[DocumentLink, ...] = ()
    kind: PageKind = PageKind.PAGE
    fields: Mapping[str, JsonValue] = field(default_factory=dict)
    """What the portal's rules took from the page."""

    def to_json(self) -> dict[str, JsonValue]:
        """The `extract` form of the program's JSON."""
        return {
            "url": self.url,
            "title": self.title,
            "body": self.body,
            "author": self.author,
            "published_at": iso_time(self.published_at),
            "description": self.description,
            "keywords": list(self.keywords),
            "language": self.language,
            "charset": self.charset,
            "emails": list(self.emails),
            "links": [{"url": link.url, "text": link.text, "rel": list(link.rel)} for link in self.links],
            "kind": self.kind.value,
            "fields": dict(self.fields),
        }


def iso_time(moment: PublishedAt | None) -> str | None:
    """ISO 8601 in UTC with `Z`, or a bare date where only the date is known."""
    if moment is None:
        return None
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    return moment.isoformat()
