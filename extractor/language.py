"""The language of a text: by script where the script tells, else by py3langid's statistics."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from extractor.page import Page

SAMPLE_CHARS = 3000
MIN_LETTERS = 20
"""Fewer letters are no evidence; then what the page says of itself counts."""
LANGUAGES = (
    "ar", "bg", "ca", "cs", "da", "de", "el", "en", "es", "et", "fa", "fi", "fr", "he", "hi", "hr", "hu", "id",
    "it", "ja", "ko", "lt", "lv", "ms", "nl", "no", "pl", "pt", "ro", "ru", "sk", "sl", "sr", "sv", "th", "tr",
    "uk", "vi", "zh",
)  # fmt: skip
"""Those told apart; the model knows more, and then takes names of commands and files for Volapük."""
_HAN = re.compile(r"[\u3400-\u9fff\U00020000-\U0003ffff]")
_KANA = re.compile(r"[\u3041-\u30ff]")
_HANGUL = re.compile(r"[\uac00-\ud7af]")
_LETTER = re.compile(r"[^\W\d_]")
_CODE = re.compile(r"[a-z]{2}(?=$|[-_])", re.IGNORECASE)


def language_of(text: str, page: Page | None) -> str | None:
    """ISO 639-1, or None where there is too little text and the page does not say."""
    sample = text[:SAMPLE_CHARS]
    letters = len(_LETTER.findall(sample))
    han, kana, hangul = (len(script.findall(sample)) for script in (_HAN, _KANA, _HANGUL))
    if kana > 0.1 * (han + kana) and kana > 0.05 * letters:
        return "ja"
    if hangul > 0.3 * letters:
        return "ko"
    if han > 0.15 * letters:  # A Chinese character says as much as several Latin letters.
        return "zh"
    if letters < MIN_LETTERS:
        return _declared(page)
    return str(_identifier().classify(sample)[0])


def _declared(page: Page | None) -> str | None:
    match = _CODE.match(page.root.get("lang", "").strip()) if page is not None and page.root is not None else None
    return match[0].lower() if match else None


@cache
def _identifier() -> Any:
    # Its model takes a while to load, and most pages in Chinese never need it.
    import py3langid

    py3langid.set_languages(list(LANGUAGES))
    return py3langid
