"""docs/heritage.md tells the truth: what it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "heritage.md").read_text("utf-8")
NAMED = [
    name
    for name in sorted(set(re.findall(r"`([\w./:-]+)`", DOCUMENT)))
    if "/" in name or re.search(r"\.(?:py|toml|json)$", name)
]
ROWS = [line for line in DOCUMENT.splitlines() if line.startswith("| ") and not line.startswith(("| asked", "| ---"))]


@pytest.mark.parametrize("name", NAMED)
def test_what_is_named_is_there(name: str) -> None:
    path, _, test = name.partition("::")
    assert (ROOT / path).exists(), f"docs/heritage.md names {path}"
    if test:
        tree = ast.parse((ROOT / path).read_text("utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
        assert test in functions, f"docs/heritage.md names {name}"


@pytest.mark.parametrize("row", ROWS)
def test_every_line_has_a_place_or_a_gap_and_a_test(row: str) -> None:
    asked, where, shown = (cell.strip() for cell in row.strip("| ").split(" | "))
    assert "`" in where or "**Gap:**" in where, asked
    assert shown.startswith("`tests/"), asked


def test_all_five_texts_have_their_lines() -> None:
    assert len(re.findall(r"^## ", DOCUMENT, flags=re.MULTILINE)) == 5
    assert len(ROWS) > 45
