"""The local node: a real one wherever it takes a node to see it."""

from __future__ import annotations

import json
import os
import stat
import urllib.error
import urllib.request
from base64 import b64encode
from pathlib import Path

import pytest

from services.config import ROOT_HOME, Settings, kept_port, load_settings
from services.elastic import Credentials, ElasticUser, credentials
from services.errors import NodeError
from services.node import ELASTICSEARCH_VERSION, LocalNode, explain_start, fetch_distribution, plugin_zip

POM = Path(__file__).parents[2] / "services" / "elasticsearch" / "analysis-jieba" / "pom.xml"


def ask(
    user: Credentials, method: str, path: str, body: dict[str, object] | None = None
) -> tuple[int, dict[str, object]]:
    token = b64encode(f"{user.user}:{user.password}".encode()).decode()
    headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(user.url + path, data=content, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as refused:
        return refused.code, json.loads(refused.read() or b"{}")


@pytest.mark.node
def test_the_node_answers_its_users_only(node: Settings) -> None:
    reader = credentials(node, ElasticUser.READER)
    stranger = Credentials(reader.url, "reader", "guessed")
    assert ask(reader, "GET", "/_cluster/health")[0] == 200
    assert ask(stranger, "GET", "/_cluster/health")[0] == 401


@pytest.mark.node
def test_each_user_may_do_its_own_work_and_no_other(node_settings: Settings) -> None:
    reader, writer, appender = (credentials(node_settings, user) for user in ElasticUser)
    pages, log = f"/{node_settings.index_prefix}pages-1", f"/{node_settings.index_prefix}crawl-log-1"
    document: dict[str, object] = {"title": "x"}
    assert ask(writer, "PUT", pages)[0] == 200
    assert ask(writer, "PUT", f"{pages}/_doc/1?refresh=true", document)[0] == 201
    assert ask(writer, "PUT", "/elsewhere")[0] == 403
    assert ask(reader, "GET", f"{pages}/_search")[0] == 200
    assert ask(reader, "POST", "/_analyze", {"tokenizer": "jieba_index", "text": "软件"})[0] == 200
    assert ask(reader, "PUT", f"{pages}/_doc/2", document)[0] == 403
    assert ask(appender, "POST", f"{log}/_doc", document)[0] == 403  # it makes no index
    assert ask(writer, "PUT", log)[0] == 200
    assert ask(appender, "POST", f"{log}/_doc", document)[0] == 201
    assert ask(appender, "GET", f"{log}/_search")[0] == 403
    assert ask(appender, "POST", f"{pages}/_doc", document)[0] == 403


@pytest.mark.node
def test_the_jieba_plugin_segments_in_the_node(node: Settings) -> None:
    body: dict[str, object] = {"tokenizer": "jieba_search", "text": "软件包依赖"}
    status, answer = ask(credentials(node, ElasticUser.READER), "POST", "/_analyze", body)
    tokens = answer["tokens"]
    assert status == 200
    assert isinstance(tokens, list)
    assert [token["token"] for token in tokens] == ["软件包", "依赖"]


@pytest.mark.node
def test_a_running_node_is_found_again(node: Settings) -> None:
    again = LocalNode(node)
    before = again.process()
    again.ensure_running()
    assert before is not None
    assert again.process() == before
    assert again.is_running()


@pytest.mark.node
def test_the_node_listens_on_loopback_only(node: Settings) -> None:
    process = LocalNode(node).process()
    assert process is not None
    listening = {connection.laddr for connection in process.net_connections("tcp") if connection.status == "LISTEN"}
    assert {address.port for address in listening} == {kept_port(node, "node"), kept_port(node, "node_transport")}
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}


@pytest.mark.node
def test_passwords_lie_in_a_file_for_the_owner_only(node: Settings) -> None:
    mode = (node.home / "secrets.json").stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


@pytest.mark.node
@pytest.mark.slow
def test_a_killed_node_starts_again_with_its_data(node: Settings) -> None:
    """On the suite's own node: it is there again, with the same documents, for the tests that follow."""
    local_node = LocalNode(node)
    writer = credentials(node, ElasticUser.WRITER)
    index = f"/{node.index_prefix}kept"
    assert ask(writer, "PUT", f"{index}/_doc/1", {"title": "x"})[0] == 201
    process = local_node.process()
    assert process is not None
    process.kill()
    process.wait(30)
    assert not local_node.is_running()
    local_node.ensure_running()
    assert local_node.process() != process
    assert ask(writer, "GET", f"{index}/_doc/1")[0] == 200
    assert ask(writer, "DELETE", index)[0] == 200


def test_without_a_node_nothing_runs_and_there_is_nothing_to_stop(settings: Settings) -> None:
    assert not LocalNode(settings).is_running()
    assert not LocalNode(settings).stop()


def test_another_process_with_the_old_number_is_not_taken_for_the_node(settings: Settings) -> None:
    local_node = LocalNode(settings)
    local_node.folder.mkdir(parents=True)
    (local_node.folder / "pid").write_text(str(os.getpid()))
    assert local_node.process() is None


def test_another_cluster_in_the_settings_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELASTICSEARCH_URL", "https://search.example:9200")
    monkeypatch.setenv("ELASTICSEARCH_USER", "someone")
    monkeypatch.setenv("ELASTICSEARCH_PASSWORD", "secret")
    other = load_settings(home=tmp_path)
    assert LocalNode(other).ensure_running() == Credentials("https://search.example:9200", "someone", "secret")
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(
    ("printed", "status", "meaning"),
    [
        ("ERROR: java.net.BindException: Address already in use", 1, "its port is taken by another program"),
        ("# There is insufficient memory for the Java Runtime Environment to continue.", 1, "memory ran out"),
        ("failed to obtain node locks, tried [/data]", 1, "another process is using its data folder"),
        ("java.io.IOException: No space left on device", 1, "the disk is full"),
        ("", -9, "it was killed, perhaps because memory ran out"),
        ("[INFO] hello\nERROR: unknown setting [x]\n", 64, "ERROR: unknown setting [x]"),
        ("", 3, "exit code 3"),
    ],
)
def test_a_failed_start_is_explained(tmp_path: Path, printed: str, status: int, meaning: str) -> None:
    (tmp_path / "start.log").write_text(printed)
    assert explain_start(tmp_path / "start.log", status) == meaning


def test_a_missing_maven_is_one_sentence(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    empty_cache = settings.model_copy(update={"cache": tmp_path / "cache"})
    with pytest.raises(NodeError, match="sudo apt-get install maven"):
        fetch_distribution(empty_cache, lambda _line: None)


def test_a_plugin_that_was_not_built_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.node.PLUGIN_TARGET", tmp_path)
    with pytest.raises(NodeError, match="make setup"):
        plugin_zip()


def test_the_plugin_is_built_for_the_node_s_version() -> None:
    assert f"<elasticsearch.version>{ELASTICSEARCH_VERSION}<" in POM.read_text()


def test_root_s_home_can_be_entered_by_other_users() -> None:
    assert not ROOT_HOME.is_relative_to("/root")
