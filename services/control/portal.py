"""How the portal presents itself: a typed record in the settings table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from pydantic import TypeAdapter, ValidationError
from sqlalchemy.engine import Engine

from crawler import database
from crawler.database import settings as settings_table
from services.errors import ConfigurationError

KEY = "portal"
LANGUAGES = ("zh", "en")


@dataclass(frozen=True, slots=True)
class PortalSettings:
    """What visitors see of the portal beside its results."""

    name: str = "Plumbline"
    tagline: str = ""
    """One line under the name on the start page."""
    footer: str = ""
    """Such as an ICP number."""
    languages: tuple[str, ...] = LANGUAGES
    """Languages that a reader may choose from, the first for those whose browser asks for none of them."""


_ADAPTER = TypeAdapter(PortalSettings)


def read_portal(engine: Engine) -> PortalSettings:
    """The portal's settings, or the defaults."""
    with database.read(engine) as conn:
        value = conn.execute(sa.select(settings_table.c.value).where(settings_table.c.key == KEY)).scalar()
    return PortalSettings() if value is None else _ADAPTER.validate_python(value)


def write_portal(engine: Engine, portal: PortalSettings) -> None:
    """Keep the portal's settings. Raises ConfigurationError."""
    _check(portal)
    row = {"key": KEY, "value": _ADAPTER.dump_python(portal, mode="json")}
    with database.write(engine) as conn:
        statement = database.insert(conn, settings_table).values(row)
        conn.execute(statement.on_conflict_do_update(index_elements=["key"], set_={"value": statement.excluded.value}))


def parse_portal(raw: Mapping[str, Any], where: str) -> PortalSettings:
    """Settings from a file. Raises ConfigurationError, naming the key and the right form."""
    known = [field.name for field in fields(PortalSettings)]
    for key in raw:
        if key not in known:
            raise ConfigurationError(f"{where}: there is no setting {key!r}; there are {', '.join(known)}")
    try:
        portal = _ADAPTER.validate_python(dict(raw))
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise ConfigurationError(f"{where}: {key}: {first['msg']} (got {first['input']!r})") from exc
    _check(portal)
    return portal


def portal_to_json(portal: PortalSettings) -> dict[str, Any]:
    """Plain JSON values of what differs from the defaults."""
    shown: dict[str, Any] = _ADAPTER.dump_python(portal, mode="json", exclude_defaults=True)
    return shown


def _check(portal: PortalSettings) -> None:
    if not portal.name.strip():
        raise ConfigurationError("portal: name: the portal needs a name")
    if not portal.languages or not set(portal.languages) <= set(LANGUAGES):
        raise ConfigurationError(f"portal: languages: one or more of {', '.join(LANGUAGES)}")
