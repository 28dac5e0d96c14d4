"""What a visitor asks for, read from the address of a page of results, and the addresses of its variations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from urllib.parse import urlencode

from flask import url_for
from flask_babel import gettext as _

from services.control import Site
from services.search.records import MAX_QUERY_CHARS, SearchQuery, Sort
from services.search.syntax import parse

PAGES_SHOWN = 9
"""Numbers under the results: enough to see where one is."""

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]+")
_MAX_PAGE = 100_000
_PERIODS_DAYS = {"week": 7, "month": 31, "year": 366}

Parameters = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One line of a menu."""

    name: str
    address: str
    current: bool


@dataclass(frozen=True, slots=True)
class Menu:
    """One filter: its name, what is chosen (empty: nothing), and what can be."""

    name: str
    chosen: str
    choices: tuple[Choice, ...]
    dates: tuple[str, str] | None = None
    """For the menu of dates: the first and the last day, as they stand."""
    kept: Parameters = ()
    """What a form in the menu has to keep."""


def read_asked(parameters: Mapping[str, str]) -> SearchQuery:
    """A query from the parameters of an address. What makes no sense is left out."""
    text = _UNPRINTABLE.sub(" ", parameters.get("q", ""))[: MAX_QUERY_CHARS + 1].strip()
    return SearchQuery(
        text=text,
        page=_page(parameters.get("page", "")),
        sort=_sort(parameters.get("sort", "")),
        site=_value(parameters.get("site", "")),
        language=_value(parameters.get("lang", "")),
        published_from=_day(parameters.get("after", "")),
        published_until=_day(parameters.get("before", "")),
    )


class Asked:
    """A query as the page of its results shows it."""

    def __init__(self, query: SearchQuery, last_page: int, sites: Sequence[Site], today: date | None = None) -> None:
        self.query = query
        self.text = query.text
        self._last_page = last_page
        self._sites = sites
        self._today = today or datetime.now(UTC).date()

    @property
    def number(self) -> int:
        return self.query.page

    @property
    def first(self) -> int:
        """The number of the first result on this page."""
        return (self.query.page - 1) * self.query.size + 1

    @property
    def filtered(self) -> bool:
        query = self.query
        return any((query.site, query.language, query.published_from, query.published_until))

    @property
    def kept(self) -> Parameters:
        """What a new search in the box keeps of this one."""
        return tuple(pair for pair in _parameters(self.query) if pair[0] not in ("q", "page"))

    @property
    def without_filters(self) -> str:
        return _address(SearchQuery(self.text, sort=self.query.sort))

    @property
    def fewer_words(self) -> Choice | None:
        """The query without its last word, if it has several."""
        chunks = parse(self.text).chunks
        if len(chunks) < 2:
            return None
        shorter = " ".join(chunks[:-1])
        return Choice(shorter, _address(self._first_page(text=shorter)), current=False)

    @property
    def previous(self) -> str | None:
        return _address(replace(self.query, page=self.number - 1)) if self.number > 1 else None

    @property
    def next(self) -> str | None:
        return _address(replace(self.query, page=self.number + 1)) if self.number < self._last_page else None

    @property
    def pages(self) -> list[tuple[int, str]]:
        """The numbers around this page, with their addresses."""
        first = max(1, min(self.number - PAGES_SHOWN // 2, self._last_page - PAGES_SHOWN + 1))
        numbers = range(first, min(first + PAGES_SHOWN, self._last_page + 1))
        return [(number, _address(replace(self.query, page=number))) for number in numbers]

    @property
    def menus(self) -> list[Menu]:
        """The filters; that of the sites only if there are several."""
        menus = [self._dates(), self._languages(), self._order()]
        return [self._by_site(), *menus] if len(self._sites) > 1 else menus

    def snapshot(self, capture_id: int) -> str:
        """The address of a hit's snapshot, with this query's words marked."""
        return url_for("snapshot.frame", capture_id=capture_id, q=self.text)

    def _by_site(self) -> Menu:
        chosen = next((site.shown_name for site in self._sites if site.key == self.query.site), self.query.site or "")
        choices = [Choice(_("All sites"), self._with(site=None), not self.query.site)]
        choices += [
            Choice(site.shown_name, self._with(site=site.key), site.key == self.query.site) for site in self._sites
        ]
        return Menu(_("Site"), chosen, tuple(choices))

    def _languages(self) -> Menu:
        names = {"zh": _("Chinese"), "en": _("English")}
        current = self.query.language
        choices = [Choice(_("All languages"), self._with(language=None), not current)]
        choices += [Choice(name, self._with(language=code), code == current) for code, name in names.items()]
        return Menu(_("Language"), names.get(current or "", current or ""), tuple(choices))

    def _dates(self) -> Menu:
        names = {"week": _("Past week"), "month": _("Past month"), "year": _("Past year")}
        since, until = self.query.published_from, self.query.published_until
        choices, chosen = [], ""
        for period, name in names.items():
            start = self._today - timedelta(days=_PERIODS_DAYS[period])
            is_current = since == start and until is None
            chosen = name if is_current else chosen
            choices.append(Choice(name, self._with(published_from=start, published_until=None), is_current))
        any_time = Choice(_("Any time"), self._with(published_from=None, published_until=None), not (since or until))
        shown = (since.isoformat() if since else "", until.isoformat() if until else "")
        kept = tuple(pair for pair in _parameters(self._first_page()) if pair[0] not in ("after", "before"))
        return Menu(
            _("Date"), chosen or " – ".join(shown).strip() * bool(since or until), (any_time, *choices), shown, kept
        )

    def _order(self) -> Menu:
        names = {Sort.RELEVANCE: _("Best first"), Sort.NEWEST: _("Newest first"), Sort.OLDEST: _("Oldest first")}
        choices = tuple(Choice(name, self._with(sort=sort), sort is self.query.sort) for sort, name in names.items())
        chosen = "" if self.query.sort is Sort.RELEVANCE else names[self.query.sort]
        return Menu(_("Order"), chosen, choices)

    def _first_page(self, **changes: object) -> SearchQuery:
        return replace(self.query, page=1, **changes)  # type: ignore[arg-type]

    def _with(self, **changes: object) -> str:
        return _address(self._first_page(**changes))


def _address(query: SearchQuery) -> str:
    return f"{url_for('search.results')}?{urlencode(list(_parameters(query)))}"


def _parameters(query: SearchQuery) -> Iterator[tuple[str, str]]:
    """The inverse of `read_asked`; what stands at its default is left out."""
    yield "q", query.text
    if query.site:
        yield "site", query.site
    if query.language:
        yield "lang", query.language
    if query.published_from:
        yield "after", query.published_from.isoformat()
    if query.published_until:
        yield "before", query.published_until.isoformat()
    if query.sort is not Sort.RELEVANCE:
        yield "sort", query.sort.value
    if query.page > 1:
        yield "page", str(query.page)


def _page(text: str) -> int:
    return min(max(int(text), 1), _MAX_PAGE) if text.isascii() and text.isdecimal() and len(text) < 10 else 1


def _sort(text: str) -> Sort:
    return next((sort for sort in Sort if sort.value == text), Sort.RELEVANCE)


def _value(text: str) -> str | None:
    return _UNPRINTABLE.sub("", text).strip()[:300] or None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        return None
