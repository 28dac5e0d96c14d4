"""The crawl loop of one process: claim, visit, archive, report; it alone closes the way back to the frontier.

    claim hosts ─► a task a host visits its claims one by one, at the host's pace
                        │ Visit
                        ▼
    committer: append pages to the archive, sync, then ONE transaction of capture rows, links, refusals, outcomes

Nothing is reported before its bytes are on disk. Whatever happens to this process in between, the lease of its
hosts ends and another one takes over.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import structlog
import tenacity

from crawler import database, fingerprint, politeness, urls
from crawler.addresses import Resolver
from crawler.archive import captures
from crawler.archive.archive import Archive
from crawler.archive.writer import ArchiveWriter
from crawler.errors import ArchiveError, BadTopic, BadUrl, DatabaseError
from crawler.fetcher import Fetcher, FetcherSettings
from crawler.frontier import Frontier, RunInfo
from crawler.records import (
    Claim,
    CrawlOutcome,
    CrawlStatus,
    CrawlUrl,
    FetchedPage,
    FetchErrorKind,
    LinkKind,
    NewCapture,
    Original,
    RejectedUrl,
    Rejection,
    RobotsFile,
    StoredRecords,
)
from crawler.renderer import Renderer, RendererSettings
from crawler.robots import Robots
from crawler.scope import Scope
from crawler.visit import Focus, Site, Visit, VisitLimits, Visitor

LEASE_S = 30.0
"""A killed worker's hosts are taken over after this long at the latest."""
TICK_S = 1.0
"""How often leases are renewed, runs begun and settled."""
URLS_PER_CLAIM = 32
SLICE_S = 5.0
"""A host's task gives back what it could not visit in this time, so that better URLs found since get their turn."""
IDLE_POLL_S = 0.25
CLOCK_SLACK = timedelta(seconds=5)
"""A clock that goes back further was set back."""
COMMIT_BATCH = 200
COMMIT_BACKLOG = 400
"""Visits that may wait to be written down; beyond that, hosts wait (back-pressure)."""
LEAVE_S = 8.0
"""How long visits under way may take to end when the process is told to stop."""
ENOUGH_JUDGED = 10
MOSTLY = 0.8

log = structlog.get_logger()
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CrawlerSettings:
    """Settings of one crawler process. Sources: `services.config`."""

    worker: str
    """Unique among all workers, for ever: host, pid and start time."""
    archive_folder: Path
    fetcher: FetcherSettings
    renderer: RendererSettings
    limits: VisitLimits
    user_agent: str
    delay_s: float
    """Between requests to one host where neither site nor robots.txt say otherwise; loopback waits nothing."""
    concurrency: int
    """Hosts visited at once."""


@dataclass(frozen=True, slots=True)
class HostDone:
    """A host's task is over: its lease can go, its pace is known, what it did not visit goes back."""

    host: str
    next_request_at: datetime
    failures: int
    """Failed requests in a row."""
    unvisited: tuple[Claim, ...]
    budget_spent: frozenset[int] = frozenset()
    """Runs that may fetch no more pages."""


@dataclass(slots=True)
class RunningRun:
    """A run as this worker sees it."""

    info: RunInfo
    site: Site
    pages: int
    """Fetched in the whole run, as far as known, and under way here."""
    judged: int = 0
    """Pages for which `render = auto` had to decide, …"""
    rendered: int = 0
    """… and how many of them needed the browser."""

    @property
    def is_spent(self) -> bool:
        limit = self.info.settings.scope.max_pages
        return limit is not None and self.pages >= limit

    @property
    def wants_browser_always(self) -> bool:
        """Whether so many pages needed the browser that looking at the static page first is a waste."""
        undecided = self.site.needs_browser is None
        return undecided and self.judged >= ENOUGH_JUDGED and self.rendered >= MOSTLY * self.judged

    def note(self, visit: Visit) -> None:
        """Learn from a visit."""
        is_page = visit.outcome.status in (CrawlStatus.FETCHED, CrawlStatus.UNCHANGED)
        if not is_page:
            self.pages -= 1
        elif visit.page is not None and visit.page.status == 200:
            self.judged += 1
            self.rendered += visit.page.rendered is not None


@dataclass(frozen=True, slots=True)
class Written:
    """What one transaction has put down."""

    visits: tuple[tuple[Visit, int | None], ...]
    """Each with the id of its capture, if it has one."""
    refused: tuple[RejectedUrl, ...]
    """May have been told of before."""
    site_keys: Mapping[int, str]
    """Of the runs, by their ids."""


async def run_crawler(
    engine: database.Engine,
    settings: CrawlerSettings,
    stop: asyncio.Event,
    on_tick: Callable[[dict[str, int]], None] = lambda _state: None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    on_written: Callable[[Written], None] = lambda _written: None,
) -> None:
    """Crawl whatever runs are wanted until `stop` is set. `on_tick` gets counts for people, once a second.

    `on_written` is called after each transaction, in the thread of the database: it may neither wait nor raise.
    """
    async with AsyncExitStack() as resources:
        resolver = Resolver()
        fetcher = await resources.enter_async_context(Fetcher(settings.fetcher, resolver))
        renderers: list[Renderer] = []

        async def open_renderer() -> Renderer:
            if not renderers:
                renderers.append(await resources.enter_async_context(Renderer(settings.renderer, resolver, fetcher)))
            return renderers[0]

        frontier = Frontier(settings.worker)
        with ThreadPoolExecutor(1, "database") as thread:
            in_thread = partial(asyncio.get_running_loop().run_in_executor, thread)
            robots = Robots(
                fetcher.fetch,
                load=lambda host: in_thread(_patiently, _load_robots, engine, frontier, host),
                save=lambda robots_file: in_thread(_patiently, _save_robots, engine, frontier, robots_file),
                user_agent=settings.user_agent,
                clock=clock,
            )
            visitor = Visitor(fetcher, robots, open_renderer, settings.limits, settings.user_agent, clock)
            with ArchiveWriter(settings.archive_folder, settings.worker) as writer:
                crawler = Crawler(engine, frontier, writer, visitor, settings, in_thread, clock, on_written)
                await crawler.run(stop, on_tick)


class Crawler:
    """The loop itself. All database and archive work is done in one thread, in order."""

    def __init__(
        self,
        engine: database.Engine,
        frontier: Frontier,
        writer: ArchiveWriter,
        visitor: Visitor,
        settings: CrawlerSettings,
        in_thread: Callable[..., Awaitable[Any]],
        clock: Callable[[], datetime],
        on_written: Callable[[Written], None],
    ) -> None:
        self._engine = engine
        self._frontier = frontier
        self._writer = writer
        self._reader = Archive(settings.archive_folder, engine)
        self._visitor = visitor
        self._settings = settings
        self._in_thread = in_thread
        self._clock = clock
        self._on_written = on_written
        self._runs: dict[int, RunningRun] = {}
        self._site_keys: dict[int, str] = {}
        self._hosts: dict[str, asyncio.Task[None]] = {}
        self._done: asyncio.Queue[Visit | HostDone] = asyncio.Queue(COMMIT_BACKLOG)
        self._wake = asyncio.Event()
        self._quiet = asyncio.Event()
        self._visits = 0
        self._ticked_at: datetime | None = None

    async def run(self, stop: asyncio.Event, on_tick: Callable[[dict[str, int]], None]) -> None:
        committing = asyncio.create_task(self._commit_for_ever(), name="committer")
        ticking = asyncio.create_task(self._tick_for_ever(on_tick), name="ticker")
        claiming = asyncio.create_task(self._claim_for_ever(), name="claimer")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        ended, _ = await asyncio.wait((committing, ticking, claiming, stopping), return_when=asyncio.FIRST_COMPLETED)
        claiming.cancel()
        await self._leave_hosts()
        if committing not in ended:
            await self._done.join()
        for task in (committing, ticking, claiming, stopping):
            task.cancel()
        results = await asyncio.gather(committing, ticking, claiming, stopping, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    # The ticker: runs and leases.

    async def _tick_for_ever(self, on_tick: Callable[[dict[str, int]], None]) -> None:
        while True:
            await self._call(self._tick)
            on_tick({"hosts": len(self._hosts), "runs": len(self._runs), "visits": self._visits})
            self._quiet.clear()
            await _wait(self._quiet, TICK_S)

    def _tick(self) -> None:
        now = self._clock()
        with database.write(self._engine) as conn:
            if self._ticked_at is None or now < self._ticked_at - CLOCK_SLACK:
                self._frontier.end_far_pauses(conn, now)
            for info in self._frontier.begin_runs(conn, now):
                log.info("run begins", run=info.run_id, site=info.key)
                self._frontier.add(conn, _seeds(info), now)
                if not info.resumed:
                    self._frontier.requeue_known(conn, info.site_id, info.run_id, now)
            self._frontier.renew(conn, now, LEASE_S)
            for run in self._runs.values():
                if run.wants_browser_always:
                    self._frontier.learn_browser(conn, run.info.site_id, True)
            for run_id, state in self._frontier.settle_runs(conn, now):
                log.info("run ends", run=run_id, state=state.value)
            self._know_runs(conn)
        self._ticked_at = now

    def _know_runs(self, conn: database.Connection) -> None:
        self._runs = {info.run_id: self._refreshed(info) for info in self._frontier.running(conn)}
        self._site_keys |= {run_id: run.info.key for run_id, run in self._runs.items()}

    def _refreshed(self, info: RunInfo) -> RunningRun:
        known = self._runs.get(info.run_id)
        scope = Scope(info.settings, info.extra_hosts)
        focus = self._focus(info, known)
        site = Site(info.settings, scope, info.needs_browser, info.pages > 0, focus)
        if known is None:
            return RunningRun(info, site, info.pages)
        # The same object, since visits under way count on it.
        known.info, known.site = info, site
        if info.pages > known.pages:
            known.pages = info.pages
        return known

    def _focus(self, info: RunInfo, known: RunningRun | None) -> Focus | None:
        """Made once a run: what it learns about links stays with it."""
        topic = info.settings.topic
        if topic is None:
            return None
        if known is not None and known.site.focus is not None and known.info.settings.topic == topic:
            return known.site.focus
        try:
            return Focus.on(topic)
        except BadTopic as exc:
            log.error("topic cannot be used", run=info.run_id, site=info.key, error=str(exc))
            return None

    # The claimer: hosts that may be asked, and a task for each.

    async def _claim_for_ever(self) -> None:
        while True:
            self._wake.clear()
            free = self._settings.concurrency - len(self._hosts)
            claims = await self._call(self._claim, free) if free > 0 and self._runs else []
            for host, of_host in _by_host(claims).items():
                task = asyncio.create_task(self._visit_host(host, of_host), name=f"host {host}")
                self._hosts[host] = task
                task.add_done_callback(partial(self._host_ended, host))
            if not claims:
                await _wait(self._wake, IDLE_POLL_S)

    def _claim(self, max_hosts: int) -> list[Claim]:
        with database.write(self._engine) as conn:
            return self._frontier.claim(conn, self._clock(), max_hosts, URLS_PER_CLAIM, LEASE_S)

    def _host_ended(self, host: str, task: asyncio.Task[None]) -> None:
        self._hosts.pop(host, None)
        if not task.cancelled() and task.exception() is not None:
            log.error("host task failed", host=host, exc_info=task.exception())

    async def _visit_host(self, host: str, claims: list[Claim]) -> None:
        """Visit the claims of one host one after the other, at the host's pace, for one slice of time."""
        began = time.monotonic()
        left = list(claims)
        skipped: list[Claim] = []
        spent: set[int] = set()
        failures = 0
        pause_s = 0.0
        try:
            while left and time.monotonic() - began < SLICE_S:
                claim = left[0]
                run = self._runs.get(claim.target.run_id)
                if run is None or run.is_spent:
                    if run is not None:
                        spent.add(run.info.run_id)
                    skipped.append(left.pop(0))
                    continue
                await asyncio.sleep(pause_s)
                visit, took_s = await self._visit(claim, run)
                left.pop(0)
                await self._done.put(visit)
                failures = failures + 1 if visit.outcome.status is CrawlStatus.FETCH_ERROR else 0
                pause_s = self._pause_s(host, run, visit, took_s)
                if visit.host_pause_s is not None or failures >= 3:
                    pause_s = max(pause_s, visit.host_pause_s or politeness.backoff_s(failures, None, random.random()))
                    break
        finally:
            next_request_at = self._clock() + timedelta(seconds=pause_s)
            await self._done.put(HostDone(host, next_request_at, failures, (*skipped, *left), frozenset(spent)))

    async def _visit(self, claim: Claim, run: RunningRun) -> tuple[Visit, float]:
        """One visit and the seconds it took; a fault of ours costs this URL a try, never the run."""
        run.pages += 1
        began = time.monotonic()
        # Whatever is logged on the way, by whichever module, says whose it is.
        with structlog.contextvars.bound_contextvars(run=claim.target.run_id, url=claim.target.url):
            try:
                visit = await self._visitor.visit(claim, run.site)
            except Exception:
                log.exception("visit failed")
                visit = Visit(_internal_fault(claim, self._clock(), self._settings.limits))
        run.note(visit)
        self._visits += 1
        return visit, time.monotonic() - began

    def _pause_s(self, host: str, run: RunningRun, visit: Visit, took_s: float) -> float:
        return politeness.delay_s(
            host,
            site_delay_s=run.info.settings.delay_s,
            robots_delay_s=visit.crawl_delay_s,
            default_s=self._settings.delay_s,
            answer_s=took_s,
        )

    async def _leave_hosts(self) -> None:
        """End the hosts' tasks: what is under way gets a little time, the rest goes back to the frontier."""
        self._runs = {}
        tasks = list(self._hosts.values())
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=LEAVE_S)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _call(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run database work in its thread, with patience."""
        result: T = await self._in_thread(partial(_patiently, work, *args, **kwargs))
        return result

    # The committer: archive first, then the database.

    async def _commit_for_ever(self) -> None:
        while True:
            batch = [await self._done.get()]
            while len(batch) < COMMIT_BATCH and not self._done.empty():
                batch.append(self._done.get_nowait())
            await self._call(self._commit, batch)
            for _ in batch:
                self._done.task_done()
            self._wake.set()
            if not self._hosts:
                self._quiet.set()  # a run may be over: no need to wait for the next tick

    def _commit(self, batch: list[Visit | HostDone]) -> None:
        """Write a batch down. Blocks while disk or database are unwell, and loses nothing meanwhile."""
        visits = [item for item in batch if isinstance(item, Visit)]
        kept = _patiently(self._archive, visits)  # apart from the report, so that a busy database repeats no append
        _patiently(self._report, batch, kept)

    def _archive(self, visits: list[Visit]) -> dict[int, NewCapture]:
        """Append the pages and sync; the captures by the position of their visit."""
        pages = {position: visit for position, visit in enumerate(visits) if visit.page is not None}
        with database.read(self._engine) as conn:
            same = captures.originals(conn, {id_ for visit in pages.values() if (id_ := _unchanged_capture(visit))})
            copies = captures.by_digest(conn, {visit.digest for visit in pages.values() if _may_be_copy(visit)})
        copies = {digest: original for digest, original in copies.items() if self._is_whole(original)}
        kept: dict[int, NewCapture] = {}
        for position, visit in pages.items():
            assert visit.page is not None
            original = same.get(_unchanged_capture(visit) or 0)
            if original is None and _may_be_copy(visit):
                original = copies.get(visit.digest)
            stored = self._writer.append(visit.page, original)
            kept[position] = _new_capture(visit, visit.page, stored, original)
        self._writer.sync()
        return kept

    def _is_whole(self, original: Original) -> bool:
        """Whether the archive still has these bytes: a reference to damaged ones would lose the page for good."""
        try:
            self._reader.read(original.capture_id)
        except ArchiveError as exc:
            log.warning("archived copy cannot be referred to", capture=original.capture_id, reason=str(exc))
            return False
        return True

    def _report(self, batch: list[Visit | HostDone], kept: dict[int, NewCapture]) -> None:
        """One transaction for all that a batch has to say."""
        now = self._clock()
        visits = [item for item in batch if isinstance(item, Visit)]
        hosts = [item for item in batch if isinstance(item, HostDone)]
        found = [url for visit in visits for url in visit.found]
        refused = [url for visit in visits for url in visit.rejected]
        with database.write(self._engine) as conn:
            # Of a lost claim, or of a site that was deleted meanwhile, nothing is written down.
            current = self._frontier.current(conn, [capture.claim for capture in kept.values()])
            kept = {position: capture for position, capture in kept.items() if capture.claim.url_id in current}
            ids = captures.insert(conn, list(kept.values()), self._settings.worker)
            capture_ids = dict(zip(kept, ids, strict=True))
            self._frontier.add(conn, found, now)
            self._frontier.reject(conn, refused, now)
            late = self._frontier.report(
                conn, [_outcome(visit, capture_ids.get(position)) for position, visit in enumerate(visits)], now
            )
            leaving = {visit.outcome.claim.url_id for visit in visits if visit.withdraw}
            captures.withdraw(conn, leaving - late, now)
            for run_id, n in Counter(v.outcome.claim.target.run_id for v in visits if v.is_on_topic).items():
                self._frontier.count(conn, run_id, {"relevant": n})
            self._frontier.release(conn, [claim for host in hosts for claim in host.unvisited])
            self._frontier.leave_hosts(conn, {host.host: (host.next_request_at, host.failures) for host in hosts})
            for run_id in {run_id for host in hosts for run_id in host.budget_spent}:
                self._frontier.drop_queue(conn, run_id, Rejection.BUDGET, now)
            if any(url.kind is LinkKind.SEED for url in found):
                self._know_runs(conn)  # a seed that moved widens the scope, and its new place is visited next
        numbered = tuple((visit, capture_ids.get(position)) for position, visit in enumerate(visits))
        self._on_written(Written(numbered, tuple(refused), dict(self._site_keys)))


async def _wait(event: asyncio.Event, at_most_s: float) -> None:
    # Not asyncio.wait_for: in Python 3.11 it loses a cancellation that comes together with the event.
    with suppress(TimeoutError):
        async with asyncio.timeout(at_most_s):
            await event.wait()


def _patiently(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do the work; while disk or database are unwell, wait with growing pauses and try again, for ever."""
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((ArchiveError, DatabaseError)),
        wait=tenacity.wait_random_exponential(multiplier=0.2, max=30),
        before_sleep=_say_why_waiting,
    )
    return retrying(work, *args, **kwargs)


def _say_why_waiting(state: tenacity.RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    log.warning("waiting for disk or database", error=str(error), tries=state.attempt_number)


def _load_robots(engine: database.Engine, frontier: Frontier, host: str) -> RobotsFile | None:
    with database.read(engine) as conn:
        return frontier.load_robots(conn, host)


def _save_robots(engine: database.Engine, frontier: Frontier, robots_file: RobotsFile) -> None:
    with database.write(engine) as conn:
        frontier.save_robots(conn, robots_file)


def _seeds(info: RunInfo) -> list[CrawlUrl]:
    """The seeds as the frontier takes them; one that is no URL is logged, and the others go on."""
    seeds = []
    for seed in info.settings.seeds:
        try:
            url = urls.normalize(seed)
            seeds.append(
                CrawlUrl(url, urls.urlkey(url), urls.host_of(url), info.site_id, info.run_id, kind=LinkKind.SEED)
            )
        except BadUrl as exc:
            log.error("seed is no URL", site=info.key, seed=seed, error=str(exc))
    return seeds


def _by_host(claims: list[Claim]) -> dict[str, list[Claim]]:
    hosts: dict[str, list[Claim]] = {}
    for claim in claims:
        hosts.setdefault(claim.target.host, []).append(claim)
    return hosts


def _internal_fault(claim: Claim, now: datetime, limits: VisitLimits) -> CrawlOutcome:
    is_last = claim.tries + 1 >= limits.max_tries
    return CrawlOutcome(
        claim,
        CrawlStatus.FETCH_ERROR,
        next_visit_at=None
        if is_last
        else now + timedelta(seconds=politeness.backoff_s(claim.tries + 1, None, random.random())),
        reason=FetchErrorKind.INTERNAL.value,
        message="Plumbline itself failed on this page; the log has the traceback",
    )


def _unchanged_capture(visit: Visit) -> int | None:
    """The capture that holds what an unchanged page still is."""
    return visit.outcome.claim.validators.capture_id if visit.unchanged else None


def _may_be_copy(visit: Visit) -> bool:
    """Whether a capture of another page with the same payload would do (what was rendered is more than its payload)."""
    return visit.page is not None and bool(visit.page.body) and visit.page.rendered is None and not visit.page.faults


def _new_capture(visit: Visit, page: FetchedPage, stored: StoredRecords, original: Original | None) -> NewCapture:
    return NewCapture(
        claim=visit.outcome.claim,
        captured_at=page.fetched_at,
        status=page.status,
        content_type=page.header("Content-Type") or "",
        # A 304 whose original was deleted meanwhile stands for nothing but itself.
        digest=fingerprint.digest(page.body) if page.status == 304 and original is None else visit.digest,
        size_bytes=len(page.body),
        faults=page.faults,
        stored=stored,
        index_state=visit.index_state,
        revisit_of=original.capture_id if original is not None else None,
    )


def _outcome(visit: Visit, capture_id: int | None) -> CrawlOutcome:
    """The outcome with its validators pointing at the capture that holds the payload."""
    outcome = visit.outcome
    if outcome.validators is None:
        return outcome
    holder = outcome.claim.validators.capture_id if visit.unchanged else capture_id
    return replace(outcome, validators=replace(outcome.validators, capture_id=holder))
