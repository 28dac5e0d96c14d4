"""A search request for Elasticsearch from a reader's query. The text is only ever handed over as a value to match.

What must match and what ranks are two things: a gate (a filter, so it adds no score) says which pages are results,
and a sum of matches on words, bigrams and characters of title and body orders them. The best of them are ordered
anew by how close to each other the words stand, which would cost too much for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

from services.search import ranking
from services.search.records import MAX_HITS, SearchQuery, Sort
from services.search.syntax import ParsedQuery, Term

HIT_START, HIT_END = "\x02", "\x03"
"""Around what is highlighted; documents are indexed without control characters, so no text holds them."""
FRAGMENT_CHARS = 100
FRAGMENTS = 2
MAX_CHUNKS = 12
"""Words typed apart that are each looked for alone; those behind them count as typed together."""
MAX_NEAR_WORDS = 12
RUN_CHARS = 4
MAX_HIGHLIGHTED_CHARS = 1_000_000
TITLE_FIELDS = ("title", "title.bigram", "title.char")
SOURCE_FIELDS = (
    "url", "title", "host", "site", "capture_id", "captured_at", "published_at", "language", "kind", "media_type",
    "description", "fields",
)  # fmt: skip

Json = dict[str, Any]

_BRACKETS = re.compile(r"[<>(){}\[\]]+")
_LETTER = re.compile(r"\w")
_HAN_RUN = re.compile(r"[\u3400-\u9fff]+")
# Words that ask rather than name. They stay when nothing else is left.
_QUESTION = re.compile(
    r"是?[什甚][么麼](?:时候|時候|时间|時間)?|[为為](?:什[么麼]|何)|怎[么麼样樣](?:样|樣|会|會)?|如何|何[时時处處地者人种種]|"
    r"(?:是|在|於|于)?哪[一二两兩三些几幾]*[个個年位种種里裡裏边邊儿兒家座条條場场部国國本首所间間项項类類支名次篇天方]?|"
    r"多少|多久|[几幾][个個年月次位种種名所]|是?[谁誰]|[请請][问問]|[吗嗎呢]?[?？]"
)


def search_body(query: SearchQuery, parsed: ParsedQuery, words: Sequence[str] = ()) -> Json:
    """The body of the search request. `words`: those of the query's `core_text`, by the search analyzer."""
    first = (query.page - 1) * query.size
    closeness = _closeness(core_text(parsed), words) if query.sort is Sort.RELEVANCE else []
    rescore = {"rescore_query": {"bool": {"should": closeness}}}
    return {
        **({"rescore": {"window_size": ranking.CLOSENESS_WINDOW, "query": rescore}} if closeness else {}),
        "query": pages_query(query, parsed),
        "from": first,
        "size": min(query.size, MAX_HITS - first),
        "sort": _sort(query.sort),
        "track_total_hits": True,
        "track_scores": query.sort is Sort.RELEVANCE,
        "source": {"includes": list(SOURCE_FIELDS)},
        "highlight": _highlight(parsed),
    }


def core_text(parsed: ParsedQuery) -> str:
    """The words that name something: without operators, and without those that only ask."""
    return _without_question_words(" ".join(parsed.chunks))


def pages_query(query: SearchQuery, parsed: ParsedQuery) -> Json:
    """Which pages are results, and how good each is."""
    must = [_term_group(group) for group in parsed.required]
    if parsed.chunks:
        must.insert(0, _free_query(parsed.chunks))
    return {
        "bool": {
            "must": must or [{"match_all": {}}],
            "must_not": [_term_query(term) for term in parsed.excluded],
            "filter": _filters(query, parsed),
        }
    }


def _free_query(chunks: tuple[str, ...]) -> Json:
    text = " ".join(chunks)
    core = _without_question_words(text)
    return {"bool": {"filter": [_gate(chunks, text)], "should": _scores(core, text)}}


def _without_question_words(text: str) -> str:
    rest = " ".join(_QUESTION.sub(" ", text).split())
    return rest or text


def _gate(chunks: tuple[str, ...], text: str) -> Json:
    """Enough of the words must be there; or all of the characters, for queries of nothing but common words."""
    pieces = [piece for chunk in chunks for piece in _BRACKETS.split(chunk) if _LETTER.search(piece)] or list(chunks)
    apart = [_chunk_gate(chunk) for chunk in (*pieces[:MAX_CHUNKS], " ".join(pieces[MAX_CHUNKS:])) if chunk]
    words = apart[0] if len(apart) == 1 else _any(apart, ranking.MIN_CHUNKS)
    as_typed = _any([_match(f"{field}.char", text, operator="and") for field in ("title", "body")])
    return _any([words, as_typed, *_exact_values(text)])


def _chunk_gate(chunk: str) -> Json:
    core = _without_question_words(chunk)
    fields = ("words", "title.bigram", "body.bigram")
    asks = core != chunk or len(core) > ranking.LONG_CHUNK_CHARS
    minimum = ranking.MIN_MATCH_IN_QUESTION if asks else ranking.MIN_MATCH_IN_NAME
    return _any([_match(field, core, minimum_should_match=minimum) for field in fields])


def _scores(core: str, text: str) -> list[Json]:
    scores = [
        _match("body", core, boost=ranking.WORDS),
        _match("body.bigram", core, boost=ranking.BIGRAMS),
        _match("body.char", core, boost=ranking.CHARACTERS),
        _match("title", core, boost=ranking.WORDS * ranking.TITLE),
        _match("title.bigram", core, boost=ranking.BIGRAMS * ranking.TITLE),
        _match("title.char", core, boost=ranking.CHARACTERS * ranking.TITLE),
        _match("anchors", core, boost=ranking.ANCHORS),
        _phrase("title.char", text, boost=ranking.TITLE_AS_TYPED),
    ]
    return scores + _exact_values(text)


def _closeness(core: str, words: Sequence[str]) -> list[Json]:
    """Runs of characters as they were typed, and pairs of words that stand near each other."""
    runs = (
        run[start : start + RUN_CHARS] for run in _HAN_RUN.findall(core) for start in range(len(run) - RUN_CHARS + 1)
    )
    near = list(dict.fromkeys(words))[:MAX_NEAR_WORDS]
    pairs = [
        f"{word} {other}"
        for place, word in enumerate(near)
        for other in near[place + 1 : place + 1 + ranking.NEAR_WORDS]
    ]
    return [
        *(_phrase("body.bigram", run, boost=ranking.RUN) for run in dict.fromkeys(runs)),
        *(_phrase("body", pair, boost=ranking.NEAR, slop=ranking.NEAR_SLOP) for pair in pairs),
    ]


def _exact_values(text: str) -> list[Json]:
    """Addresses are found as they are typed."""
    if "@" in text:
        return [{"term": {"emails": {"value": text, "case_insensitive": True, "boost": ranking.EXACT_VALUE}}}]
    if text.startswith(("http://", "https://")):
        return [{"term": {"url": {"value": text, "boost": ranking.EXACT_VALUE}}}]
    return []


def _term_group(group: Iterable[Term]) -> Json:
    return _any([_term_query(term) for term in group])


def _term_query(term: Term) -> Json:
    """As it stands, character by character: a phrase of words would depend on how its neighbours are cut."""
    fields = ("title",) if term.in_title else ("title", "body")
    return _any([_phrase(f"{field}.char", term.text) for field in fields])


def _filters(query: SearchQuery, parsed: ParsedQuery) -> list[Json]:
    filters: list[Json] = []
    for name, value in (("site", query.site), ("host", query.host), ("kind", query.kind)):
        if value:
            filters.append({"term": {name: value}})
    if parsed.sites:
        filters.append(_any([_on_site(site) for site in parsed.sites]))
    languages = [*parsed.languages, *([query.language] if query.language else ())]
    if languages:
        filters.append({"terms": {"language": languages}})
    if parsed.file_types:
        filters.append(_any([_of_file_type(ending) for ending in parsed.file_types]))
    for start, end in ((query.published_from, query.published_until), (parsed.published_from, parsed.published_until)):
        filters += _published(start, end)
    return filters


def _on_site(site: str) -> Json:
    """A host (with its sub-domains, at any port), a site's key, or a host and the beginning of a path."""
    host, slash, path = site.removeprefix("https://").removeprefix("http://").partition("/")
    hosts: list[Json] = [
        {"term": {"host": host}},
        {"prefix": {"host": f"{host}:"}},
        {"wildcard": {"host": {"value": f"*.{_escaped(host)}:*"}}},
        {"term": {"site": site}},
    ]
    on_host = _any(hosts)
    return {"bool": {"filter": [on_host, {"prefix": {"path": f"/{path}"}}]}} if slash and path else on_host


def _of_file_type(ending: str) -> Json:
    name = _escaped(ending.lstrip("."))
    endings = [{"wildcard": {"path": {"value": f"*.{name}", "case_insensitive": True}}}]
    return _any([*endings, {"wildcard": {"media_type": {"value": f"*/{name}"}}}])


def _escaped(text: str) -> str:
    return re.sub(r"([*?\\])", r"\\\1", text)


def _published(start: date | None, end: date | None) -> list[Json]:
    limits = {"gte": start and start.isoformat(), "lte": end and f"{end.isoformat()}||/d"}
    given = {name: limit for name, limit in limits.items() if limit}
    return [{"range": {"published_at": given}}] if given else []


def _sort(order: Sort) -> list[Any]:
    if order is Sort.RELEVANCE:
        return ["_score"]
    direction = "desc" if order is Sort.NEWEST else "asc"
    return [{"published_at": {"order": direction, "missing": "_last"}}, {"capture_id": direction}]


def _highlight(parsed: ParsedQuery) -> Json:
    """The words of the query wherever they stand in title and body, phrases as phrases."""
    return {
        "type": "unified",
        "pre_tags": [HIT_START],
        "post_tags": [HIT_END],
        "encoder": "default",
        "max_analyzed_offset": MAX_HIGHLIGHTED_CHARS,
        "fields": {
            "title": {"number_of_fragments": 0, "highlight_query": _highlighted("title", parsed)},
            "body": {
                "number_of_fragments": FRAGMENTS,
                "fragment_size": FRAGMENT_CHARS,
                "no_match_size": FRAGMENT_CHARS * FRAGMENTS,
                "boundary_scanner": "sentence",
                "boundary_scanner_locale": "zh-CN",
                "order": "score",
                "highlight_query": _highlighted("body", parsed),
            },
        },
    }


def _highlighted(field: str, parsed: ParsedQuery) -> Json:
    phrases = [term.text for group in parsed.required for term in group]
    return _any([_match(field, core_text(parsed)), *(_match(field, phrase) for phrase in phrases)])


def _match(field: str, text: str, **options: Any) -> Json:
    return {"match": {field: {"query": text, **options}}}


def _phrase(field: str, text: str, **options: Any) -> Json:
    return {"match_phrase": {field: {"query": text, **options}}}


def _any(queries: list[Json], minimum: int | str = 1) -> Json:
    return {"bool": {"should": queries, "minimum_should_match": minimum}}
