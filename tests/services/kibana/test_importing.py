"""The import into Kibana, against a server that speaks the two calls of its API as the documentation has them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from services.config import load_settings
from services.errors import ConfigurationError, KibanaError
from services.kibana.importing import Kibana, KibanaAccess, access
from services.kibana.objects import saved_objects, to_ndjson

PASSWORD = "plumb"


class FakeKibana(ThreadingHTTPServer):
    """Keeps what is imported, as Kibana does; `answers` are given first, one a request."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[tuple[int, Any]] = []
        self.asked: list[str] = []
        self.kept: dict[tuple[str, str], Any] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: FakeKibana

    def do_GET(self) -> None:
        self._answer({"status": {"overall": {"level": "available"}}})

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        form = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode() + self.rfile.read(length)
        if not self.headers.get("kbn-xsrf"):
            self.server.answers.insert(0, (400, {"message": "Request must contain a kbn-xsrf header."}))
        (part,) = BytesParser().parsebytes(form).get_payload()  # type: ignore[misc]
        assert part.get_param("name", header="content-disposition") == "file"
        assert str(part.get_filename()).endswith(".ndjson")
        objects = [json.loads(line) for line in part.get_payload(decode=True).splitlines() if line]
        fresh = {(saved["type"], saved["id"]): saved for saved in objects}
        if "overwrite=true" not in self.path and fresh.keys() & self.server.kept.keys():
            self.server.answers.insert(0, (200, {"success": False, "errors": [{"error": {"type": "conflict"}}]}))
        self.server.kept |= fresh
        self._answer({"success": True, "successCount": len(objects)})

    def _answer(self, usual: Any) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        status, content = self.server.answers.pop(0) if self.server.answers else (200, usual)
        if self.headers.get("Authorization") != "Basic a2liYW5hX3NldHVwOnBsdW1i":
            status, content = 401, {"message": "no"}
        body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[FakeKibana]:
    with FakeKibana() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def kibana(server: FakeKibana) -> Kibana:
    return Kibana(KibanaAccess(server.url, "kibana_setup", PASSWORD), pause=lambda _seconds: None)


def test_all_objects_are_brought_in_and_again_over_themselves(server: FakeKibana, kibana: Kibana) -> None:
    expected = [json.loads(line) for line in to_ndjson(saved_objects("p-")).splitlines()]
    for _ in range(2):
        assert kibana.bring_in("p-") == len(expected)
        assert list(server.kept.values()) == expected
    assert server.asked == ["POST /api/saved_objects/_import?overwrite=true"] * 2


def test_a_kibana_that_starts_is_waited_for_and_its_state_told_once(server: FakeKibana, kibana: Kibana) -> None:
    degraded = (503, {"status": {"overall": {"level": "unavailable"}}})
    server.answers = [(503, "Kibana server is not ready yet."), degraded, degraded]
    said: list[str] = []
    kibana.wait_until_ready(60, said.append)
    assert said == ["waiting for Kibana: it answers 503", "waiting for Kibana: unavailable"]


def test_a_kibana_that_is_not_there_is_one_sentence() -> None:
    nobody = Kibana(KibanaAccess("http://127.0.0.1:1"), pause=lambda _seconds: None)
    with pytest.raises(KibanaError, match=r"http://127.0.0.1:1 was not ready within 0 s: it does not answer"):
        nobody.wait_until_ready(0, lambda _line: None)


def test_a_wrong_password_is_not_waited_for(server: FakeKibana) -> None:
    stranger = Kibana(KibanaAccess(server.url, "kibana_setup", "guessed"), pause=lambda _seconds: None)
    with pytest.raises(KibanaError, match="refuses the user kibana_setup: set KIBANA_USER and KIBANA_PASSWORD"):
        stranger.wait_until_ready(60, lambda _line: None)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ((413, {"message": "Payload content length greater"}), "refused the import: Payload content length greater"),
        ((502, "<html>"), "refused the import: it answered 502"),
        (
            (
                200,
                {
                    "success": False,
                    "errors": [{"type": "dashboard", "id": "x", "error": {"type": "missing_references"}}],
                },
            ),
            r"took not all objects: dashboard x: missing_references \(1 in all\)",
        ),
    ],
)
def test_what_kibana_refuses_is_said(server: FakeKibana, kibana: Kibana, answer: Any, sentence: str) -> None:
    server.answers = [answer]
    with pytest.raises(KibanaError, match=sentence):
        kibana.bring_in("p-")


def test_the_command_imports_with_the_password_from_the_folder_of_secrets(
    server: FakeKibana, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from services.command_line import cli

    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "elasticsearch_kibana_setup").write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PLUMBLINE_SECRETS", str(tmp_path / "secrets"))
    monkeypatch.setenv("KIBANA_URL", server.url)
    done = CliRunner().invoke(cli, ["kibana", "import"], catch_exceptions=False)
    assert done.output == f"{len(saved_objects('plumbline-'))} objects are in Kibana\n"
    assert {object_id.partition("-")[0] for _, object_id in server.kept} == {"plumbline"}


def test_without_an_address_the_setting_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="KIBANA_URL"):
        access(load_settings(home=tmp_path))


def test_a_named_user_goes_before_the_secret(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path, kibana_url="http://k:5601", kibana_user="mei", kibana_password="x")
    assert access(settings) == KibanaAccess("http://k:5601", "mei", "x")


def test_the_export_is_what_the_import_sends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from services.command_line import cli

    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path / "home"))
    file = tmp_path / "objects.ndjson"
    assert CliRunner().invoke(cli, ["kibana", "export", str(file)], catch_exceptions=False).exit_code == 0
    assert file.read_text("utf-8") == to_ndjson(saved_objects("plumbline-"))
