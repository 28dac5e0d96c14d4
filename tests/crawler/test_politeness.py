from datetime import UTC, datetime

import pytest

from crawler.politeness import (
    MAX_ADAPTIVE_DELAY_S,
    MAX_BACKOFF_S,
    MAX_CRAWL_DELAY_S,
    MAX_RETRY_AFTER_S,
    backoff_s,
    delay_s,
    is_loopback,
    retry_after_s,
)

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
HOST = "h.cn:80"


def test_a_host_is_left_alone_for_the_crawlers_default() -> None:
    assert delay_s(HOST) == 1.0
    assert delay_s(HOST, default_s=3) == 3.0


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "[::1]:80", "localhost:1", "a.localhost:80", "127.9.9.9:80"])
def test_loopback_waits_nothing_unless_asked(host: str) -> None:
    assert is_loopback(host)
    assert delay_s(host, answer_s=5) == 0.0
    assert delay_s(host, robots_delay_s=2, answer_s=5) == 2.0
    assert delay_s(host, site_delay_s=1.5) == 1.5


@pytest.mark.parametrize("host", [HOST, "10.0.0.1:80", "localhost.cn:80", "1.127.0.0:80"])
def test_other_hosts_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


def test_the_owners_setting_decides_over_robots_and_answer_time() -> None:
    assert delay_s(HOST, site_delay_s=0.2, robots_delay_s=10, answer_s=10) == 0.2
    assert delay_s(HOST, site_delay_s=-1) == 0.0


def test_a_crawl_delay_is_kept_up_to_a_minute() -> None:
    assert delay_s(HOST, robots_delay_s=7) == 7.0
    assert delay_s(HOST, robots_delay_s=0) == 0.0
    assert delay_s(HOST, robots_delay_s=86_400) == MAX_CRAWL_DELAY_S


def test_a_slow_host_is_given_more_time() -> None:
    assert delay_s(HOST, answer_s=0.1) == 1.0
    assert delay_s(HOST, answer_s=4) == 8.0
    assert delay_s(HOST, answer_s=600) == MAX_ADAPTIVE_DELAY_S


def test_backing_off_doubles_with_jitter_and_ends() -> None:
    assert [backoff_s(n, None, 0.999999) for n in (1, 2, 3)] == pytest.approx([2, 4, 8], rel=1e-3)
    assert backoff_s(3, None, 0.0) == 4.0
    assert backoff_s(10_000, None, 0.999999) == pytest.approx(MAX_BACKOFF_S, rel=1e-3)
    assert backoff_s(0, None, 0.0) == backoff_s(1, None, 0.0)


def test_a_host_that_asks_for_quiet_gets_it_but_not_for_years() -> None:
    assert backoff_s(1, 30, 0.5) == 30
    assert backoff_s(9, 3, 0.0) > 3
    assert backoff_s(1, 1e9, 0.5) == MAX_RETRY_AFTER_S


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("3", 3.0),
        (" 1.5 ", 1.5),
        ("0", 0.0),
        ("99999999", MAX_RETRY_AFTER_S),
        ("9" * 5_000, MAX_RETRY_AFTER_S),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 12:00:30 -0000", 30.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Sun, 01 Mar 2099 11:00:00 GMT", MAX_RETRY_AFTER_S),
        ("in a while", None),
        ("-5", None),
        ("٣", None),
        ("Sun, 99 Mar 2026 12:00:30 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds
