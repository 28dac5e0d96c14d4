"""docs/json.md against what the program prints: the document names every key of every form."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crawler.records import FetchErrorKind, Rejection
from extractor.records import Document, PageKind
from services import control
from services.doctor import Finding
from services.search.records import SearchHit, SearchPage, SearchQuery, Segment
from services.status import Part, SiteStatus, Status

DOCUMENT = (Path(__file__).parents[2] / "docs" / "json.md").read_text("utf-8")


def section(title: str) -> str:
    return DOCUMENT.partition(f"\n## {title}")[2].partition("\n## ")[0]


def keys_of(value: object) -> set[str]:
    """All keys of a form, those inside lists and objects too."""
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys_of(item)}
    if isinstance(value, list):
        return {key for item in value for key in keys_of(item)}
    return set()


def a_page_of_hits() -> SearchPage:
    at = datetime(2026, 1, 31, 8, tzinfo=UTC)
    hit = SearchHit("1", "http://x.example/", (), ((Segment("x", True),),), 1.0, 17, "x.example:80", "x", at)
    return SearchPage(SearchQuery("x"), 1, 1, (hit,))


FORMS = {
    "search": a_page_of_hits().to_json(lambda capture_id: f"http://portal.example/snapshot/{capture_id}"),
    "crawl": control.CrawlSummary(1, 0, 1, {}, {}, 1.0, 1.0).to_json(),
    "extract": Document("http://x.example/", "x", "x").to_json(),
    "status": Status("/h", (Part("web", True),), (SiteStatus("x", "finished", 1, 0, 0, 0, 0),), 1, None).to_json(),
    "doctor": {"findings": [Finding("java", True, "21").to_json()]},
}


@pytest.mark.parametrize("form", FORMS)
def test_every_key_of_a_form_is_documented(form: str) -> None:
    described = section("status" if form == "doctor" else form)
    assert {key for key in keys_of(FORMS[form]) if f'"{key}"' not in described} == set()
    json.dumps(FORMS[form])


@pytest.mark.parametrize("form", ["search", "crawl", "extract"])
def test_no_key_is_documented_that_a_form_has_not(form: str) -> None:
    example = "".join(line for line in section(form).splitlines() if line.startswith("    "))
    documented = set(re.findall(r'"(\w+)":', example))
    assert documented - keys_of(FORMS[form]) <= {"scope", "timeout", "url", "text", "rel", "hit"}


@pytest.mark.parametrize("of", [control.KnownUrl, control.SeenCapture, control.SeenRejection])
def test_every_key_of_explain_is_documented(of: type) -> None:
    described = section("explain")
    assert [field.name for field in fields(of) if f"`{field.name}`" not in described] == []


def test_every_reason_and_kind_is_documented() -> None:
    words = set(re.findall(r"\w+", DOCUMENT))
    assert {word.value for word in (*Rejection, *FetchErrorKind, *PageKind)} - words == set()
