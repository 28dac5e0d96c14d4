"""How long a host is left alone: between requests, after failures, and because it asked. Pure functions.

Clock and chance come as arguments, so that every rule can be tested to the second.
"""

from __future__ import annotations

import ipaddress
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

MAX_CRAWL_DELAY_S: Final = 60.0
"""A robots.txt that asks for more is read as asking for this: at 60 s a host still gives 1,440 pages a day."""
ANSWER_TIME_FACTOR: Final = 2.0
"""A host that takes long to answer is left alone for this many times as long (Heritrix: 5, with one host a queue)."""
MAX_ADAPTIVE_DELAY_S: Final = 30.0
FIRST_BACKOFF_S: Final = 2.0
MAX_BACKOFF_S: Final = 1_800.0
MAX_RETRY_AFTER_S: Final = 3_600.0
"""An absurd Retry-After is looked at again after an hour."""

_SECONDS: Final = re.compile(r"\d+(?:\.\d+)?", re.ASCII)


def delay_s(
    host: str,
    *,
    site_delay_s: float | None = None,
    robots_delay_s: float | None = None,
    answer_s: float | None = None,
    default_s: float = 1.0,
) -> float:
    """Seconds between the end of one request to a host (`example.cn:80`) and the next.

    The owner's setting for the site decides; else what robots.txt asks for, up to a minute; else the crawler's
    default, none for loopback. A host that answers slowly (`answer_s`) is given more time in either of the last cases.
    """
    if site_delay_s is not None:
        return max(0.0, site_delay_s)
    if robots_delay_s is not None:
        asked = min(max(0.0, robots_delay_s), MAX_CRAWL_DELAY_S)
    elif is_loopback(host):
        return 0.0
    else:
        asked = default_s
    adaptive = min(ANSWER_TIME_FACTOR * (answer_s or 0.0), MAX_ADAPTIVE_DELAY_S)
    return max(asked, adaptive) if not is_loopback(host) else asked


def backoff_s(failures: int, retry_after: float | None, jitter: float) -> float:
    """Seconds to wait after `failures` failed requests in a row: doubling, with jitter, and never less than asked for.

    `jitter` is a random number of [0, 1): many URLs that failed together must not come back together.
    """
    doubled = min(FIRST_BACKOFF_S * 2.0 ** min(max(failures, 1) - 1, 30), MAX_BACKOFF_S)
    return max(doubled * (0.5 + jitter / 2), min(retry_after or 0.0, MAX_RETRY_AFTER_S))


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """Seconds that a Retry-After header asks for (RFC 9110 §10.2.3: a number or a date); None if it cannot be read."""
    if value is None:
        return None
    text = value.strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), MAX_RETRY_AFTER_S)
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return min(max(0.0, (at - now).total_seconds()), MAX_RETRY_AFTER_S)


def is_loopback(host: str) -> bool:
    """Whether `host:port` names this machine; no name is looked up."""
    name = host.rpartition(":")[0].strip("[]") or host
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
