"""The reader's query language: text in, a `ParsedQuery` out. Never fails: what is no operator is words.

    words   "a phrase"   -without   NOT without   this OR that   site:example.cn   intitle:word
    before:2024-03   after:2024-03-05   lang:zh   filetype:pdf

Quotes may be Chinese, colons full-width. `AND` means nothing, since all words are wanted anyway.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date

from services.search.records import MAX_QUERY_CHARS

# Controls, lone surrogates, noncharacters and zero-width signs: nobody means to type them.
_UNTYPED = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufeff\u200b-\u200f\u202a-\u202e\u2060\ufdd0-\ufdef\ufffe\uffff]"
)
# Quotes count only around a whole token: within running text they are what they are in any text.
_TOKEN = re.compile(
    r"""(?:^|(?<=\s))
        (?P<minus>-)?
        (?:(?P<operator>site|intitle|before|after|lang|filetype)[:：])?
        (?:"(?P<straight>[^"]*)" | “(?P<curly>[^”]*)” | 「(?P<corner>[^」]*)」 | 『(?P<double>[^』]*)』 | (?P<word>\S+))
        (?=\s|$)
    """,
    re.VERBOSE | re.IGNORECASE,
)
_QUOTES = '"“”「」『』'
_DATE = re.compile(r"(\d{4})(?:[-/.](\d{1,2})(?:[-/.](\d{1,2}))?)?")
_HAS_CONTENT = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Term:
    """A word or phrase that is wanted, or not, as it stands."""

    text: str
    in_title: bool = False


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """What the reader wants, taken apart."""

    chunks: tuple[str, ...] = ()
    """Words as typed, apart from each other; one may be missing."""
    required: tuple[tuple[Term, ...], ...] = ()
    """Of each group one must be there: phrases, intitle, alternatives."""
    excluded: tuple[Term, ...] = ()
    sites: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()
    file_types: tuple[str, ...] = ()
    published_from: date | None = None
    published_until: date | None = None
    """Inclusive."""
    was_cut: bool = False

    @property
    def text(self) -> str:
        """All words that are wanted, without operators: for highlighting, and for closeness."""
        return " ".join((*self.chunks, *(term.text for group in self.required for term in group)))

    @property
    def wants_something(self) -> bool:
        return bool(self.chunks or self.required)

    @property
    def has_filter(self) -> bool:
        dates = self.published_from or self.published_until
        return bool(self.sites or self.languages or self.file_types or dates)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    operator: str
    minus: bool
    quoted: bool
    raw: str


def parse(text: str) -> ParsedQuery:
    """Take a query apart."""
    typed = _UNTYPED.sub(" ", text).strip()
    collected = _Collector()
    for token in _tokens(typed[:MAX_QUERY_CHARS]):
        collected.take(token)
    return collected.parsed(was_cut=len(typed) > MAX_QUERY_CHARS)


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        phrases = (match["straight"], match["curly"], match["corner"], match["double"])
        phrase = next((phrase for phrase in phrases if phrase is not None), None)
        operator = (match["operator"] or "").lower()
        yield _Token(
            phrase if phrase is not None else match["word"].strip(_QUOTES),
            operator,
            bool(match["minus"]),
            phrase is not None,
            match[0],
        )


class _Collector:
    """Takes tokens one after another and remembers what they ask for."""

    def __init__(self) -> None:
        self._groups: list[list[Term]] = []
        self._is_plain: list[bool] = []
        self._excluded: list[Term] = []
        self._values: dict[str, list[str]] = {"site": [], "lang": [], "filetype": []}
        self._dates: dict[str, date] = {}
        self._or = False
        self._not = False

    def take(self, token: _Token) -> None:
        if not token.quoted and not token.operator and not token.minus and self._take_connective(token.text):
            return
        excluded = self._not or token.minus
        if token.operator and not excluded and self._take_filter(token):
            return
        term = Term(token.text, in_title=token.operator == "intitle")
        if token.operator and not term.in_title:
            term = Term(token.raw.lstrip("-"))
        if _HAS_CONTENT.search(term.text):
            if excluded:
                self._excluded.append(term)
            else:
                self._want(term, is_plain=not token.quoted and not term.in_title)
        self._or = self._not = False

    def parsed(self, was_cut: bool) -> ParsedQuery:
        groups = list(zip(self._groups, self._is_plain, strict=True))
        return ParsedQuery(
            chunks=tuple(group[0].text for group, is_plain in groups if is_plain and len(group) == 1),
            required=tuple(tuple(group) for group, is_plain in groups if not is_plain or len(group) > 1),
            excluded=tuple(self._excluded),
            sites=tuple(self._values["site"]),
            languages=tuple(self._values["lang"]),
            file_types=tuple(self._values["filetype"]),
            published_from=self._dates.get("after"),
            published_until=self._dates.get("before"),
            was_cut=was_cut,
        )

    def _take_connective(self, word: str) -> bool:
        if word in ("OR", "|", "||"):
            self._or = bool(self._groups)
        elif word == "NOT":
            self._not = True
        elif word not in ("AND", "&&", "&"):
            return False
        return True

    def _take_filter(self, token: _Token) -> bool:
        value = token.text.strip()
        if token.operator in self._values and _HAS_CONTENT.search(value):
            self._values[token.operator].append(value.lower())
            return True
        if token.operator in ("before", "after"):
            day = _day(value, last=token.operator == "before")
            if day:
                self._dates[token.operator] = day
            return day is not None
        return False

    def _want(self, term: Term, is_plain: bool) -> None:
        if self._or and self._groups:
            self._groups[-1].append(term)
        else:
            self._groups.append([term])
            self._is_plain.append(is_plain)


def _day(text: str, last: bool) -> date | None:
    """A year, month or day; its last or first day."""
    match = _DATE.fullmatch(text)
    if not match:
        return None
    year, month, day = (int(part) if part else None for part in match.groups())
    try:
        if day and month:
            return date(year or 1, month, day)
        if month:
            return date(year or 1, month, calendar.monthrange(year or 1, month)[1] if last else 1)
        return date(year or 1, 12 if last else 1, 31 if last else 1)
    except (ValueError, calendar.IllegalMonthError):
        return None
