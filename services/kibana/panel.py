"""The specs of the charts, as files: Vega-Lite whose `data.url` is a query, as Kibana's Vega panels have it.

The file names an index by its name in the stack (`pages`); its real name depends on the prefix in the settings.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from services.elastic import IndexName
from services.errors import NotFound

FOLDER = Path(__file__).parent / "panels"


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart."""

    name: str
    title: str
    description: str
    index: IndexName
    request: Mapping[str, Any]
    """The search, with Kibana's placeholders for the period (`%timefilter%`, `%autointerval%`) and the filters."""
    spec: Mapping[str, Any]
    """The whole file."""


@cache
def all_panels() -> tuple[Panel, ...]:
    """All of them, by name."""
    return tuple(_read(path) for path in sorted(FOLDER.glob("*.json")))


def get_panel(name: str) -> Panel:
    """The panel of that name. Raises NotFound."""
    for panel in all_panels():
        if panel.name == name:
            return panel
    raise NotFound(f"there is no chart {name}")


def _read(path: Path) -> Panel:
    spec = json.loads(path.read_text("utf-8"))
    source = spec["data"]["url"]
    return Panel(
        name=path.stem,
        title=spec["usermeta"]["title"],
        description=spec["description"],
        index=IndexName(source["index"]),
        request=source["body"],
        spec=spec,
    )
