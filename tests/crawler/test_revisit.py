"""Change rates judged from visits, and next visits."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from crawler.revisit import (
    ChangeHistory,
    Look,
    Population,
    changes_per_day,
    gain_days,
    interval_days,
    learn_population,
    next_visit_at,
    observe,
    share_out,
)

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
ANY = Population()


def history(changes_a_day: float, looks: int = 60, every_days: float = 1.0, seed: int = 1) -> ChangeHistory:
    """What is seen of a page that changes at random at that rate."""
    chance = random.Random(seed)
    seen = ChangeHistory()
    for n in range(looks):
        changed = chance.expovariate(changes_a_day) < every_days
        at = NOW + n * every_days * DAY
        seen = observe(seen, Look(at, at + every_days * DAY, changed))
    return seen


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_the_rate_is_found_from_regular_visits(rate: float) -> None:
    rates = [changes_per_day(history(rate, seed=seed), ANY) for seed in range(20)]
    assert rate / 1.6 < sum(rates) / len(rates) < rate * 1.6


def test_a_last_modified_that_proved_true_tells_more_than_that_there_was_a_change() -> None:
    blind = ChangeHistory()
    told = ChangeHistory(lastmod_proofs=3)
    look = Look(NOW, NOW + 30 * DAY, changed=True)
    honest = Look(NOW, NOW + 30 * DAY, True, NOW + 1 * DAY, NOW - 40 * DAY)
    assert changes_per_day(observe(told, honest), ANY) < changes_per_day(observe(blind, look), ANY)


def test_a_clock_that_goes_back_says_nothing() -> None:
    seen = history(0.1)
    assert observe(seen, Look(NOW, NOW - DAY, changed=True)) == seen


def test_a_history_goes_through_the_database() -> None:
    seen = history(0.1)
    kept = ChangeHistory.unpack(seen.pack(), seen.lastmod_proofs)
    assert changes_per_day(kept, ANY) == pytest.approx(changes_per_day(seen, ANY), rel=0.01)
    assert ChangeHistory.unpack(None) == ChangeHistory()


def test_visits_go_where_they_gain_freshness() -> None:
    hopeless, lively, still = history(8.0), history(0.1), history(0.002)
    histories = [hopeless, lively, still] * 30
    population = learn_population(histories, ANY)
    budget = share_out(histories, population, 1 / 20)
    never_probed = 1.0 - 1e-9
    days = {
        name: interval_days(seen, population, budget, never_probed)
        for name, seen in (("hopeless", hopeless), ("lively", lively), ("still", still))
    }
    assert days["lively"] < days["still"]
    assert days["lively"] < days["hopeless"]
    assert next_visit_at(lively, population, NOW, budget, never_probed) == NOW + days["lively"] * DAY


def test_more_visits_come_sooner() -> None:
    histories = [history(0.1, seed=seed) for seed in range(30)]
    poor, rich = (share_out(histories, ANY, 1 / days) for days in (60, 7))
    assert rich.price_days < poor.price_days


def test_a_visit_gains_nothing_at_once_and_never_more_than_a_page_s_whole_life() -> None:
    assert gain_days(0.1, 1e-6) == pytest.approx(0, abs=1e-6)
    assert gain_days(0.1, 1e6) == pytest.approx(10)
