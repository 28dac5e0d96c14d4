"""The processes of a stack, as `plumbline process NAME` runs them.

Each builds what it needs and works until it is told to end. They end in good order at SIGTERM and SIGINT, and when
the supervisor that started them is gone. Each runs alone as well, as a service of a container.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog

from crawler import database
from crawler.errors import DatabaseError
from crawler.records import RunState
from services import control, logs
from services.config import DATABASE_FILE, Settings, kept_port, make_home
from services.worker_names import free_the_dead, worker_name

if TYPE_CHECKING:
    from services.elastic import Elastic
    from services.metrics import Backlog

BEAT_S = 5.0
_PR_SET_PDEATHSIG = 1

log = structlog.get_logger(__name__)


class ProcessName(StrEnum):
    """What `plumbline process` can run."""

    CRAWLER = "crawler"
    INDEXER = "indexer"
    SCHEDULER = "scheduler"
    WEB = "web"
    SAMPLE_SITE = "sample-site"


def run_process(name: ProcessName, settings: Settings, parent: int | None = None) -> None:
    """Be that process until it is told to end. `parent`: the supervisor, without which it ends."""
    if parent is not None:
        end_with(parent)
    logs.configure(settings.log_level, settings.log_format)
    _RUNNERS[name](settings)


def end_with(parent: int) -> None:
    """Have the kernel end this process (SIGTERM) when its parent is gone, however that came about."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # It was gone before the kernel knew.
        sys.exit("the supervisor that started this process is gone")


class Heartbeat:
    """Tells the database that a worker lives and what it does, in a thread of its own: the loop never waits for it."""

    def __init__(self, engine: database.Engine, kind: control.WorkerKind, worker: str) -> None:
        self._engine = engine
        self._kind = kind
        self._worker = worker
        self._thread = ThreadPoolExecutor(1, "heartbeat")
        self._under_way: Future[None] | None = None
        self._next_at = 0.0

    def __call__(self, state: dict[str, int]) -> None:
        """Take the newest state; it is passed on every few seconds."""
        if time.monotonic() < self._next_at or (self._under_way and not self._under_way.done()):
            return
        self._next_at = time.monotonic() + BEAT_S
        self._under_way = self._thread.submit(self._beat, dict(state))

    def leave(self) -> None:
        """The worker ends in good order."""
        self._thread.submit(self._try, lambda: control.forget(self._engine, self._worker))
        self._thread.shutdown(wait=True)

    def _beat(self, state: dict[str, int]) -> None:
        self._try(lambda: control.beat(self._engine, self._worker, self._kind, os.getpid(), state))

    def _try(self, call: Callable[[], Any]) -> None:
        try:
            call()
        except DatabaseError as exc:
            log.warning("heartbeat not written", error=str(exc))


def open_crawl_database(settings: Settings) -> database.Engine:
    """The crawl database with its tables; the file of a new one can be read by its owner alone."""
    if not settings.database_url:
        make_home(settings)
        _make_file(settings.home / DATABASE_FILE)
    engine = database.open_database(settings.effective_database_url)
    try:
        database.migrate(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def _make_file(path: Path) -> None:
    """Make a file that only its owner can read; one that is there is not touched.

    It must not even be opened: closing a file gives up all locks that this process has on it (POSIX), those of an
    open SQLite connection too, and the next process to leave would take the log away from under that connection.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _open_database(settings: Settings) -> database.Engine:
    """The crawl database, in which nothing is held any more by workers of this machine that were killed."""
    engine = open_crawl_database(settings)
    free_the_dead(engine)
    return engine


def _run_crawler(settings: Settings) -> None:
    import uvloop

    engine = _open_database(settings)
    try:
        uvloop.run(_crawl(engine, settings))
    finally:
        engine.dispose()


async def _crawl(engine: database.Engine, settings: Settings) -> None:
    from crawler.crawl import CrawlerSettings, Written, run_crawler
    from crawler.fetcher import FetcherSettings
    from crawler.renderer import RendererSettings, find_browser
    from crawler.visit import VisitLimits
    from services import health, metrics
    from services.appender import Appender
    from services.crawl_log import CrawlLog
    from services.elastic import Elastic, ElasticUser, IndexName, credentials

    worker = worker_name(control.WorkerKind.CRAWLER)
    heartbeat = Heartbeat(engine, control.WorkerKind.CRAWLER, worker)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    crawler_settings = CrawlerSettings(
        worker=worker,
        archive_folder=settings.archive_folder,
        fetcher=FetcherSettings(
            user_agent=settings.user_agent,
            timeout_s=settings.fetch_timeout_s,
            connect_timeout_s=settings.connect_timeout_s,
            max_body_bytes=settings.max_body_bytes,
            proxy=settings.outgoing_proxy,
        ),
        renderer=RendererSettings(
            user_agent=settings.user_agent,
            timeout_s=settings.render_timeout_s,
            tabs=settings.render_tabs,
            browser=settings.browser,
            sandbox=settings.browser_sandbox,
            proxy=settings.outgoing_proxy,
        ),
        limits=VisitLimits(max_redirects=settings.max_redirects, max_tries=settings.max_tries),
        user_agent=settings.user_agent,
        delay_s=settings.crawl_delay_s,
        concurrency=settings.fetch_concurrency,
    )
    log.info("crawler begins", worker=worker)
    elastic = Elastic(credentials(settings, ElasticUser.APPENDER), settings.index_prefix)
    pulse = health.Pulse()
    checks = {
        "loop": pulse.check,
        "database": health.database_check(engine),
        "archive": health.archive_check(settings, writes=True),
        "browser": lambda: settings.browser or find_browser() or "Playwright's own",
    }

    def on_tick(state: dict[str, int]) -> None:
        pulse.beat()
        heartbeat(state)

    try:
        with (
            health.health_server(settings, checks),
            elastic,
            Appender(elastic, IndexName.CRAWL_LOG) as appender,
        ):
            crawl_log = CrawlLog(appender, worker)

            def on_written(written: Written) -> None:
                metrics.note_written(written)
                crawl_log(written)

            await run_crawler(engine, crawler_settings, stop, on_tick, on_written=on_written)
    finally:
        heartbeat.leave()
    log.info("crawler ends", worker=worker)


def _run_indexer(settings: Settings) -> None:
    from services import health
    from services.elastic import ElasticUser
    from services.indexer import run_indexer

    engine = _open_database(settings)
    pulse = health.Pulse()
    checks = {
        "loop": pulse.check,
        "database": health.database_check(engine),
        "archive": health.archive_check(settings),
        "elasticsearch": health.elasticsearch_check(settings, ElasticUser.WRITER),
    }
    try:
        with health.health_server(settings, checks):
            run_indexer(settings, engine, _stop_at_signal(), pulse.beat)
    finally:
        engine.dispose()


def _run_scheduler(settings: Settings) -> None:
    from services import health, metrics
    from services.elastic import Elastic, ElasticUser, credentials
    from services.scheduler import run_scheduler

    engine = _open_database(settings)
    pulse = health.Pulse()
    checks = {"loop": pulse.check, "database": health.database_check(engine)}
    metrics.tell_backlog(partial(_backlog, engine))
    try:
        with (
            health.health_server(settings, checks),
            Elastic(credentials(settings, ElasticUser.WRITER), settings.index_prefix) as elastic,
        ):
            upkeep = partial(_keep_logs, settings, elastic)
            run_scheduler(engine, _stop_at_signal(), upkeep=upkeep, on_round=pulse.beat)
    finally:
        engine.dispose()


def _keep_logs(settings: Settings, elastic: Elastic, now: datetime) -> None:
    """Begin the logs of a new month, and delete those that are older than the owner wants."""
    from services.elastic import LOGS

    elastic.ensure_indices(LOGS, now)
    for index in elastic.expire_logs(settings.log_months, now):
        log.info("log deleted", index=index)


def _backlog(engine: database.Engine) -> Backlog:
    from services.metrics import Backlog

    runs = control.latest_runs(engine).values()
    return Backlog(
        queued_urls=sum(run.queued for run in runs),
        waiting_captures=sum(run.waiting for run in runs),
        running_runs=sum(run.run.state is RunState.RUNNING for run in runs),
    )


def _run_web(_settings: Settings) -> None:
    """Become gunicorn, which reads `services.web_server`."""
    command = [sys.executable, "-m", "gunicorn", "--config", "python:services.web_server"]
    os.execv(sys.executable, command)


def _run_sample_site(settings: Settings) -> None:
    from services.sample_site.server import serve

    serve(kept_port(settings, "sample"))


def _stop_at_signal() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: stop.set())
    return stop


_RUNNERS: dict[ProcessName, Callable[[Settings], None]] = {
    ProcessName.CRAWLER: _run_crawler,
    ProcessName.INDEXER: _run_indexer,
    ProcessName.SCHEDULER: _run_scheduler,
    ProcessName.WEB: _run_web,
    ProcessName.SAMPLE_SITE: _run_sample_site,
}
