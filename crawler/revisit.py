"""How often a page changes, judged from its visits, and when the next visit is worth most. Pure functions.

Changes are taken as a Poisson process (Cho and Garcia-Molina 2003, "Estimating Frequency of Change"). A visit tells
only whether the page changed since the last one, at irregular times. What that says of the page's rate is kept exactly:
as the log-likelihood of sixteen rates from one change in three years to eight a day, 32 bytes a page. How common each
rate is among the site's pages (`Population`) is learned from the pages themselves, so that a page is judged sensibly
after its first visits.

The next visit follows the policy of best average freshness ("Effective Page Refresh Policies for Web Crawlers", the
same authors, 2003): visits are not proportional to changes, and what changes faster than the budget follows gets
little. The budget enters as a price: the days of freshness that a visit has to gain, the same for all pages (`Budget`).
That the rate is not known for certain is part of the expected gain. And a page of which it is not known whether it is
worth visiting at all (a change at each of a few late visits can mean one a month or one an hour) is probed early:
without that, three fifths of what the oracle gains were lost at a visit a month.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import mul
from typing import Final, NamedTuple

RATES: Final = tuple(10 ** (-3 + 3.9 * k / 15) for k in range(16))
"""Changes a day, evenly spread on a logarithmic scale: neighbours differ by a factor of 1.8."""
MIN_INTERVAL_DAYS: Final = 1 / 24
MAX_INTERVAL_DAYS: Final = 730.0
"""A page is looked at every two years at least: gone pages are noticed, and rates change."""
MEMORY: Final = 1.0
"""What was seen loses so much of its weight with each further look: rates change too."""
ONE_MOMENT_DAYS: Final = 60 / 86_400
"""A Last-Modified nearer to the visit than this is the server's clock, not a change."""
LEARNING_ROUNDS: Final = 8
PROBE: Final = 1.25
"""A doubtful page is looked at again after so many times the price: what changes too fast to be worth a visit will have
changed, what is worth visiting most likely not."""
DOUBT: Final = 0.1
"""How probable both must be."""
SHARE_OF_PROBES: Final = 0.08
"""How much of the visits may be taken from pages of known rates. 0.15 and 0.3 lost more than they found out."""

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


@dataclass(frozen=True, slots=True)
class Budget:
    """What the visits of a site have to be worth."""

    price_days: float
    """Days of freshness that a visit must gain."""
    probing: float = 1.0
    """The share of doubtful pages' visits that are made early, to learn more."""


def share_out(histories: Sequence[ChangeHistory], population: Population, visits_a_page_and_day: float) -> Budget:
    """The budget that uses so many visits, from a fair sample of a site's histories. Good for days.

    The price lies where all probes can be paid; but it is not raised further than to take a part of the visits
    from the pages of known rates, and then only some of the doubtful pages are probed.
    """
    pages = [(_posterior(history, population), _is_seen(history)) for history in histories]
    wanted = visits_a_page_and_day * len(pages)
    low = _price(population, visits_a_page_and_day * (1 + SHARE_OF_PROBES))
    high = _price(population, visits_a_page_and_day * (1 - SHARE_OF_PROBES))
    while high > low * 1.01:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if _visits(_plans(pages, middle), 1.0) > wanted else (low, middle)
    plans = _plans(pages, high)
    few, many = (1.0, 1.0) if _visits(plans, 1.0) <= wanted else (0.0, 1.0)
    while many > few + 0.01:
        probing = (few + many) / 2
        few, many = (few, probing) if _visits(plans, probing) > wanted else (probing, many)
    return Budget(high, few)


def next_visit_at(
    history: ChangeHistory, population: Population, visited_at: datetime, budget: Budget, chance: float
) -> datetime:
    """When the page should be visited again. `chance`: any number of [0, 1), to decide who is probed."""
    return visited_at + timedelta(days=interval_days(history, population, budget, chance))


def interval_days(history: ChangeHistory, population: Population, budget: Budget, chance: float) -> float:
    """The time after which a visit has gained as much as it costs; sooner, by chance, where that is in doubt."""
    plan = _plan(_posterior(history, population), budget.price_days, _is_seen(history))
    return plan.probe if chance < budget.probing else plan.best


def gain_days(rate: float, days: float) -> float:
    """Days of freshness that one more visit gains if visits of a page with that rate are `days` apart: the derivative
    of average freshness by the number of visits."""
    changes = rate * days
    return (-math.expm1(-changes) - changes * math.exp(-changes)) / rate


_GAINS: Final = tuple(tuple(gain_days(rate, days) for rate in RATES) for days in _INTERVALS)
"""By interval, then by rate."""
_CERTAINTIES: Final = tuple(tuple(float(k == one) for k in range(len(RATES))) for one in range(len(RATES)))


class _Plan(NamedTuple):
    """Two intervals for a page; the same where there is no doubt."""

    best: float
    probe: float


def _plan(posterior: Sequence[float], price_days: float, is_seen: bool) -> _Plan:
    best = _best_interval(posterior, price_days)
    probe = max(PROBE * price_days, MIN_INTERVAL_DAYS)
    if best <= probe or not is_seen:
        return _Plan(best, best)
    worth = sum(posterior[: bisect_left(RATES, 1 / price_days)])
    return _Plan(best, probe if min(worth, 1 - worth) > DOUBT else best)


def _plans(pages: Sequence[tuple[Sequence[float], bool]], price_days: float) -> list[_Plan]:
    return [_plan(posterior, price_days, is_seen) for posterior, is_seen in pages]


def _visits(plans: Sequence[_Plan], probing: float) -> float:
    """Visits a day that the plans come to, if such a share of the possible probes is made."""
    return math.fsum(1 / (plan.best + probing * (plan.probe - plan.best)) for plan in plans)


def _is_seen(history: ChangeHistory) -> bool:
    return history.likelihood != _NOTHING_SEEN


def _price(population: Population, visits_a_page_and_day: float) -> float:
    """The price at which pages of known rates are visited so often."""
    low, high = 1e-4, MAX_INTERVAL_DAYS
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        visits = math.fsum(
            share / _best_interval(certain, middle)
            for share, certain in zip(population.shares, _CERTAINTIES, strict=True)
        )
        low, high = (middle, high) if visits > visits_a_page_and_day else (low, middle)
    return high


def _best_interval(posterior: Sequence[float], price_days: float) -> float:
    """Where the expected gain is the price, between two of _INTERVALS."""
    step = bisect_left(range(_STEPS), price_days, key=lambda at: _expected_gain(posterior, at))
    if step == 0:
        return MIN_INTERVAL_DAYS
    if step == _STEPS:
        return MAX_INTERVAL_DAYS
    low, high = _expected_gain(posterior, step - 1), _expected_gain(posterior, step)
    part = (price_days - low) / (high - low)
    return float(_INTERVALS[step - 1] * (_INTERVALS[step] / _INTERVALS[step - 1]) ** part)


def _expected_gain(posterior: Sequence[float], step: int) -> float:
    return math.fsum(map(mul, posterior, _GAINS[step]))


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
