"""One crawl asked for on the command line: its sites, their runs, and the wait until all of it can be found."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from crawler.database import Engine
from crawler.errors import BadUrl
from crawler.records import RenderMode, RunState, SiteScope, SiteSettings, Strategy, Topic
from crawler.urls import host_of, normalize
from services import control, stack
from services.config import Settings
from services.control.seeds import refused_seeds
from services.elastic import Elastic, ElasticUser, credentials
from services.errors import ConfigurationError, StackError

Say = Callable[[str], None]

ASKED_BY = "command line"
POLL_S = 0.25
LINE_S = 5.0
"""Between two lines of progress where there is no terminal."""


@dataclass(frozen=True, slots=True)
class CrawlOptions:
    """What a command line says of all its URLs."""

    max_pages: int | None = None
    max_depth: int | None = None
    prefix: bool = False
    render: RenderMode = RenderMode.AUTO
    strategy: Strategy | None = None
    """None: best-first with a topic, else breadth-first."""
    allow_private: bool = False
    topic: Topic | None = None
    """None: the site keeps the one it has."""


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """What came of a crawl; `problem` is one sentence if it failed."""

    summary: control.CrawlSummary
    problem: str | None = None


def declare_sites(engine: Engine, urls: Sequence[str], options: CrawlOptions) -> list[int]:
    """Make or update the sites of some URLs; their ids. Raises ConfigurationError.

    URLs of one host and port (with `prefix`: and folder) are one site. A site that is known keeps its seeds and
    whatever the command line does not speak of.
    """
    sites: dict[str, list[str]] = {}
    for url in urls:
        try:
            seed = normalize(url)
        except BadUrl as exc:
            raise ConfigurationError(f"{url!r} is not a URL of the form https://www.example.cn/") from exc
        key = control.site_key(SiteSettings((seed,), scope=SiteScope(prefix=options.prefix)))
        sites.setdefault(key, []).append(seed)
    declared = {key: _settings_of(control.find_site(engine, key), seeds, options) for key, seeds in sites.items()}
    for site_settings in declared.values():
        _refuse_private(site_settings)
    return [control.create_or_update(engine, key, site_settings) for key, site_settings in declared.items()]


def run_crawl(settings: Settings, engine: Engine, site_ids: Sequence[int], say: Say) -> CrawlReport:
    """Start the runs of some sites, or join those under way, and wait until their pages can be found."""
    begun_at = time.monotonic()
    runs = []
    for site_id in site_ids:
        started = control.start(engine, site_id, ASKED_BY)
        key = control.get_site(engine, site_id).key
        say(f"joining the crawl of {key} under way" if started.already_running else f"crawling {key}")
        runs.append(started.run_id)
    with _shown(say) as show:
        while not all(_is_done(show(control.progress(engine, run_id))) for run_id in runs):
            _check_stack(settings)
            time.sleep(POLL_S)
    with Elastic(credentials(settings, ElasticUser.WRITER), settings.index_prefix) as elastic:
        elastic.refresh()
    summary = control.summary(engine, runs, time.monotonic() - begun_at)
    return CrawlReport(summary, _problem(engine, runs, summary))


def summary_text(summary: control.CrawlSummary) -> str:
    """A summary for people."""
    parts = [f"{summary.fetched} pages fetched", f"{summary.unchanged} unchanged", f"{summary.indexed} indexed"]
    rejected = [f"{n} {reason.replace('_', ' ')}" for reason, n in summary.rejected.items()]
    errors = [f"{n} {kind.replace('_', ' ')}" for kind, n in summary.errors.items()]
    if rejected:
        parts.append(f"left out: {', '.join(rejected)}")
    if errors:
        parts.append(f"failed: {', '.join(errors)}")
    return f"{'; '.join(parts)}; {summary.seconds:.1f} s, {summary.pages_per_s:.1f} pages/s"


def _settings_of(known: control.Site | None, seeds: list[str], options: CrawlOptions) -> SiteSettings:
    before = known.settings if known is not None else SiteSettings(())
    topic = options.topic or before.topic
    default = Strategy.BREADTH_FIRST if topic is None else Strategy.BEST_FIRST
    private = {host_of(seed) for seed in seeds} if options.allow_private else set()
    return replace(
        before,
        seeds=tuple(dict.fromkeys((*before.seeds, *seeds))),
        scope=replace(before.scope, prefix=options.prefix, max_depth=options.max_depth, max_pages=options.max_pages),
        strategy=options.strategy or default,
        topic=topic,
        render=options.render,
        allow_private=tuple(dict.fromkeys((*before.allow_private, *sorted(private)))),
    )


def _refuse_private(settings: SiteSettings) -> None:
    for refused in refused_seeds(settings):
        raise ConfigurationError(
            f"{refused.url} has a private address, which is not crawled; if it is meant, add --allow-private"
        )


def _check_stack(settings: Settings) -> None:
    if settings.is_run_by_others:
        return
    state = stack.read_state(settings)
    if state is None or not state.is_up:
        raise StackError("the stack was stopped before the crawl was done; it goes on with the next `plumbline up`")
    stack.raise_if_failing(settings, state)


def _is_done(progress: control.RunProgress) -> bool:
    return progress.run.state in (RunState.FINISHED, RunState.STOPPED) and not progress.waiting


def _problem(engine: Engine, runs: Sequence[int], summary: control.CrawlSummary) -> str | None:
    for run_id in runs:
        if control.progress(engine, run_id).run.state is RunState.STOPPED:
            return "the crawl was stopped; it goes on where it was when it is started again"
        for refused in control.refused_documents(engine, run_id=run_id, limit=1):
            return f"not all pages could be indexed, for one {refused.url}: {refused.error}"
    if summary.fetched or summary.unchanged:
        return None
    for run_id in runs:
        for failure in control.failures(engine, run_id, limit=1):
            words = [f"{url.url}: {url.message}" for url in failure.urls if url.message]
            return f"no page could be fetched: {words[0] if words else failure.cause.replace('_', ' ')}"
        for rejected in control.rejections(engine, run_id, limit=1):
            return f"no page was fetched: {rejected.reason.replace('_', ' ')}"
    return "no page was fetched"


@contextmanager
def _shown(say: Say) -> Iterator[Callable[[control.RunProgress], control.RunProgress]]:
    """Progress as a bar on a terminal, as a line now and then elsewhere."""
    if sys.stderr.isatty():
        with _bar() as show:
            yield show
        return
    next_at = time.monotonic() + LINE_S

    def show_line(progress: control.RunProgress) -> control.RunProgress:
        nonlocal next_at
        if time.monotonic() >= next_at:
            next_at = time.monotonic() + LINE_S
            say(_progress_text(progress))
        return progress

    yield show_line


@contextmanager
def _bar() -> Iterator[Callable[[control.RunProgress], control.RunProgress]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks: dict[int, object] = {}

        def show(progress: control.RunProgress) -> control.RunProgress:
            run_id = progress.run.run_id
            if run_id not in tasks:
                tasks[run_id] = bar.add_task("")
            visited = _visited(progress)
            total = visited + progress.queued
            bar.update(
                tasks[run_id],  # type: ignore[arg-type]
                completed=visited,
                total=total or None,
                description=_progress_text(progress),
            )
            return progress

        yield show


def _visited(progress: control.RunProgress) -> int:
    return progress.fetched + progress.unchanged + progress.redirected + progress.gone + progress.errors_total


def _progress_text(progress: control.RunProgress) -> str:
    return (
        f"{progress.state}: {progress.fetched} fetched, {progress.unchanged} unchanged, {progress.errors_total} failed,"
        f" {progress.queued} to visit, {progress.waiting} to index"
    )
