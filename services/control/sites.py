"""Sites: what is crawled, as the owner set it. In and out: `SiteSettings`; from files and forms: plain JSON values."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from pydantic import ValidationError
from sqlalchemy.engine import Connection, Engine

from crawler import database
from crawler.archive.captures import withdraw
from crawler.database import SITE_SETTINGS, captures, rejections, runs, sites, urls
from crawler.errors import BadUrl
from crawler.records import RunState, SiteScope, SiteSettings
from crawler.scope import Scope
from crawler.urls import host_of, normalize
from services.errors import ConfigurationError, NotFound

DELETE_CHUNK = 5_000
"""Rows deleted in one transaction, so that crawlers hardly wait."""
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PROXY = re.compile(r"(https?|socks5h?)://[^\s/?#]+:\d{1,5}/?")
_HOST_PATTERN = re.compile(r"(\*\.)?(\[[0-9a-fA-F:.]+\]|[^\s/?#@*:]+)(:\d{1,5})?")
_HOST_AND_PORT = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s/:@]+):\d{1,5}")


@dataclass(frozen=True, slots=True)
class Site:
    """One site and what is known of it."""

    site_id: int
    key: str
    settings: SiteSettings
    needs_browser: bool | None
    created_at: datetime
    updated_at: datetime

    @property
    def shown_name(self) -> str:
        return self.settings.name or self.key


def site_key(settings: SiteSettings) -> str:
    """What a site is called by if nobody says otherwise: the host and port of its first seed, and its folder."""
    seed = normalize(settings.seeds[0])
    host = host_of(seed)
    if not settings.scope.prefix:
        return host
    path = re.sub(r"^[^/]*//[^/?#]*", "", seed).partition("?")[0]
    return host + path[: path.rfind("/") + 1]


def create_or_update(engine: Engine, key: str, settings: SiteSettings, now: datetime | None = None) -> int:
    """Keep a site's settings under its key; its id. Raises ConfigurationError, naming what is wrong with them."""
    check_site_settings(settings, f"site {key}")
    at = now or datetime.now(UTC)
    row = {"key": key, "settings": settings, "created_at": at, "updated_at": at}
    with database.write(engine) as conn:
        statement = database.insert(conn, sites).values(row)
        statement = statement.on_conflict_do_update(
            index_elements=["key"], set_={"settings": statement.excluded.settings, "updated_at": at}
        )
        return int(conn.execute(statement.returning(sites.c.id)).scalar_one())


def get_site(engine: Engine, site_id: int) -> Site:
    """Raises NotFound."""
    with database.read(engine) as conn:
        row = conn.execute(sa.select(sites).where(sites.c.id == site_id)).first()
    if row is None:
        raise NotFound(f"there is no site {site_id}")
    return _site(row)


def find_site(engine: Engine, key: str) -> Site | None:
    with database.read(engine) as conn:
        row = conn.execute(sa.select(sites).where(sites.c.key == key)).first()
    return None if row is None else _site(row)


def list_sites(engine: Engine) -> list[Site]:
    """All sites, by key."""
    with database.read(engine) as conn:
        return [_site(row) for row in conn.execute(sa.select(sites).order_by(sites.c.key))]


def delete_site(engine: Engine, site_id: int) -> None:
    """Forget a site with all that was known of it; its WARC files are not touched. Raises NotFound.

    Its run is ended first and its rows go in parts, so that crawlers are hardly held up. Cut off in between, the
    site is still there, and deleting it again goes on.
    """
    get_site(engine, site_id)
    _end_run(engine, site_id)
    of_site = sa.select(runs.c.id).where(runs.c.site_id == site_id)
    _withdraw_documents(engine, site_id)
    _delete_in_parts(engine, captures, captures.c.id, captures.c.site_id == site_id)
    _delete_in_parts(engine, urls, urls.c.id, urls.c.site_id == site_id)
    _delete_in_parts(engine, rejections, rejections.c.urlhash, rejections.c.run_id.in_(of_site))
    with database.write(engine) as conn:
        conn.execute(sa.delete(sites).where(sites.c.id == site_id))


def parse_site_settings(raw: Mapping[str, Any], where: str) -> SiteSettings:
    """Settings from a file or an API, checked. Raises ConfigurationError, naming the key and the right form."""
    _refuse_unknown_keys(raw, SiteSettings, where)
    scope = raw.get("scope")
    if isinstance(scope, Mapping):
        _refuse_unknown_keys(scope, SiteScope, f"{where}: scope")
    try:
        settings = SITE_SETTINGS.validate_python(dict(raw))
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        given = "" if first["type"] == "missing" else f" (got {first['input']!r})"
        raise ConfigurationError(f"{where}: {key}: {_in_words(first['msg'])}{given}") from exc
    check_site_settings(settings, where)
    return settings


def site_settings_to_json(settings: SiteSettings) -> dict[str, Any]:
    """Plain JSON values of what differs from the defaults; `parse_site_settings` gives the same settings back."""
    shown: dict[str, Any] = SITE_SETTINGS.dump_python(settings, mode="json", exclude_defaults=True)
    return shown


def check_site_settings(settings: SiteSettings, where: str) -> None:
    """Raise ConfigurationError for settings that no crawl could use."""
    if not settings.seeds:
        raise ConfigurationError(f"{where}: seeds: at least one URL is needed, such as https://www.example.cn/")
    for seed in settings.seeds:
        try:
            normalize(seed)
        except BadUrl as exc:
            raise ConfigurationError(
                f"{where}: seeds: {seed!r} is not a URL of the form https://www.example.cn/"
            ) from exc
    try:
        wrong = next((host for host in settings.scope.hosts if not _HOST_PATTERN.fullmatch(host)), None)
        Scope(settings)
    except BadUrl as exc:
        wrong = str(exc)
    if wrong is not None:
        raise ConfigurationError(
            f"{where}: scope.hosts: write host names such as img.example.cn, host:port, or *.example.cn (got {wrong!r})"
        )
    _check_numbers(settings, where)
    _check_request(settings, where)


def _check_numbers(settings: SiteSettings, where: str) -> None:
    scope = settings.scope
    if settings.delay_s is not None and not (math.isfinite(settings.delay_s) and settings.delay_s >= 0):
        raise ConfigurationError(f"{where}: delay_s: a number of seconds, 0 or more (got {settings.delay_s})")
    if scope.max_depth is not None and scope.max_depth < 0:
        raise ConfigurationError(f"{where}: scope.max_depth: a number of links, 0 or more (got {scope.max_depth})")
    if scope.max_pages is not None and scope.max_pages < 1:
        raise ConfigurationError(f"{where}: scope.max_pages: a number of pages, 1 or more (got {scope.max_pages})")


def _check_request(settings: SiteSettings, where: str) -> None:
    for name, value in settings.headers:
        if not _HEADER_NAME.fullmatch(name) or not value.isprintable():
            raise ConfigurationError(f"{where}: headers: a name and a value in one line each (got {name!r})")
    if settings.proxy is not None and not _PROXY.fullmatch(settings.proxy):
        raise ConfigurationError(f"{where}: proxy: http://host:port or socks5h://host:port")
    for pair in settings.allow_private:
        if not _HOST_AND_PORT.fullmatch(pair):
            raise ConfigurationError(f"{where}: allow_private: host:port, such as 10.0.0.5:80 (got {pair!r})")


def _refuse_unknown_keys(raw: Mapping[str, Any], of: type[SiteSettings] | type[SiteScope], where: str) -> None:
    known = [field.name for field in fields(of)]
    for key in raw:
        if key not in known:
            raise ConfigurationError(f"{where}: there is no setting {key!r}; there are {', '.join(known)}")


def _in_words(message: str) -> str:
    return message[:1].lower() + message[1:]


def _site(row: Any) -> Site:
    return Site(row.id, row.key, row.settings, row.needs_browser, row.created_at, row.updated_at)


def _end_run(engine: Engine, site_id: int) -> None:
    with database.write(engine) as conn:
        conn.execute(
            sa.update(runs)
            .where(runs.c.site_id == site_id, runs.c.state != RunState.FINISHED.value)
            .values(state=RunState.FINISHED.value, reason="the site was deleted", finished_at=datetime.now(UTC))
        )


def _withdraw_documents(engine: Engine, site_id: int) -> None:
    after = 0
    while True:
        with database.write(engine) as conn:
            part = (
                sa.select(urls.c.id)
                .where(urls.c.site_id == site_id, urls.c.id > after)
                .order_by(urls.c.id)
                .limit(DELETE_CHUNK)
            )
            ids = list(conn.execute(part).scalars())
            withdraw(conn, ids, datetime.now(UTC))
        if not ids:
            return
        after = ids[-1]


def _delete_in_parts(engine: Engine, table: sa.Table, key: sa.Column[Any], condition: sa.ColumnElement[bool]) -> None:
    while True:
        with database.write(engine) as conn:
            if not _delete_part(conn, table, key, condition):
                return


def _delete_part(conn: Connection, table: sa.Table, key: sa.Column[Any], condition: sa.ColumnElement[bool]) -> int:
    part = list(conn.execute(sa.select(key).where(condition).limit(DELETE_CHUNK)).scalars())
    if part:
        conn.execute(sa.delete(table).where(condition, key.in_(part)))
    return len(part)
