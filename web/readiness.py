"""What the portal can do right now, for its start page and for machines that watch it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from crawler.errors import DatabaseError
from crawler.records import RunState
from services import control
from services.errors import ConfigurationError, SearchRefused, SearchUnavailable
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


@dataclass(frozen=True, slots=True)
class Readiness:
    """The state, and what the portal holds."""

    state: State
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
        sites = len(control.list_sites(backends.engine))
        under_way = [run for run in control.latest_runs(backends.engine).values() if run.run.state in _UNDER_WAY]
    except DatabaseError:
        return Readiness(State.NO_DATABASE)
    fetched = sum(run.fetched for run in under_way)
    try:
        documents = backends.elastic.count()
    except (SearchUnavailable, SearchRefused, ConfigurationError):
        return Readiness(State.NO_SEARCH, sites=sites, fetched=fetched)
    if documents:
        return Readiness(State.READY, documents, sites, fetched)
    empty = State.CRAWLING if under_way else State.EMPTY if sites else State.NO_SITES
    return Readiness(empty, sites=sites, fetched=fetched)
