"""Health, readiness and metrics of a process, asked over HTTP."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy.engine import Engine

from crawler import database
from services import health, metrics
from services.config import Settings, load_settings
from services.errors import ConfigurationError, SearchUnavailable, ServiceError


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def away() -> str:
    raise SearchUnavailable("Elasticsearch cannot be reached")


def test_a_process_whose_dependencies_are_there_is_ready(engine: Engine) -> None:
    with health.serve_health("127.0.0.1", 0, {"database": health.database_check(engine)}) as port:
        assert ask(port, "/healthz") == (200, "ok\n")
        status, body = ask(port, "/readyz")
    assert status == 200
    assert json.loads(body) == {"ready": True, "dependencies": {"database": {"ok": True, "note": "answers"}}}


def test_what_is_away_is_named_with_the_reason_and_the_process_lives_on() -> None:
    with health.serve_health("127.0.0.1", 0, {"elasticsearch": away, "archive": lambda: "here"}) as port:
        status, body = ask(port, "/readyz")
        assert ask(port, "/healthz")[0] == 200
    assert status == 503
    found = json.loads(body)["dependencies"]
    assert found["elasticsearch"] == {"ok": False, "note": "Elasticsearch cannot be reached"}
    assert found["archive"] == {"ok": True, "note": "here"}


def test_a_check_that_fails_by_a_fault_of_ours_is_a_dependency_that_is_away() -> None:
    readiness = health.read_readiness({"odd": lambda: str(1 / 0)})
    assert not readiness.is_ready
    assert readiness.dependencies[0].note == "it could not be looked at: ZeroDivisionError"


def test_a_database_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    engine = database.open_database(f"sqlite:///{tmp_path / 'nowhere' / 'crawl.db'}")
    (found,) = health.read_readiness({"database": health.database_check(engine)}).dependencies
    engine.dispose()
    assert not found.is_there
    assert found.note.startswith("the crawl database cannot be used now")


def test_a_loop_that_has_not_come_round_for_long_is_not_ready() -> None:
    now = [0.0]
    pulse = health.Pulse(lambda: now[0])
    now[0] = health.SILENT_S
    assert pulse.check() == "works"
    now[0] += 1
    with pytest.raises(ServiceError, match="its loop has not come round for 91 seconds"):
        pulse.check()
    pulse.beat()
    assert pulse.check() == "works"


def test_an_archive_that_is_not_there_yet_can_be_read_and_is_made_by_who_writes(settings: Settings) -> None:
    assert health.archive_check(settings)() == str(settings.archive_folder)
    assert not settings.archive_folder.exists()
    assert health.archive_check(settings, writes=True)() == str(settings.archive_folder)
    assert settings.archive_folder.is_dir()


def test_metrics_are_told(engine: Engine) -> None:
    metrics.VISITS.labels("fetched").inc(3)
    with health.serve_health("127.0.0.1", 0, {}) as port:
        status, body = ask(port, "/metrics")
        assert ask(port, "/else")[0] == 404
    assert status == 200
    assert 'plumbline_visits_total{status="fetched"}' in body


def test_the_backlog_is_read_when_it_is_asked_for() -> None:
    registry = CollectorRegistry()
    waiting = [5]
    metrics.tell_backlog(lambda: metrics.Backlog(7, waiting[0], 1), registry)
    assert "plumbline_waiting_captures 5.0" in metrics.exposition(registry).decode()
    waiting[0] = 0
    told = metrics.exposition(registry).decode()
    assert "plumbline_waiting_captures 0.0" in told
    assert "plumbline_queued_urls 7.0" in told


def test_without_a_port_nothing_is_served(settings: Settings) -> None:
    with health.health_server(settings, {}) as port:
        assert port == 0


def test_a_port_that_is_taken_is_one_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = load_settings(home=tmp_path, health_port=taken.getsockname()[1])
        with (
            pytest.raises(ConfigurationError, match=r"health_port: 127\.0\.0\.1:\d+ cannot be listened on"),
            health.health_server(settings, {}),
        ):
            pass


def test_the_time_from_capture_to_index_is_noted() -> None:
    from datetime import UTC, datetime, timedelta

    before = _value("plumbline_documents_total", {"outcome": "indexed"})
    capture: Any = SimpleNamespace(captured_at=datetime.now(UTC) - timedelta(seconds=3))
    metrics.note_documents("indexed", [capture])
    assert _value("plumbline_documents_total", {"outcome": "indexed"}) == before + 1


def _value(name: str, labels: dict[str, str]) -> float:
    from prometheus_client import REGISTRY

    return REGISTRY.get_sample_value(name, labels) or 0.0
