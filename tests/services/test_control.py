from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from crawler import database
from crawler.database import captures, urls, warc_files
from crawler.errors import BadUrl
from crawler.frontier import Frontier
from crawler.records import (
    Claim,
    CrawlOutcome,
    CrawlStatus,
    CrawlUrl,
    IndexState,
    LinkKind,
    RejectedUrl,
    Rejection,
    RenderMode,
    RunState,
    SiteScope,
    SiteSettings,
    Strategy,
)
from crawler.urls import host_of, urlkey
from services import control
from services.control.users import FREE_TRIES
from services.errors import ConfigurationError, NotFound

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FULL = SiteSettings(
    seeds=("http://a.cn/", "https://b.cn/news/"),
    name="甲",
    scope=SiteScope(
        hosts=("*.a.cn",), include=("/news/*",), exclude=("*print*",), prefix=True, max_depth=3, max_pages=9
    ),
    strategy=Strategy.BEST_FIRST,
    render=RenderMode.NEVER,
    delay_s=0.5,
    allow_private=("10.0.0.5:80", "[::1]:8080"),
    headers=(("Cookie", "a=b"),),
    proxy="socks5h://127.0.0.1:1080",
    enabled=False,
)


class Crawl:
    """A site with a run, and a crawler that does what it is told."""

    def __init__(self, engine: Engine, key: str = "a.cn:80") -> None:
        self.engine = engine
        self.now = NOW
        self.frontier = Frontier("worker")
        settings = SiteSettings((f"http://{key.removesuffix(':80')}/",))
        self.site_id = control.create_or_update(engine, key, settings, NOW)
        self.run_id = 0

    def begin(self, *paths: str) -> int:
        self.run_id = control.start(self.engine, self.site_id, "test", self.now).run_id
        with database.write(self.engine) as conn:
            self.frontier.begin_runs(conn, self.now)
            self.frontier.add(conn, [self.url(path) for path in paths], self.now)
        return self.run_id

    def url(self, path: str) -> CrawlUrl:
        url = f"http://a.cn{path}"
        return CrawlUrl(
            url, urlkey(url), host_of(url), self.site_id, self.run_id, 1, 0.0, LinkKind.LINK, "http://a.cn/"
        )

    def claim(self, n: int = 10) -> list[Claim]:
        with database.write(self.engine) as conn:
            return self.frontier.claim(conn, self.now, 1, n, 30.0)

    def report(self, claim: Claim, status: CrawlStatus, reason: str | None = None, message: str | None = None) -> None:
        with database.write(self.engine) as conn:
            self.frontier.report(conn, [CrawlOutcome(claim, status, None, reason, message)], self.now)

    def reject(self, path: str, reason: Rejection) -> None:
        url = self.url(path)
        with database.write(self.engine) as conn:
            self.frontier.reject(
                conn, [RejectedUrl(self.run_id, url.url, url.urlkey, reason, "http://a.cn/")], self.now
            )

    def capture(self, claim: Claim, state: IndexState, error: str | None = None) -> None:
        with database.write(self.engine) as conn:
            warc = {"path": f"{claim.url_id}.warc.gz", "writer": "w", "created_at": NOW}
            warc_id = conn.execute(sa.insert(warc_files).values(warc).returning(warc_files.c.id)).scalar_one()
            row = {
                "url_id": claim.url_id, "site_id": self.site_id, "run_id": self.run_id, "captured_at": self.now,
                "status": 200, "content_type": "text/html", "digest": "d", "size_bytes": 10, "faults": "partial",
                "generation": claim.generation, "warc_file_id": warc_id, "offset": 0, "length": 1,
                "index_state": state.value, "index_error": error,
            }  # fmt: skip
            conn.execute(sa.insert(captures).values(row))

    def settle(self) -> None:
        with database.write(self.engine) as conn:
            self.frontier.leave_hosts(conn, {"a.cn:80": (self.now, 0)})
            self.frontier.settle_runs(conn, self.now)

    def beat(self) -> None:
        control.beat(self.engine, "worker", control.WorkerKind.CRAWLER, 1, {}, self.now)

    def progress(self) -> control.RunProgress:
        return control.progress(self.engine, self.run_id, self.now)


@pytest.fixture
def crawl(any_engine: Engine) -> Crawl:
    return Crawl(any_engine)


# Sites.


def test_a_site_keeps_its_settings_under_its_key(any_engine: Engine) -> None:
    site_id = control.create_or_update(any_engine, "a.cn:80", FULL, NOW)
    later = NOW + timedelta(hours=1)
    assert control.create_or_update(any_engine, "a.cn:80", replace(FULL, name="乙"), later) == site_id
    site = control.get_site(any_engine, site_id)
    assert site == control.Site(site_id, "a.cn:80", replace(FULL, name="乙"), None, NOW, later)
    assert control.find_site(any_engine, "a.cn:80") == site
    assert control.list_sites(any_engine) == [site]
    assert control.find_site(any_engine, "other") is None
    with pytest.raises(NotFound, match="there is no site 99"):
        control.get_site(any_engine, 99)


def test_settings_go_to_json_and_back(any_engine: Engine) -> None:
    assert control.parse_site_settings(control.site_settings_to_json(FULL), "site") == FULL
    assert control.site_settings_to_json(SiteSettings(("http://a.cn/",))) == {"seeds": ["http://a.cn/"]}


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({}, "site x: seeds: field required"),
        ({"seeds": []}, "seeds: at least one URL"),
        ({"seeds": ["ftp://a.cn/"]}, "seeds: 'ftp://a.cn/' is not a URL of the form https://"),
        ({"seeds": ["a.cn"]}, "is not a URL of the form"),
        ({"seeds": ["http://a.cn/"], "depth": 3}, "there is no setting 'depth'; there are seeds, name"),
        ({"seeds": ["http://a.cn/"], "scope": {"dept": 3}}, "scope: there is no setting 'dept'"),
        ({"seeds": ["http://a.cn/"], "strategy": "best"}, "strategy: .*breadth-first.*got 'best'"),
        ({"seeds": ["http://a.cn/"], "delay_s": -1}, "delay_s: a number of seconds, 0 or more"),
        ({"seeds": ["http://a.cn/"], "delay_s": float("nan")}, "delay_s: a number of seconds"),
        ({"seeds": ["http://a.cn/"], "scope": {"max_depth": -1}}, "scope.max_depth: a number of links, 0 or more"),
        ({"seeds": ["http://a.cn/"], "scope": {"max_pages": 0}}, "scope.max_pages: a number of pages, 1 or more"),
        ({"seeds": ["http://a.cn/"], "scope": {"max_pages": "many"}}, "scope.max_pages: .*got 'many'"),
        ({"seeds": ["http://a.cn/"], "headers": [["X", "a\r\nHost: evil"]]}, "headers: a name and a value in one line"),
        ({"seeds": ["http://a.cn/"], "headers": [["X Y", "a"]]}, "headers: a name and a value"),
        ({"seeds": ["http://a.cn/"], "proxy": "ftp://p:1"}, "proxy: http://host:port or socks5h://"),
        ({"seeds": ["http://a.cn/"], "allow_private": ["10.0.0.5"]}, "allow_private: host:port"),
        ({"seeds": ["http://a.cn/"], "scope": {"hosts": ["http://b.cn/x y"]}}, "scope.hosts: write host names"),
    ],
)
def test_wrong_settings_are_refused_with_the_key_and_the_right_form(raw: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        control.parse_site_settings(raw, "site x")


@pytest.mark.parametrize(
    ("seed", "prefix", "key"),
    [
        ("https://www.a.cn/x/index.html", False, "www.a.cn:443"),
        ("http://127.0.0.1:8000/x/index.html?a=/b/", True, "127.0.0.1:8000/x/"),
        ("http://a.cn", True, "a.cn:80/"),
    ],
)
def test_a_site_is_called_by_its_first_host_and_folder(seed: str, prefix: bool, key: str) -> None:
    assert control.site_key(SiteSettings((seed,), scope=SiteScope(prefix=prefix))) == key


def test_a_deleted_site_is_gone_with_all_that_was_known_of_it_and_the_others_stay(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control.sites, "DELETE_CHUNK", 2)
    crawl.begin(*(f"/{i}" for i in range(5)))
    (claim, *_) = crawl.claim(3)
    crawl.capture(claim, IndexState.WAITING)
    crawl.reject("/out", Rejection.SCOPE)
    control.set_schedule(crawl.engine, crawl.site_id, control.Schedule(interval_s=60.0), NOW)
    other = control.create_or_update(crawl.engine, "b.cn:80", SiteSettings(("http://b.cn/",)), NOW)
    control.delete_site(crawl.engine, crawl.site_id)
    crawl.report(claim, CrawlStatus.FETCHED)
    with database.read(crawl.engine) as conn:
        for table in (urls, captures, database.runs, database.rejections, database.run_counts, database.schedules):
            assert conn.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 0, table.name
    assert [site.site_id for site in control.list_sites(crawl.engine)] == [other]
    with pytest.raises(NotFound):
        control.delete_site(crawl.engine, crawl.site_id)


# Runs.


def test_one_run_comes_of_two_clicks(crawl: Crawl) -> None:
    first = control.start(crawl.engine, crawl.site_id, "me", NOW)
    second = control.start(crawl.engine, crawl.site_id, "me", NOW)
    assert (first.already_running, second) == (False, control.Started(first.run_id, already_running=True))
    with pytest.raises(NotFound):
        control.start(crawl.engine, 99, "me", NOW)


def test_one_run_comes_of_many_clicks_at_the_same_time(crawl: Crawl) -> None:
    gate = threading.Barrier(6)
    answers: list[control.Started] = []

    def click() -> None:
        gate.wait(10)
        answers.append(control.start(crawl.engine, crawl.site_id, "me", NOW))

    _all_at_once([click] * 6)
    assert len({answer.run_id for answer in answers}) == 1
    assert [answer.already_running for answer in answers].count(False) == 1


def test_stop_and_start_in_any_order_never_leave_a_site_stuck(crawl: Crawl) -> None:
    assert control.stop(crawl.engine, crawl.site_id, NOW) is None
    run_id = crawl.begin("/1", "/2", "/3")
    (claim,) = crawl.claim(1)
    assert control.stop(crawl.engine, crawl.site_id, NOW) == run_id
    assert crawl.progress().run.state is RunState.STOPPING
    assert control.stop(crawl.engine, crawl.site_id, NOW) == run_id
    crawl.report(claim, CrawlStatus.FETCHED)
    crawl.settle()
    assert crawl.progress().run.state is RunState.STOPPED
    assert control.stop(crawl.engine, crawl.site_id, NOW) == run_id
    assert control.start(crawl.engine, crawl.site_id, "me", NOW) == control.Started(run_id, already_running=False)
    with database.write(crawl.engine) as conn:
        crawl.frontier.begin_runs(conn, NOW)
    assert [claim.target.url for claim in crawl.claim()] == ["http://a.cn/2", "http://a.cn/3"]


def test_a_start_while_a_run_is_stopping_takes_the_stop_back(crawl: Crawl) -> None:
    run_id = crawl.begin("/1", "/2")
    crawl.claim(1)
    control.stop(crawl.engine, crawl.site_id, NOW)
    assert control.start(crawl.engine, crawl.site_id, "me", NOW) == control.Started(run_id, already_running=False)
    assert crawl.progress().run.state is RunState.QUEUED


def test_a_run_of_which_nothing_is_under_way_stops_at_once(crawl: Crawl) -> None:
    crawl.begin("/1")
    control.stop(crawl.engine, crawl.site_id, NOW)
    assert crawl.progress().run.state is RunState.STOPPED


def test_a_run_whose_crawler_was_killed_can_be_stopped_and_started(crawl: Crawl) -> None:
    run_id = crawl.begin("/1")
    crawl.claim()
    crawl.now += timedelta(seconds=31)
    control.stop(crawl.engine, crawl.site_id, crawl.now)
    assert crawl.progress().run.state is RunState.STOPPED
    assert control.start(crawl.engine, crawl.site_id, "me", crawl.now) == control.Started(run_id, already_running=False)
    with database.write(crawl.engine) as conn:
        crawl.frontier.begin_runs(conn, crawl.now)
    assert len(crawl.claim()) == 1


def test_a_finished_site_is_started_anew(crawl: Crawl) -> None:
    first = crawl.begin("/1")
    crawl.report(crawl.claim()[0], CrawlStatus.FETCHED)
    crawl.settle()
    second = control.start(crawl.engine, crawl.site_id, "schedule", NOW)
    assert second.run_id > first
    assert [item.run.run_id for item in control.history(crawl.engine, crawl.site_id)] == [second.run_id, first]
    assert control.latest_runs(crawl.engine, NOW)[crawl.site_id].run.asked_by == "schedule"


def test_progress_says_all_that_is_known_of_a_run(crawl: Crawl) -> None:
    crawl.begin(*(f"/{i}" for i in range(8)))
    crawl.beat()
    crawl.reject("/out1", Rejection.SCOPE)
    crawl.reject("/out2", Rejection.SCOPE)
    fetched, unchanged, moved, gone, lost, refused, _leased = crawl.claim(7)
    crawl.now += timedelta(seconds=20)
    crawl.report(fetched, CrawlStatus.FETCHED)
    crawl.report(unchanged, CrawlStatus.UNCHANGED)
    crawl.report(moved, CrawlStatus.REDIRECTION)
    crawl.report(gone, CrawlStatus.GONE)
    crawl.report(lost, CrawlStatus.FETCH_ERROR, "timeout")
    crawl.report(refused, CrawlStatus.REJECTED, "robots")
    crawl.capture(fetched, IndexState.WAITING)
    crawl.capture(unchanged, IndexState.INDEXED)
    crawl.capture(moved, IndexState.REFUSED, "too long")
    with database.write(crawl.engine) as conn:
        crawl.frontier.count(conn, crawl.run_id, {"bytes": 1000})
    figures = crawl.progress()
    assert figures == control.RunProgress(
        run=figures.run, fetched=1, unchanged=1, redirected=1, gone=1, retried=0, queued=2, leased=1,
        rejected={"robots": 1, "scope": 2}, errors={"timeout": 1}, waiting=1, indexed=1, refused=1,
        pages_per_s=4 / 20, seconds=20.0, stalled=False, other={"bytes": 1000},
    )  # fmt: skip
    assert (figures.state, figures.errors_total) == ("running", 1)
    assert control.pace(crawl.engine, crawl.run_id) == [(NOW + timedelta(seconds=20), 0.4)]
    with pytest.raises(NotFound):
        control.progress(crawl.engine, 99)


def test_running_is_not_claimed_for_long_after_the_crawler_died(crawl: Crawl) -> None:
    crawl.beat()
    crawl.begin("/1")
    assert crawl.progress().state == "running"
    crawl.now += timedelta(seconds=50)
    assert crawl.progress().state == "stalled"
    crawl.beat()
    assert crawl.progress().state == "running"


def test_idle_is_when_nothing_is_left_to_do_anywhere(crawl: Crawl) -> None:
    assert control.is_idle(crawl.engine)
    crawl.begin("/1")
    assert not control.is_idle(crawl.engine)
    (claim,) = crawl.claim()
    crawl.report(claim, CrawlStatus.FETCHED)
    crawl.capture(claim, IndexState.WAITING)
    crawl.settle()
    assert crawl.progress().run.state is RunState.FINISHED
    assert not control.is_idle(crawl.engine)
    with database.write(crawl.engine) as conn:
        conn.execute(sa.update(captures).values(index_state="indexed"))
    assert control.is_idle(crawl.engine)


def test_a_stopped_run_does_not_keep_the_stack_busy(crawl: Crawl) -> None:
    crawl.begin("/1")
    control.stop(crawl.engine, crawl.site_id, NOW)
    assert control.is_idle(crawl.engine)


def test_the_summary_of_a_crawl_has_the_promised_keys(crawl: Crawl) -> None:
    crawl.begin("/1", "/2", "/3")
    one, two, three = crawl.claim()
    crawl.report(one, CrawlStatus.FETCHED)
    crawl.report(two, CrawlStatus.FETCH_ERROR, "dns")
    crawl.report(three, CrawlStatus.REJECTED, "robots")
    crawl.capture(one, IndexState.INDEXED)
    crawl.reject("/out", Rejection.SCOPE)
    assert control.summary(crawl.engine, [crawl.run_id], 2.0).to_json() == {
        "fetched": 1, "unchanged": 0, "indexed": 1, "rejected": {"robots": 1, "scope": 1}, "errors": {"dns": 1},
        "seconds": 2.0, "pages_per_s": 0.5, "harvest_rate": None,
    }  # fmt: skip


# What did not work.


def test_failures_are_grouped_by_cause_with_their_urls_and_sentences(crawl: Crawl) -> None:
    crawl.begin(*(f"/{i}" for i in range(6)))
    claims = crawl.claim()
    for claim in claims[:3]:
        crawl.report(claim, CrawlStatus.FETCH_ERROR, "timeout", "no answer in 60 s")
    crawl.report(claims[3], CrawlStatus.GONE, None, "404 Not Found")
    groups = control.failures(crawl.engine, crawl.run_id, limit=2)
    assert [(group.cause, group.n, len(group.urls)) for group in groups] == [("timeout", 3, 2), ("gone", 1, 1)]
    assert groups[0].urls[0] == control.FailedUrl("http://a.cn/0", "no answer in 60 s", NOW, "http://a.cn/")
    assert groups[1].urls[0].message == "404 Not Found"


def test_what_was_left_out_is_grouped_by_reason(crawl: Crawl) -> None:
    crawl.begin("/private")
    crawl.report(crawl.claim()[0], CrawlStatus.REJECTED, "robots", "robots.txt: Disallow: /private")
    for i in range(3):
        crawl.reject(f"/out{i}", Rejection.SCOPE)
    groups = control.rejections(crawl.engine, crawl.run_id, limit=2)
    assert [(group.reason, group.n, len(group.urls)) for group in groups] == [
        (Rejection.SCOPE, 3, 2),
        (Rejection.ROBOTS, 1, 1),
    ]
    assert groups[1].urls[0].message == "robots.txt: Disallow: /private"


def test_documents_that_the_index_refused_are_listed_newest_first(crawl: Crawl) -> None:
    crawl.begin("/1", "/2", "/3")
    one, two, three = crawl.claim()
    crawl.capture(one, IndexState.REFUSED, "field too long")
    crawl.capture(two, IndexState.INDEXED)
    crawl.capture(three, IndexState.REFUSED, "no text")
    assert [(item.url, item.error) for item in control.refused_documents(crawl.engine, crawl.site_id)] == [
        ("http://a.cn/3", "no text"),
        ("http://a.cn/1", "field too long"),
    ]
    assert control.refused_documents(crawl.engine, crawl.site_id + 1) == []


def test_a_url_is_explained_from_where_it_was_found_to_its_captures(crawl: Crawl) -> None:
    crawl.begin("/1")
    (claim,) = crawl.claim()
    crawl.report(claim, CrawlStatus.FETCH_ERROR, "timeout", "no answer")
    crawl.capture(claim, IndexState.INDEXED)
    found = control.explain(crawl.engine, "http://A.cn:80/1?utm_source=x#top")
    assert found.urlkey == "http://a.cn/1"
    assert found.known is not None
    assert (found.known.state, found.known.status, found.known.reason) == ("done", CrawlStatus.FETCH_ERROR, "timeout")
    assert (found.known.parent_url, found.known.site_key) == ("http://a.cn/", "a.cn:80")
    assert [(item.status, item.faults, item.index_state) for item in found.captures] == [
        (200, ("partial",), IndexState.INDEXED)
    ]
    assert [(verdict.site_key, verdict.refusal) for verdict in found.scopes] == [("a.cn:80", None)]


def test_a_url_that_is_not_known_is_explained_by_what_would_become_of_it(crawl: Crawl) -> None:
    crawl.begin("/1")
    crawl.reject("/photo.jpg", Rejection.TYPE)
    control.create_or_update(crawl.engine, "b.cn:80", SiteSettings(("http://b.cn/",)), NOW)
    photo = control.explain(crawl.engine, "http://a.cn/photo.jpg")
    assert photo.known is None
    assert [(item.reason, item.parent_url) for item in photo.rejections] == [(Rejection.TYPE, "http://a.cn/")]
    assert [(verdict.site_key, verdict.refusal) for verdict in photo.scopes] == [("a.cn:80", Rejection.TYPE)]
    page = control.explain(crawl.engine, "http://b.cn/new.html")
    assert [(verdict.site_key, verdict.refusal) for verdict in page.scopes] == [("b.cn:80", None)]
    foreign = control.explain(crawl.engine, "http://elsewhere.cn/")
    assert [verdict.refusal for verdict in foreign.scopes] == [Rejection.SCOPE, Rejection.SCOPE]
    with pytest.raises(BadUrl):
        control.explain(crawl.engine, "mailto:a@b.cn")


def test_no_page_of_the_admin_reads_a_big_table_through(engine: Engine) -> None:
    crawl = Crawl(engine)
    crawl.begin("/1", "/2")
    (claim,) = crawl.claim(1)
    crawl.report(claim, CrawlStatus.FETCH_ERROR, "timeout")
    crawl.capture(claim, IndexState.WAITING)
    crawl.reject("/out", Rejection.SCOPE)
    with _scans(engine) as scans:
        crawl.progress()
        control.latest_runs(engine, NOW)
        control.history(engine, crawl.site_id)
        control.failures(engine, crawl.run_id)
        control.rejections(engine, crawl.run_id)
        control.refused_documents(engine, crawl.site_id)
        control.explain(engine, "http://a.cn/1")
        control.is_idle(engine)
        control.stop(engine, crawl.site_id, NOW)
    assert scans == []


# Workers, users, portal.


def test_workers_are_alive_while_they_speak_and_forgotten_when_they_leave(any_engine: Engine) -> None:
    for second in (0, 5):
        at = NOW + timedelta(seconds=second)
        control.beat(any_engine, "w1", control.WorkerKind.INDEXER, 7, {"second": second}, at)
    (worker,) = control.list_workers(any_engine, NOW + timedelta(seconds=30))
    assert (worker.started_at, worker.seen_at, worker.state, worker.alive) == (
        NOW, NOW + timedelta(seconds=5), {"second": 5}, True,
    )  # fmt: skip
    assert not control.list_workers(any_engine, NOW + timedelta(seconds=60))[0].alive
    control.beat(any_engine, "w2", control.WorkerKind.WEB, 8, {}, NOW + timedelta(days=8))
    assert [worker.worker_id for worker in control.list_workers(any_engine)] == ["w2"]
    control.forget(any_engine, "w2")
    assert control.list_workers(any_engine) == []


def test_the_first_owner_is_made_once_with_a_password_that_is_shown_once(any_engine: Engine) -> None:
    made = control.ensure_owner(any_engine, now=NOW)
    assert made is not None
    assert control.ensure_owner(any_engine) is None
    assert made.user.role is control.Role.OWNER
    assert control.sign_in(any_engine, "owner", made.password, "1.2.3.4", NOW).user == made.user
    with database.read(any_engine) as conn:
        stored = conn.execute(sa.select(database.users.c.password_hash)).scalar_one()
    assert stored.startswith("$argon2id$")
    assert made.password not in stored


def test_only_one_owner_is_made_by_processes_that_start_together(any_engine: Engine) -> None:
    made: list[control.NewUser | None] = []
    gate = threading.Barrier(4)

    def begin() -> None:
        gate.wait(10)
        made.append(control.ensure_owner(any_engine))

    _all_at_once([begin] * 4)
    assert len([user for user in made if user is not None]) == 1


def test_users_are_added_changed_and_deleted_but_never_the_last_owner(any_engine: Engine) -> None:
    owner = control.add_user(any_engine, "李", "correct horse", control.Role.OWNER)
    editor = control.add_user(any_engine, "editor", "battery staple", control.Role.EDITOR)
    assert control.list_users(any_engine) == [editor, owner]
    changed = control.set_password(any_engine, editor.user_id, "another one")
    assert changed.session_key != editor.session_key
    assert control.get_user(any_engine, editor.user_id) == changed
    assert control.sign_in(any_engine, "editor", "battery staple", "a", NOW).user is None
    assert control.sign_in(any_engine, "editor", "another one", "a", NOW).user == changed
    with pytest.raises(ConfigurationError, match="last owner"):
        control.delete_user(any_engine, owner.user_id)
    with pytest.raises(ConfigurationError, match="last owner"):
        control.set_role(any_engine, owner.user_id, control.Role.EDITOR)
    control.set_role(any_engine, editor.user_id, control.Role.OWNER)
    control.delete_user(any_engine, owner.user_id)
    assert [user.name for user in control.list_users(any_engine)] == ["editor"]


@pytest.mark.parametrize(
    ("name", "password", "complaint"),
    [("li", "short", "at least 8"), ("  ", "long enough", "needs a name"), ("taken", "long enough", "already")],
)
def test_a_user_that_cannot_be_is_refused_in_words(
    any_engine: Engine, name: str, password: str, complaint: str
) -> None:
    control.add_user(any_engine, "taken", "long enough", control.Role.EDITOR)
    with pytest.raises(ConfigurationError, match=complaint):
        control.add_user(any_engine, name, password, control.Role.EDITOR)


def test_wrong_passwords_are_slowed_down_for_all_processes_and_forgiven_after_the_right_one(any_engine: Engine) -> None:
    user = control.add_user(any_engine, "li", "correct horse", control.Role.OWNER)
    now = NOW
    for _ in range(FREE_TRIES - 1):
        assert control.sign_in(any_engine, "li", "wrong", "1.1.1.1", now) == control.SignIn(None, 0.0)
    assert control.sign_in(any_engine, "li", "wrong", "1.1.1.1", now) == control.SignIn(None, 1.0)
    assert control.sign_in(any_engine, "LI", "correct horse", "1.1.1.1", now).user is None
    other_process = database.open_database(any_engine.url.render_as_string(hide_password=False))
    assert control.sign_in(other_process, "li", "correct horse", "2.2.2.2", now) == control.SignIn(None, 1.0)
    other_process.dispose()
    now += timedelta(seconds=1)
    assert control.sign_in(any_engine, "li", "wrong", "1.1.1.1", now) == control.SignIn(None, 2.0)
    now += timedelta(seconds=2)
    assert control.sign_in(any_engine, "li", "correct horse", "1.1.1.1", now).user == user
    assert control.sign_in(any_engine, "li", "wrong", "1.1.1.1", now) == control.SignIn(None, 0.0)


def test_trying_someone_elses_name_does_not_keep_them_out_for_long(any_engine: Engine) -> None:
    control.add_user(any_engine, "li", "correct horse", control.Role.OWNER)
    now = NOW
    for _ in range(40):
        now += timedelta(seconds=control.sign_in(any_engine, "li", "wrong", "6.6.6.6", now).wait_s)
    assert control.sign_in(any_engine, "nobody", "wrong", "6.6.6.6", now - timedelta(seconds=1)).wait_s > 0
    now += timedelta(seconds=30)
    assert control.sign_in(any_engine, "li", "correct horse", "1.1.1.1", now).user is not None


def test_many_tries_at_once_are_all_counted(any_engine: Engine) -> None:
    control.add_user(any_engine, "li", "correct horse", control.Role.OWNER)
    _all_at_once([lambda: control.sign_in(any_engine, "li", "wrong", "1.1.1.1", NOW)] * 12)  # type: ignore[list-item]
    assert control.sign_in(any_engine, "li", "correct horse", "9.9.9.9", NOW).user is None


def test_the_portals_settings_are_kept(any_engine: Engine) -> None:
    assert control.read_portal(any_engine) == control.PortalSettings()
    portal = control.PortalSettings("茶", "关于茶的一切", "京ICP备1号", ("en",))
    control.write_portal(any_engine, portal)
    control.write_portal(any_engine, portal)
    assert control.read_portal(any_engine) == portal
    assert control.parse_portal(control.portal_to_json(portal), "portal.toml") == portal


@pytest.mark.parametrize(
    ("raw", "complaint"),
    [
        ({"nam": "x"}, "there is no setting 'nam'; there are name"),
        ({"name": " "}, "needs a name"),
        ({"languages": ["fr"]}, "one or more of zh, en"),
        ({"name": 5}, "name: .*string"),
    ],
)
def test_wrong_portal_settings_are_refused_in_words(raw: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        control.parse_portal(raw, "portal.toml")


@pytest.fixture(autouse=True)
def quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Argon2 with little work, for tests of many tries."""
    from argon2 import PasswordHasher

    monkeypatch.setattr(control.users, "_HASHER", PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
    control.users._nobody.cache_clear()


def _all_at_once(work: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=item) for item in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)


@contextmanager
def _scans(engine: Engine) -> Iterator[list[str]]:
    """Statements by which SQLite reads one of the big tables from end to end."""
    found: list[str] = []

    def explain(conn: Any, cursor: Any, statement: str, parameters: Any, context: Any, executemany: bool) -> None:
        if statement.split()[0] not in ("SELECT", "UPDATE", "DELETE"):
            return
        given = parameters[0] if executemany else parameters
        for row in cursor.connection.execute(f"EXPLAIN QUERY PLAN {statement}", given).fetchall():
            words = row[3].split()
            # What is leased, waits or was refused is read from its own partial index.
            partial = ("ix_urls_leased", "ix_captures_waiting", "ix_captures_refused")
            if words[:1] == ["SCAN"] and words[1] in ("urls", "captures", "rejections") and words[-1] not in partial:
                found.append(f"{row[3]}: {statement}")

    sa.event.listen(engine, "before_cursor_execute", explain)
    yield found
    sa.event.remove(engine, "before_cursor_execute", explain)
