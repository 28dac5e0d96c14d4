"""Kibana's own search bar finds Chinese words: the queries that its language (KQL) becomes, on the real node.

`kql` writes them down as Kibana's translation does (a field and a value: `match` or, in quotes, `match_phrase`; no
field: `multi_match` over the index's default fields; an asterisk: `query_string`), and `discover` wraps them as its
Discover page does, highlighting included.
"""

from __future__ import annotations

from typing import Any

import pytest

from services.elastic import IndexName
from tests.services.kibana.conftest import Crawled

pytestmark = pytest.mark.node
Json = dict[str, Any]
MARK = "@kibana-highlighted-field@"


def kql(value: str, field: str | None = None) -> Json:
    """`value` or `field: value`; a value in quotes is a phrase."""
    is_phrase = value.startswith('"')
    text = value.strip('"')
    if "*" in text:
        return _for(field, "query_string", text)
    if field is None:
        return {"multi_match": {"type": "phrase" if is_phrase else "best_fields", "query": text, "lenient": True}}
    return _should({"match_phrase" if is_phrase else "match": {field: text}})


def _for(field: str | None, kind: str, text: str) -> Json:
    return {kind: {"query": text}} if field is None else _should({kind: {"fields": [field], "query": text}})


def _should(query: Json) -> Json:
    return {"bool": {"should": [query], "minimum_should_match": 1}}


def both(*queries: Json) -> Json:
    return {"bool": {"filter": list(queries)}}


def discover(crawled: Crawled, query: Json) -> list[Json]:
    """The hits of a search as Discover sends it."""
    period = {"gte": crawled.period.start.isoformat(), "lte": crawled.period.end.isoformat()}
    body = {
        "track_total_hits": False,
        "sort": [{"captured_at": {"order": "desc", "unmapped_type": "boolean"}}, {"_doc": {"order": "desc"}}],
        "fields": [{"field": "*", "include_unmapped": True}],
        "size": 500,
        "stored_fields": ["*"],
        "source": False,
        "query": {
            "bool": {
                "must": [],
                "filter": [query, {"range": {"captured_at": {"format": "strict_date_optional_time", **period}}}],
                "should": [],
                "must_not": [],
            }
        },
        "highlight": {
            "pre_tags": [MARK],
            "post_tags": [MARK.replace("@", "@/", 1)],
            "fields": {"*": {}},
            "fragment_size": 2147483647,
        },
    }
    answer = crawled.reader.search(body, IndexName.PAGES)
    hits: list[Json] = answer["hits"]["hits"]
    return hits


def titles(hits: list[Json]) -> set[str]:
    return {hit["fields"]["title"][0] for hit in hits}


@pytest.mark.parametrize(
    ("query", "found"),
    [
        (kql("龙井"), {"西湖龙井"}),
        (kql("茶园"), {"西湖龙井", "茶的首页"}),
        (kql("地下水位"), {"地下水位监测站"}),
        (kql("监测"), {"地下水位监测站"}),  # a word inside a longer one
        (kql("監測站"), {"地下水位监测站"}),  # traditional, where the page is simplified
        (kql('"西湖龙井"'), {"西湖龙井"}),
        (kql("龙井 监测站"), {"西湖龙井", "地下水位监测站"}),
        (kql('"杭州西湖"', "body"), {"西湖龙井"}),
        (kql('"西湖杭州"', "body"), set()),
        (kql("龙井", "title"), {"西湖龙井"}),
        (kql("茶园", "title"), set()),
        (kql("采摘", "body"), {"西湖龙井"}),
        (kql('"测量地下水位"', "body"), {"地下水位监测站"}),
        (both(kql("茶园", "body"), kql("龙井", "title")), {"西湖龙井"}),
        (both(kql("茶园"), {"bool": {"must_not": kql("龙井")}}), {"茶的首页"}),
        (kql("龙*", "title"), {"西湖龙井"}),
        (kql("水位*"), {"地下水位监测站"}),
        (kql("tea"), set()),  # the site's key: a bare word asks title and body alone
        (kql("tea", "site"), {"西湖龙井", "茶的首页", "地下水位监测站"}),
        (kql("沙漠"), set()),
        (kql("的"), set()),  # says nothing alone
    ],
)
def test_words_in_the_bar_find_their_pages(crawled: Crawled, query: Json, found: set[str]) -> None:
    assert titles(discover(crawled, query)) == found


def test_the_words_are_highlighted_as_they_stand_in_the_page(crawled: Crawled) -> None:
    (hit,) = discover(crawled, kql("監測站", "title"))
    assert hit["highlight"]["title"] == [f"地下水位{MARK}监测站@/kibana-highlighted-field@"]


def test_half_of_a_word_is_not_found_as_characters_would_be(crawled: Crawled) -> None:
    """By single characters (the standard analyzer) the first would be found as well: 下水 stands in 地下水位."""
    assert titles(discover(crawled, kql("下水道"))) == set()
    assert titles(discover(crawled, kql('"湖龙"'))) == set()
