"""The portal file: name, languages, sites and their schedules, declared in one TOML file.

    name = "茶山搜索"                     what control.PortalSettings has
    languages = ["zh", "en"]

    [[site]]
    key = "tea.example.cn:443"           optional: the host and port of the first seed (and its folder, with prefix)
    seeds = ["https://tea.example.cn/"]  … and all else that crawler.records.SiteSettings has
    scope.exclude = ["/drafts/*"]
    schedule = { cron = "0 3 * * *", time_zone = "Asia/Shanghai" }

`apply` makes the database say what the file says; doing it again changes nothing. Sites that the file does not name
are left alone. `{sample}` stands for the host and port of the sample site.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from sqlalchemy.engine import Engine

from crawler.records import SiteSettings
from services import control
from services.errors import ConfigurationError

SAMPLE = "{sample}"
_SITE_KEYS = ("key", "schedule")
_SCHEDULE = TypeAdapter(control.Schedule)


@dataclass(frozen=True, slots=True)
class PortalSite:
    """One site of a portal file."""

    key: str
    settings: SiteSettings
    schedule: control.Schedule | None


@dataclass(frozen=True, slots=True)
class PortalFile:
    """All that a portal file says."""

    portal: control.PortalSettings
    sites: tuple[PortalSite, ...]


def read_portal_file(path: Path, sample: str | None = None) -> PortalFile:
    """Read and check a portal file. Raises ConfigurationError, naming the key and the right form."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"{path} cannot be read: {exc}") from exc
    return parse_portal_file(text, path.name, sample)


def parse_portal_file(text: str, where: str, sample: str | None = None) -> PortalFile:
    """`read_portal_file` for its text; `where` is what messages call it."""
    if SAMPLE in text and sample is None:
        raise ConfigurationError(f"{where} is about the sample site ({SAMPLE}); apply it by: plumbline up --sample")
    try:
        raw = tomllib.loads(text.replace(SAMPLE, sample or ""))
    except tomllib.TOMLDecodeError as exc:
        raise ConfigurationError(f"{where} is not TOML: {exc}") from exc
    tables = raw.pop("site", [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise ConfigurationError(f"{where}: sites are written as [[site]] tables")
    portal = control.parse_portal(raw, where)
    sites = tuple(_read_site(table, f"{where}: site {number}") for number, table in enumerate(tables, 1))
    _refuse_twins(sites, where)
    return PortalFile(portal, sites)


def apply(engine: Engine, file: PortalFile) -> list[int]:
    """Make the database say what the file says; the ids of its sites, in its order."""
    control.write_portal(engine, file.portal)
    return [_apply_site(engine, site) for site in file.sites]


def export(engine: Engine) -> str:
    """The portal and all sites of the database as a portal file; applying it changes nothing."""
    parts = [_to_toml(control.portal_to_json(control.read_portal(engine)))]
    schedules = {kept.site_id: kept.schedule for kept in control.list_schedules(engine)}
    for site in control.list_sites(engine):
        table: dict[str, Any] = {"key": site.key, **control.site_settings_to_json(site.settings)}
        if site.site_id in schedules:
            table["schedule"] = _SCHEDULE.dump_python(schedules[site.site_id], mode="json", exclude_defaults=True)
        parts.append("[[site]]\n" + _to_toml(table))
    return "\n".join(part for part in parts if part)


def _read_site(table: Mapping[str, Any], where: str) -> PortalSite:
    settings = control.parse_site_settings({k: v for k, v in table.items() if k not in _SITE_KEYS}, where)
    key = table.get("key", control.site_key(settings))
    if not isinstance(key, str) or not key.strip():
        raise ConfigurationError(f"{where}: key: a text, such as www.example.cn:443 (got {key!r})")
    schedule = table.get("schedule")
    return PortalSite(key, settings, None if schedule is None else _read_schedule(schedule, f"{where}: schedule"))


def _read_schedule(raw: Any, where: str) -> control.Schedule:
    if not isinstance(raw, dict):
        raise ConfigurationError(f'{where}: written as {{ cron = "0 3 * * *" }} or {{ interval_s = 3600 }}')
    known = [field.name for field in fields(control.Schedule)]
    for key in raw:
        if key not in known:
            raise ConfigurationError(f"{where}: there is no setting {key!r}; there are {', '.join(known)}")
    try:
        schedule = _SCHEDULE.validate_python(raw)
    except ValidationError as exc:
        first = exc.errors()[0]
        raise ConfigurationError(f"{where}: {first['loc'][0]}: {first['msg']} (got {first['input']!r})") from exc
    control.check_schedule(schedule, where)
    return schedule


def _refuse_twins(sites: tuple[PortalSite, ...], where: str) -> None:
    seen: set[str] = set()
    for site in sites:
        if site.key in seen:
            raise ConfigurationError(f"{where}: two sites are called {site.key}; give one of them another key")
        seen.add(site.key)


def _apply_site(engine: Engine, site: PortalSite) -> int:
    site_id = control.create_or_update(engine, site.key, site.settings)
    if site.schedule is None:
        control.remove_schedule(engine, site_id)
    else:
        control.set_schedule(engine, site_id, site.schedule)
    return site_id


def _to_toml(table: Mapping[str, Any]) -> str:
    return "".join(f"{key} = {_toml_value(value)}\n" for key, value in table.items())


def _toml_value(value: Any) -> str:
    """A value on one line. JSON's strings, numbers and booleans are TOML's too, but for one control character."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_value(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
