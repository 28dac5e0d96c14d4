"""Seeds that lead to private addresses, noticed while the owner still sees the form.

Only what needs no name server is looked at: addresses in any spelling, and localhost. The fetcher and the browser's
proxy check every address that they connect to; this one only says it sooner.
"""

from __future__ import annotations

from dataclasses import dataclass

from crawler.addresses import Resolver
from crawler.errors import RefusedAddress
from crawler.records import SiteSettings
from crawler.urls import host_of, normalize


@dataclass(frozen=True, slots=True)
class RefusedSeed:
    """A seed that the crawler would not ask, and the entry of `allow_private` that would let it."""

    url: str
    host: str
    """host:port."""


def refused_seeds(settings: SiteSettings) -> list[RefusedSeed]:
    """The seeds with a private address that the settings do not allow. Raises BadUrl."""
    allowed = frozenset(settings.allow_private)
    hosts = [(seed, host_of(normalize(seed))) for seed in settings.seeds]
    resolver = Resolver()
    try:
        return [RefusedSeed(seed, host) for seed, host in hosts if _is_refused(resolver, host, allowed)]
    finally:
        resolver.close()


def _is_refused(resolver: Resolver, host: str, allowed: frozenset[str]) -> bool:
    name, _colon, port = host.rpartition(":")
    try:
        resolver.check_unresolved(name, int(port), allowed)
    except RefusedAddress:
        return True
    return False
