"""Charts drawn on the server: a panel's query asked of Elasticsearch, its spec drawn as SVG. vl-convert lives here.

Kibana fills the placeholders of a query in the browser; here the same is done for a period. The SVG is inert: it
holds no script, calls out to nobody, and what came from crawled pages or visitors is text in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from services.elastic import Elastic
from services.kibana.dashboards import Dashboard
from services.kibana.panel import Panel, get_panel

VEGA_LITE = "5.21"
"""As Kibana has since 9.1; it reads the same $schema."""
WIDTH, HEIGHT = 400, 180
EMPTY = "Nothing in this period"

_CONTEXT = frozenset(f"%dashboard_context-{clause}_clause%" for clause in ("must", "filter", "must_not"))
_INTERVALS_S = (
    *(1, 5, 10, 30),
    *(60, 5 * 60, 10 * 60, 30 * 60),
    *(3600, 3 * 3600, 12 * 3600),
    *(86400, 7 * 86400, 30 * 86400),
)
_YEAR_S = 365 * 86400
_DAYS = {"h": 1 / 24, "d": 1, "y": 365}
_INK = "#7d8590"
"""Reads well on white and on black: the SVG does not know on which of them it will stand."""
_CONFIG = {
    "background": "transparent",
    "view": {"stroke": None},
    "font": "Arial, Liberation Sans, sans-serif",
    "padding": {"left": 8, "right": 24, "top": 8, "bottom": 8},
    "axis": {
        **{"labelColor": _INK, "titleColor": _INK, "tickColor": _INK, "domainColor": _INK},
        **{
            "gridColor": _INK,
            "gridOpacity": 0.2,
            "labelFontSize": 11,
            "titleFontSize": 11,
            "titleFontWeight": "normal",
        },
    },
    "legend": {
        **{"orient": "bottom", "columns": 4, "labelColor": _INK, "titleColor": _INK, "labelFontSize": 11},
        "titleFontWeight": "normal",
    },
}

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Period:
    """From when to when."""

    start: datetime
    end: datetime

    @classmethod
    def of_days(cls, days: float, now: datetime | None = None) -> Period:
        """The last so many days."""
        end = now or datetime.now(UTC)
        return cls(end - timedelta(days=days), end)

    @classmethod
    def of_dashboard(cls, dashboard: Dashboard, now: datetime | None = None) -> Period:
        """The time that a dashboard shows."""
        number, unit = dashboard.period
        return cls.of_days(number * _DAYS[unit], now)


def render_panel(elastic: Elastic, name: str, period: Period) -> str:
    """The panel of that name as SVG. Raises NotFound, SearchUnavailable, SearchRefused."""
    panel = get_panel(name)
    return draw(panel, ask(elastic, panel, period))


def ask(elastic: Elastic, panel: Panel, period: Period) -> Json:
    """The answer to the panel's query."""
    return elastic.search(_filled(panel.request, period), panel.index)


def rows(panel: Panel, answer: Mapping[str, Any]) -> list[Json]:
    """What the spec takes from an answer."""
    found: Any = answer
    for key in str(panel.spec["data"]["format"]["property"]).split("."):
        found = found.get(key, {})
    return list(found)


def draw(panel: Panel, answer: Mapping[str, Any]) -> str:
    """The spec with an answer, as SVG."""
    import vl_convert

    found = rows(panel, answer)
    spec = {**panel.spec, "data": {"values": found}} if any(row.get("doc_count") for row in found) else _empty()
    svg = vl_convert.vegalite_to_svg(
        {**spec, "width": WIDTH, "height": _height(spec, found)},
        vl_version=VEGA_LITE,
        config=_CONFIG,
        allowed_base_urls=[],
    )
    return str(svg)


def _empty() -> Json:
    mark = {"type": "text", "text": EMPTY, "color": _INK, "fontSize": 13}
    return {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "data": {"values": [{}]}, "mark": mark}


def _height(spec: Mapping[str, Any], found: list[Json]) -> int:
    """Enough for the names, where rows are named on the left."""
    is_list = spec.get("encoding", {}).get("y", {}).get("type") == "nominal"
    return max(60, 24 * len(found)) if is_list else HEIGHT


def _filled(part: Any, period: Period) -> Any:
    """A part of a query with Kibana's placeholders replaced; of a dashboard's filters there are none here."""
    if isinstance(part, list):
        return [_filled(item, period) for item in part if not (isinstance(item, str) and item in _CONTEXT)]
    if not isinstance(part, dict):
        return part
    bound = part.get("%timefilter%")
    if bound is True:
        return {"gte": _iso(period.start), "lte": _iso(period.end), "format": "strict_date_optional_time"}
    if bound is not None:
        return _milliseconds(period.start if bound == "min" else period.end)
    filled = {key: _filled(value, period) for key, value in part.items() if key != "interval"}
    if "interval" in part:
        filled["fixed_interval"] = _interval(period, part["interval"]["%autointerval%"])
    return filled


def _interval(period: Period, buckets: int) -> str:
    """A round one that gives about so many buckets."""
    exact_s = (period.end - period.start).total_seconds() / buckets
    return f"{next((step for step in _INTERVALS_S if step >= exact_s), _YEAR_S)}s"


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


def _milliseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
