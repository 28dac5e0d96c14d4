"""Each panel's query on the real node over a real crawl, and its spec drawn."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import vl_convert
from lxml import etree

from services.errors import NotFound
from services.kibana.charts import EMPTY, VEGA_LITE, Period, _filled, ask, draw, render_panel, rows
from services.kibana.panel import all_panels, get_panel
from tests.services.kibana.conftest import HOSTILE, Crawled

SVG = "{http://www.w3.org/2000/svg}"
YEARS = Period.of_days(3650)
PUBLISHED = {"publications-over-time", "publications-by-site"}
NAMES = [panel.name for panel in all_panels()]

# What the rows of each panel hold of the crawl in conftest: seven visits (three pages, one of them the start page, a
# 404, a 500, one that robots.txt forbids, robots.txt itself being none), one URL that is off the site, six searches.
EXPECTED: dict[str, Any] = {
    "visits-over-time": {"fetched": 3, "gone": 1, "fetch_error": 1, "rejected": 1},
    "visits-by-site": {"tea": {"fetched": 3, "gone": 1, "fetch_error": 1, "rejected": 1}},
    "pages-by-site": {"tea": 3},
    "failures-by-cause": {"gone": 1, "http_5xx": 1},
    "failures-over-time": {"gone": 1, "http_5xx": 1},
    "refusals-by-reason": {"robots": 1, "scope": 1},
    "http-statuses": {200: 3, 404: 1, 500: 1},
    "changed-or-unchanged": {"fetched": 3},
    "captures-over-time": 3,
    "publications-over-time": 3,
    "publications-by-site": {"tea": 3},
    "languages": {"zh": 3},
    "charsets": {"utf-8": 3},
    "media-types": {"text/html": 3},
    "top-searches": {"没有的词": 2, "龙井": 1, "龙井 茶园": 1, "地下水位": 1, HOSTILE: 1},
    "searches-without-results": {"没有的词": 2, HOSTILE: 1},
    "searches-over-time": {0: 3, 1: 3},
}


def period_of(name: str, crawled: Crawled) -> Period:
    return YEARS if name in PUBLISHED else crawled.period


def counts(found: list[dict[str, Any]]) -> Any:
    """Rows as {key: count}, or {key: {key: count}}; buckets of time are added up."""
    parts = next((key for key in found[0] if isinstance(found[0][key], dict) and "buckets" in found[0][key]), None)
    is_time = isinstance(found[0]["key"], int) and "key_as_string" in found[0]
    if parts is None:
        return sum(row["doc_count"] for row in found) if is_time else {row["key"]: row["doc_count"] for row in found}
    by_key = {row["key"]: {part["key"]: part["doc_count"] for part in row[parts]["buckets"]} for row in found}
    if not is_time:
        return by_key
    added: dict[Any, int] = {}
    for of_time in by_key.values():
        for key, count in of_time.items():
            added[key] = added.get(key, 0) + count
    return added


@pytest.mark.node
@pytest.mark.parametrize("name", NAMES)
def test_a_panels_query_finds_what_was_crawled_and_its_spec_draws_it(name: str, crawled: Crawled) -> None:
    panel = get_panel(name)
    answer = ask(crawled.reader, panel, period_of(name, crawled))
    found = rows(panel, answer)
    assert sum(row["doc_count"] for row in found) > 0
    if name in EXPECTED:
        assert counts(found) == EXPECTED[name]
    svg = etree.fromstring(draw(panel, answer).encode())
    assert svg.tag == f"{SVG}svg"
    assert EMPTY not in texts(svg)
    marks = [element for element in svg.iter(f"{SVG}path") if "role-mark" in parent_classes(element)]
    assert marks, "nothing is drawn"


@pytest.mark.node
def test_hosts_sizes_and_times_are_those_of_the_site(crawled: Crawled) -> None:
    def of(name: str) -> list[dict[str, Any]]:
        return rows(get_panel(name), ask(crawled.reader, get_panel(name), crawled.period))

    (host,) = of("hosts-visited")
    assert (host["key"], host["doc_count"]) == (crawled.site.host, 6)
    (size,) = of("bytes-by-host")
    assert size["bytes"]["value"] > 1000
    (times,) = of("host-answer-times")
    half, most = times["times"]["values"]
    assert 0 < half["value"] <= most["value"] < 60
    (captured,) = of("captures-by-site")
    assert captured["oldest"]["value"] <= captured["middle"]["values"][0]["value"] <= captured["newest"]["value"]
    assert sum(row["doc_count"] for row in of("page-sizes")) == 3
    took = [row["times"]["values"] for row in of("search-times") if row["doc_count"]]
    assert all(value["value"] >= 0 for values in took for value in values)


@pytest.mark.node
def test_what_visitors_typed_is_only_text_in_the_picture(crawled: Crawled) -> None:
    svg = etree.fromstring(render_panel(crawled.reader, "top-searches", crawled.period).encode())
    assert any("alert(1)" in text for text in texts(svg))
    assert {element.tag for element in svg.iter()} <= {
        f"{SVG}{name}" for name in ("svg", "g", "path", "text", "rect", "line", "defs", "clipPath")
    }
    attributes = {name for element in svg.iter() for name in element.attrib}
    assert not [name for name in attributes if name.startswith("on") or "href" in name]


@pytest.mark.node
def test_a_time_without_anything_says_so(crawled: Crawled) -> None:
    long_ago = datetime(2001, 1, 1, tzinfo=UTC)
    for name in ("visits-over-time", "top-searches"):
        svg = render_panel(crawled.reader, name, Period(long_ago, long_ago + timedelta(days=1)))
        assert EMPTY in texts(etree.fromstring(svg.encode()))


def test_a_panel_that_is_not_there_is_not_found() -> None:
    with pytest.raises(NotFound, match=r"no chart \.\./secrets"):
        get_panel("../secrets")


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_is_what_kibana_can_take(name: str) -> None:
    """Vega-Lite that compiles without a warning, a query, and filters and period of the dashboard in it."""
    panel = get_panel(name)
    assert panel.spec["$schema"] == "https://vega.github.io/schema/vega-lite/v5.json"
    assert panel.title and panel.description.endswith(".")
    assert set(panel.spec["data"]["url"]) == {"index", "body"}
    clauses = panel.request["query"]["bool"]
    assert clauses["must"][0] == "%dashboard_context-must_clause%"
    assert clauses["filter"] == ["%dashboard_context-filter_clause%"]
    assert clauses["must_not"] == ["%dashboard_context-must_not_clause%"]
    (limits,) = clauses["must"][1]["range"].values()
    assert limits == {"%timefilter%": True}
    assert panel.request["size"] == 0
    compiled = vl_convert.vegalite_to_vega({**panel.spec, "data": {"values": []}}, vl_version=VEGA_LITE)
    assert compiled["$schema"].startswith("https://vega.github.io/schema/vega/v5")
    assert compiled["marks"]


def test_the_placeholders_of_a_query_become_what_kibana_would_make_of_them() -> None:
    period = Period(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC))
    filled = _filled(get_panel("visits-over-time").request, period)
    must = filled["query"]["bool"]["must"]
    assert must[0]["range"]["at"]["gte"] == "2026-03-01T00:00:00+00:00"
    assert must[0]["range"]["at"]["lte"] == "2026-03-02T00:00:00+00:00"
    assert filled["query"]["bool"]["filter"] == filled["query"]["bool"]["must_not"] == []
    histogram = filled["aggs"]["found"]["date_histogram"]
    assert histogram["fixed_interval"] == "3600s"
    assert histogram["extended_bounds"] == {"min": 1772323200000, "max": 1772409600000}
    assert "%" not in json.dumps(filled)


@pytest.mark.parametrize(
    ("days", "interval"),
    [(1 / 24, "300s"), (7, "43200s"), (365, "2592000s"), (3650, "31536000s"), (36500, "31536000s")],
)
def test_a_longer_time_has_longer_steps(days: float, interval: str) -> None:
    filled = _filled({"date_histogram": {"interval": {"%autointerval%": 40}}}, Period.of_days(days))
    assert filled["date_histogram"]["fixed_interval"] == interval


def texts(svg: Any) -> list[str]:
    return ["".join(element.itertext()) for element in svg.iter(f"{SVG}text")]


def parent_classes(element: Any) -> str:
    return " ".join(ancestor.get("class", "") for ancestor in element.iterancestors())
