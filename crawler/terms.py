"""The terms of texts: hashed as numbers for learning, and as words for people. Pure functions.

No dictionary and no segmenter: Chinese (and kana, hangul) is taken as characters and pairs of characters, everything
else as words. Width, case, and traditional characters are folded by one table, so that a whole page costs
a handful of array operations.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from crawler import han
from crawler.records import GuideWord

Indices: TypeAlias = npt.NDArray[np.uint32]
Numbers: TypeAlias = npt.NDArray[np.float32]

BITS: Final = 15
"""Hashed terms have numbers below 2^15: at 16, harvest was the same, and a run's memory twice as large."""
SIZE: Final = 1 << BITS

MAX_WORD_CHARS: Final = 24
"""What differs only after that is the same word."""
PROPOSED_WORDS: Final = 100
_MAX_GRAM: Final = 6
_MIN_BRANCHES: Final = 2
"""A Chinese string is a word only if at least so many different characters stand on each side of it."""

_PIECE_CHARS: Final = 1_000
_EDGE: Final = "<>"
"""Where a string of Chinese ends, anything could follow: as good as two different characters."""

_OTHER: Final = 0
_LETTER: Final = 1
_HAN: Final = 2

_RUN: Final = re.compile(r"[a-z0-9][a-z0-9+#._-]*[a-z0-9+#]|[㐀-鿿]+")
_STOP_WORDS: Final = frozenset(
    """
    a about after all also an and any are as at be been before but by can could do does each for from had has
    have he her his how i if in into is it its just like may more most must no not of on one only or other our
    out over see should so some such than that the their them then there these they this to two up use used
    using was we were what when where which while who will with would you your
    """.split()  # noqa: SIM905
)
_STOP_HAN: Final = frozenset(
    "的了和是在有与为及或也就都而及其这那此该之以于被把将会能可要请您你我他她它们个等并从到对中上下不如则且若很更最"
)


class HashedTerms(NamedTuple):
    """The terms of several texts, one after the other."""

    numbers: Indices
    """The term's number, below SIZE."""
    owner: npt.NDArray[np.intp]
    """Which of the texts it stands in."""


def fold(text: str) -> str:
    """Width, case, script and white space made one; for words, not for whole pages."""
    return " ".join(han.simplified(unicodedata.normalize("NFKC", text).lower()).split())


def hashed(texts: Sequence[str]) -> HashedTerms:
    """All terms of the texts: pairs of Chinese characters, and words."""
    joined = "\n".join(texts) + "\n"
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), np.uint32)
    lengths = np.fromiter((len(text) + 1 for text in texts), np.intp, len(texts))
    owners = np.repeat(np.arange(len(texts)), lengths)
    folded, kinds = _folding()
    low = np.minimum(codes, 0xFFFF)
    codes = np.where(codes < 0x10000, folded[low], codes)
    kind = kinds[low]
    pairs, pair_at = _pairs(codes, kind)
    words, word_at = _words(codes, kind)
    numbers = np.concatenate((pairs, words)) >> np.uint32(32 - BITS)
    return HashedTerms(numbers, owners[np.concatenate((pair_at, word_at))])


def _pairs(codes: Indices, kind: npt.NDArray[np.uint8]) -> tuple[Indices, npt.NDArray[np.intp]]:
    at = np.flatnonzero((kind[:-1] == _HAN) & (kind[1:] == _HAN))
    return _mixed(codes[at] * np.uint32(0x01000193) ^ codes[at + 1]), at


def _words(codes: Indices, kind: npt.NDArray[np.uint8]) -> tuple[Indices, npt.NDArray[np.intp]]:
    """Each run of letters and digits, hashed as the sum of its characters times a power by their place."""
    at = np.flatnonzero(kind == _LETTER)
    if not len(at):
        return np.empty(0, np.uint32), at
    is_first = np.diff(at, prepend=-2) != 1
    firsts = np.flatnonzero(is_first)
    place = np.arange(len(at)) - np.repeat(firsts, np.diff(firsts, append=len(at)))
    summands = codes[at] * _powers()[np.minimum(place, MAX_WORD_CHARS)]
    return _mixed(np.add.reduceat(summands, firsts, dtype=np.uint32)), at[firsts]


def _mixed(values: Indices) -> Indices:
    """Spread over all bits (the finalizer of MurmurHash3)."""
    values = (values ^ (values >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    values = (values ^ (values >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return values ^ (values >> np.uint32(16))


@cache
def _powers() -> Indices:
    powers = [pow(0x9E3779B1, place, 1 << 32) for place in range(MAX_WORD_CHARS)]
    return np.array([*powers, 0], np.uint32)


@cache
def _folding() -> tuple[Indices, npt.NDArray[np.uint8]]:
    """For every character of the basic plane: what it folds to, and what kind it is."""
    folded = np.arange(0x10000, dtype=np.uint32)
    kinds = np.zeros(0x10000, np.uint8)
    for code in range(0x10000):
        character = chr(code)
        plain = unicodedata.normalize("NFKC", character).lower()
        plain = han.simplified(plain) if len(plain) == 1 else character
        folded[code] = ord(plain)
        kinds[code] = _kind(plain)
    kinds[0xFFFF] = _HAN  # stands for all that lies beyond the basic plane
    return folded, kinds


def _kind(character: str) -> int:
    if not character.isalnum():
        return _OTHER
    return _HAN if ord(character) >= 0x2E80 else _LETTER


# Words for people.


def propose(examples: Iterable[str], background: Iterable[str], limit: int = PROPOSED_WORDS) -> tuple[GuideWord, ...]:
    """The terms that set the examples apart from the background (texts of anything else), heaviest first, weights to 1.

    A term is weighed by the log-odds ratio of the texts that hold it with a prior (Monroe, Colaresi and Quinn 2008,
    "Fightin' Words"), divided by its standard deviation. Chinese terms are character strings of two to six that
    vary on both sides (branching, as in new-word detection) and do not only occur within one longer term.
    """
    ours = [[_grams(piece) for piece in _pieces(fold(text))] for text in examples]
    others = [[_grams(piece) for piece in _pieces(fold(text))] for text in background]
    held, by_others = _held(ours), _held(others)
    least = 2 if len(ours) > 3 else 1
    documents = Counter(term for text in ours for term in {term for piece in text for term in piece.counts})
    scores = {
        term: _distinction(held[term], len(ours), by_others.get(term, 0.0), len(others))
        for term, n in documents.items()
        if n >= least
    }
    scores = {term: score for term, score in scores.items() if score > 1.0}
    words = _without_fragments(scores, [piece for text in ours for piece in text])
    best = sorted(words, key=lambda term: (-scores[term], term))[:limit]
    return tuple(GuideWord(term, round(scores[term] / scores[best[0]], 3)) for term in best)


class _Grams(NamedTuple):
    """The candidate terms of one text: how often each stands there, and between what."""

    counts: Counter[str]
    before: dict[str, set[str]]
    after: dict[str, set[str]]


def _grams(text: str) -> _Grams:
    grams = _Grams(Counter(), {}, {})
    words: list[str] = []
    end = -1
    for run in _RUN.finditer(text):
        piece = run.group()
        if piece[0] >= "㐀":
            _add_han(grams, piece)
            words = []
            continue
        words = [*words, piece] if run.start() == end + 1 and text[end : end + 1] == " " else [piece]
        end = run.end()
        for size in (1, 2, 3):
            phrase = words[-size:]
            if len(phrase) == size and _is_phrase(phrase):
                grams.counts[" ".join(phrase)] += 1
    return grams


def _is_phrase(words: Sequence[str]) -> bool:
    ends = {words[0], words[-1]}
    return not ends & _STOP_WORDS and all(len(word) > 1 and not word[0].isdigit() for word in ends)


def _add_han(grams: _Grams, piece: str) -> None:
    for start in range(len(piece) - 1):
        if piece[start] in _STOP_HAN:
            continue
        for end in range(start + 2, min(start + _MAX_GRAM, len(piece)) + 1):
            if piece[end - 1] in _STOP_HAN:
                continue
            gram = piece[start:end]
            grams.counts[gram] += 1
            grams.before.setdefault(gram, set()).update(piece[start - 1] if start else _EDGE)
            grams.after.setdefault(gram, set()).update(piece[end] if end < len(piece) else _EDGE)


def _pieces(text: str) -> list[str]:
    """Of about equal length, so that a long text does not hold a term because it holds everything."""
    return [text[start : start + _PIECE_CHARS] for start in range(0, len(text), _PIECE_CHARS)] or [""]


def _held(texts: Sequence[Sequence[_Grams]]) -> dict[str, float]:
    """By how many of the texts each term is held, a text counting by the share of its pieces that hold it."""
    held: dict[str, float] = {}
    for pieces in texts:
        for piece in pieces:
            for term in piece.counts:
                held[term] = held.get(term, 0.0) + 1 / len(pieces)
    return held


def _distinction(held: float, ours: int, held_by_others: float, others: int) -> float:
    """Log-odds ratio of holding the term, in standard deviations."""
    with_term = held + 0.5
    without = ours - held + 0.5
    others_with = held_by_others + 0.5
    others_without = others - held_by_others + 0.5
    ratio = math.log(with_term / without) - math.log(others_with / others_without)
    return ratio / math.sqrt(1 / with_term + 1 / without + 1 / others_with + 1 / others_without)


def _without_fragments(scores: dict[str, float], texts: Sequence[_Grams]) -> list[str]:
    """The terms that stand for themselves: Chinese ones with different neighbours on both sides, and none that
    nearly always is a part of one longer term."""
    count: Counter[str] = Counter()
    before: dict[str, set[str]] = {}
    after: dict[str, set[str]] = {}
    for text in texts:
        for term in scores.keys() & text.counts.keys():
            count[term] += text.counts[term]
            before.setdefault(term, set()).update(text.before.get(term, _EDGE))
            after.setdefault(term, set()).update(text.after.get(term, _EDGE))
    whole = [t for t in scores if min(len(before[t]), len(after[t])) >= _MIN_BRANCHES]
    swallowed: set[str] = set()
    for term in whole:
        for part in _parts(term):
            if part in scores and count[term] > 0.7 * count[part]:
                swallowed.add(part)
    return [term for term in whole if term not in swallowed]


def _parts(term: str) -> Iterable[str]:
    """The shorter terms within a term."""
    if term[0] >= "㐀":
        yield from (term[i:j] for i in range(len(term)) for j in range(i + 2, len(term) + 1) if j - i < len(term))
        return
    words = term.split(" ")
    yield from (
        " ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, len(words) + 1) if j - i < len(words)
    )
