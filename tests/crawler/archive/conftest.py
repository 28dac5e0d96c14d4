"""An archive in a temporary folder, filled as the crawl loop does it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from tests.crawler.archive.shelf import Shelf


@pytest.fixture
def shelf(engine: Engine, tmp_path: Path) -> Iterator[Shelf]:
    shelf = Shelf(engine, tmp_path / "archive")
    yield shelf
    shelf.writer.close()
