"""What a page states for machines: meta tags and JSON-LD, as values by name. What they are worth others judge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from extractor.page import Page, one_line

MAX_KEYWORDS = 20
MAX_KEYWORD_CHARS = 40
MAX_DESCRIPTION_CHARS = 1000
_KEYWORD_SEPARATORS = str.maketrans(dict.fromkeys(",，;；、|｜\n\t", ","))


class Metadata:
    """The meta tags and JSON-LD of one page."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def meta(self, name: str) -> Iterator[str]:
        """The contents of `<meta name|property|itemprop=…>`, in order, empty ones left out."""
        yield from self._metas.get(name.lower(), ())

    def first(self, *names: str) -> str | None:
        """The first content of the first of these names that has one."""
        return next((value for name in names for value in self.meta(name)), None)

    def structured(self, name: str) -> Iterator[str]:
        """The values of a schema.org property in the page's JSON-LD; of objects their names."""
        for node in self._nodes:
            for value in _as_list(node.get(name)):
                text = value.get("name") if isinstance(value, dict) else value
                if isinstance(text, str) and one_line(text):
                    yield one_line(text)

    @property
    def description(self) -> str | None:
        text = self.first("description", "og:description", "twitter:description")
        return text[:MAX_DESCRIPTION_CHARS] if text else None

    @property
    def keywords(self) -> tuple[str, ...]:
        stated = [*self.meta("keywords"), *self.meta("news_keywords"), *self.meta("article:tag")]
        words = (one_line(word) for value in stated for word in value.translate(_KEYWORD_SEPARATORS).split(","))
        kept = dict.fromkeys(word for word in words if 0 < len(word) <= MAX_KEYWORD_CHARS)
        return tuple(kept)[:MAX_KEYWORDS]

    @cached_property
    def _metas(self) -> dict[str, list[str]]:
        metas: dict[str, list[str]] = {}
        for element in () if self._page.root is None else self._page.root.iter("meta"):
            content = one_line(element.get("content"))
            for key in ("name", "property", "itemprop"):
                if content and element.get(key):
                    metas.setdefault(element.get(key).strip().lower(), []).append(content)
        return metas

    @cached_property
    def _nodes(self) -> list[dict[str, Any]]:
        """The JSON-LD objects that describe the page: top level, arrays and @graph."""
        if self._page.root is None:
            return []
        scripts = self._page.root.xpath("//script[contains(@type, 'ld+json')]")
        return [node for script in scripts for node in _json_nodes("".join(script.itertext()))]


def _json_nodes(text: str) -> Iterator[dict[str, Any]]:
    try:
        data = json.loads(text.strip().rstrip(";"), strict=False)
    except (ValueError, RecursionError):
        return
    for node in _as_list(data):
        if isinstance(node, dict):
            yield node
            yield from (part for part in _as_list(node.get("@graph")) if isinstance(part, dict))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]
