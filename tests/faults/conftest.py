"""The long set of faults runs with `--long` only (`make faults`)."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests of tests/faults too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--long", default=False):
        for item in items:
            if item.get_closest_marker("long") is not None:
                item.add_marker(pytest.mark.skip(reason="only with --long (make faults)"))
