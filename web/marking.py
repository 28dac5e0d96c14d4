"""Where the reader's words stand in a text: query words in, character spans out.

Words and text are folded one character to one (case, full and half width, and whatever variants are given), so a
span found in the folded text is the same span in the original one. Words of letters or digits only match whole
words; Chinese words match wherever they stand, since nothing separates them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

Span = tuple[int, int]

_MAX_WORDS = 64
"""More words than a reader means; a longer query is marked by its first ones."""

_ALPHABETIC = r"[^\W_\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
"""A letter or digit of a script that separates its words (not Chinese, Japanese or Korean)."""


def _width_folding() -> dict[int, int]:
    """Full-width and half-width forms whose NFKC form is one single character."""
    folding = {0x3000: 0x20}
    for code in range(0xFF01, 0xFFEF):
        folded = unicodedata.normalize("NFKC", chr(code))
        if len(folded) == 1 and folded != chr(code):
            folding[code] = ord(folded.lower()) if len(folded.lower()) == 1 else ord(folded)
    return folding


_WIDTH = _width_folding()


class WordMarker:
    """Finds a query's words in texts."""

    def __init__(self, words: Iterable[str], variants: Mapping[int, int] | None = None) -> None:
        """`variants` maps code points that mean the same (traditional to simplified) to one of them."""
        self._folding = {**(variants or {}), **_WIDTH}
        folded = {self._fold(word).strip() for word in words}
        chosen = sorted((word for word in folded if _says_something(word)), key=lambda word: (-len(word), word))
        self._pattern = re.compile("|".join(map(_as_pattern, chosen[:_MAX_WORDS]))) if chosen else None

    def __bool__(self) -> bool:
        return self._pattern is not None

    def spans(self, text: str) -> Iterator[Span]:
        """Start and end of each occurrence, in order, none overlapping."""
        if self._pattern is None:
            return
        for match in self._pattern.finditer(self._fold(text)):
            yield match.span()

    def _fold(self, text: str) -> str:
        lowered = text.lower()
        if len(lowered) != len(text):
            # A few letters (İ) grow when lowered; positions matter more than those.
            lowered = "".join(low if len(low := char.lower()) == 1 else char for char in text)
        return lowered if lowered.isascii() else lowered.translate(self._folding)


def _says_something(word: str) -> bool:
    return any(char.isalnum() for char in word)


def _as_pattern(word: str) -> str:
    """The word itself; spaces in it match any white space, alphabetic ends only match at a word's end."""
    body = r"\s+".join(map(re.escape, word.split()))
    before = f"(?<!{_ALPHABETIC})" if re.match(_ALPHABETIC, word[0]) else ""
    after = f"(?!{_ALPHABETIC})" if re.match(_ALPHABETIC, word[-1]) else ""
    return f"{before}{body}{after}"
