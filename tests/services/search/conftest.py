"""A page index on the real node, and a way to fill it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from services.config import Settings
from services.elastic import BulkDocument, BulkOutcome, Elastic, ElasticUser, IndexName, credentials
from services.search.records import SearchPage, SearchQuery
from services.search.search import search

Fill = Callable[[list[dict[str, Any]]], None]
Find = Callable[..., SearchPage]


@pytest.fixture
def writer(node_settings: Settings) -> Iterator[Elastic]:
    with Elastic(credentials(node_settings, ElasticUser.WRITER), node_settings.index_prefix) as elastic:
        elastic.ensure_indices([IndexName.PAGES])
        yield elastic


@pytest.fixture
def reader(node_settings: Settings, writer: Elastic) -> Iterator[Elastic]:
    with Elastic(credentials(node_settings, ElasticUser.READER), node_settings.index_prefix) as elastic:
        yield elastic


@pytest.fixture
def fill(writer: Elastic) -> Fill:
    """Index documents, called "0", "1", …"""

    def index(documents: list[dict[str, Any]]) -> None:
        results = writer.bulk([BulkDocument(str(n), 1, document) for n, document in enumerate(documents)])
        assert {result.outcome for result in results} == {BulkOutcome.INDEXED}, results
        writer.refresh()

    return index


@pytest.fixture
def find(reader: Elastic) -> Find:
    return lambda text, **options: search(reader, SearchQuery(text, **options))
