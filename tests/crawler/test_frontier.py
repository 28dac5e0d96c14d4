from __future__ import annotations

import itertools
import multiprocessing
import random
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from crawler import database, frontier
from crawler.database import hosts, rejections, runs, sites, urls
from crawler.frontier import Frontier, RunInfo
from crawler.records import (
    Claim,
    CrawlOutcome,
    CrawlStatus,
    CrawlUrl,
    LinkKind,
    RejectedUrl,
    Rejection,
    RobotsFile,
    RunState,
    SiteSettings,
    Validators,
)
from crawler.urls import urlhash

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
LEASE_S = 30.0


class Crawl:
    """One site and its runs in a database, and a clock that is moved by hand."""

    def __init__(self, engine: Engine, key: str = "a.cn:80") -> None:
        self.engine = engine
        self.now = NOW
        self.worker = Frontier("worker-1")
        with database.write(engine) as conn:
            self.site_id = _insert_site(conn, key)
        self.run_id = 0
        self.start()

    def start(self, *paths: str) -> RunInfo:
        """Begin a new run of the site, with the given seeds."""
        self.end_run()
        with database.write(self.engine) as conn:
            self.run_id = _insert_run(conn, self.site_id)
            (info,) = self.worker.begin_runs(conn, self.now)
            self.worker.add(conn, [self.url(path, kind=LinkKind.SEED) for path in paths], self.now)
            self.worker.requeue_known(conn, self.site_id, self.run_id, self.now)
        return info

    def end_run(self) -> None:
        with database.write(self.engine) as conn:
            conn.execute(sa.update(runs).where(runs.c.id == self.run_id).values(state="finished"))

    def url(self, path: str, host: str = "a.cn:80", **given: Any) -> CrawlUrl:
        url = f"http://{host.removesuffix(':80')}{path}"
        return CrawlUrl(url, url, host, self.site_id, given.pop("run_id", self.run_id), **given)

    def add(self, *found: CrawlUrl | str) -> int:
        targets = [self.url(item) if isinstance(item, str) else item for item in found]
        with database.write(self.engine) as conn:
            return self.worker.add(conn, targets, self.now)

    def reject(self, path: str, reason: Rejection) -> int:
        url = self.url(path)
        with database.write(self.engine) as conn:
            return self.worker.reject(conn, [RejectedUrl(self.run_id, url.url, url.urlkey, reason)], self.now)

    def claim(self, max_hosts: int = 10, urls_per_host: int = 10, worker: Frontier | None = None) -> list[Claim]:
        with database.write(self.engine) as conn:
            return (worker or self.worker).claim(conn, self.now, max_hosts, urls_per_host, LEASE_S)

    def report(self, *outcomes: CrawlOutcome, worker: Frontier | None = None) -> frozenset[int]:
        with database.write(self.engine) as conn:
            return (worker or self.worker).report(conn, outcomes, self.now)

    def leave(self, *names: str, wait_s: float = 0.0, worker: Frontier | None = None) -> None:
        at = self.now + timedelta(seconds=wait_s)
        with database.write(self.engine) as conn:
            (worker or self.worker).leave_hosts(conn, dict.fromkeys(names or ("a.cn:80",), (at, 0)))

    def settle(self) -> list[tuple[int, RunState]]:
        with database.write(self.engine) as conn:
            return self.worker.settle_runs(conn, self.now)

    def visit_all(self) -> list[str]:
        """Claim and fetch until nothing is given out any more."""
        visited = []
        while claims := self.claim():
            visited += [claim.target.url for claim in claims]
            self.report(*(fetched(claim) for claim in claims))
            self.leave(*{claim.target.host for claim in claims})
        return visited

    def set_state(self, state: RunState) -> None:
        with database.write(self.engine) as conn:
            conn.execute(sa.update(runs).where(runs.c.id == self.run_id).values(state=state.value))

    def counts(self) -> Mapping[str, int]:
        with database.read(self.engine) as conn:
            return frontier.totals(conn, self.run_id)

    def row(self, path: str) -> Any:
        with database.read(self.engine) as conn:
            return conn.execute(sa.select(urls).where(urls.c.urlhash == urlhash(self.url(path).urlkey))).one()

    def run_row(self) -> Any:
        with database.read(self.engine) as conn:
            return conn.execute(sa.select(runs).where(runs.c.id == self.run_id)).one()

    def host_row(self, host: str = "a.cn:80") -> Any:
        with database.read(self.engine) as conn:
            return conn.execute(sa.select(hosts).where(hosts.c.host == host)).one()


@pytest.fixture
def crawl(any_engine: Engine) -> Crawl:
    return Crawl(any_engine)


def fetched(claim: Claim, **validators: Any) -> CrawlOutcome:
    return CrawlOutcome(claim, CrawlStatus.FETCHED, validators=Validators(**validators) if validators else None)


def failed(claim: Claim, again_at: datetime | None = None) -> CrawlOutcome:
    return CrawlOutcome(claim, CrawlStatus.FETCH_ERROR, again_at, "timeout", "it took too long")


def paths(claims: Iterable[Claim]) -> list[str]:
    return [claim.target.url.removeprefix("http://a.cn") for claim in claims]


# What is found.


def test_a_url_is_queued_once_however_often_it_is_found(crawl: Crawl) -> None:
    assert crawl.add("/1", "/2", "/1") == 2
    assert crawl.add("/1", "/3") == 1
    assert sorted(paths(crawl.claim())) == ["/1", "/2", "/3"]


def test_a_url_is_known_by_its_key_and_asked_for_as_it_was_written(crawl: Crawl) -> None:
    first = replace(crawl.url("/1?utm_source=x"), urlkey="http://a.cn/1")
    crawl.add(first)
    assert crawl.add("/1") == 0
    (claim,) = crawl.claim()
    assert claim.target == first


def test_a_url_keeps_all_that_was_known_when_it_was_found(crawl: Crawl) -> None:
    target = crawl.url(
        "/1", depth=2, priority=0.5, kind=LinkKind.FRAME, parent_url="http://a.cn/", anchor="二", redirects=1
    )
    crawl.add(target)
    (claim,) = crawl.claim()
    assert claim.target == target
    assert claim.tries == 0
    assert claim.validators == Validators()


def test_more_urls_than_one_statement_holds_are_added(crawl: Crawl) -> None:
    n = frontier.CHUNK * 2 + 7
    assert crawl.add(*(f"/{i}" for i in range(n))) == n
    assert crawl.add(*(f"/{i}" for i in range(n + 1))) == 1
    assert crawl.counts()["queued"] == n + 1


def test_while_it_is_queued_a_url_takes_over_a_better_priority_and_a_shallower_depth(crawl: Crawl) -> None:
    crawl.add(crawl.url("/1", priority=1.0, depth=4, parent_url="http://a.cn/deep"), crawl.url("/2", priority=2.0))
    crawl.add(crawl.url("/1", priority=3.0, depth=5, parent_url="http://a.cn/deeper"))
    crawl.add(crawl.url("/1", priority=0.0, depth=2, parent_url="http://a.cn/near"))
    first, second = crawl.claim()
    assert (first.target.priority, first.target.depth, first.target.parent_url) == (3.0, 2, "http://a.cn/near")
    assert paths([second]) == ["/2"]


def test_a_visited_url_is_not_queued_again_in_its_run(crawl: Crawl) -> None:
    crawl.add("/1")
    crawl.visit_all()
    assert crawl.add(crawl.url("/1", priority=9.0)) == 0
    assert crawl.claim() == []


def test_a_url_of_an_earlier_run_is_queued_again_when_it_is_found_again(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    crawl.report(fetched(claim, etag='"1"', digest="d", capture_id=7))
    crawl.leave()
    crawl.end_run()
    with database.write(crawl.engine) as conn:
        crawl.run_id = _insert_run(conn, crawl.site_id, "running")
    assert crawl.add(crawl.url("/1", depth=3, parent_url="http://a.cn/new")) == 1
    (again,) = crawl.claim()
    assert (again.target.depth, again.target.parent_url) == (3, "http://a.cn/new")
    assert again.validators == Validators(etag='"1"', digest="d", capture_id=7)


def test_a_url_goes_over_to_the_newer_run_of_another_site_unless_it_is_leased(crawl: Crawl) -> None:
    crawl.add("/queued", crawl.url("/leased", host="b.cn:80"))
    other = Crawl(crawl.engine, "other")
    with database.write(crawl.engine) as conn:
        conn.execute(sa.update(hosts).where(hosts.c.host == "a.cn:80").values(ready_at=NOW + timedelta(days=1)))
    crawl.claim()
    assert other.add(other.url("/queued"), other.url("/leased", host="b.cn:80")) == 1
    assert crawl.row("/queued").site_id == other.site_id
    assert crawl.counts() == {"queued": 2, "left": 1}
    assert other.counts() == {"queued": 1}


def test_links_of_runs_that_ended_or_are_deleted_are_ignored(crawl: Crawl) -> None:
    late = crawl.url("/late")
    crawl.end_run()
    assert crawl.add(late, replace(late, run_id=12345)) == 0
    with database.write(crawl.engine) as conn:
        crawl.worker.count(conn, 12345, {"bytes": 1})
        assert crawl.worker.reject(conn, [RejectedUrl(12345, "u", "u", Rejection.SCOPE)], NOW) == 0


def test_a_refused_url_is_counted_once_by_its_first_reason(crawl: Crawl) -> None:
    assert crawl.reject("/1", Rejection.SCOPE) == 1
    assert crawl.reject("/1", Rejection.TRAP) == 0
    assert crawl.reject("/2", Rejection.TRAP) == 1
    assert crawl.counts() == {"rejected:scope": 1, "rejected:trap": 1}


def test_a_url_refused_for_its_depth_is_not_refused_any_more_when_it_is_queued(crawl: Crawl) -> None:
    crawl.reject("/1", Rejection.DEPTH)
    crawl.add("/1")
    assert crawl.counts() == {"queued": 1}
    with database.read(crawl.engine) as conn:
        assert conn.execute(sa.select(rejections)).all() == []


@pytest.mark.parametrize("reason", [Rejection.DEPTH, Rejection.NOFOLLOW])
def test_a_way_that_is_refused_to_a_url_that_the_run_has_anyhow_counts_for_nothing(
    crawl: Crawl, reason: Rejection
) -> None:
    crawl.add("/1")
    assert crawl.reject("/1", reason) == 0
    assert crawl.counts() == {"queued": 1}


def test_a_visited_page_that_is_not_indexed_has_its_reason(crawl: Crawl) -> None:
    crawl.add("/1")
    crawl.visit_all()
    assert crawl.reject("/1", Rejection.NOINDEX) == 1


def test_counts_of_several_workers_add_up(crawl: Crawl) -> None:
    for name in ("a", "b", "c"):
        with database.write(crawl.engine) as conn:
            Frontier(name).count(conn, crawl.run_id, {"bytes": 5})
    assert crawl.counts()["bytes"] == 15


# What is given out.


def test_the_best_priority_comes_first_and_the_older_one_of_equals(crawl: Crawl) -> None:
    crawl.add(crawl.url("/low", priority=-1.0))
    crawl.add(crawl.url("/first", priority=5.0))
    crawl.add(crawl.url("/second", priority=5.0))
    assert paths(crawl.claim(urls_per_host=2)) == ["/first", "/second"]


def test_a_leased_host_is_given_to_nobody_else(crawl: Crawl) -> None:
    crawl.add("/1", "/2")
    assert len(crawl.claim(urls_per_host=1)) == 1
    assert crawl.claim(worker=Frontier("worker-2")) == []
    assert crawl.claim() == []


def test_a_host_waits_until_its_next_request_time(crawl: Crawl) -> None:
    crawl.add("/1", "/2")
    (claim,) = crawl.claim(urls_per_host=1)
    crawl.report(fetched(claim))
    crawl.leave(wait_s=5.0)
    crawl.now += timedelta(seconds=4.9)
    crawl.add("/3")
    assert crawl.claim() == []
    crawl.now += timedelta(seconds=0.2)
    assert paths(crawl.claim()) == ["/2", "/3"]


def test_each_claim_of_a_url_has_a_higher_generation(crawl: Crawl) -> None:
    crawl.add("/1")
    generations = []
    for _ in range(3):
        (claim,) = crawl.claim()
        generations.append(claim.generation)
        with database.write(crawl.engine) as conn:
            crawl.worker.release(conn, [claim])
        crawl.leave()
    assert generations == sorted(set(generations))


def test_generations_grow_even_when_the_clock_is_set_back_or_the_url_was_forgotten(crawl: Crawl) -> None:
    crawl.add("/1")
    (first,) = crawl.claim()
    crawl.leave()
    crawl.now -= timedelta(days=1)
    crawl.leave()
    with database.write(crawl.engine) as conn:
        conn.execute(sa.update(hosts).values(lease_owner=None, ready_at=crawl.now))
        conn.execute(sa.update(urls).values(queue_state=0))
    (second,) = crawl.claim()
    assert second.generation == first.generation + 1
    with database.write(crawl.engine) as conn:
        conn.execute(sa.delete(urls))
    crawl.now = NOW + timedelta(seconds=5)
    crawl.leave()
    crawl.add("/1")
    (third,) = crawl.claim()
    assert third.generation > second.generation


def test_many_hosts_are_claimed_at_once_and_each_gives_its_own_best(crawl: Crawl) -> None:
    crawl.add(*(crawl.url(f"/{i}", f"h{h}.cn:80", priority=float(i)) for h in range(20) for i in range(5)))
    claims = crawl.claim(max_hosts=12, urls_per_host=2)
    by_host: dict[str, list[float]] = {}
    for claim in claims:
        by_host.setdefault(claim.target.host, []).append(claim.target.priority)
    assert len(by_host) == 12
    assert set(map(tuple, by_host.values())) == {(4.0, 3.0)}


def test_runs_of_several_sites_on_one_host_share_its_turns(crawl: Crawl) -> None:
    other = Crawl(crawl.engine, "other")
    crawl.add(crawl.url("/1", priority=1.0), crawl.url("/2", priority=3.0))
    other.add(other.url("/3", priority=2.0))
    assert paths(crawl.claim(urls_per_host=2)) == ["/2", "/3"]


def test_a_host_without_anything_queued_is_not_looked_at(crawl: Crawl) -> None:
    crawl.add("/1")
    crawl.visit_all()
    assert crawl.host_row().ready_at is None
    crawl.add("/2")
    assert paths(crawl.claim()) == ["/2"]


@pytest.mark.parametrize("state", [RunState.STOPPING, RunState.STOPPED, RunState.QUEUED, RunState.FINISHED])
def test_only_running_runs_give_out_urls(crawl: Crawl, state: RunState) -> None:
    crawl.add("/1")
    crawl.set_state(state)
    assert crawl.claim() == []


# Leases.


def test_an_expired_lease_gives_its_urls_to_the_next_claimer_with_tries_unchanged(crawl: Crawl) -> None:
    crawl.add("/1", "/2")
    first = crawl.claim()
    crawl.now += timedelta(seconds=LEASE_S + 1)
    second = crawl.claim(worker=Frontier("worker-2"))
    assert paths(second) == paths(first) == ["/1", "/2"]
    assert [claim.tries for claim in second] == [0, 0]
    assert [new.generation > old.generation for new, old in zip(second, first, strict=True)] == [True, True]


def test_a_renewed_lease_does_not_expire(crawl: Crawl) -> None:
    crawl.add("/1")
    crawl.claim()
    crawl.now += timedelta(seconds=20)
    with database.write(crawl.engine) as conn:
        assert crawl.worker.renew(conn, crawl.now, LEASE_S) == {"a.cn:80"}
    crawl.now += timedelta(seconds=20)
    assert crawl.claim(worker=Frontier("worker-2")) == []


def test_a_lease_made_before_the_clock_was_set_back_ends_all_the_same(crawl: Crawl) -> None:
    crawl.add("/1")
    crawl.now += timedelta(days=1)
    crawl.claim(worker=Frontier("killed"))
    crawl.now -= timedelta(days=1)
    for _ in range(2):
        with database.write(crawl.engine) as conn:
            crawl.worker.renew(conn, crawl.now, LEASE_S)
        crawl.now += timedelta(seconds=20)
    assert paths(crawl.claim()) == ["/1"]


def test_a_pause_made_before_the_clock_was_set_back_ends_all_the_same(crawl: Crawl) -> None:
    crawl.add("/1", "/2")
    crawl.now += timedelta(days=1)
    first, _ = crawl.claim()
    again_at = crawl.now + timedelta(seconds=60)
    crawl.report(CrawlOutcome(first, CrawlStatus.FETCH_ERROR, next_visit_at=again_at))
    crawl.leave(wait_s=60)
    crawl.now -= timedelta(days=1)
    assert crawl.claim() == []
    with database.write(crawl.engine) as conn:
        crawl.worker.end_far_pauses(conn, crawl.now)
    assert paths(crawl.claim()) == ["/1", "/2"]


def test_a_pause_that_somebody_may_have_asked_for_is_kept(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    again_at = crawl.now + timedelta(seconds=3_600)
    crawl.report(CrawlOutcome(claim, CrawlStatus.FETCH_ERROR, next_visit_at=again_at))
    crawl.leave(wait_s=3_600)
    with database.write(crawl.engine) as conn:
        crawl.worker.end_far_pauses(conn, crawl.now)
    assert crawl.claim() == []
    crawl.now = again_at
    assert paths(crawl.claim()) == ["/1"]


def test_an_outcome_of_a_lost_claim_changes_nothing(crawl: Crawl) -> None:
    crawl.add("/1")
    (lost,) = crawl.claim()
    crawl.now += timedelta(seconds=LEASE_S + 1)
    second = Frontier("worker-2")
    (held,) = crawl.claim(worker=second)
    before = crawl.row("/1")
    assert crawl.report(CrawlOutcome(lost, CrawlStatus.GONE)) == {lost.url_id}
    assert crawl.row("/1") == before
    assert crawl.report(fetched(held), worker=second) == frozenset()
    assert crawl.counts() == {"queued": 1, "left": 1, "fetched": 1}


def test_a_second_report_of_one_claim_is_late(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    assert crawl.report(fetched(claim)) == frozenset()
    assert crawl.report(CrawlOutcome(claim, CrawlStatus.GONE)) == {claim.url_id}
    assert crawl.row("/1").status == "fetched"


def test_a_report_after_the_lease_ended_counts_if_nobody_else_has_claimed(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    crawl.now += timedelta(seconds=LEASE_S + 1)
    assert crawl.report(fetched(claim)) == frozenset()
    assert crawl.claim(worker=Frontier("worker-2")) == []


def test_a_lost_host_is_not_left_by_the_one_who_lost_it(crawl: Crawl) -> None:
    crawl.add("/1")
    crawl.claim()
    crawl.now += timedelta(seconds=LEASE_S + 1)
    crawl.claim(worker=Frontier("worker-2"))
    crawl.leave()
    assert crawl.host_row().lease_owner == "worker-2"
    assert crawl.row("/1").queue_state == database.QueueState.LEASED


def test_claims_that_were_not_visited_go_back(crawl: Crawl) -> None:
    crawl.add("/1", "/2", "/3")
    one, two, _three = crawl.claim()
    crawl.report(fetched(one))
    with database.write(crawl.engine) as conn:
        crawl.worker.release(conn, [two])
    crawl.leave()
    assert paths(crawl.claim()) == ["/2", "/3"]


def test_a_deleted_url_makes_a_late_report(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    with database.write(crawl.engine) as conn:
        conn.execute(sa.delete(sites))
    with database.write(crawl.engine) as conn:
        assert crawl.worker.current(conn, [claim]) == frozenset()
    assert crawl.report(fetched(claim)) == {claim.url_id}


def test_two_processes_never_have_one_host_and_visit_each_url_once(crawl: Crawl, database_url: str) -> None:
    """Each process notes when it begins and ends with a host; no two spans of one host overlap."""
    crawl.add(*(crawl.url(f"/{i}", f"h{h}.cn:80") for h in range(6) for i in range(20)))
    crawl.engine.dispose()
    processes = multiprocessing.get_context("fork")
    spans: Any = processes.Queue()
    workers = [processes.Process(target=_work, args=(database_url, f"w{i}", crawl.now, spans)) for i in range(3)]
    for worker in workers:
        worker.start()
    visited: list[str] = []
    held: dict[str, list[tuple[float, float]]] = {}
    for _ in workers:
        for host, begin, end, of_span in spans.get(timeout=60):
            held.setdefault(host, []).append((begin, end))
            visited += of_span
    for worker in workers:
        worker.join(60)
    spans.close()
    assert len(visited) == len(set(visited)) == 120
    for of_host in held.values():
        in_order = sorted(of_host)
        assert all(first[1] <= second[0] for first, second in itertools.pairwise(in_order))


def test_processes_that_find_the_same_urls_at_once_count_each_once(crawl: Crawl, database_url: str) -> None:
    crawl.engine.dispose()
    processes = multiprocessing.get_context("fork")
    added: Any = processes.Queue()
    workers = [processes.Process(target=_find, args=(database_url, seed, crawl, added)) for seed in range(3)]
    for worker in workers:
        worker.start()
    counts = [added.get(timeout=60) for _ in workers]
    for worker in workers:
        worker.join(60)
    added.close()
    assert sum(counts) == 200
    assert crawl.counts()["queued"] == 200


# What comes back.


def test_a_visit_leaves_its_validators_for_the_next_one(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    crawl.report(fetched(claim, etag='"1"', last_modified="Mon", digest="d", capture_id=3))
    crawl.leave()
    crawl.start()
    (again,) = crawl.claim()
    assert again.validators == Validators('"1"', "Mon", "d", 3)
    crawl.report(CrawlOutcome(again, CrawlStatus.UNCHANGED))
    crawl.leave()
    crawl.start()
    assert crawl.claim()[0].validators == Validators('"1"', "Mon", "d", 3)


def test_a_failed_try_is_repeated_when_its_time_has_come_and_not_before(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    crawl.report(failed(claim, crawl.now + timedelta(seconds=60)))
    crawl.leave()
    crawl.now += timedelta(seconds=59)
    assert crawl.claim() == []
    assert crawl.settle() == []
    crawl.now += timedelta(seconds=1)
    (again,) = crawl.claim()
    assert again.tries == 1
    crawl.report(fetched(again))
    assert crawl.row("/1").tries == 0
    assert crawl.counts() == {"queued": 1, "left": 1, "retried": 1, "fetched": 1}


def test_a_url_that_waits_does_not_hold_back_the_others_of_its_host(crawl: Crawl) -> None:
    crawl.add(crawl.url("/bad", priority=9.0), "/good")
    (claim,) = crawl.claim(urls_per_host=1)
    crawl.report(failed(claim, crawl.now + timedelta(hours=1)))
    crawl.leave()
    assert paths(crawl.claim()) == ["/good"]


def test_something_new_on_a_host_that_waits_for_a_retry_is_given_out_at_once(crawl: Crawl) -> None:
    crawl.add("/bad")
    (claim,) = crawl.claim()
    crawl.report(failed(claim, crawl.now + timedelta(hours=1)))
    crawl.leave()
    assert crawl.claim() == []
    crawl.add("/new")
    assert paths(crawl.claim()) == ["/new"]


def test_a_url_given_up_is_counted_by_the_kind_of_its_error(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    crawl.report(failed(claim))
    row = crawl.row("/1")
    assert (row.status, row.reason, row.message, row.tries) == ("fetch_error", "timeout", "it took too long", 1)
    assert crawl.counts() == {"queued": 1, "left": 1, "error:timeout": 1}


def test_a_refused_claim_is_a_rejection(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    crawl.report(CrawlOutcome(claim, CrawlStatus.REJECTED, reason="robots", message="Disallow: /"))
    assert crawl.counts() == {"queued": 1, "left": 1, "rejected:robots": 1}
    assert crawl.row("/1").status == "rejected"
    with database.read(crawl.engine) as conn:
        assert conn.execute(sa.select(rejections.c.reason)).scalars().all() == ["robots"]


def test_each_way_to_end_a_visit_is_counted(crawl: Crawl) -> None:
    crawl.add("/1", "/2", "/3", "/4")
    statuses = (CrawlStatus.FETCHED, CrawlStatus.UNCHANGED, CrawlStatus.REDIRECTION, CrawlStatus.GONE)
    crawl.report(*(CrawlOutcome(c, status) for c, status in zip(crawl.claim(), statuses, strict=True)))
    assert crawl.counts() == {"queued": 4, "left": 4, "fetched": 1, "unchanged": 1, "redirected": 1, "gone": 1}


# Runs.


def test_a_run_begins_once_and_says_what_the_crawler_must_know(crawl: Crawl) -> None:
    with database.write(crawl.engine) as conn:
        site_id = _insert_site(conn, "b.cn:80")
        run_id = _insert_run(conn, site_id)
    with database.write(crawl.engine) as conn:
        (info,) = crawl.worker.begin_runs(conn, NOW)
        assert crawl.worker.begin_runs(conn, NOW) == []
    assert info == RunInfo(run_id, site_id, "b.cn:80", SiteSettings(("http://b.cn/",)), None, frozenset(), 0, False)


def test_the_crawler_learns_where_seeds_led_what_needs_the_browser_and_how_many_pages_there_are(crawl: Crawl) -> None:
    crawl.add(crawl.url("/", kind=LinkKind.SEED))
    crawl.add(crawl.url("/", "www.a.cn:80", kind=LinkKind.SEED, redirects=1))
    crawl.add(crawl.url("/", "other.cn:80"))
    crawl.report(*(fetched(claim) for claim in crawl.claim()[:2]))
    with database.write(crawl.engine) as conn:
        crawl.worker.learn_browser(conn, crawl.site_id, True)
        (info,) = crawl.worker.running(conn)
    assert info.extra_hosts == {"a.cn:80", "www.a.cn:80"}
    assert info.needs_browser is True
    assert info.pages == 2


def test_a_known_url_that_becomes_a_seed_is_one_and_a_former_seed_is_none(crawl: Crawl) -> None:
    crawl.start("/old")
    crawl.add("/link")
    crawl.start("/link")
    assert crawl.row("/link").kind == "seed"
    assert crawl.row("/old").kind == "link"


def test_a_new_run_visits_all_that_is_known_once_more(crawl: Crawl) -> None:
    crawl.start("/")
    crawl.add("/1", "/2", "/refused")
    one, two, three, refused = crawl.claim()
    crawl.report(
        fetched(one),
        CrawlOutcome(two, CrawlStatus.GONE),
        failed(three),
        CrawlOutcome(refused, CrawlStatus.REJECTED, reason="robots"),
    )
    crawl.leave()
    crawl.start("/")
    assert sorted(crawl.visit_all()) == ["http://a.cn/", "http://a.cn/1", "http://a.cn/2"]
    assert crawl.settle() == [(crawl.run_id, RunState.FINISHED)]


def test_known_urls_are_queued_again_part_by_part_and_the_run_goes_on_until_all_are(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl.add(*(f"/{i}" for i in range(10)))
    crawl.visit_all()
    monkeypatch.setattr(frontier, "REQUEUE_CHUNK", 4)
    crawl.start()
    assert crawl.counts()["queued"] == 4
    visited = crawl.visit_all()
    while not crawl.settle():
        visited += crawl.visit_all()
    assert len(visited) == len(set(visited)) == 10


def test_a_run_ends_when_every_url_is_visited(crawl: Crawl) -> None:
    crawl.add("/1", "/2")
    (claim,) = crawl.claim(urls_per_host=1)
    assert crawl.settle() == []
    crawl.report(fetched(claim))
    crawl.leave()
    assert crawl.settle() == []
    crawl.visit_all()
    crawl.now += timedelta(seconds=1)
    assert crawl.settle() == [(crawl.run_id, RunState.FINISHED)]
    run = crawl.run_row()
    assert (run.state, run.reason, run.finished_at) == ("finished", "every URL visited", crawl.now)
    assert crawl.settle() == []


def test_a_run_that_brought_nothing_says_so(crawl: Crawl) -> None:
    crawl.add("/1")
    (claim,) = crawl.claim()
    crawl.report(failed(claim))
    crawl.settle()
    assert crawl.run_row().reason == "no page could be fetched"


def test_a_stopped_run_waits_for_what_is_leased_and_goes_on_where_it_was(crawl: Crawl) -> None:
    crawl.add("/1", "/2", "/3")
    (claim,) = crawl.claim(urls_per_host=1)
    crawl.set_state(RunState.STOPPING)
    assert crawl.settle() == []
    crawl.report(fetched(claim))
    crawl.leave()
    assert crawl.claim() == []
    assert crawl.settle() == [(crawl.run_id, RunState.STOPPED)]
    crawl.set_state(RunState.QUEUED)
    with database.write(crawl.engine) as conn:
        (info,) = crawl.worker.begin_runs(conn, crawl.now)
    assert info.resumed
    assert crawl.visit_all() == ["http://a.cn/2", "http://a.cn/3"]


def test_a_run_whose_worker_died_is_stopped_when_the_lease_has_ended(crawl: Crawl) -> None:
    crawl.add("/1")
    crawl.claim()
    crawl.set_state(RunState.STOPPING)
    crawl.now += timedelta(seconds=LEASE_S - 1)
    assert crawl.settle() == []
    crawl.now += timedelta(seconds=2)
    assert crawl.settle() == [(crawl.run_id, RunState.STOPPED)]
    assert crawl.row("/1").queue_state == database.QueueState.QUEUED


def test_a_run_over_its_budget_gives_out_nothing_and_refuses_the_rest(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier, "REQUEUE_CHUNK", 4)
    crawl.add(*(f"/{i}" for i in range(10)))
    claims = crawl.claim(urls_per_host=3)
    crawl.report(*(fetched(claim) for claim in claims[:2]))
    with database.write(crawl.engine) as conn:
        assert crawl.worker.drop_queue(conn, crawl.run_id, Rejection.BUDGET, crawl.now) == 4
        assert crawl.worker.running(conn) == []
    crawl.leave()
    assert crawl.claim() == []
    crawl.add("/late")
    ended = [crawl.settle() for _ in range(3)]
    assert [] in ended
    assert [(crawl.run_id, RunState.FINISHED)] in ended
    assert crawl.run_row().reason == "page budget reached (2 pages)"
    assert crawl.counts() == {"queued": 11, "left": 11, "fetched": 2, "rejected:budget": 9}


def test_refused_urls_are_kept_of_the_last_two_runs_and_counted_for_ever(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier, "FORGET_CHUNK", 2)
    run_ids = []
    for _ in range(4):
        crawl.start("/")
        run_ids.append(crawl.run_id)
        for n in range(3):
            crawl.reject(f"/out{n}", Rejection.SCOPE)
        for _ in range(4):
            crawl.settle()
        assert crawl.counts()["rejected:scope"] == 3
    with database.read(crawl.engine) as conn:
        kept = conn.execute(sa.select(rejections.c.run_id, sa.func.count()).group_by(rejections.c.run_id))
        assert dict(kept.all()) == dict.fromkeys(run_ids[-2:], 3)
        assert frontier.totals(conn, run_ids[0])["rejected:scope"] == 3


def test_robots_files_are_kept_with_their_host(crawl: Crawl) -> None:
    robots_file = RobotsFile("new.cn:80", 200, b"User-agent: *", NOW + timedelta(days=1))
    with database.write(crawl.engine) as conn:
        assert crawl.worker.load_robots(conn, "new.cn:80") is None
        crawl.worker.save_robots(conn, robots_file)
    crawl.add(crawl.url("/", "new.cn:80"))
    with database.write(crawl.engine) as conn:
        crawl.worker.save_robots(conn, replace(robots_file, status=0, body=b""))
        assert crawl.worker.load_robots(conn, "new.cn:80") == replace(robots_file, status=0, body=b"")
    assert len(crawl.claim()) == 1


# What it costs.


def test_nothing_that_the_frontier_asks_reads_a_whole_table(engine: Engine) -> None:
    crawl = Crawl(engine)
    with _plans(engine) as plans:
        crawl.start("/")
        crawl.add("/1", "/2", crawl.url("/1", priority=3.0), "/3")
        crawl.reject("/4", Rejection.DEPTH)
        crawl.add("/4")
        one, two, *_ = crawl.claim()
        crawl.report(fetched(one, etag="1"), failed(two, NOW))
        crawl.leave()
        crawl.now += timedelta(seconds=LEASE_S + 1)
        crawl.claim(1)
        with database.write(engine) as conn:
            crawl.worker.drop_queue(conn, crawl.run_id, Rejection.BUDGET, crawl.now)
        crawl.settle()
        crawl.set_state(RunState.STOPPING)
        crawl.settle()
        crawl.start("/")
    assert len(plans) > 30
    big = ("urls", "q", "hosts", "rejections")
    scans = [plan for plan in plans for step in plan.steps if step.startswith("SCAN") and step.split()[1] in big]
    # Reading all that is leased, or all leased hosts, from a partial index is reading little.
    assert [plan for plan in scans if not any("ix_urls_leased" in step for step in plan.steps)] == []


def test_the_best_urls_of_a_host_are_read_from_the_index_in_order(engine: Engine) -> None:
    crawl = Crawl(engine)
    crawl.add("/1")
    with _plans(engine) as plans:
        crawl.claim()
    (steps,) = [plan.steps for plan in plans if "AS q" in plan.statement]
    assert "SEARCH q USING COVERING INDEX ix_urls_queue (run_id=? AND host_id=?)" in steps
    assert "SEARCH urls USING INTEGER PRIMARY KEY (rowid=?)" in steps
    assert not any("TEMP B-TREE" in step for step in steps)


@dataclass(frozen=True)
class Plan:
    statement: str
    steps: list[str]


@contextmanager
def _plans(engine: Engine) -> Iterator[list[Plan]]:
    """How SQLite carries out each statement, with the parameters that it is really given."""
    plans: list[Plan] = []

    def explain(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool) -> None:
        if statement.split()[0] in ("SELECT", "UPDATE", "DELETE"):
            given = parameters[0] if executemany else parameters
            rows = cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall()
            plans.append(Plan(statement, [row[3] for row in rows]))

    sa.event.listen(engine, "before_cursor_execute", explain)
    yield plans
    sa.event.remove(engine, "before_cursor_execute", explain)


def _insert_site(conn: Connection, key: str) -> int:
    settings = SiteSettings((f"http://{key.removesuffix(':80')}/",))
    row = {"key": key, "settings": settings, "created_at": NOW, "updated_at": NOW}
    return int(conn.execute(sa.insert(sites).values(row).returning(sites.c.id)).scalar_one())


def _insert_run(conn: Connection, site_id: int, state: str = "queued") -> int:
    row = {"site_id": site_id, "state": state, "asked_by": "test", "created_at": NOW}
    return int(conn.execute(sa.insert(runs).values(row).returning(runs.c.id)).scalar_one())


def _work(url: str, name: str, now: datetime, spans: Any) -> None:
    """Claim, visit and leave hosts until nothing is left, noting when each host was held."""
    engine = database.open_database(url)
    worker = Frontier(name)
    noted: list[tuple[str, float, float, list[str]]] = []
    idle = 0
    while idle < 50:
        with database.write(engine) as conn:
            claims = worker.claim(conn, now, 2, 3, LEASE_S)
            begin = time.monotonic()
        idle = 0 if claims else idle + 1
        names = {claim.target.host for claim in claims}
        with database.write(engine) as conn:
            worker.report(conn, [fetched(claim) for claim in claims], now)
            end = time.monotonic()
            worker.leave_hosts(conn, dict.fromkeys(names, (now, 0)))
        noted += [(h, begin, end, [c.target.url for c in claims if c.target.host == h]) for h in names]
    spans.put(noted)
    engine.dispose()


def _find(url: str, seed: int, crawl: Crawl, added: Any) -> None:
    """Find the same 200 URLs in an order of one's own."""
    engine = database.open_database(url)
    found = [crawl.url(f"/{n}", f"h{n % 7}.cn:80") for n in range(200)]
    chance = random.Random(seed)
    n = 0
    for _ in range(8):
        with database.write(engine) as conn:
            n += Frontier(f"w{seed}").add(conn, chance.sample(found, 100), NOW)
    with database.write(engine) as conn:
        n += Frontier(f"w{seed}").add(conn, found, NOW)
    added.put(n)
    engine.dispose()
