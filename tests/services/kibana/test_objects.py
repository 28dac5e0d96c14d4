"""The saved objects: of the shape that Kibana exports, complete, and the same at every call.

Attributes and versions of types were compared with exports of Kibana in the public repositories elastic/kibana (test
fixtures of April 2026, shortly before 9.5) and elastic/integrations (May 2025, 9.0).
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from services.elastic import MAPPINGS, IndexName
from services.kibana.dashboards import DASHBOARDS, DATA_VIEWS, SEARCHES
from services.kibana.objects import saved_objects, to_ndjson
from services.kibana.panel import all_panels, get_panel

PREFIX = "plumbline-"
Json = dict[str, Any]

# Of each type: the attributes that an export has, and which of them are JSON in a string.
ATTRIBUTES = {
    "index-pattern": {
        *("title", "name", "timeFieldName", "allowHidden", "allowNoIndex", "sourceFilters", "fields"),
        *("fieldAttrs", "fieldFormatMap", "runtimeFieldMap"),
    },
    "search": {
        *("title", "description", "columns", "sort", "grid", "hideChart", "isTextBasedQuery", "timeRestore"),
        "kibanaSavedObjectMeta",
    },
    "visualization": {"title", "description", "visState", "uiStateJSON", "version", "kibanaSavedObjectMeta"},
    "dashboard": {
        *("title", "description", "panelsJSON", "optionsJSON", "timeRestore", "timeFrom", "timeTo", "refreshInterval"),
        "kibanaSavedObjectMeta",
    },
}
IN_STRINGS = {
    "index-pattern": ("sourceFilters", "fields", "fieldAttrs", "fieldFormatMap", "runtimeFieldMap"),
    "search": (),
    "visualization": ("visState", "uiStateJSON"),
    "dashboard": ("panelsJSON", "optionsJSON"),
}


@pytest.fixture(scope="module")
def objects() -> list[Json]:
    """As Kibana would read them."""
    return [json.loads(line) for line in to_ndjson(saved_objects(PREFIX)).splitlines()]


def of_type(objects: list[Json], kind: str) -> list[Json]:
    return [saved for saved in objects if saved["type"] == kind]


def test_there_is_one_object_for_everything_declared(objects: list[Json]) -> None:
    assert Counter(saved["type"] for saved in objects) == {
        "index-pattern": len(DATA_VIEWS),
        "search": len(SEARCHES),
        "visualization": len(all_panels()),
        "dashboard": len(DASHBOARDS),
    }
    assert len({saved["id"] for saved in objects}) == len(objects)
    assert all(saved["id"].startswith(PREFIX) for saved in objects)


def test_they_are_the_same_at_every_call() -> None:
    assert to_ndjson(saved_objects(PREFIX)) == to_ndjson(saved_objects(PREFIX))


def test_objects_have_the_shape_that_kibana_exports(objects: list[Json]) -> None:
    for saved in objects:
        kind = saved["type"]
        assert set(saved) == {
            *("id", "type", "attributes", "references", "managed", "coreMigrationVersion", "typeMigrationVersion")
        }
        assert set(saved["attributes"]) == ATTRIBUTES[kind], saved["id"]
        for name in IN_STRINGS[kind]:
            json.loads(saved["attributes"][name])
        if "kibanaSavedObjectMeta" in saved["attributes"]:
            source = json.loads(saved["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])
            assert source["query"]["language"] == "kuery" and source["filter"] == []


def test_versions_are_none_that_kibana_9_5_would_not_know(objects: list[Json]) -> None:
    """Kibana brings an older object up to its own version, and refuses a newer one."""
    newest_seen = {
        "index-pattern": (8, 0, 0),
        "visualization": (8, 5, 0),
        "search": (10, 9, 0),
        "dashboard": (10, 3, 0),
    }
    for saved in objects:
        assert saved["coreMigrationVersion"] == "8.8.0"
        assert tuple(map(int, saved["typeMigrationVersion"].split("."))) <= newest_seen[saved["type"]]


def test_every_reference_leads_to_an_object_that_came_before(objects: list[Json]) -> None:
    before: set[tuple[str, str]] = set()
    for saved in objects:
        for reference in saved["references"]:
            assert set(reference) == {"name", "type", "id"}
            assert (reference["type"], reference["id"]) in before, (saved["id"], reference)
        before.add((saved["type"], saved["id"]))


def test_data_views_name_our_indices_and_a_field_of_time(objects: list[Json]) -> None:
    found = {
        saved["attributes"]["title"]: saved["attributes"]["timeFieldName"]
        for saved in of_type(objects, "index-pattern")
    }
    assert found == {"plumbline-pages": "captured_at", "plumbline-crawl-log": "at", "plumbline-queries": "at"}
    for view in DATA_VIEWS:
        assert fields(view.index)[view.time_field]["type"] == "date"


def test_saved_searches_show_fields_that_there_are(objects: list[Json]) -> None:
    for search, saved in zip(SEARCHES, of_type(objects, "search"), strict=True):
        assert {*search.columns, search.newest_first} <= fields(search.index).keys(), search.name
        source = json.loads(saved["attributes"]["kibanaSavedObjectMeta"]["searchSourceJSON"])
        (reference,) = saved["references"]
        assert source["indexRefName"] == reference["name"]
        assert reference["id"] == f"{PREFIX}data-view-{search.index}"


def test_panels_are_vega_visualizations_of_the_files_with_real_index_names(objects: list[Json]) -> None:
    for panel, saved in zip(all_panels(), of_type(objects, "visualization"), strict=True):
        state = json.loads(saved["attributes"]["visState"])
        assert (state["type"], state["aggs"], state["title"]) == ("vega", [], saved["attributes"]["title"])
        spec = json.loads(state["params"]["spec"])
        assert spec["data"]["url"].pop("index") == f"{PREFIX}{panel.index}"
        expected = json.loads(json.dumps(get_panel(panel.name).spec))
        del expected["data"]["url"]["index"]
        assert spec == expected


def test_dashboards_show_their_panels_without_overlap(objects: list[Json]) -> None:
    for saved in of_type(objects, "dashboard"):
        panels = json.loads(saved["attributes"]["panelsJSON"])
        references = {reference["name"]: reference for reference in saved["references"]}
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            assert set(panel) == {"type", "gridData", "panelIndex", "embeddableConfig", "panelRefName"}
            reference = references.pop(f"{panel['panelIndex']}:{panel['panelRefName']}")
            assert reference["type"] == panel["type"]
            grid = panel["gridData"]
            assert grid["i"] == panel["panelIndex"] and grid["x"] + grid["w"] <= 48
            cells = {
                (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
            }
            assert not cells & taken
            taken |= cells
        assert not references


def test_every_panel_stands_on_a_dashboard() -> None:
    shown = {name for dashboard in DASHBOARDS for name in dashboard.panels}
    assert shown == {panel.name for panel in all_panels()}


def test_the_dashboards_are_those_that_were_asked_for() -> None:
    assert [dashboard.title for dashboard in DASHBOARDS] == [
        *("Crawl in progress", "Sites and hosts", "Failures by cause", "Freshness", "Content over time"),
        *("Languages and kinds", "Searches"),
    ]


def test_two_stacks_may_share_a_kibana() -> None:
    ids = [{saved["id"] for saved in saved_objects(prefix)} for prefix in ("one-", "two-")]
    assert not ids[0] & ids[1]


def fields(index: IndexName) -> Json:
    mappings: Json = json.loads((MAPPINGS / f"{index}.json").read_text("utf-8"))["mappings"]["properties"]
    return mappings
