"""Searches of visitors, as entries of `queries`: what was asked and what came of it, and nothing of who asked.

es-mappings/queries.json says which fields there are.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from enum import StrEnum

from services.elastic import LogEntry
from services.search.records import SearchNote, SearchPage

NOT_SEARCHED = frozenset((SearchNote.NOTHING_TO_SEARCH, SearchNote.ONLY_EXCLUSIONS, SearchNote.TOO_FAR))


class QuerySource(StrEnum):
    """Where a search came from."""

    WEB = "web"
    API = "api"


def query_log_entry(page: SearchPage, source: QuerySource, now: datetime) -> LogEntry | None:
    """The entry of a search; None if nothing was searched for."""
    query = page.query
    if page.note in NOT_SEARCHED:
        return None
    entry = {
        "at": now.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z",
        "source": source.value,
        "text": " ".join(query.text.split()),
        "page": query.page,
        "total": page.total,
        "none_found": page.total == 0,
        "took_ms": page.took_ms,
        "sort": query.sort.value,
        "site": query.site,
        "language": query.language,
        "published_from": query.published_from and query.published_from.isoformat(),
        "published_until": query.published_until and query.published_until.isoformat(),
    }
    return LogEntry(uuid.uuid4().hex, {name: value for name, value in entry.items() if value is not None})
