"""What the extractor's tests share: the case files, and a page made of a body's HTML."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from extractor.extract import extract
from extractor.records import Document, Source

CASES = Path(__file__).parent / "cases"
CAPTURED_AT = datetime(2026, 1, 20, 3, 0, tzinfo=UTC)

Read = Callable[..., Document]


@pytest.fixture
def read() -> Read:
    """The document of some HTML (text or bytes)."""

    def read_html(
        html: str | bytes,
        url: str = "http://h.example/news/1.html",
        content_type: str = "text/html",
        dom: str | None = None,
    ) -> Document:
        body = html.encode() if isinstance(html, str) else html
        return extract(Source(url, body, content_type, CAPTURED_AT, dom))

    return read_html


@pytest.fixture
def read_case(read: Read) -> Callable[[str], Document]:
    """The document of a case file, by the beginning of its name."""

    def read_file(name: str) -> Document:
        (path,) = CASES.glob(f"{name}*.html")
        return read(path.read_bytes())

    return read_file
