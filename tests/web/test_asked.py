"""What a visitor asks for, and the addresses of its variations."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from urllib.parse import parse_qs, urlsplit

import pytest
from flask import Flask

from crawler.records import SiteSettings
from services.control import Site
from services.search.records import SearchQuery, Sort
from web.asked import Asked, read_asked

NOW = datetime(2026, 3, 5, tzinfo=UTC)
TODAY = NOW.date()
SITES = [Site(n, f"s{n}.example:80", SiteSettings(seeds=(f"http://s{n}.example/",)), None, NOW, NOW) for n in (1, 2)]


@pytest.fixture(autouse=True)
def in_a_request(app: Flask) -> Iterator[None]:
    with app.test_request_context(headers={"Accept-Language": "en"}):
        yield


def parameters(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}


def test_a_query_and_its_address_are_each_others_inverse() -> None:
    given = {
        "q": "龙井 -红茶",
        "site": "s1.example:80",
        "lang": "zh",
        "after": "2025-01-02",
        "sort": "newest",
        "page": "3",
    }
    asked = Asked(read_asked(given), last_page=9, sites=SITES, today=TODAY)
    assert parameters(asked.next or "") == {**given, "page": "4"}
    assert parameters(asked.previous or "") == {**given, "page": "2"}
    assert asked.first == 21


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"q": "a", "page": "0"}, SearchQuery("a")),
        ({"q": "a", "page": "-1"}, SearchQuery("a")),
        ({"q": "a", "page": "x"}, SearchQuery("a")),
        ({"q": "a", "page": "٣"}, SearchQuery("a")),
        ({"q": "a", "page": "99999999999999999999"}, SearchQuery("a")),
        ({"q": "a", "sort": "x", "after": "tomorrow", "before": "2025-13-01"}, SearchQuery("a")),
        ({"q": "a", "before": "2025-02-28"}, SearchQuery("a", published_until=date(2025, 2, 28))),
        ({"q": "\x00a\ud800\x1fb\n"}, SearchQuery("a b")),
        ({"q": "　"}, SearchQuery("")),
        ({}, SearchQuery("")),
    ],
)
def test_whatever_stands_in_an_address_is_read(given: dict[str, str], expected: SearchQuery) -> None:
    assert read_asked(given) == expected


def test_a_query_without_end_is_cut() -> None:
    assert len(read_asked({"q": "水" * 10_000}).text) == 501


def test_numbers_of_pages_stand_around_the_current_one() -> None:
    def numbers(current: int, last: int) -> list[int]:
        return [number for number, _ in Asked(SearchQuery("a", page=current), last, []).pages]

    assert numbers(1, 1) == [1]
    assert numbers(1, 3) == [1, 2, 3]
    assert numbers(1, 50) == list(range(1, 10))
    assert numbers(25, 50) == list(range(21, 30))
    assert numbers(50, 50) == list(range(42, 51))
    assert Asked(SearchQuery("a", page=50), 50, []).next is None
    assert Asked(SearchQuery("a"), 50, []).previous is None


def test_filters_start_again_at_the_first_page_and_keep_each_other() -> None:
    asked = Asked(SearchQuery("a", page=4, language="zh"), 9, SITES, TODAY)
    sites, dates, languages, _order = asked.menus
    assert [choice.name for choice in sites.choices] == ["All sites", "s1.example:80", "s2.example:80"]
    assert parameters(sites.choices[1].address) == {"q": "a", "lang": "zh", "site": "s1.example:80"}
    assert languages.chosen == "Chinese"
    assert parameters(dates.choices[1].address) == {"q": "a", "lang": "zh", "after": "2026-02-26"}
    assert dict(dates.kept) == {"q": "a", "lang": "zh"}
    assert parameters(asked.without_filters) == {"q": "a"}


def test_a_chosen_period_is_named() -> None:
    def chosen(since: date | None, until: date | None) -> str:
        query = SearchQuery("a", published_from=since, published_until=until)
        return Asked(query, 1, [], TODAY).menus[0].chosen

    assert chosen(None, None) == ""
    assert chosen(date(2026, 2, 26), None) == "Past week"
    assert chosen(date(2020, 1, 1), date(2020, 12, 31)) == "2020-01-01 – 2020-12-31"
    assert chosen(None, date(2020, 12, 31)) == "– 2020-12-31"


def test_a_portal_of_one_site_has_no_menu_of_sites() -> None:
    assert [menu.name for menu in Asked(SearchQuery("a"), 1, SITES[:1], TODAY).menus] == ["Date", "Language", "Order"]


def test_fewer_words_are_offered_where_there_are_several() -> None:
    fewer = Asked(SearchQuery("龙井 采摘 时间", sort=Sort.NEWEST), 1, []).fewer_words
    assert fewer is not None
    assert fewer.name == "龙井 采摘"
    assert Asked(SearchQuery("龙井"), 1, []).fewer_words is None
