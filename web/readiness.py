"""What the portal can do right now, for its start page and for machines that watch it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from crawler.errors import DatabaseError
from crawler.records import RunState
from services import control
from services.errors import ConfigurationError, NotFound, SearchRefused, SearchUnavailable
from web.backends import Backends

_UNDER_WAY = (RunState.QUEUED, RunState.RUNNING, RunState.STOPPING)


class State(Enum):
    """How far the portal has come."""

    READY = auto()
    NO_DATABASE = auto()
    NO_SEARCH = auto()
    """Elasticsearch is starting, or away."""
    NO_SITES = auto()
    CRAWLING = auto()
    """The first pages are being collected; none can be found yet."""
    EMPTY = auto()
    """There are sites, and none has been crawled."""


class Part(Enum):
    """What a whole stack is made of, beside the portal itself."""

    DATABASE = auto()
    SEARCH_ENGINE = auto()
    CRAWLER = auto()
    INDEXER = auto()
    SCHEDULER = auto()


_PARTS_OF_WORKERS = {
    control.WorkerKind.CRAWLER: Part.CRAWLER,
    control.WorkerKind.INDEXER: Part.INDEXER,
    control.WorkerKind.SCHEDULER: Part.SCHEDULER,
}


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state, and what the portal holds."""

    state: State
    present: frozenset[Part] = frozenset()
    """Parts of the stack that answer, or have lately given a sign of life."""
    reasons: Mapping[Part, str] = field(default_factory=dict)
    """Of what is away, for the owner."""
    documents: int = 0
    sites: int = 0
    fetched: int = 0
    """Pages of the runs under way."""

    @property
    def ready(self) -> bool:
        return self.state is State.READY


def readiness(backends: Backends) -> Readiness:
    """Look at the database and at Elasticsearch. Never raises for one that is away."""
    try:
        workers = control.list_workers(backends.engine)
        sites = len(control.list_sites(backends.engine))
        under_way = [run for run in control.latest_runs(backends.engine).values() if run.run.state in _UNDER_WAY]
    except DatabaseError as exc:
        return Readiness(State.NO_DATABASE, reasons={Part.DATABASE: str(exc)})
    alive = {_PARTS_OF_WORKERS[worker.kind] for worker in workers if worker.alive and worker.kind in _PARTS_OF_WORKERS}
    present = frozenset({Part.DATABASE, *alive})
    fetched = sum(run.fetched for run in under_way)
    try:
        documents = backends.elastic.count()
    except (SearchUnavailable, SearchRefused, ConfigurationError) as exc:
        reasons = {Part.SEARCH_ENGINE: str(exc)}
        return Readiness(State.NO_SEARCH, present, reasons, sites=sites, fetched=fetched)
    present |= {Part.SEARCH_ENGINE}
    if documents:
        return Readiness(State.READY, present, {}, documents, sites, fetched)
    empty = State.CRAWLING if under_way else State.EMPTY if sites else State.NO_SITES
    return Readiness(empty, present, sites=sites, fetched=fetched)


def why_not_found(backends: Backends, site_key: str) -> str | None:
    """Why the pages of a site cannot be searched yet; None once a whole run of it is in the index.

    Raises NotFound, DatabaseError, SearchUnavailable or SearchRefused.
    """
    site = control.find_site(backends.engine, site_key)
    if site is None:
        raise NotFound(f"there is no site {site_key}")
    runs = control.history(backends.engine, site.site_id)
    if not runs:
        return "no run has begun"
    whole = [run for run in runs if run.run.state is RunState.FINISHED and not run.waiting]
    if not whole:
        newest = runs[0]
        return f"its run is {newest.run.state}: {newest.queued} URLs to visit, {newest.waiting} pages to index"
    if not backends.elastic.count({"term": {"site": site_key}}):
        return "no page of it is in the index"
    return None
