"""A stack that is driven by its program, killed by its parts, and asked what it has lost."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import sqlalchemy as sa

from crawler import database
from crawler.archive.archive import Archive, Severity
from crawler.database import captures, hosts, urls
from crawler.records import RenderMode, SiteSettings
from services import control, stack
from services.config import Settings, load_settings
from services.elastic import Elastic, ElasticUser, credentials
from services.node import LocalNode
from services.processes import ProcessName
from tests.faults.known_site import KnownSite

T = TypeVar("T")

PATIENCE_S = 300.0
"""Far more than anything here takes; beyond it, somebody waits for ever."""
SUPERVISOR = "supervisor"
NODE = "node"
EXTRACTOR = "extracting process"
CHILDREN = (*(name.value for name in stack.CHILDREN), ProcessName.SAMPLE_SITE.value)


@dataclass(frozen=True, slots=True)
class Losses:
    """What is wrong after a fault; all empty is what must be."""

    lost: tuple[str, ...] = ()
    """Pages whose newest edition cannot be found."""
    doubled: tuple[str, ...] = ()
    """URLs with more than one document."""
    strange: tuple[str, ...] = ()
    """Documents of URLs that the site does not have."""
    stuck: tuple[str, ...] = ()
    """Rows that nobody will ever finish."""
    damaged: tuple[str, ...] = ()
    """What `archive verify` calls an error."""


class FaultyStack:
    """A stack in a home of its own; with `elsewhere`, on that Elasticsearch instead of a node of its own."""

    def __init__(self, home: Path, elsewhere: Mapping[str, str] | None = None, sample: bool = False) -> None:
        self.home = home
        self.sample = sample
        self.environment = {
            **os.environ,
            "PLUMBLINE_HOME": str(home),
            "PLUMBLINE_EXTRACT_PROCESSES": "1",
            **(elsewhere or {}),
        }
        self.settings: Settings = load_settings(home=home)
        if elsewhere:
            self.settings = self.settings.model_copy(
                update={
                    "elasticsearch_url": elsewhere["ELASTICSEARCH_URL"],
                    "elasticsearch_user": elsewhere["ELASTICSEARCH_USER"],
                    "elasticsearch_password": self.settings.elasticsearch_password.__class__(
                        elsewhere["ELASTICSEARCH_PASSWORD"]
                    ),
                    "index_prefix": elsewhere["PLUMBLINE_INDEX_PREFIX"],
                }
            )

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        """A command of the program, running."""
        return subprocess.Popen(
            [sys.executable, "-m", "services.command_line", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str) -> str:
        """A command of the program that has to succeed; what it said."""
        process = self.begin(*arguments)
        said, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, f"plumbline {' '.join(arguments)}: {said}"
        return said

    def up(self) -> str:
        return self.run("up", "--detach", *(["--sample"] if self.sample else []))

    def down(self) -> None:
        self.run("down")

    def victims(self) -> dict[str, psutil.Process]:
        """The processes that run now, by name."""
        found: dict[str, psutil.Process | None] = {}
        state = stack.read_state(self.settings)
        if state is not None:
            found[SUPERVISOR] = state.supervisor.process()
            found |= {name: mark.process() for name, mark in state.children.items()}
            found[EXTRACTOR] = _extracting_process(found.get("indexer"))
        if not self.settings.elasticsearch_url:
            found[NODE] = LocalNode(self.settings).process()
        return {name: process for name, process in found.items() if process is not None}

    def kill(self, name: str) -> bool:
        """kill -9; False if it does not run just now."""
        process = self.victims().get(name)
        if process is None:
            return False
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGKILL)
        return True

    def crawl(self, *sites: KnownSite) -> None:
        """Ask for a run of each site."""
        with stack.opened_database(self.settings) as engine:
            for site in sites:
                settings = SiteSettings(
                    seeds=(site.url("/"),), render=RenderMode.NEVER, allow_private=(f"{site.address}:{site.port}",)
                )
                control.start(engine, control.create_or_update(engine, site.host, settings), "test")

    def crawl_sample(self) -> None:
        """Ask for another run of the sample site."""
        with stack.opened_database(self.settings) as engine:
            for site in control.list_sites(engine):
                if site.key == "sample":
                    control.start(engine, site.site_id, "test")

    def is_idle(self) -> bool:
        with stack.opened_database(self.settings) as engine:
            return control.is_idle(engine)

    def wait_until_idle(self) -> float:
        """Until all is crawled and indexed; the seconds it took."""
        begun_at = time.monotonic()
        with stack.opened_database(self.settings) as engine:
            wait_for(lambda: control.is_idle(engine), "everything to be crawled and indexed")
        return time.monotonic() - begun_at

    def losses(self, *sites: KnownSite) -> Losses:
        """What became of the sites' pages, once the stack is idle."""
        lost: list[str] = []
        doubled: list[str] = []
        strange: list[str] = []
        with Elastic(credentials(self.settings, ElasticUser.WRITER), self.settings.index_prefix) as elastic:
            elastic.refresh()
            for site in sites:
                documents = _documents(elastic, site.host)
                lost += _lost(site, documents)
                times = Counter(document["url"] for document in documents)
                doubled += [url for url, n in times.items() if n > 1]
                strange += sorted(set(times) - set(site.addresses))
        with stack.opened_database(self.settings) as engine:
            findings = Archive(self.settings.archive_folder, engine).verify()
            damaged = [f"{f.path} {f.offset}: {f.message}" for f in findings if f.severity is Severity.ERROR]
            return Losses(tuple(lost), tuple(doubled), tuple(strange), tuple(_stuck(engine)), tuple(damaged))

    def log(self, name: str) -> str:
        """What a process (or the supervisor) has written."""
        return (stack.log_folder(self.settings) / f"{name}.log").read_text("utf-8", "replace")


def wait_for(condition: Callable[[], T], what: str, patience_s: float = PATIENCE_S) -> T:
    """What the condition gives, once it gives something."""
    deadline = time.monotonic() + patience_s
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {patience_s:.0f} s for {what}"
        time.sleep(0.02)
    return found


def _extracting_process(indexer: psutil.Process | None) -> psutil.Process | None:
    """One that takes a page apart: a child of the indexer's fork server."""
    if indexer is None:
        return None
    with contextlib.suppress(psutil.Error):
        for server in indexer.children():
            for process in server.children():
                return process
    return None


def _documents(elastic: Elastic, site: str) -> list[dict[str, Any]]:
    answer = elastic.search(
        {"query": {"term": {"site": site}}, "size": 10_000, "source": ["url", "body", "capture_id", "generation"]}
    )
    return [hit["_source"] for hit in answer["hits"]["hits"]]


def _lost(site: KnownSite, documents: Iterable[Mapping[str, Any]]) -> list[str]:
    bodies = {document["url"]: document["body"] for document in documents}
    return [
        url
        for number, url in enumerate(site.addresses)
        if f"{site.text(number)} of the known site" not in bodies.get(url, "")
    ]


def _stuck(engine: database.Engine) -> list[str]:
    """Whatever is neither queued nor done."""
    with database.read(engine) as conn:
        leased = conn.execute(sa.select(hosts.c.host).where(hosts.c.lease_owner.is_not(None))).scalars().all()
        unfinished = conn.execute(sa.select(urls.c.url).where(urls.c.queue_state != 2)).scalars().all()
        held = conn.execute(sa.select(captures.c.id).where(captures.c.index_owner.is_not(None))).scalars().all()
    return [
        *(f"host {host} is leased" for host in leased),
        *(f"{url} is not done" for url in unfinished),
        *(f"capture {id_} is held" for id_ in held),
    ]


def elsewhere(node: Settings, prefix: str) -> dict[str, str]:
    """The environment of a stack that uses this node and indices of its own."""
    writer = credentials(node, ElasticUser.WRITER)
    return {
        "ELASTICSEARCH_URL": writer.url,
        "ELASTICSEARCH_USER": writer.user,
        "ELASTICSEARCH_PASSWORD": writer.password,
        "PLUMBLINE_INDEX_PREFIX": f"{node.index_prefix}{prefix}-",
    }


def last_json(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text.strip().splitlines()[-1])
    return found
