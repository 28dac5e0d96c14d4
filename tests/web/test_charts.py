"""The admin's charts: pictures that a strict browser shows, for nobody but the owner."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from flask import Flask
from flask.testing import FlaskClient
from lxml import etree

from services.config import Settings
from services.elastic import Elastic, ElasticUser, IndexName, LogEntry, credentials
from services.kibana.dashboards import DASHBOARDS
from services.kibana.panel import all_panels
from web.admin.charts import CHART_TITLES, DASHBOARD_TITLES
from web.backends import Backends


@pytest.fixture
def filled(app: Flask, node_settings: Settings) -> Iterator[Flask]:
    """The portal over a node whose logs hold a visit and a search of today."""
    now = datetime.now(UTC).isoformat()
    visit = {"at": now, "event": "visit", "site": "tea", "host": "tea.example:443", "status": "fetched"}
    with Elastic(credentials(node_settings, ElasticUser.WRITER), node_settings.index_prefix) as writer:
        writer.ensure_indices()
        writer.append([LogEntry("1", visit)], IndexName.CRAWL_LOG)
        writer.append([LogEntry("1", {"at": now, "text": "龙井", "page": 1})], IndexName.QUERIES)
        writer.refresh(IndexName.CRAWL_LOG)
        writer.refresh(IndexName.QUERIES)
    before = app.extensions["plumbline"].settings
    shared = {"home": node_settings.home, "index_prefix": node_settings.index_prefix}
    database = {"database_url": before.effective_database_url}
    stack = app.extensions["plumbline"] = Backends(before.model_copy(update=shared | database))
    yield app
    stack.close()


def test_each_chart_has_its_words_and_they_are_those_of_kibana() -> None:
    assert {name: title._args[0] for name, title in CHART_TITLES.items()} == {p.name: p.title for p in all_panels()}
    assert {name: title._args[0] for name, title in DASHBOARD_TITLES.items()} == {d.name: d.title for d in DASHBOARDS}


def test_the_page_shows_every_chart_as_a_picture(owner: FlaskClient) -> None:
    page = owner.get("/admin/charts").text
    assert re.findall(r'src="/admin/charts/([\w-]+)\.svg"', page) == [name for d in DASHBOARDS for name in d.panels]
    assert "last 10 years" in page
    assert 'aria-current="page">Charts' in page


def test_nobody_but_the_owner_sees_them(client: FlaskClient) -> None:
    for path in ("/admin/charts", "/admin/charts/languages.svg"):
        assert client.get(path).status_code == 302


def test_a_chart_that_is_not_there_is_not_found(owner: FlaskClient) -> None:
    assert owner.get("/admin/charts/nothing.svg").status_code == 404


def test_without_elasticsearch_a_chart_is_not_ready(owner: FlaskClient) -> None:
    assert owner.get("/admin/charts/languages.svg").status_code == 503


@pytest.mark.node
def test_a_chart_is_a_picture_of_what_there_is(filled: Flask, owner: FlaskClient) -> None:
    for name, word in (("hosts-visited", "tea.example:443"), ("top-searches", "龙井")):
        answer = owner.get(f"/admin/charts/{name}.svg")
        assert (answer.status_code, answer.mimetype) == (200, "image/svg+xml")
        assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        assert word in ["".join(text.itertext()) for text in etree.fromstring(answer.data).iter("{*}text")]
