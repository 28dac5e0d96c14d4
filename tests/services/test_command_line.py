"""The program's commands as they are called: exit codes, sentences, JSON. What needs a whole stack is in test_stack."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import structlog
from sqlalchemy.engine import Engine

from crawler import database
from crawler.frontier import Frontier
from crawler.records import CrawlUrl, RejectedUrl, Rejection, SiteSettings
from crawler.urls import host_of, urlkey
from services import command_line, control
from services.config import Settings
from services.crawl_request import CrawlOptions, declare_sites, summary_text
from services.errors import ConfigurationError

PAGE = """<!doctype html><html lang="zh"><head><title>渡口的清晨</title></head><body><article><h1>渡口的清晨</h1>
<p>天还没亮，渡口的雾已经漫上石阶，老船工把缆绳解开，等第一个过河的人。</p>
<p>来信请寄 ferry@example.cn，<a href="/boats">船期</a>每月一换。</p></article></body></html>"""


@pytest.fixture
def program(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Program]:
    """Runs commands in this process, on a stack's home of the test's own."""
    monkeypatch.setenv("PLUMBLINE_HOME", str(settings.home))
    handlers = logging.getLogger().handlers[:]
    yield Program(capsys)
    logging.getLogger().handlers[:] = handlers
    structlog.reset_defaults()


class Program:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a command."""
        with pytest.raises(SystemExit) as ended:
            command_line.main(arguments)
        captured = self._capsys.readouterr()
        return int(str(ended.value.code or 0)), captured.out, captured.err


def test_every_command_of_the_design_is_there(program: Program) -> None:
    _code, out, _err = program("--help")
    commands = {line.split()[0] for line in out.partition("Commands:")[2].splitlines() if line.strip()}
    wanted = {"up", "down", "status", "doctor", "crawl", "portal", "search", "analyze", "extract", "explain"}
    assert commands >= wanted | {"reindex", "archive", "node"}
    assert "process" not in commands


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["fly"], "No such command 'fly'"),
        (["crawl"], "Missing argument"),
        (["search"], "Missing argument 'QUERY'"),
        (["crawl", "http://x.example/", "--render", "maybe"], "Invalid value for '--render'"),
        (["extract", "there-is-no-such-file", "--url", "http://x.example/"], "does not exist"),
    ],
)
def test_a_wrong_command_line_is_exit_code_2(program: Program, arguments: list[str], sentence: str) -> None:
    code, out, err = program(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["crawl", "nonsense"], "'nonsense' is not a URL of the form https://www.example.cn/"),
        (["crawl", "http://127.0.0.1:8000/"], "has a private address, which is not crawled; if it is meant, add --al"),
        (["reindex", "--site", "nowhere"], "there is no site nowhere; there are: none yet"),
        (["explain", "http://"], "http://"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_exit_code_1(program: Program, arguments: list[str], sentence: str) -> None:
    code, out, err = program(*arguments)
    assert (code, out) == (1, "")
    assert sentence in err
    assert err.startswith("plumbline: ")
    assert len(err.splitlines()) == 1


def test_a_wrong_setting_is_one_sentence(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_LOG_FORMAT", "xml")
    code, _out, err = program("status")
    assert code == 1
    assert err.startswith("plumbline: setting log_format: ")


def test_extract_prints_the_document_as_json(program: Program, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE, "utf-8")
    code, out, err = program("extract", str(tmp_path / "page.html"), "--url", "http://x.example/a", "--json")
    document = json.loads(out)
    assert (code, err) == (0, "")
    assert document["title"] == "渡口的清晨"
    assert "老船工" in document["body"]
    assert document["emails"] == ["ferry@example.cn"]
    assert document["links"] == [{"url": "http://x.example/boats", "text": "船期", "rel": []}]
    wanted = "url title body author published_at description keywords language charset emails links kind fields"
    assert list(document) == wanted.split()


def test_extract_prints_the_document_for_people(program: Program, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE, "utf-8")
    _code, out, _err = program("extract", str(tmp_path / "page.html"), "--url", "http://x.example/a")
    assert "title: 渡口的清晨\n" in out
    assert "老船工" in out


def test_what_is_no_text_is_one_sentence(program: Program, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    arguments = ("extract", str(tmp_path / "a.png"), "--url", "http://x.example/a.png", "--content-type", "image/png")
    code, out, err = program(*arguments)
    assert (code, out) == (1, "")
    assert err.startswith("plumbline: ")


def test_the_urls_of_one_host_are_one_site(engine: Engine) -> None:
    urls = ["http://x.example/a", "http://x.example/b", "http://x.example:8080/"]
    sites = [control.get_site(engine, site_id) for site_id in declare_sites(engine, urls, CrawlOptions())]
    assert {site.key: site.settings.seeds for site in sites} == {
        "x.example:80": ("http://x.example/a", "http://x.example/b"),
        "x.example:8080": ("http://x.example:8080/",),
    }


def test_with_prefix_the_folder_is_the_site(engine: Engine) -> None:
    (site_id,) = declare_sites(engine, ["http://x.example/doc/index.html"], CrawlOptions(prefix=True))
    site = control.get_site(engine, site_id)
    assert site.key == "x.example:80/doc/"
    assert site.settings.scope.prefix


def test_a_known_site_keeps_what_the_command_line_does_not_speak_of(engine: Engine) -> None:
    settings = SiteSettings(("http://x.example/a",), name="X", delay_s=9.0)
    control.create_or_update(engine, "x.example:80", settings)
    (site_id,) = declare_sites(engine, ["http://x.example/b"], CrawlOptions(max_pages=5))
    kept = control.get_site(engine, site_id).settings
    assert kept.seeds == ("http://x.example/a", "http://x.example/b")
    assert (kept.name, kept.delay_s, kept.scope.max_pages) == ("X", 9.0, 5)


def test_allow_private_allows_exactly_the_seeds_own_hosts(engine: Engine) -> None:
    (site_id,) = declare_sites(engine, ["http://127.0.0.1:8000/"], CrawlOptions(allow_private=True))
    assert control.get_site(engine, site_id).settings.allow_private == ("127.0.0.1:8000",)
    with pytest.raises(ConfigurationError, match="--allow-private"):
        declare_sites(engine, ["http://127.0.0.1:8001/"], CrawlOptions())


def test_explain_tells_what_is_known_and_what_comes_next(program: Program, engine: Engine) -> None:
    site_id = control.create_or_update(engine, "x.example:80", SiteSettings(("http://x.example/",)))
    run_id = control.start(engine, site_id, "test").run_id
    url = "http://x.example/a"
    target = CrawlUrl(url, urlkey(url), host_of(url), site_id, run_id, depth=1, parent_url="http://x.example/")
    refused = RejectedUrl(run_id, "http://elsewhere.example/", "http://elsewhere.example/", Rejection.SCOPE, url)
    frontier = Frontier("test")
    with database.write(engine) as conn:
        frontier.add(conn, [target], datetime.now(UTC))
        frontier.reject(conn, [refused], datetime.now(UTC))

    found = json.loads(program("explain", url, "--json")[1])
    assert found["known"]["site_key"] == "x.example:80"
    assert found["known"]["discovered_at"].endswith("Z")
    assert found["next"] == "it waits to be visited"
    assert "found as a link at depth 1 of x.example:80, on http://x.example/" in program("explain", url)[1]
    assert "next: nothing: it was left out (scope)" in program("explain", "http://elsewhere.example/")[1]
    assert "next: it is visited if a page of x.example:80 links to it" in program("explain", "http://x.example/b")[1]
    assert "next: nothing: no site has it in its scope" in program("explain", "http://third.example/")[1]


def test_the_portal_file_goes_in_and_out(program: Program, tmp_path: Path) -> None:
    (tmp_path / "portal.toml").write_text('name = "茶"\n[[site]]\nseeds = ["https://tea.example/"]\n', "utf-8")
    assert program("portal", "apply", str(tmp_path / "portal.toml")) == (0, "茶: 1 sites\n", "")
    assert program("portal", "export", str(tmp_path / "again.toml"))[0] == 0
    code, out, _err = program("portal", "export")
    assert code == 0
    assert out == (tmp_path / "again.toml").read_text("utf-8")
    assert 'key = "tea.example:443"' in out


def test_an_empty_archive_is_in_order(program: Program) -> None:
    assert json.loads(program("archive", "verify", "--json")[1]) == {"errors": 0, "notes": 0}
    assert program("archive", "verify")[:2] == (0, "0 errors, 0 notes\n")


def test_reindex_of_nothing_says_so(program: Program) -> None:
    assert program("reindex", "--dry-run") == (0, "0 pages would be indexed again\n", "")
    assert program("reindex") == (0, "0 pages wait to be indexed again\n", "")


def test_nothing_runs_and_status_says_so(program: Program, settings: Settings) -> None:
    found = json.loads(program("status", "--json")[1])
    assert found["home"] == str(settings.home)
    assert found["portal"] is None
    assert not any(part["up"] for part in found["parts"])
    assert "crawler        down" in program("status")[1]


def test_there_is_nothing_to_stop(program: Program) -> None:
    assert program("down") == (0, "nothing was running\n", "")
    assert program("node", "stop") == (0, "nothing was running\n", "")


def test_the_doctor_looks_at_everything_and_says_what_to_do(program: Program, settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    (settings.home / "secrets.json").write_text("{}")
    (settings.home / "secrets.json").chmod(0o644)
    code, out, _err = program("doctor", "--json")
    findings = {finding["subject"]: finding for finding in json.loads(out)["findings"]}
    assert code == 1
    assert not findings["secrets"]["ok"]
    assert "chmod 600" in findings["secrets"]["message"]
    assert findings["java"]["ok"]
    assert set(findings) >= {"memory", "disk", "ports", "clock", "plugin", "home", "elasticsearch"}
    (settings.home / "secrets.json").chmod(0o600)
    assert "ok   secrets" in program("doctor")[1]


def test_the_summary_for_people_names_what_was_left_out() -> None:
    summary = control.CrawlSummary(10, 2, 9, {"robots": 1}, {"http_5xx": 3}, 4.0, 3.0)
    assert summary_text(summary) == (
        "10 pages fetched; 2 unchanged; 9 indexed; left out: 1 robots; failed: 3 http 5xx; 4.0 s, 3.0 pages/s"
    )
