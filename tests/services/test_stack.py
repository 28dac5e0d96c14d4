"""The whole stack as its owner runs it: the sample portal, crawls, kills. Its node is the suite's own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from services import stack
from services.config import Settings, kept_port
from services.elastic import ElasticUser, credentials
from services.errors import StackError
from services.processes import ProcessName, end_with
from services.stack import ProcessMark, StackState, read_state

PAGES = Path(__file__).parents[2] / "services" / "sample_site" / "pages"
TIMEOUT_S = 120.0


class Stack:
    """A stack with a home of its own on the suite's node, driven by the program as a user drives it."""

    def __init__(self, home: Path, node: Settings, database_url: str = "") -> None:
        prefix = f"{node.index_prefix}stack-{'postgres' if database_url else 'sqlite'}-"
        self.settings = node.model_copy(update={"home": home, "index_prefix": prefix, "database_url": database_url})
        writer = credentials(node, ElasticUser.WRITER)
        self._environment = {
            **os.environ,
            "PLUMBLINE_HOME": str(home),
            "PLUMBLINE_INDEX_PREFIX": prefix,
            "PLUMBLINE_DATABASE_URL": database_url,
            "PLUMBLINE_EXTRACT_PROCESSES": "1",
            "ELASTICSEARCH_URL": writer.url,
            "ELASTICSEARCH_USER": writer.user,
            "ELASTICSEARCH_PASSWORD": writer.password,
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "services.command_line", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )

    def json(self, *arguments: str) -> dict[str, Any]:
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return answer

    @property
    def state(self) -> StackState:
        state = read_state(self.settings)
        assert state is not None
        return state

    @property
    def sample(self) -> str:
        return f"http://127.0.0.1:{kept_port(self.settings, 'sample')}"

    def portal(self, path: str) -> str:
        with urllib.request.urlopen(stack.portal_address(self.settings) + path, timeout=30) as answer:
            content: bytes = answer.read()
        return content.decode()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def up(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, node: Settings) -> Iterator[Stack]:
    """The sample portal, crawled and searchable, with a crawl database of each kind."""
    database_url = request.getfixturevalue("postgres").new_database() if request.param == "postgres" else ""
    sample_stack = Stack(tmp_path_factory.mktemp("stack"), node, database_url)
    done = sample_stack.run("up", "--sample", "--until-idle")
    assert done.returncode == 0, done.stderr
    assert re.search(r"sign in to the admin as owner with the password \S{16}", done.stdout)
    assert f"search page: {stack.portal_address(sample_stack.settings)}" in done.stdout
    yield sample_stack
    assert sample_stack.run("down").returncode == 0


@pytest.fixture
def empty_site() -> Iterator[str]:
    """The address of a site without any page."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), EmptySite)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


class EmptySite(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, *_arguments: object) -> None:
        """Nobody reads it."""


def wait_for(condition: Any) -> Any:
    """What the condition gives, once it gives something."""
    deadline = time.monotonic() + TIMEOUT_S
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def indexed_urls(up: Stack) -> list[str]:
    urls = []
    for page in (1, 2):
        hits = up.json("search", "site:sample", "--size", "100", "--page", str(page))["hits"]
        urls += [hit["url"] for hit in hits]
    return urls


@pytest.mark.node
@pytest.mark.browser
@pytest.mark.slow
class TestRunningStack:
    def test_every_page_of_the_sample_can_be_found(self, up: Stack) -> None:
        listed = re.findall(r"<loc>\{origin\}(.*?)</loc>", (PAGES / "sitemap.xml").read_text("utf-8"))
        assert len(listed) > 60
        assert sorted(indexed_urls(up)) == sorted(up.sample + path for path in listed)

    def test_a_word_that_only_a_script_writes_finds_its_page_and_is_in_its_snapshot(self, up: Stack) -> None:
        observations = json.loads((PAGES / "garden" / "observations.json").read_text("utf-8"))
        answer = up.json("search", f'"{observations["intro"][:12]}"')
        (hit,) = [hit for hit in answer["hits"] if hit["url"].startswith(f"{up.sample}/garden/")]
        path = hit["snapshot_url"].removeprefix(stack.portal_address(up.settings))
        assert observations["intro"][:12] in up.portal(f"{path}/page")

    def test_search_prints_its_json_form(self, up: Stack) -> None:
        answer = up.json("search", "龙井 绿茶")
        assert set(answer) == {"total", "took_ms", "hits"}
        hit = answer["hits"][0]
        assert set(hit) >= {"url", "title", "snippet", "score", "snapshot_url", "captured_at", "fields"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", hit["captured_at"])
        assert any(segment["hit"] and segment["text"] in "龙井绿茶" for segment in hit["snippet"])

    def test_search_for_people_shows_titles_addresses_and_passages(self, up: Stack) -> None:
        out = up.run("search", "龙井", "--size", "1").stdout
        assert re.match(r"\d+ pages, \d+ ms\n\n1\. .*龙井.*\n   http://127", out)

    def test_analyze_prints_the_tokenizer_s_own_output_and_a_whole_chain(self, up: Stack) -> None:
        tokens = up.json("analyze", "南京市长江大桥", "--mode", "search")["tokens"]
        assert [token["token"] for token in tokens] == ["南京市", "长江大桥"]
        assert tokens[1] == {"token": "长江大桥", "start": 3, "end": 7, "position": 1}
        assert len(up.json("analyze", "南京市长江大桥")["tokens"]) > 2
        chain = up.json("analyze", "Tea, THE tea", "--analyzer", "words_search")["tokens"]
        assert chain[0]["token"] == "tea"

    def test_status_shows_what_runs(self, up: Stack) -> None:
        found = up.json("status")
        assert {part["name"] for part in found["parts"] if part["up"]} >= {name.value for name in ProcessName}
        assert found["portal"] == stack.portal_address(up.settings)
        (site,) = [site for site in found["sites"] if site["key"] == "sample"]
        assert (site["state"], site["waiting"]) == ("finished", 0)

    def test_a_second_up_says_where_the_stack_is(self, up: Stack) -> None:
        before = up.state.supervisor
        foreground = up.run("up")
        assert foreground.returncode == 1
        assert f"the stack is up already: {stack.portal_address(up.settings)}" in foreground.stderr
        again = up.run("up", "--detach")
        assert again.returncode == 0
        assert "the stack is up already" in again.stdout
        assert up.state.supervisor == before

    def test_crawl_works_through_the_stack_and_ends_with_its_json_form(self, up: Stack) -> None:
        done = up.run("crawl", f"{up.sample}/en/", "--prefix", "--allow-private", "--json")
        assert done.returncode == 0, done.stderr
        summary = json.loads(done.stdout)
        wanted = "fetched unchanged indexed rejected errors seconds pages_per_s harvest_rate"
        assert list(summary) == wanted.split()
        assert summary["harvest_rate"] is None

    def test_a_crawl_without_a_page_fails_with_the_cause(self, up: Stack, empty_site: str) -> None:
        done = up.run("crawl", empty_site, "--allow-private", "--json")
        assert done.returncode == 1
        assert json.loads(done.stdout)["fetched"] == 0
        last_line = done.stderr.splitlines()[-1]
        assert last_line.startswith(f"plumbline: no page could be fetched: {empty_site}: ")
        assert "404" in last_line

    def test_pages_are_indexed_again_without_being_fetched(self, up: Stack) -> None:
        done = up.run("reindex", "--site", "sample")
        assert re.fullmatch(r"\d\d pages wait to be indexed again\n", done.stdout)
        assert up.run("up", "--detach", "--until-idle").returncode == 0
        assert len(indexed_urls(up)) == len(set(indexed_urls(up))) > 60

    def test_what_is_killed_while_crawling_is_started_again_and_nothing_is_lost(self, up: Stack) -> None:
        before = sorted(indexed_urls(up))
        for name in ("crawler", "indexer", "web", "scheduler", "sample-site"):
            mark = up.state.children[name]
            os.kill(mark.pid, signal.SIGKILL)
            wait_for(lambda mark=mark, name=name: up.state.children.get(name, mark) != mark)
        supervisor, children = up.state.supervisor, up.state.children
        os.kill(supervisor.pid, signal.SIGKILL)
        wait_for(lambda: not any(mark.process() for mark in children.values()))
        done = up.run("up", "--sample", "--until-idle")
        assert done.returncode == 0, done.stderr
        assert up.state.supervisor != supervisor
        assert sorted(indexed_urls(up)) == before
        assert up.json("archive", "verify")["errors"] == 0


def test_a_mark_tells_a_process_from_a_later_one_with_its_number() -> None:
    mark = ProcessMark.of(os.getpid())
    assert mark is not None
    assert mark.process() == psutil.Process()
    assert ProcessMark(mark.pid, mark.created - 100).process() is None
    assert ProcessMark.of(2**22 + 1) is None


def test_the_state_comes_back_as_it_was_written() -> None:
    mark = ProcessMark(7, 1.5)
    state = StackState(mark, sample=True, ready=True, children={"web": mark}, failing={"crawler": "no"})
    assert StackState.from_json(json.loads(json.dumps(state.to_json()))) == state
    assert not state.is_up


def test_a_damaged_state_file_is_no_state(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    (settings.home / "stack.json").write_text('{"supervisor": 3}')
    assert read_state(settings) is None


def test_a_process_that_keeps_ending_is_named_with_its_last_words(settings: Settings) -> None:
    state = StackState(ProcessMark(1, 1.0), sample=False, failing={"crawler": "no such browser"})
    with pytest.raises(StackError, match=r"the crawler keeps ending: no such browser \(see .*crawler\.log\)"):
        stack.raise_if_failing(settings, state)


@pytest.mark.slow
def test_a_child_that_keeps_ending_is_started_again_and_counts_as_failing(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A setting that the child cannot start with: it ends at once, every time."""
    monkeypatch.setattr(stack, "FIRST_BACK_OFF_S", 0.01)
    stack.log_folder(settings).mkdir(parents=True)
    (settings.home / "plumbline.toml").write_text("max_tries = 0\n")
    said: list[str] = []
    child = stack.Child(ProcessName.SCHEDULER, settings, said.append, lambda: None)
    child.start()

    def tended() -> bool:
        child.tend()
        return child.is_failing

    wait_for(tended)
    child.terminate()
    child.wait()
    assert len(said) == stack.FAILING_AFTER
    assert said[0].startswith("the scheduler ended with exit code 1; starting it again")
    assert "setting max_tries" in child.last_words
    assert "setting max_tries" in (stack.log_folder(settings) / "scheduler.log").read_text()


def test_a_process_whose_supervisor_is_gone_does_not_begin() -> None:
    with pytest.raises(SystemExit, match="the supervisor that started this process is gone"):
        end_with(2**22 + 1)


def test_a_taken_port_is_said_before_anything_is_started(settings: Settings) -> None:
    stack.prepare(settings, lambda _line: None)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        busy = settings.model_copy(update={"web_port": port})
        with pytest.raises(StackError, match=f"port {port} for the portal is taken by another program"):
            stack.Supervisor(busy, lambda _line: None)._check_ports()


def test_the_database_is_its_owner_s_alone(settings: Settings) -> None:
    with stack.opened_database(settings):
        pass
    assert stat.S_IMODE((settings.home / "crawl.db").stat().st_mode) == 0o600


def test_the_first_owner_s_password_is_said_once(settings: Settings) -> None:
    said: list[str] = []
    stack.prepare(settings, said.append)
    stack.prepare(settings, said.append)
    assert len(said) == 1
