"""Elasticsearch's answer to a search, read into a `SearchPage`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date, datetime
from typing import Any

from services.search.query import FRAGMENT_CHARS, FRAGMENTS, HIT_END, HIT_START
from services.search.records import SearchHit, SearchNote, SearchPage, SearchQuery, Segment, Snippet


def read_page(query: SearchQuery, answer: Mapping[str, Any], note: SearchNote | None = None) -> SearchPage:
    """The page of results that an answer holds."""
    hits = answer["hits"]
    return SearchPage(
        query=query,
        total=int(hits.get("total", {}).get("value", 0)),
        took_ms=int(answer["took"]),
        hits=tuple(_hit(hit) for hit in hits["hits"]),
        note=note,
    )


def read_snippet(marked: str) -> Snippet:
    """A highlighted text as segments; marks that touch each other become one."""
    joined: list[Segment] = []
    for segment in _segments(marked):
        if joined and joined[-1].hit == segment.hit:
            segment = Segment(joined.pop().text + segment.text, segment.hit)
        joined.append(segment)
    return tuple(joined)


def _segments(marked: str) -> Iterator[Segment]:
    for piece in marked.split(HIT_START):
        hit, end, rest = piece.partition(HIT_END)
        if not end:
            hit, rest = "", piece
        if hit:
            yield Segment(hit, True)
        if rest:
            yield Segment(rest, False)


def _hit(hit: Mapping[str, Any]) -> SearchHit:
    source, highlight = hit.get("_source", {}), hit.get("highlight", {})
    score = hit.get("_score")
    return SearchHit(
        document_id=hit["_id"],
        url=source.get("url", ""),
        title=read_snippet(next(iter(highlight.get("title", ())), source.get("title", ""))),
        passages=_passages(source, highlight),
        score=None if score is None else float(score),
        capture_id=source.get("capture_id"),
        host=source.get("host", ""),
        site=source.get("site", ""),
        captured_at=_instant(source.get("captured_at")),
        published_at=_moment(source.get("published_at")),
        language=source.get("language"),
        kind=source.get("kind"),
        media_type=source.get("media_type"),
        fields=source.get("fields") or {},
    )


def _passages(source: Mapping[str, Any], highlight: Mapping[str, Any]) -> tuple[Snippet, ...]:
    passages = tuple(read_snippet(" ".join(passage.split())) for passage in highlight.get("body", ()))
    if passages:
        return passages
    description = str(source.get("description") or "")[: FRAGMENT_CHARS * FRAGMENTS]
    return (read_snippet(description),) if description else ()


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _moment(text: str | None) -> datetime | date | None:
    if not text:
        return None
    return datetime.fromisoformat(text) if "T" in text else date.fromisoformat(text)
