"""How templates show times, sizes, numbers and addresses, in the reader's language."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from babel.core import Locale
from babel.dates import format_date, format_datetime, format_timedelta
from babel.numbers import format_decimal
from flask import Flask
from flask_babel import get_locale

from web.links import is_web_url, shown_url

_SIZE_UNITS = ("B", "KB", "MB", "GB", "TB")


def init_app(app: Flask) -> None:
    """Give templates the filters and tests of this module."""
    app.jinja_env.filters.update(
        number=number,
        size=size,
        moment=moment,
        day=day,
        ago=ago,
        iso=iso,
        duration=duration,
        seconds=seconds,
        rate=rate,
        shown_url=shown_url,
    )
    app.jinja_env.tests.update(web_url=is_web_url)


def number(value: float) -> str:
    """1,234."""
    return format_decimal(value, locale=_locale())


def size(count_bytes: int) -> str:
    """Bytes as people say them: 12 KB."""
    value = float(count_bytes)
    for unit in _SIZE_UNITS:
        if value < 1000 or unit == _SIZE_UNITS[-1]:
            break
        value /= 1000
    return f"{value:.0f} {unit}" if value >= 10 or unit == "B" else f"{value:.1f} {unit}"


def day(when: datetime | date) -> str:
    """A date: 30 Nov 2026, 2026年11月30日."""
    local = when.astimezone() if isinstance(when, datetime) else when
    return format_date(local, format="long" if _is_chinese() else "medium", locale=_locale())


def moment(when: datetime) -> str:
    """Date and time to the second in the machine's time zone, which is named."""
    local = when.astimezone()
    written = "yyyy年M月d日 HH:mm:ss" if _is_chinese() else "d MMM yyyy, HH:mm:ss"
    return f"{format_datetime(local, written, tzinfo=local.tzinfo, locale=_locale())} {_zone(local)}"


def seconds(value: float) -> str:
    """A short time in seconds: 0.012."""
    return format_decimal(value, format="0.000", locale=_locale())


def rate(per_s: float) -> str:
    """A rate with one decimal: 12.3."""
    return format_decimal(per_s, format="#,##0.0", locale=_locale())


def ago(when: datetime, now: datetime | None = None) -> str:
    """How long ago: 3 minutes ago."""
    return format_timedelta(when - (now or datetime.now(UTC)), add_direction=True, locale=_locale())


def duration(seconds: float) -> str:
    """How long: 2 minutes."""
    return format_timedelta(timedelta(seconds=seconds), threshold=1.5, locale=_locale())


def iso(when: datetime | date) -> str:
    """For the datetime attribute of `time`."""
    if not isinstance(when, datetime):
        return when.isoformat()
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def local_zone() -> str:
    """The machine's time zone by its name, UTC if that is not known."""
    try:
        name = str(Path("/etc/localtime").resolve()).partition("zoneinfo/")[2]
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return "UTC"


def _zone(local: datetime) -> str:
    offset = local.strftime("%z")
    return "UTC" if offset == "+0000" else f"UTC{offset[:3]}:{offset[3:]}"


def _locale() -> Locale:
    return get_locale() or Locale("en")


def _is_chinese() -> bool:
    return _locale().language == "zh"
