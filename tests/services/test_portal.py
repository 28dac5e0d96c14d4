"""The portal file: what it declares comes about, what is exported comes back, what is wrong is named."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from crawler.records import RenderMode, SiteScope, SiteSettings
from services import control
from services.errors import ConfigurationError
from services.portal import apply, export, parse_portal_file, read_portal_file
from services.stack import SAMPLE_PORTAL

EVERYTHING = """
name = "渔业资讯"
tagline = "一网打尽"
languages = ["zh"]

[[site]]
key = "fish"
name = "渔网"
seeds = ["https://www.fish.example/", "https://www.fish.example/\\u007f"]
strategy = "best-first"
render = "never"
delay_s = 2.5
headers = [["X-Reader", 'says "hello"\\']]
allow_private = ["10.0.0.5:80"]
proxy = "socks5h://127.0.0.1:9050"
enabled = false
schedule = { cron = "0 3 * * *", time_zone = "Asia/Shanghai" }

[site.scope]
hosts = ["*.fish.example"]
include = ["/news/*"]
exclude = ["/drafts/*"]
prefix = true
max_depth = 3
max_pages = 1000

[[site]]
seeds = ["https://boats.example/harbour/index.html"]
scope = { prefix = true }
schedule = { interval_s = 3600.0, enabled = false }
"""


def test_a_file_declares_portal_sites_and_schedules(engine: Engine) -> None:
    fish, boats = apply(engine, parse_portal_file(EVERYTHING, "fish.toml"))
    assert control.read_portal(engine).name == "渔业资讯"
    settings = control.get_site(engine, fish).settings
    assert settings.render is RenderMode.NEVER
    assert settings.scope == SiteScope(("*.fish.example",), ("/news/*",), ("/drafts/*",), True, 3, 1000)
    assert settings.headers == (("X-Reader", 'says "hello"\\'),)
    assert control.get_site(engine, boats).key == "boats.example:443/harbour/"
    kept = control.get_schedule(engine, fish)
    assert kept is not None
    assert kept.schedule == control.Schedule(cron="0 3 * * *", time_zone="Asia/Shanghai")


def test_applying_again_changes_nothing(engine: Engine) -> None:
    file = parse_portal_file(EVERYTHING, "fish.toml")
    first = apply(engine, file)
    before = (control.list_schedules(engine), [site.settings for site in control.list_sites(engine)])
    assert apply(engine, file) == first
    assert (control.list_schedules(engine), [site.settings for site in control.list_sites(engine)]) == before


def test_what_is_exported_applies_to_the_same(engine: Engine) -> None:
    file = parse_portal_file(EVERYTHING, "fish.toml")
    apply(engine, file)
    again = parse_portal_file(export(engine), "export")
    assert again.portal == file.portal
    assert {site.key: site for site in again.sites} == {site.key: site for site in file.sites}


def test_an_export_of_an_empty_portal_can_be_applied(engine: Engine) -> None:
    assert apply(engine, parse_portal_file(export(engine), "export")) == []


def test_sites_that_a_file_does_not_name_stay(engine: Engine) -> None:
    other = control.create_or_update(engine, "other", SiteSettings(("https://other.example/",)))
    apply(engine, parse_portal_file(EVERYTHING, "fish.toml"))
    assert control.get_site(engine, other).key == "other"


def test_a_schedule_that_is_no_longer_declared_is_gone(engine: Engine) -> None:
    apply(engine, parse_portal_file(EVERYTHING, "fish.toml"))
    without = "\n".join(line for line in EVERYTHING.splitlines() if not line.startswith("schedule"))
    apply(engine, parse_portal_file(without, "fish.toml"))
    assert control.list_schedules(engine) == []


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("name == 1", r"p\.toml is not TOML"),
        ("nmae = 'x'", r"p\.toml: there is no setting 'nmae'; there are name, tagline"),
        ("site = 3", r"p\.toml: sites are written as \[\[site\]\] tables"),
        ("[[site]]\nname = 'x'", r"p\.toml: site 1: seeds: "),
        ("[[site]]\nseeds = ['ftp://x/']", r"p\.toml: site 1: seeds: .*https://www\.example\.cn/"),
        ("[[site]]\nseeds = ['http://x.example/']\nrendr = 'auto'", r"site 1: there is no setting 'rendr'"),
        ("[[site]]\nseeds = ['http://x.example/']\nrender = 'maybe'", r"site 1: render: .*'auto'.*'maybe'"),
        ("[[site]]\nseeds = ['http://x.example/']\nkey = 3", r"site 1: key: a text"),
        ("[[site]]\nseeds = ['http://x.example/']\nschedule = 'daily'", r"site 1: schedule: written as"),
        ("[[site]]\nseeds = ['http://x.example/']\nschedule = {cronn = 'x'}", r"schedule: there is no setting 'cronn'"),
        ("[[site]]\nseeds = ['http://x.example/']\nschedule = {}", r"schedule: either cron or interval_s"),
        ("[[site]]\nseeds = ['http://x.example/']\nschedule = {cron = 7}", r"schedule: cron: .*got 7"),
        ("[[site]]\nseeds = ['http://x.example/']\n" * 2, r"p\.toml: two sites are called x\.example:80"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        parse_portal_file(text, "p.toml")


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_portal_file(tmp_path / "none.toml")


def test_the_sample_portal_is_about_the_sample_site() -> None:
    file = read_portal_file(SAMPLE_PORTAL, sample="127.0.0.1:20123")
    assert file.sites[0].settings.seeds == ("http://127.0.0.1:20123/",)
    assert file.sites[0].settings.allow_private == ("127.0.0.1:20123",)
    with pytest.raises(ConfigurationError, match="plumbline up --sample"):
        read_portal_file(SAMPLE_PORTAL)


@pytest.mark.parametrize("of", [control.PortalSettings, SiteSettings, SiteScope, control.Schedule])
def test_every_key_of_the_file_is_documented(of: type) -> None:
    text = (SAMPLE_PORTAL.parent / "docs" / "portal.md").read_text("utf-8")
    names = [f"scope.{field.name}" if of is SiteScope else field.name for field in fields(of)]
    missing = [name for name in names if f"`{name}`" not in text and not re.search(rf"\b{name} =", text)]
    assert missing == []
