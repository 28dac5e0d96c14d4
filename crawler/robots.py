"""Whether a URL may be fetched, by its host's robots.txt (RFC 9309): fetched, cached, kept, tried again.

In: a URL and a `FetchRequest` as template (site, allowed private hosts, proxy). Out: a `RobotsVerdict`. A plain 4xx
means no rules. 5xx, 429, silence and a cut body mean that the rules are not known: nothing is allowed until they
are, unless an older copy is at hand, which holds on.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from crawler import politeness, robots_rules, urls
from crawler.errors import BadUrl, FetchError, RefusedAddress
from crawler.records import Fault, FetchedPage, FetchErrorKind, FetchRequest, RobotsFile, Validators
from crawler.robots_rules import RobotsRules

LIFETIME_S: Final = 86_400.0
MIN_LIFETIME_S: Final = 3_600.0
"""Between these two, a Cache-Control of the file itself decides."""
MAX_REDIRECTS: Final = 5
MAX_HOSTS: Final = 5_000
"""Parsed files kept in memory; the others are loaded again when their host comes up."""
PARSE_IN_THREAD_FROM_BYTES: Final = 32_768
"""A file of 500 kB takes a tenth of a second to parse."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_AGE = re.compile(r"max-age\s*=\s*\"?(\d{1,9})", re.I)
_NO_CACHE = re.compile(r"\bno-(?:cache|store)\b", re.I)
_PRODUCT = re.compile(r"compatible;\s*([A-Za-z_-]+)")

Fetch = Callable[[FetchRequest], Awaitable[FetchedPage]]
Load = Callable[[str], Awaitable[RobotsFile | None]]
Save = Callable[[RobotsFile], Awaitable[None]]

NO_HOST = frozenset({FetchErrorKind.CONNECT, FetchErrorKind.DNS})

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RobotsVerdict:
    """What robots.txt says of one URL."""

    allowed: bool
    crawl_delay_s: float | None = None
    unreachable: bool = False
    """The rules are not known; ask again at `retry_at`."""
    retry_at: datetime | None = None
    line: str | None = None
    """The line that decided, with its number."""
    sitemaps: tuple[str, ...] = ()
    """The sitemaps that the file names."""


@dataclass(slots=True)
class _Known:
    """What is known of a host."""

    file: RobotsFile
    rules: RobotsRules | None
    """None: the file could not be had."""


class Robots:
    """The robots.txt files of all hosts: in memory, and kept through `load` and `save`."""

    def __init__(
        self,
        fetch: Fetch,
        load: Load,
        save: Save,
        user_agent: str,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self._fetch = fetch
        self._load = load
        self._save = save
        self._product = product_token(user_agent)
        self._clock = clock
        self._jitter = jitter
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._failures: dict[str, int] = {}
        self._asking: dict[tuple[str, frozenset[str], str | None], asyncio.Task[_Known]] = {}

    async def verdict(self, url: str, template: FetchRequest) -> RobotsVerdict:
        """What holds for a URL. Raises FetchError if the host cannot be reached, or may not be asked at all."""
        host = urls.host_of(url)
        known = self._known.get(host)
        if known is None or not self._holds(known.file):
            known = await self._ask_once(host, url, template)
        else:
            self._known.move_to_end(host)
        if known.rules is None:
            return RobotsVerdict(False, unreachable=True, retry_at=known.file.expires_at)
        allowed, line = known.rules.decide(_split(url)[1])
        return RobotsVerdict(allowed, known.rules.crawl_delay_s, line=line, sitemaps=known.rules.sitemaps)

    async def _ask_once(self, host: str, url: str, template: FetchRequest) -> _Known:
        """One request at a time for a host's file, shared by all who wait for it, whoever of them gives up."""
        key = (host, template.allow_private, template.proxy)
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.get_running_loop().create_task(self._look_up(host, url, template))
            task.add_done_callback(lambda task: self._asked(key, task))
        return await asyncio.shield(task)

    def _asked(self, key: tuple[str, frozenset[str], str | None], task: asyncio.Task[_Known]) -> None:
        del self._asking[key]
        if not task.cancelled():
            task.exception()  # Marked as seen: those who wait get it, if any of them still does.

    async def _look_up(self, host: str, url: str, template: FetchRequest) -> _Known:
        older = self._known.get(host) or await self._loaded(host)
        if older is not None and self._holds(older.file):
            return self._keep(older)
        file = await self._fetched(host, url, template)
        if file.status == 0 and older is not None and older.rules is not None:
            # RFC 9309 §2.4: an older copy may be used for longer while the file cannot be reached.
            log.info("robots.txt cannot be read, the older copy holds on", host=host)
            file = replace(older.file, expires_at=file.expires_at)
        known = _Known(file, await self._rules(file))
        await self._save(file)
        return self._keep(known)

    async def _loaded(self, host: str) -> _Known | None:
        file = await self._load(host)
        return None if file is None else _Known(file, await self._rules(file))

    def _holds(self, file: RobotsFile) -> bool:
        """Whether the copy need not be asked for again. One that holds for too long is of before a clock set back."""
        longest_s = LIFETIME_S if file.status else politeness.MAX_RETRY_AFTER_S
        return 0 < (file.expires_at - self._clock()).total_seconds() <= longest_s

    def _keep(self, known: _Known) -> _Known:
        self._known[known.file.host] = known
        self._known.move_to_end(known.file.host)
        if len(self._known) > MAX_HOSTS:
            self._known.popitem(last=False)
        return known

    async def _rules(self, file: RobotsFile) -> RobotsRules | None:
        if file.status == 0:
            return None
        if len(file.body) < PARSE_IN_THREAD_FROM_BYTES:
            return robots_rules.parse(file.body, self._product)
        return await asyncio.to_thread(robots_rules.parse, file.body, self._product)

    async def _fetched(self, host: str, url: str, template: FetchRequest) -> RobotsFile:
        """The file as its host gives it now; status 0 if it cannot be had."""
        request = replace(
            template,
            url=_split(url)[0] + "/robots.txt",
            validators=Validators(),
            referrer=None,
            max_body_bytes=robots_rules.MAX_BYTES + 1,
        )
        page = None
        try:
            page = await self._fetch(request)
            page = await self._follow(page, request)
        except FetchError as exc:
            if page is None and (isinstance(exc, RefusedAddress) or exc.kind in NO_HOST):
                raise  # The host itself may not or cannot be asked, whatever for.
            log.info("robots.txt cannot be read", host=host, reason=str(exc))
            return self._unreachable(host, None)
        is_cut = {Fault.PARTIAL, Fault.TOO_SLOW} & set(page.faults)
        if page.status == 429 or page.status >= 500 or is_cut:
            log.info("robots.txt cannot be read", host=host, status=page.status, faults=page.faults)
            return self._unreachable(host, page.header("Retry-After"))
        self._failures.pop(host, None)
        is_there = 200 <= page.status < 300
        if Fault.TOO_LARGE in page.faults:
            log.info("robots.txt is too long, its end is not read", host=host)
        lifetime = timedelta(seconds=_lifetime_s(page.header("Cache-Control") or ""))
        return RobotsFile(host, page.status, page.body if is_there else b"", self._clock() + lifetime)

    async def _follow(self, page: FetchedPage, request: FetchRequest) -> FetchedPage:
        """Five redirects are followed, to any host; more, or one to nowhere, are as good as a 404 (§2.3.1.2)."""
        for _ in range(MAX_REDIRECTS):
            location = page.header("Location")
            if page.status not in _REDIRECTS or location is None:
                break
            try:
                target = urls.from_header(location, page.url)
            except BadUrl:
                break
            page = await self._fetch(replace(request, url=target))
        return page

    def _unreachable(self, host: str, retry_after: str | None) -> RobotsFile:
        now = self._clock()
        failures = self._failures[host] = self._failures.get(host, 0) + 1
        asked_s = politeness.retry_after_s(retry_after, now)
        pause_s = politeness.backoff_s(failures, asked_s, self._jitter())
        return RobotsFile(host, 0, b"", now + timedelta(seconds=pause_s))


def product_token(user_agent: str) -> str:
    """`Mozilla/5.0 (compatible; Plumbline/0.1; +https://…)` -> `plumbline`: the name that robots.txt files use."""
    match = _PRODUCT.search(user_agent) or re.match(r"([A-Za-z_-]+)", user_agent)
    return match[1].lower() if match else ""


def _split(url: str) -> tuple[str, str]:
    """Origin and the rest of a URL."""
    start = url.find("/", url.find("//") + 2)
    return (url[:start], url[start:]) if start > 0 else (url, "/")


def _lifetime_s(cache_control: str) -> float:
    if _NO_CACHE.search(cache_control):
        return MIN_LIFETIME_S
    max_age = _MAX_AGE.search(cache_control)
    return min(max(float(max_age[1]), MIN_LIFETIME_S), LIFETIME_S) if max_age else LIFETIME_S
