"""Languages: every message has its translation, and the reader gets the language that they asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po
from flask.testing import FlaskClient
from sqlalchemy.engine import Engine

import web
from services import control
from web.language import CATALOGS

FOLDER = Path(web.__file__).parent
PLACEHOLDER = re.compile(r"%\((\w+)\)[sd]")


def messages() -> set[str | tuple[str, ...]]:
    """Every message of code and templates."""
    found = extract_from_dir(
        FOLDER,
        method_map=[("**.py", "python"), ("templates/**.html", "jinja2.ext:babel_extract")],
        keywords={"_": None, "_l": None, "gettext": None, "ngettext": (1, 2)},
    )
    return {message for _file, _line, message, _comments, _context in found}


def chinese() -> Catalog:
    with (CATALOGS / "zh.po").open("rb") as file:
        return read_po(file, locale="zh")


def test_every_message_is_translated() -> None:
    catalog = chinese()
    missing = []
    for message in messages():
        entry = catalog.get(message if isinstance(message, str) else message[0])
        translated = entry is not None and (entry.string if isinstance(entry.string, str) else entry.string[0])
        if not translated:
            missing.append(message)
    assert not missing, f"add to web/translations/zh.po: {missing}"


def test_no_translation_is_of_a_message_that_is_gone() -> None:
    known = {message if isinstance(message, str) else message[0] for message in messages()}
    entries = [entry.id if isinstance(entry.id, str) else entry.id[0] for entry in chinese() if entry.id]
    assert [entry for entry in entries if entry not in known] == []


def test_translations_keep_the_placeholders() -> None:
    for entry in chinese():
        if not entry.id:
            continue
        source = entry.id if isinstance(entry.id, str) else entry.id[-1]
        target = entry.string if isinstance(entry.string, str) else entry.string[0]
        assert set(PLACEHOLDER.findall(source)) == set(PLACEHOLDER.findall(target)), source


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [("zh-CN,zh;q=0.9", "zh-CN"), ("zh-TW", "zh-CN"), ("en-GB,en;q=0.8", "en"), ("fr", "zh-CN"), ("", "zh-CN")],
)
def test_the_browser_says_which_language(client: FlaskClient, accepted: str, expected: str) -> None:
    page = client.get("/", headers={"Accept-Language": accepted})
    assert f'<html lang="{expected}">' in page.text


def test_the_reader_can_choose_another(client: FlaskClient) -> None:
    answer = client.get("/language/zh?next=/nothing%3Fq%3D1")
    assert (answer.status_code, answer.location) == (303, "/nothing?q=1")
    assert '<html lang="zh-CN">' in client.get("/").text
    client.get("/language/en")
    assert '<html lang="en">' in client.get("/").text
    assert client.get("/language/xx").status_code == 404


@pytest.mark.parametrize(
    "target", ["//evil.example", "https://evil.example/", "/\\evil.example", "javascript:x", "/%0d%0aX:"]
)
def test_choosing_a_language_leads_nowhere_else(client: FlaskClient, target: str) -> None:
    assert client.get("/language/zh", query_string={"next": target.replace("%0d%0a", "\r\n")}).location == "/"


def test_a_portal_of_one_language_offers_no_other(client: FlaskClient, engine: Engine) -> None:
    control.write_portal(engine, control.PortalSettings(languages=("en",)))
    page = client.get("/", headers={"Accept-Language": "zh-CN"}).text
    assert '<html lang="en">' in page
    assert "/language/zh" not in page
