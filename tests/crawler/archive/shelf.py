"""An archive in a temporary folder, filled as the crawl loop does it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from crawler import database
from crawler.archive import captures
from crawler.archive.archive import Archive, Finding
from crawler.archive.writer import ArchiveWriter
from crawler.content_coding import decode
from crawler.database import sites
from crawler.fingerprint import digest
from crawler.records import (
    Capture,
    Claim,
    CrawlUrl,
    FetchedPage,
    IndexState,
    NewCapture,
    Original,
    RenderedDom,
    SiteSettings,
    Validators,
)
from crawler.urls import host_of, normalize, urlkey

NOW = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)


def make_page(
    url: str = "http://h.example/a",
    body: bytes = b"<p>page</p>",
    *,
    status: int = 200,
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html; charset=utf-8"),),
    protocol: str = "HTTP/1.1",
    rendered: str | None = None,
    at: datetime = NOW,
) -> FetchedPage:
    """A response as the fetcher hands it over; `body` is what came over the wire."""
    encoding = next((value for name, value in headers if name == "Content-Encoding"), "")
    content_type = next((value for name, value in headers if name == "Content-Type"), "")
    decoded, faults = decode(body, encoding, content_type, 10_000_000)
    lines = [f"{protocol} {status} OK", *(f"{name}: {value}" for name, value in headers)]
    return FetchedPage(
        url=url,
        status=status,
        reason="OK",
        headers=headers,
        request_head=b"GET /a HTTP/1.1\r\nHost: h.example\r\nUser-Agent: Plumbline\r\n\r\n",
        response_head="\r\n".join([*lines, "", ""]).encode("latin-1"),
        wire_body=body,
        body=decoded,
        fetched_at=at,
        ip="127.0.0.1",
        faults=faults,
        rendered=RenderedDom(rendered, url) if rendered is not None else None,
    )


class Shelf:
    """A site, its archive, and a clock that moves on a minute with every capture."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.archive = Archive(folder, engine)
        self.writer = ArchiveWriter(folder, "crawler-1", clock=lambda: self.now)
        self.now = NOW
        self.site_id = self.add_site("h.example:80")

    def add_site(self, key: str) -> int:
        row = {"key": key, "settings": SiteSettings((f"http://{key}/",)), "created_at": NOW, "updated_at": NOW}
        with database.write(self.engine) as conn:
            return conn.execute(sa.insert(sites).returning(sites.c.id), row).scalar_one()

    def claim(self, url: str, site_id: int | None = None) -> Claim:
        url = normalize(url)
        target = CrawlUrl(url, urlkey(url), host_of(url), site_id or self.site_id, run_id=0)
        with database.write(self.engine) as conn:
            url_id, generation = captures.adopt_url(conn, target, self.now)
        return Claim(target, url_id, generation, 0, Validators())

    def keep(
        self,
        page: FetchedPage,
        original_id: int | None = None,
        state: IndexState = IndexState.WAITING,
        site_id: int | None = None,
    ) -> Capture:
        """Archive a page, now; a reference if an original is given."""
        self.now += timedelta(minutes=1)
        page = replace(page, fetched_at=self.now)
        claim = self.claim(page.url, site_id)
        original = self.original(original_id) if original_id is not None else None
        stored = self.writer.append(page, original)
        self.writer.sync()
        new = NewCapture(
            claim=claim,
            captured_at=page.fetched_at,
            status=page.status,
            content_type=page.header("Content-Type") or "",
            digest=digest(page.body),
            size_bytes=len(page.body),
            faults=page.faults,
            stored=stored,
            index_state=state,
            revisit_of=original_id,
        )
        with database.write(self.engine) as conn:
            (capture_id,) = captures.insert(conn, [new], "crawler-1")
            capture = captures.get(conn, capture_id)
        assert capture is not None
        return capture

    def original(self, capture_id: int) -> Original:
        with database.read(self.engine) as conn:
            return captures.originals(conn, {capture_id})[capture_id]

    def files(self) -> list[Path]:
        return sorted(self.folder.rglob("*.warc.gz"))

    def findings(self) -> list[Finding]:
        return list(self.archive.verify())
