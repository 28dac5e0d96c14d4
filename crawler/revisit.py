"""How often a page changes, judged from its visits, and when the next visit is worth most. Pure functions.

Changes are taken as a Poisson process (Cho and Garcia-Molina 2003, "Estimating Frequency of Change"). A visit tells only
whether the page changed since the last one, at irregular times. What that says of the page's rate is kept exactly: as
the log-likelihood of sixteen rates from one change in three years to eight a day, 32 bytes a page. How common each rate is among the site's
pages (`Population`) is learned from the pages themselves, so that a page is judged sensibly after its first visits.

The next visit follows the policy of best average freshness ("Effective Page Refresh Policies for Web Crawlers", the
same authors, 2003): visits are not proportional to changes, and what changes faster than any budget follows gets little.
The budget enters as a price: the days of freshness that a visit has to gain, the same for all pages (`price`).
That the rate is not known for certain is part of the expected gain.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

RATES: Final = tuple(10 ** (-3 + 3.9 * k / 15) for k in range(16))
"""Changes a day, evenly spread on a logarithmic scale: neighbours differ by a factor of 1.8."""
MIN_INTERVAL_DAYS: Final = 1 / 24
MAX_INTERVAL_DAYS: Final = 730.0
"""A page is looked at every two years at least: gone pages are noticed, and rates change."""
MEMORY: Final = 0.99
"""What was seen loses so much of its weight with each further look: rates change too."""
ONE_MOMENT_DAYS: Final = 60 / 86_400
"""A Last-Modified nearer to the visit than this is the server's clock, not a change."""
LEARNING_ROUNDS: Final = 8

_STEPS: Final = 128
_INTERVALS: Final = tuple(
    MIN_INTERVAL_DAYS * (MAX_INTERVAL_DAYS / MIN_INTERVAL_DAYS) ** (step / (_STEPS - 1)) for step in range(_STEPS)
)
_PACKED: Final = struct.Struct(f"<{len(RATES)}e")
_FLOOR: Final = -60.0
_NOTHING_SEEN: Final = (0.0,) * len(RATES)


@dataclass(frozen=True, slots=True)
class ChangeHistory:
    """What was seen of a page's changes."""

    likelihood: tuple[float, ...] = _NOTHING_SEEN
    """Of each of RATES, as a logarithm, 0 for the likeliest."""
    lastmod_proofs: int = 0
    """How often Last-Modified and digest agreed; -1: they contradicted each other, it is believed no more."""

    def pack(self) -> bytes:
        """The likelihood in 32 bytes, for the database."""
        return _PACKED.pack(*self.likelihood)

    @classmethod
    def unpack(cls, packed: bytes | None, lastmod_proofs: int = 0) -> ChangeHistory:
        """None: nothing was seen yet."""
        return cls(_PACKED.unpack(packed) if packed else _NOTHING_SEEN, lastmod_proofs)


@dataclass(frozen=True, slots=True)
class Look:
    """Two visits of a page in a row, and what they saw."""

    previous_at: datetime
    now: datetime
    changed: bool
    """Another digest; a 304 or the same digest is False."""
    last_modified: datetime | None = None
    """As sent with the newer visit."""
    previous_last_modified: datetime | None = None


@dataclass(frozen=True, slots=True)
class Population:
    """How common each of RATES is among a site's pages."""

    shares: tuple[float, ...] = (1 / len(RATES),) * len(RATES)


def observe(history: ChangeHistory, look: Look) -> ChangeHistory:
    """The history with one more look in it. A clock that stands still or goes back says nothing."""
    days = _days(look.now - look.previous_at)
    if days <= 0:
        return history
    proofs = _proofs(history.lastmod_proofs, look)
    if not look.changed:
        seen = [-rate * days for rate in RATES]
    elif proofs > 0 and look.last_modified is not None:
        quiet = min(max(_days(look.now - look.last_modified), 0.0), days)
        seen = [math.log(rate) - rate * quiet for rate in RATES]
    else:
        seen = [math.log(-math.expm1(-rate * days)) for rate in RATES]
    summed = [MEMORY * old + new for old, new in zip(history.likelihood, seen, strict=True)]
    best = max(summed)
    return ChangeHistory(tuple(max(value - best, _FLOOR) for value in summed), proofs)


def changes_per_day(history: ChangeHistory, population: Population) -> float:
    """The expected rate."""
    return math.fsum(share * rate for share, rate in zip(_posterior(history, population), RATES, strict=True))


def learn_population(histories: Iterable[ChangeHistory], population: Population) -> Population:
    """How common each rate is, from a fair sample of the site's histories (expectation maximisation)."""
    likelihoods = [[math.exp(value) for value in history.likelihood] for history in histories]
    for _ in range(LEARNING_ROUNDS):
        sums = [1.0] * len(RATES)  # one page's worth of doubt for each rate
        for likelihood in likelihoods:
            joint = [share * value for share, value in zip(population.shares, likelihood, strict=True)]
            total = math.fsum(joint)
            for k, value in enumerate(joint):
                sums[k] += value / total
        total = math.fsum(sums)
        population = Population(tuple(value / total for value in sums))
    return population


def next_visit_at(history: ChangeHistory, population: Population, visited_at: datetime, price_days: float) -> datetime:
    """When the page should be visited again, at that price of a visit (see `price`)."""
    return visited_at + timedelta(days=interval_days(history, population, price_days))


def interval_days(history: ChangeHistory, population: Population, price_days: float) -> float:
    """The time after which a visit has gained as much as it costs."""
    posterior = _posterior(history, population)
    step = bisect_left(range(_STEPS), price_days, key=lambda at: _expected_gain(posterior, at))
    if step == 0:
        return MIN_INTERVAL_DAYS
    if step == _STEPS:
        return MAX_INTERVAL_DAYS
    low, high = _expected_gain(posterior, step - 1), _expected_gain(posterior, step)
    part = (price_days - low) / (high - low)
    return _INTERVALS[step - 1] * (_INTERVALS[step] / _INTERVALS[step - 1]) ** part


def price(histories: Sequence[ChangeHistory], population: Population, visits_per_day: float) -> float:
    """The price of a visit (in days of freshness) at which these pages together are visited so often.

    A fair sample of a site's pages will do, with its share of the budget; the result is good for days.
    """
    curves = [
        [_expected_gain(posterior, step) for step in range(_STEPS)]
        for posterior in (_posterior(history, population) for history in histories)
    ]
    low, high = 1e-6, MAX_INTERVAL_DAYS
    while high > low * 1.01:
        middle = math.sqrt(low * high)
        visits = math.fsum(1 / _INTERVALS[min(bisect_left(curve, middle), _STEPS - 1)] for curve in curves)
        low, high = (middle, high) if visits > visits_per_day else (low, middle)
    return high


def gain_days(rate: float, days: float) -> float:
    """Days of freshness that one more visit gains if visits of a page with that rate are `days` apart: the derivative of
    average freshness by the number of visits."""
    changes = rate * days
    return (-math.expm1(-changes) - changes * math.exp(-changes)) / rate


_GAINS: Final = tuple(tuple(gain_days(rate, days) for rate in RATES) for days in _INTERVALS)
"""By interval, then by rate."""


def _expected_gain(posterior: Sequence[float], step: int) -> float:
    return sum(share * gain for share, gain in zip(posterior, _GAINS[step], strict=True))


def _posterior(history: ChangeHistory, population: Population) -> list[float]:
    """The probability of each rate."""
    joint = [share * math.exp(value) for share, value in zip(population.shares, history.likelihood, strict=True)]
    total = math.fsum(joint)
    return [value / total for value in joint]


def _proofs(proofs: int, look: Look) -> int:
    """How far Last-Modified can be believed after this look."""
    if proofs < 0 or look.last_modified is None:
        return proofs
    is_since = look.last_modified > look.previous_at
    if not look.changed:
        has_moved = look.previous_last_modified not in (None, look.last_modified)
        return -1 if has_moved or is_since else proofs
    if abs(_days(look.now - look.last_modified)) < ONE_MOMENT_DAYS:
        return proofs
    return min(proofs + 1, 100) if is_since and look.last_modified <= look.now else -1


def _days(span: timedelta) -> float:
    return span.total_seconds() / 86_400
