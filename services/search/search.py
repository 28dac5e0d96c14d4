"""Asking: the reader's query through Elasticsearch and back."""

from __future__ import annotations

from dataclasses import replace

from services.elastic import Elastic
from services.errors import SearchRefused
from services.search.query import core_text, search_body
from services.search.records import MAX_HITS, SearchNote, SearchPage, SearchQuery
from services.search.results import read_page
from services.search.syntax import ParsedQuery, parse

MAX_PAGE_SIZE = 100
SEARCH_ANALYZER = "words_search"
ALL_WORDS_ANALYZER = "words_search_all"


def search(elastic: Elastic, query: SearchQuery) -> SearchPage:
    """A page of results. Whatever the reader typed gives results or a note.

    Raises SearchUnavailable if Elasticsearch cannot be asked now.
    """
    query = replace(query, page=max(1, query.page), size=min(max(1, query.size), MAX_PAGE_SIZE))
    parsed = parse(query.text)
    note = _refusal(query, parsed)
    if note:
        return SearchPage(query, total=0, took_ms=0, note=note)
    answer = elastic.search(search_body(query, parsed, _words(elastic, parsed)))
    return read_page(query, answer, SearchNote.CUT if parsed.was_cut else None)


def highlight_words(elastic: Elastic, text: str) -> list[str]:
    """The words of a query as they should be marked in a page: longest first, each once, as typed."""
    parsed = parse(text)
    if not parsed.wants_something:
        return []
    words = _surface_words(elastic, parsed.text, SEARCH_ANALYZER)
    words = words or _surface_words(elastic, parsed.text, ALL_WORDS_ANALYZER) or list(parsed.chunks)
    phrases = [term.text for group in parsed.required for term in group]
    return sorted(dict.fromkeys((*phrases, *words)), key=len, reverse=True)


def _refusal(query: SearchQuery, parsed: ParsedQuery) -> SearchNote | None:
    if (query.page - 1) * query.size >= MAX_HITS:
        return SearchNote.TOO_FAR
    has_filter = parsed.has_filter or any((query.site, query.host, query.kind, query.language))
    if parsed.wants_something or has_filter:
        return None
    return SearchNote.ONLY_EXCLUSIONS if parsed.excluded else SearchNote.NOTHING_TO_SEARCH


def _words(elastic: Elastic, parsed: ParsedQuery) -> list[str]:
    """The words of the query; none while there is no index that could cut them."""
    core = core_text(parsed)
    try:
        return [token.text for token in elastic.analyze(core, SEARCH_ANALYZER)] if core else []
    except SearchRefused:
        return []


def _surface_words(elastic: Elastic, text: str, analyzer: str) -> list[str]:
    """Words as they stand in the text: terms are lower-cased and folded. Offsets count UTF-16 units."""
    units = text.encode("utf-16-le")
    tokens = elastic.analyze(text, analyzer)
    return [units[2 * token.start : 2 * token.end].decode("utf-16-le", "replace") for token in tokens]
