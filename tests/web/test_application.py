"""The portal as a whole: what every answer carries, and what it says while parts of the stack are away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from flask import request
from flask.testing import FlaskClient
from sqlalchemy.engine import Engine

from crawler.records import SiteSettings
from services import control
from services.config import Settings, load_settings
from tests.web.conftest import Keeper
from web import create_app

PAGES = ["/", "/nothing-here", "/admin/sign-in", "/search?q=tea", "/robots.txt", "/healthz", "/static/plumbline.css"]


@pytest.mark.parametrize("path", PAGES)
def test_every_answer_has_the_security_headers(client: FlaskClient, path: str) -> None:
    headers = client.get(path, buffered=True).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"


@pytest.mark.parametrize("path", ["/", "/nothing-here", "/admin/sign-in", "/search?q=tea"])
def test_no_page_holds_scripts_or_styles_of_its_own(client: FlaskClient, path: str) -> None:
    page = client.get(path).text
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", page)
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page), "a page needs something from elsewhere"


def test_while_search_is_away_the_start_page_says_so_and_searches_are_answered_in_words(
    client: FlaskClient, keeper: Keeper
) -> None:
    keeper.site()
    start = client.get("/")
    assert start.status_code == 200
    assert "The search engine is starting" in start.text
    answer = client.get("/search?q=tea")
    assert answer.status_code == 503
    assert answer.headers["Retry-After"]
    assert "The search is not ready" in answer.text


def test_the_api_answers_with_problem_documents(client: FlaskClient) -> None:
    answer = client.get("/api/v1/search?q=tea")
    assert (answer.status_code, answer.mimetype) == (503, "application/problem+json")
    assert answer.get_json(force=True)["status"] == 503
    assert client.get("/api/v1/search?q=tea&size=0").status_code == 400
    assert client.get("/api/v1/nothing").mimetype == "application/problem+json"


def test_without_a_database_the_portal_still_answers(tmp_path: Path) -> None:
    app = create_app(load_settings(home=tmp_path / "empty"))
    client = app.test_client()
    assert client.get("/healthz").status_code == 200
    start = client.get("/", headers={"Accept-Language": "en"})
    assert start.status_code == 200
    assert "The portal is being set up" in start.text
    assert client.get("/admin/sign-in").status_code == 200
    assert client.get("/snapshot/1").status_code == 503
    assert client.get("/readyz").status_code == 503
    app.extensions["plumbline"].close()


def test_readiness_names_what_is_missing(client: FlaskClient) -> None:
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json == {
        "ready": False,
        "database": True,
        "elasticsearch": False,
        "documents": 0,
        "reasons": {"search_engine": "Elasticsearch cannot be reached; is the stack running?"},
    }


def test_the_start_page_tells_which_parts_of_the_stack_are_there(client: FlaskClient, engine: Engine) -> None:
    control.beat(engine, "crawler-here-1", control.WorkerKind.CRAWLER, 1, {})
    page = client.get("/", headers={"Accept-Language": "en"}).text
    found = {name: state for state, name in re.findall(r'<li class="is-(there|awaited)">(\w[\w ]*): ', page)}
    assert found == {
        "Database": "there",
        "Search engine": "awaited",
        "Crawler": "there",
        "Indexer": "awaited",
        "Scheduler": "awaited",
    }


def test_a_site_is_ready_once_a_run_of_it_is_over_and_can_be_found(client: FlaskClient, engine: Engine) -> None:
    assert client.get("/readyz?site=tea").status_code == 404
    site_id = control.create_or_update(engine, "tea", SiteSettings(seeds=("http://tea.example/",)))
    answer = client.get("/readyz?site=tea")
    assert (answer.status_code, answer.json["reason"]) == (503, "no run has begun")
    control.start(engine, site_id, "test")
    answer = client.get("/readyz?site=tea")
    assert answer.json["reason"] == "its run is queued: 0 URLs to visit, 0 pages to index"


def test_a_proxy_is_believed_only_as_far_as_the_settings_say(settings: Settings) -> None:
    for proxies, scheme in ((0, "http"), (1, "https")):
        app = create_app(settings.model_copy(update={"trusted_proxies": proxies}))
        app.add_url_rule("/scheme", view_func=lambda: request.scheme, endpoint="scheme")
        assert app.test_client().get("/scheme", headers={"X-Forwarded-Proto": "https"}).text == scheme
        app.extensions["plumbline"].close()


def test_crawlers_are_kept_out_of_admin_and_snapshots(client: FlaskClient) -> None:
    rules = client.get("/robots.txt").text.splitlines()
    assert rules[0] == "User-agent: *"
    assert {"Disallow: /admin", "Disallow: /snapshot"} <= set(rules)


def test_the_portal_carries_its_owners_name(client: FlaskClient, engine: Engine) -> None:
    control.write_portal(engine, control.PortalSettings(name="茶<b>事", tagline="x & y", footer="沪ICP备1号"))
    page = client.get("/").text
    assert "<h1>茶&lt;b&gt;事</h1>" in page
    assert "x &amp; y" in page
    assert "沪ICP备1号" in page


def test_an_empty_query_leads_to_the_start(client: FlaskClient) -> None:
    for query in ("", "%20", "%E3%80%80", "%00"):
        assert client.get(f"/search?q={query}").location == "/"


def test_text_is_compressed_for_those_who_take_it_but_not_the_admin(client: FlaskClient) -> None:
    takes = {"Accept-Encoding": "gzip"}
    assert client.get("/static/plumbline.css", headers=takes, buffered=True).headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in client.get("/static/plumbline.css", buffered=True).headers
    assert "Content-Encoding" not in client.get("/admin/sign-in", headers=takes).headers


def test_static_files_may_be_kept_and_have_an_address_of_their_content(client: FlaskClient) -> None:
    found = re.search(r'href="(/static/plumbline\.css\?v=[0-9a-f]+)"', client.get("/").text)
    assert found
    assert "max-age=31536000" in client.get(found[1], buffered=True).headers["Cache-Control"]
    assert client.get("/favicon.ico").status_code == 301
