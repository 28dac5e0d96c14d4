"""Timetables: five cron fields and a time zone in, the next due time out. Pure functions.

The fields are those of crontab(5): minute, hour, day of month, month, day of week (0 and 7 are Sunday; names of
months and days in English); `*`, lists, ranges and steps. If both days are restricted, either fits.

Clocks change: a time that does not exist on its day (spring) is due when the clock has jumped, one that exists
twice (autumn) the first time only, so a daily schedule has exactly one run on every local day. Schedules of every
hour (hour `*`) go on through the repeated hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from services.errors import ConfigurationError

LONGEST_WAIT_DAYS = 366 * 8 + 1
"""29 February comes after eight years at the latest."""
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, 1)}
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_RIGHT_FORM = "a timetable has five fields: minute, hour, day, month, weekday, such as 30 3 * * 1-5"


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed timetable."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    every_hour: bool
    either_day: bool
    """Both days are restricted: either fits."""


def parse_cron(text: str) -> Cron:
    """Raises ConfigurationError, naming the field and the right form."""
    parts = text.split()
    if len(parts) != 5:
        raise ConfigurationError(f"{_RIGHT_FORM} (got {text!r})")
    minute, hour, day, month, weekday = parts
    cron = Cron(
        minutes=_field("minute", minute, 0, 59, {}),
        hours=_field("hour", hour, 0, 23, {}),
        days=_field("day", day, 1, 31, {}),
        months=_field("month", month, 1, 12, _MONTHS),
        weekdays=frozenset(value % 7 for value in _field("weekday", weekday, 0, 7, _DAYS)),
        every_hour=hour == "*",
        either_day=not day.startswith("*") and not weekday.startswith("*"),
    )
    if next(_fitting_days(cron, date(2000, 1, 1)), None) is None:
        raise ConfigurationError(f"the timetable {text!r} never comes")
    return cron


def parse_zone(name: str) -> ZoneInfo:
    """Raises ConfigurationError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ConfigurationError(f"there is no time zone {name!r}; write a name such as Asia/Shanghai or UTC") from exc


def next_due(cron: Cron, zone: ZoneInfo, after: datetime) -> datetime:
    """The first due time after `after`, in UTC."""
    # A day before: the instant of a local time can fall on the next local day where the clock jumps at midnight.
    start = after.astimezone(zone).date() - timedelta(days=1)
    for day in _fitting_days(cron, start):
        later = [instant for instant in _instants(cron, zone, day) if instant > after]
        if later:
            return min(later)
    raise AssertionError("parse_cron lets no timetable pass that never comes")


def _field(name: str, text: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    values: set[int] = set()
    for part in text.split(","):
        values |= _range(name, part, low, high, names)
    return frozenset(values)


def _range(name: str, part: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    span, slash, step_text = part.partition("/")
    if span == "*":
        first, last = low, high
    else:
        first_text, dash, last_text = span.partition("-")
        first = _number(name, first_text, low, high, names)
        last = _number(name, last_text, low, high, names) if dash else (high if slash else first)
    step = _number(name, step_text, 1, high, {}) if slash else 1
    if last == 0 < first and names is _DAYS:
        last = 7  # fri-sun
    if first > last:
        raise ConfigurationError(f"timetable: {name}: {part!r} runs backwards")
    return set(range(first, last + 1, step))


def _number(name: str, text: str, low: int, high: int, names: dict[str, int]) -> int:
    value = names.get(text.lower())
    if value is None and text.isascii() and text.isdigit():
        value = int(text)
    if value is None or not low <= value <= high:
        raise ConfigurationError(f"timetable: {name}: a number from {low} to {high} (got {text!r}); {_RIGHT_FORM}")
    return value


def _fitting_days(cron: Cron, start: date) -> Iterator[date]:
    for offset in range(LONGEST_WAIT_DAYS):
        day = start + timedelta(days=offset)
        if day.month in cron.months and _fits_day(cron, day):
            yield day


def _fits_day(cron: Cron, day: date) -> bool:
    fits_day = day.day in cron.days
    fits_weekday = day.isoweekday() % 7 in cron.weekdays
    return fits_day or fits_weekday if cron.either_day else fits_day and fits_weekday


def _instants(cron: Cron, zone: ZoneInfo, day: date) -> Iterator[datetime]:
    """The due times of one local day, in UTC."""
    for hour in sorted(cron.hours):
        for minute in sorted(cron.minutes):
            local = datetime.combine(day, time(hour, minute), zone)
            instant = local.astimezone(UTC)
            if not cron.every_hour:
                yield instant
            elif instant.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None):
                yield instant
                yield local.replace(fold=1).astimezone(UTC)
