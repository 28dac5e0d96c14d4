from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from services.cron import next_due, parse_cron, parse_zone
from services.errors import ConfigurationError

DST_CASES = json.loads((Path(__file__).parent / "cases" / "c53_dst.json").read_text())


def due_times(cron: str, zone: str, after: datetime, until: datetime) -> list[datetime]:
    found = []
    while (after := next_due(parse_cron(cron), ZoneInfo(zone), after)) < until:
        found.append(after)
    return found


def local_times(cron: str, zone: str, start: str, days: int) -> list[datetime]:
    """The due times of some local days, as the clock on the wall shows them."""
    first = datetime.combine(date.fromisoformat(start), datetime.min.time(), ZoneInfo(zone))
    last = datetime.combine(date.fromisoformat(start) + timedelta(days=days), datetime.min.time(), ZoneInfo(zone))
    found = due_times(cron, zone, first.astimezone(UTC) - timedelta(seconds=1), last.astimezone(UTC))
    return [instant.astimezone(ZoneInfo(zone)) for instant in found]


@pytest.mark.parametrize("case", DST_CASES, ids=lambda case: f"{case['zone']} {case['cron']} {case['start']}")
def test_every_local_day_has_exactly_one_daily_run_also_when_clocks_change(case: dict[str, Any]) -> None:
    local = local_times(case["cron"], case["zone"], case["start"], case["days"])
    expected = [date.fromisoformat(case["start"]) + timedelta(days=n) for n in range(case["days"])]
    assert Counter(instant.date() for instant in local) == dict.fromkeys(expected, 1)


@pytest.mark.parametrize(
    "zone", ["America/Sao_Paulo", "America/Havana", "Asia/Beirut", "Africa/Cairo", "Australia/Lord_Howe"]
)
@pytest.mark.parametrize("cron", ["0 0 * * *", "30 0 * * *", "15 2 * * *", "30 23 * * *", "0 12 * * *"])
def test_a_whole_year_has_one_run_a_day_in_zones_that_change_at_odd_hours(zone: str, cron: str) -> None:
    local = local_times(cron, zone, "2018-01-01", 365)
    assert len(local) == len({instant.date() for instant in local}) == 365


def test_a_time_that_does_not_exist_is_due_when_the_clock_has_jumped() -> None:
    (spring,) = local_times("30 2 * * *", "Europe/Berlin", "2026-03-29", 1)
    assert spring.isoformat() == "2026-03-29T03:30:00+02:00"


def test_a_time_that_exists_twice_is_due_the_first_time() -> None:
    (autumn,) = local_times("30 2 * * *", "Europe/Berlin", "2026-10-25", 1)
    assert autumn.isoformat() == "2026-10-25T02:30:00+02:00"


def test_schedules_of_every_hour_go_on_through_the_hour_that_comes_twice() -> None:
    autumn = local_times("*/30 * * * *", "Europe/Berlin", "2026-10-25", 1)
    spring = local_times("*/30 * * * *", "Europe/Berlin", "2026-03-29", 1)
    assert (len(autumn), len(spring)) == (50, 46)
    for local in (autumn, spring):
        instants = [instant.astimezone(UTC) for instant in local]
        assert {later - earlier for earlier, later in pairwise(instants)} == {timedelta(minutes=30)}


@pytest.mark.parametrize(
    ("cron", "after", "due"),
    [
        ("*/15 * * * *", "2026-03-01T12:00:00", "2026-03-01T12:15:00"),
        ("0 0 1 * *", "2026-01-31T23:59:59", "2026-02-01T00:00:00"),
        ("30 3 * * 1-5", "2026-03-06T03:30:00", "2026-03-09T03:30:00"),
        ("30 3 * * mon-fri", "2026-03-06T03:30:00", "2026-03-09T03:30:00"),
        ("0 6 * * 7", "2026-03-02T00:00:00", "2026-03-08T06:00:00"),
        ("0 6 * * fri-sun", "2026-03-02T00:00:00", "2026-03-06T06:00:00"),
        ("0 6 13 * 5", "2026-03-01T00:00:00", "2026-03-06T06:00:00"),
        ("0 6 */2 * 5", "2026-03-01T00:00:00", "2026-03-13T06:00:00"),
        ("0 0 29 2 *", "2026-03-01T00:00:00", "2028-02-29T00:00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00:00", "2104-02-29T00:00:00"),
        ("5,35 8-10/2 * JAN,dec *", "2026-03-01T00:00:00", "2026-12-01T08:05:00"),
        ("50/5 * * * *", "2026-03-01T00:00:00", "2026-03-01T00:50:00"),
    ],
)
def test_the_next_due_time(cron: str, after: str, due: str) -> None:
    at = datetime.fromisoformat(after).replace(tzinfo=UTC)
    assert next_due(parse_cron(cron), ZoneInfo("UTC"), at) == datetime.fromisoformat(due).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "complaint"),
    [
        ("", "five fields"),
        ("* * * *", "five fields"),
        ("60 * * * *", "minute: a number from 0 to 59"),
        ("* 24 * * *", "hour: a number"),
        ("* * 0 * *", "day: a number"),
        ("* * * 13 *", "month: a number"),
        ("* * * * 8", "weekday: a number"),
        ("* * * * xyz", "weekday: a number"),
        ("1-x * * * *", "minute: a number"),
        ("*/0 * * * *", "minute: a number"),
        ("30-10 * * * *", "runs backwards"),
        ("0 0 30 2 *", "never comes"),
        ("١ * * * *", "minute: a number"),
        (", * * * *", "minute: a number"),
    ],
)
def test_a_wrong_timetable_is_refused_with_the_field_and_the_right_form(cron: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        parse_cron(cron)


@pytest.mark.parametrize("name", ["", "Asia", "Mars/Olympus", "../etc/passwd", "/etc/passwd"])
def test_a_wrong_time_zone_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="there is no time zone"):
        parse_zone(name)
