"""What `plumbline status` shows: which parts run, and how the crawls go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from crawler.errors import DatabaseError
from services import control, stack
from services.config import DATABASE_FILE, Settings
from services.elastic import Elastic, any_credentials
from services.errors import SearchRefused, ServiceError
from services.node import LocalNode


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the stack: up or not, and a word on it."""

    name: str
    is_up: bool
    note: str = ""


@dataclass(frozen=True, slots=True)
class SiteStatus:
    """One site's newest run."""

    key: str
    state: str
    fetched: int
    unchanged: int
    failed: int
    queued: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Status:
    """The stack as it is."""

    home: str
    parts: tuple[Part, ...]
    sites: tuple[SiteStatus, ...]
    pages: int | None
    """In the index; None while Elasticsearch does not answer."""
    portal: str | None
    """The search page's address, while it is served."""

    def to_json(self) -> dict[str, Any]:
        """The `status` form of the program's JSON."""
        return {
            "home": self.home,
            "portal": self.portal,
            "pages": self.pages,
            "parts": [{"name": part.name, "up": part.is_up, "note": part.note} for part in self.parts],
            "sites": [
                {
                    "key": site.key,
                    "state": site.state,
                    "fetched": site.fetched,
                    "unchanged": site.unchanged,
                    "failed": site.failed,
                    "queued": site.queued,
                    "waiting": site.waiting,
                }
                for site in self.sites
            ],
        }

    def to_text(self) -> str:
        lines = [f"home: {self.home}"]
        lines += [f"{part.name:<14} {'up' if part.is_up else 'down':<5} {part.note}".rstrip() for part in self.parts]
        if self.portal:
            lines.append(f"search page: {self.portal}")
        if self.pages is not None:
            lines.append(f"pages in the index: {self.pages}")
        for site in self.sites:
            lines.append(
                f"{site.key}: {site.state}; {site.fetched} fetched, {site.unchanged} unchanged, {site.failed} failed,"
                f" {site.queued} to visit, {site.waiting} to index"
            )
        return "".join(f"{line}\n" for line in lines)


def read_status(settings: Settings) -> Status:
    """Look at everything; a part that is away is shown so, never an error."""
    state = stack.read_state(settings)
    is_up = state is not None and state.is_up
    pages, search = _elasticsearch(settings)
    sites, workers, database = _database(settings)
    processes = _processes(state) if state is not None and is_up else _workers(workers)
    parts = [search, database, *processes]
    portal = stack.portal_address(settings) if is_up else None
    return Status(str(settings.home), tuple(parts), sites, pages, portal)


def _elasticsearch(settings: Settings) -> tuple[int | None, Part]:
    name = "elasticsearch"
    if not settings.elasticsearch_url and LocalNode(settings).process() is None:
        return None, Part(name, False)
    user = any_credentials(settings)
    try:
        with Elastic(user, settings.index_prefix) as elastic:
            colour = elastic.health()
            try:
                pages = elastic.count()
            except SearchRefused:  # A user who only adds to logs may count nothing.
                pages = None
            return pages, Part(name, True, f"{user.url} {colour}")
    except ServiceError as exc:
        return None, Part(name, False, str(exc))


def _database(settings: Settings) -> tuple[tuple[SiteStatus, ...], tuple[control.Worker, ...], Part]:
    if not settings.database_url and not (settings.home / DATABASE_FILE).exists():
        return (), (), Part("database", False, "not made yet")
    try:
        with stack.opened_database(settings) as engine:
            runs = control.latest_runs(engine)
            sites = tuple(_site(site, runs.get(site.site_id)) for site in control.list_sites(engine))
            workers = tuple(worker for worker in control.list_workers(engine) if worker.alive)
    except DatabaseError as exc:
        return (), (), Part("database", False, str(exc))
    return sites, workers, Part("database", True)


def _site(site: control.Site, run: control.RunProgress | None) -> SiteStatus:
    if run is None:
        return SiteStatus(site.key, "never crawled", 0, 0, 0, 0, 0)
    return SiteStatus(
        site.key, run.state, run.fetched, run.unchanged, run.errors_total + run.gone, run.queued, run.waiting
    )


def _workers(workers: Sequence[control.Worker]) -> list[Part]:
    """Processes of other machines or containers, by their heartbeats; the portal gives none."""
    parts = []
    for kind in (control.WorkerKind.CRAWLER, control.WorkerKind.INDEXER, control.WorkerKind.SCHEDULER):
        alive = [worker for worker in workers if worker.kind is kind]
        parts += [Part(kind.value, True, _doing(worker)) for worker in alive] or [Part(kind.value, False)]
    return parts


def _doing(worker: control.Worker) -> str:
    return ", ".join([worker.worker_id, *(f"{name} {value}" for name, value in worker.state.items() if value)])


def _processes(state: stack.StackState) -> list[Part]:
    names = dict.fromkeys([*(name.value for name in stack.CHILDREN), *state.children])
    parts = []
    for name in names:
        mark = state.children.get(name)
        is_up = mark is not None and mark.process() is not None
        parts.append(Part(name, is_up, state.failing.get(name, f"pid {mark.pid}" if mark and is_up else "")))
    return parts
