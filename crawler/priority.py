"""The order of the frontier: a link in, a number out, higher is sooner. Pure functions.

Equal numbers are served in the order in which they were found. Advertisements come after everything else, and are
never dropped: what looks like one may be the page itself.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from crawler.records import Link, LinkKind, Strategy

ADVERTISEMENT_PENALTY: Final = 1_000.0
"""More than any depth amounts to."""

_DEPTH_COST: Final = 0.25
"""Best-first without a topic: four levels weigh as much as the best anchor text."""
_TELLING_CHARS: Final = 16
"""Anchor text of this length is a headline; menus and page numbers are shorter."""
_NOFOLLOW_COST: Final = 1.0

_AD_TEXT: Final = re.compile(
    r"\W*(?:广告|廣告|推广|推廣|赞助|贊助|广告位\w*|商业推广|ads?|adverts?|advertisements?|sponsored(?: links?)?"
    r"|promoted)\W*",
    re.IGNORECASE,
)
_AD_HOST: Final = re.compile(
    r"(?:^|\.)(?:ads?\d*|adservice|adserver|adclick|adx|banners?|doubleclick|googlesyndication|googleadservices"
    r"|pos\.baidu|cpro\.baidu|tanx|mediav|admaster|miaozhen|e\.qq|gdt\.qq)\.",
    re.IGNORECASE,
)
_AD_PATH: Final = re.compile(
    r"/(?:ads?|adv|adverts?|advertisements?|adserver|adclick|ad[_-]?(?:click|redirect|jump|track|view)|banners?"
    r"|guanggao|sponsored?)(?:/|\.(?:php|aspx?|jsp|do|html?)\b|$)",
    re.IGNORECASE,
)


def priority(strategy: Strategy, depth: int, link: Link | None = None, promise: float | None = None) -> float:
    """When a URL found by `link` (None: a seed, a sitemap, pushed) at `depth` is to be crawled.

    `promise` is how likely the link leads to the topic, 0 to 1 (`prediction`); best-first goes by it where it is known.
    """
    match strategy:
        case Strategy.BREADTH_FIRST:
            order = -float(depth)
        case Strategy.DEPTH_FIRST:
            order = float(depth)
        case Strategy.BEST_FIRST if promise is not None:
            order = promise
        case Strategy.BEST_FIRST:
            order = -_DEPTH_COST * depth + _promise(link)
    return order - ADVERTISEMENT_PENALTY if link is not None and is_advertisement(link) else order


def is_advertisement(link: Link) -> bool:
    """Whether text, relation, host or path say so."""
    if "sponsored" in link.rel or _AD_TEXT.fullmatch(link.text):
        return True
    target = urlsplit(link.url)
    return bool(_AD_HOST.search(target.netloc) or _AD_PATH.search(target.path))


def _promise(link: Link | None) -> float:
    """What the link itself lets one expect, 1 at best."""
    if link is None or link.kind is not LinkKind.LINK:
        return 1.0
    telling = min(len(link.text), _TELLING_CHARS) / _TELLING_CHARS
    return telling - (_NOFOLLOW_COST if link.nofollow else 0.0)
