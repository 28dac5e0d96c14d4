"""What crosses the boundary of services.search: the reader's query and the page of results, with its JSON form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

MAX_HITS = 10_000
"""How far people can page; programs that want more use a cursor."""
MAX_QUERY_CHARS = 500
"""Of a query; what is longer is cut (each term costs a clause, and no reader types more)."""


class Sort(StrEnum):
    """The order of results."""

    RELEVANCE = "relevance"
    NEWEST = "newest"
    OLDEST = "oldest"


class SearchNote(StrEnum):
    """What the reader should be told beside the results."""

    NOTHING_TO_SEARCH = "nothing_to_search"
    """Blank, or only signs and operators."""
    ONLY_EXCLUSIONS = "only_exclusions"
    CUT = "cut"
    """The query was too long; its beginning was searched."""
    TOO_FAR = "too_far"
    """Beyond MAX_HITS."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A search as the reader asks for it. `text` may be anything that can be typed."""

    text: str
    page: int = 1
    size: int = 10
    sort: Sort = Sort.RELEVANCE
    site: str | None = None
    """A site's key."""
    host: str | None = None
    language: str | None = None
    kind: str | None = None
    published_from: date | None = None
    published_until: date | None = None
    """Inclusive, as `published_from`."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of text that is, or is not, a word of the query."""

    text: str
    hit: bool


Snippet = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class SearchHit:
    """One result. Nothing in it is escaped; the template does that."""

    document_id: str
    url: str
    title: Snippet
    passages: tuple[Snippet, ...]
    """The best passages of the body, in the order of the page."""
    score: float | None
    """None where the results are not ordered by it."""
    capture_id: int | None
    """Which snapshot shows the page as it was indexed."""
    host: str
    site: str
    captured_at: datetime | None = None
    published_at: datetime | date | None = None
    language: str | None = None
    kind: str | None = None
    media_type: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def plain_title(self) -> str:
        return "".join(segment.text for segment in self.title)

    @property
    def snippet(self) -> Snippet:
        """The passages in one, an ellipsis between them."""
        joined: list[Segment] = []
        for passage in self.passages:
            joined += (Segment(" … ", False), *passage) if joined else passage
        return tuple(joined)

    def to_json(self, snapshot_url: Callable[[int], str]) -> dict[str, Any]:
        """A hit in the `search` form of the program's JSON."""
        return {
            "url": self.url,
            "title": self.plain_title,
            "snippet": [{"text": segment.text, "hit": segment.hit} for segment in self.snippet],
            "score": self.score,
            "snapshot_url": None if self.capture_id is None else snapshot_url(self.capture_id),
            "captured_at": _iso(self.captured_at),
            "published_at": _iso(self.published_at),
            "host": self.host,
            "site": self.site,
            "fields": dict(self.fields),
        }


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A page of results."""

    query: SearchQuery
    total: int
    took_ms: int
    hits: tuple[SearchHit, ...] = ()
    note: SearchNote | None = None

    @property
    def last_page(self) -> int:
        """The number of the last page that can be had."""
        reachable = min(self.total, MAX_HITS)
        return max(1, -(-reachable // self.query.size))

    def to_json(self, snapshot_url: Callable[[int], str]) -> dict[str, Any]:
        """The `search` form of the program's JSON; `snapshot_url` makes a link of a capture id."""
        return {
            "total": self.total,
            "took_ms": self.took_ms,
            "hits": [hit.to_json(snapshot_url) for hit in self.hits],
        }


def _iso(moment: datetime | date | None) -> str | None:
    if isinstance(moment, datetime):
        return moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat() + "Z"
    return None if moment is None else moment.isoformat()
