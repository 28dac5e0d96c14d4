"""Kibana's saved objects of our data views, searches, panels and dashboards: the same bytes at every call.

Their shape is the one that Kibana 9 exports. Each object names the version of its type that it is written in, and
Kibana brings older ones up to its own at import. Ids begin with the prefix of the indices, so that two stacks may
share one Kibana, and importing again writes over what was imported before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from services.elastic import IndexName
from services.kibana.dashboards import DASHBOARDS, DATA_VIEWS, SEARCHES, Dashboard, DataView, SavedSearch
from services.kibana.panel import Panel, all_panels

CORE_VERSION = "8.8.0"
TYPE_VERSIONS = {"index-pattern": "8.0.0", "visualization": "8.5.0", "search": "10.5.0", "dashboard": "10.3.0"}
"""As in exports of Kibana 9.0 to 9.4; searches in the last form before tabs, which Kibana adds itself."""
GRID_COLUMNS = 48
PANEL_ROWS = 15
SEARCH_ROWS = 18

Json = dict[str, Any]


def saved_objects(prefix: str) -> list[Json]:
    """All of them, what is referred to before what refers to it."""
    return [
        *(_data_view(view, prefix) for view in DATA_VIEWS),
        *(_search(search, prefix) for search in SEARCHES),
        *(_panel(panel, prefix) for panel in all_panels()),
        *(_dashboard(dashboard, prefix) for dashboard in DASHBOARDS),
    ]


def to_ndjson(objects: list[Json]) -> str:
    """As the import takes them: one object a line."""
    return "".join(f"{_json(saved)}\n" for saved in objects)


def _data_view(view: DataView, prefix: str) -> Json:
    attributes = {
        "title": f"{prefix}{view.index}",
        "name": view.title,
        "timeFieldName": view.time_field,
        "allowHidden": False,
        "allowNoIndex": True,
        "sourceFilters": "[]",
        "fields": "[]",
        "fieldAttrs": "{}",
        "fieldFormatMap": "{}",
        "runtimeFieldMap": "{}",
    }
    return _object("index-pattern", _data_view_id(view.index, prefix), attributes)


def _search(search: SavedSearch, prefix: str) -> Json:
    reference = "kibanaSavedObjectMeta.searchSourceJSON.index"
    attributes = {
        "title": search.title,
        "description": search.description,
        "columns": list(search.columns),
        "sort": [[search.newest_first, "desc"]],
        "grid": {},
        "hideChart": False,
        "isTextBasedQuery": False,
        "timeRestore": False,
        "kibanaSavedObjectMeta": _search_source(search.query, indexRefName=reference),
    }
    references = [_reference(reference, "index-pattern", _data_view_id(search.index, prefix))]
    return _object("search", _id("search", search.name, prefix), attributes, references)


def _panel(panel: Panel, prefix: str) -> Json:
    spec = {**panel.spec, "data": {**panel.spec["data"], "url": _source(panel, prefix)}}
    # Readable, since Kibana's editor shows it to whoever wants to change it.
    params = {"spec": json.dumps(spec, ensure_ascii=False, indent=2)}
    attributes = {
        "title": panel.title,
        "description": panel.description,
        "visState": _json({"title": panel.title, "type": "vega", "aggs": [], "params": params}),
        "uiStateJSON": "{}",
        "version": 1,
        "kibanaSavedObjectMeta": _search_source(""),
    }
    return _object("visualization", _id("panel", panel.name, prefix), attributes)


def _source(panel: Panel, prefix: str) -> Json:
    return {**panel.spec["data"]["url"], "index": f"{prefix}{panel.index}"}


def _dashboard(dashboard: Dashboard, prefix: str) -> Json:
    placed = list(_placed(dashboard, prefix))
    attributes = {
        "title": f"Plumbline: {dashboard.title}",
        "description": dashboard.description,
        "panelsJSON": _json([panel for panel, _ in placed]),
        "optionsJSON": _json(
            {
                "useMargins": True,
                "syncColors": False,
                "syncCursor": True,
                "syncTooltips": False,
                "hidePanelTitles": False,
            }
        ),
        "timeRestore": True,
        "timeFrom": dashboard.time_from,
        "timeTo": "now",
        "refreshInterval": {"pause": dashboard.refresh_s is None, "value": 1000 * (dashboard.refresh_s or 60)},
        "kibanaSavedObjectMeta": _search_source(""),
    }
    references = [reference for _, reference in placed]
    return _object("dashboard", _id("dashboard", dashboard.name, prefix), attributes, references)


def _placed(dashboard: Dashboard, prefix: str) -> Iterator[tuple[Json, Json]]:
    """Each panel at its place, and the reference to what it shows."""
    half = GRID_COLUMNS // 2
    for number, name in enumerate(dashboard.panels):
        is_alone = number == len(dashboard.panels) - 1 and number % 2 == 0
        place = {
            "x": number % 2 * half,
            "y": number // 2 * PANEL_ROWS,
            "w": GRID_COLUMNS if is_alone else half,
            "h": PANEL_ROWS,
        }
        yield _placed_panel("visualization", name, _id("panel", name, prefix), place)
    below = -(-len(dashboard.panels) // 2) * PANEL_ROWS
    for number, name in enumerate(dashboard.searches):
        place = {"x": 0, "y": below + number * SEARCH_ROWS, "w": GRID_COLUMNS, "h": SEARCH_ROWS}
        yield _placed_panel("search", name, _id("search", name, prefix), place)


def _placed_panel(kind: str, name: str, object_id: str, place: Mapping[str, int]) -> tuple[Json, Json]:
    index = f"{kind}-{name}"
    panel = {
        "type": kind,
        "gridData": {**place, "i": index},
        "panelIndex": index,
        "embeddableConfig": {"enhancements": {}},
        "panelRefName": f"panel_{index}",
    }
    return panel, _reference(f"{index}:panel_{index}", kind, object_id)


def _search_source(query: str, **more: str) -> Json:
    return {"searchSourceJSON": _json({"query": {"query": query, "language": "kuery"}, "filter": [], **more})}


def _object(kind: str, object_id: str, attributes: Json, references: list[Json] | None = None) -> Json:
    return {
        "id": object_id,
        "type": kind,
        "attributes": attributes,
        "references": references or [],
        "managed": False,
        "coreMigrationVersion": CORE_VERSION,
        "typeMigrationVersion": TYPE_VERSIONS[kind],
    }


def _reference(name: str, kind: str, object_id: str) -> Json:
    return {"name": name, "type": kind, "id": object_id}


def _data_view_id(index: IndexName, prefix: str) -> str:
    return _id("data-view", index.value, prefix)


def _id(kind: str, name: str, prefix: str) -> str:
    return f"{prefix}{kind}-{name}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
