"""What the portal's tests share: an application over a real database and a real archive, and pages put into them."""

from __future__ import annotations

import itertools
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from flask import Flask
from flask.testing import FlaskClient
from playwright.sync_api import Browser, sync_playwright
from sqlalchemy.engine import Engine
from werkzeug.serving import make_server

from crawler import database
from crawler.archive import captures
from crawler.archive.writer import ArchiveWriter
from crawler.fingerprint import digest
from crawler.records import (
    Claim,
    CrawlUrl,
    Fault,
    FetchedPage,
    IndexState,
    NewCapture,
    RenderedDom,
    SiteSettings,
    Validators,
)
from crawler.renderer import find_browser
from crawler.urls import host_of, normalize, urlkey
from services import control
from services.config import Settings, load_settings
from tests.databases import migrated_sqlite
from web import create_app
from web.admin.sessions import Account
from web.backends import Backends

OWNER = "mei"
PASSWORD = "plumb and level"
_minutes = itertools.count()


@dataclass(frozen=True, slots=True)
class Keeper:
    """Puts pages into an archive as the crawler would."""

    engine: Engine
    settings: Settings

    def site(self, seed: str = "http://archived.example/", **more: str) -> int:
        settings = SiteSettings(seeds=(seed,), **more)  # type: ignore[arg-type]
        return control.create_or_update(self.engine, control.site_key(settings), settings)

    def keep(
        self,
        body: bytes | str,
        url: str = "http://archived.example/page.html",
        content_type: str = "text/html; charset=utf-8",
        *,
        status: int = 200,
        dom: str | None = None,
        faults: tuple[Fault, ...] = (),
        captured_at: datetime | None = None,
    ) -> int:
        """Archive one page; the capture's id."""
        payload = body.encode() if isinstance(body, str) else body
        at = captured_at or datetime(2026, 3, 5, 8, 30, tzinfo=UTC) + timedelta(minutes=next(_minutes))
        page = _fetched(normalize(url), payload, content_type, status, dom, at)
        site_id = self.site()
        with ArchiveWriter(self.settings.archive_folder, "test") as writer:
            stored = writer.append(page)
        target = CrawlUrl(page.url, urlkey(page.url), host_of(page.url), site_id, 0)
        with database.write(self.engine) as conn:
            url_id, generation = captures.adopt_url(conn, target, at)
            claim = Claim(target, url_id, generation, 0, Validators())
            new = NewCapture(
                claim, at, status, content_type, digest(payload), len(payload), faults, stored, IndexState.INDEXED
            )
            (capture_id,) = captures.insert(conn, [new], "test")
        return capture_id


def _fetched(url: str, body: bytes, content_type: str, status: int, dom: str | None, at: datetime) -> FetchedPage:
    headers = (("Content-Type", content_type), ("Content-Length", str(len(body))))
    head = f"HTTP/1.1 {status} OK\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers) + "\r\n"
    return FetchedPage(
        url=url,
        status=status,
        reason="OK",
        headers=headers,
        request_head=f"GET {url} HTTP/1.1\r\n\r\n".encode(),
        response_head=head.encode(),
        wire_body=body,
        body=body,
        fetched_at=at,
        rendered=None if dom is None else RenderedDom(dom, url),
    )


@pytest.fixture
def keeper(engine: Engine, settings: Settings) -> Keeper:
    return Keeper(engine, settings)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a migrated database that knows one owner: hashing a password is slow on purpose."""
    file = migrated_sqlite(tmp_path_factory.mktemp("portal"))
    engine = database.open_database(f"sqlite:///{file}")
    control.add_user(engine, OWNER, PASSWORD, control.Role.OWNER)
    engine.dispose()
    return file


@pytest.fixture(scope="session")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """The application, its templates compiled once; `app` puts a test's own database and archive under it."""
    return create_app(load_settings(home=tmp_path_factory.mktemp("home")))


@pytest.fixture
def app(portal: Flask, engine: Engine, settings: Settings) -> Iterator[Flask]:
    """The portal over a database and an archive of the test's own; Elasticsearch is not there."""
    stack = portal.extensions["plumbline"] = Backends(settings)
    yield portal
    stack.close()


@pytest.fixture
def client(app: Flask) -> FlaskClient:
    """A visitor whose browser asks for English."""
    client = app.test_client()
    client.environ_base["HTTP_ACCEPT_LANGUAGE"] = "en"
    return client


@pytest.fixture
def owner(client: FlaskClient, engine: Engine) -> FlaskClient:
    """The same, signed in as the owner (how that goes by the form, tests/web/test_admin.py shows)."""
    (user,) = control.list_users(engine)
    with client.session_transaction() as session:
        session.permanent = True
        session["_user_id"] = Account(user).get_id()
        session["_fresh"] = True
    return client


def token(client: FlaskClient, path: str) -> str:
    """The forgery token that a page's form carries."""
    found = re.search(r'name="csrf_token"[^>]*value="([^"]+)"', client.get(path).text)
    assert found, f"{path} has no form"
    return found[1]


@pytest.fixture
def served(app: Flask) -> Iterator[str]:
    """The portal on a loopback port, for a browser; its address."""
    server = make_server("127.0.0.1", 0, app, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), chromium_sandbox=os.geteuid() != 0)
        yield browser
        browser.close()
