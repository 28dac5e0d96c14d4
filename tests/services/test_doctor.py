"""The doctor: what is wrong with a set-up is named with what to do about it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crawler import database
from services import control, doctor
from services.config import Settings, load_settings
from services.doctor import Finding
from services.elastic import Elastic, ElasticUser, credentials
from services.status import read_status


def findings(settings: Settings) -> dict[str, Finding]:
    return {finding.subject: finding for finding in doctor.examine(settings)}


def elsewhere(folder: Path, **more: object) -> Settings:
    """As in a container: nothing is kept in the home folder."""
    (folder / "secrets").mkdir(exist_ok=True)
    given = {
        "home": folder / "home",
        "secrets": folder / "secrets",
        "archive": folder / "archive",
        "database_url": f"sqlite:///{folder / 'crawl.db'}",
        "elasticsearch_url": "http://127.0.0.1:9",
    }
    return load_settings(**(given | more))


def test_where_another_cluster_is_used_neither_java_nor_maven_nor_plugin_is_asked_for(tmp_path: Path) -> None:
    found = findings(elsewhere(tmp_path))
    for subject in ("java", "maven", "plugin", "home", "secrets"):
        assert found[subject].is_good, found[subject]
    assert not (tmp_path / "home").exists()
    assert not found["elasticsearch"].is_good
    assert not found["versions"].is_good


def test_a_folder_of_secrets_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = findings(elsewhere(tmp_path, secrets=tmp_path / "nowhere"))
    assert "the folder of secrets" in found["secrets"].message
    assert not found["secrets"].is_good


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_database_of_another_user_is_named(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    (settings.home / "crawl.db").touch(mode=0o400)
    assert "chown" in findings(settings)["permissions"].message


def test_a_clock_that_is_off_the_database_s_is_found(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = elsewhere(tmp_path, database_url=database_url)
    assert findings(settings)["clock"].is_good
    monkeypatch.setattr(database, "server_time", lambda _engine: datetime.now(UTC) + timedelta(seconds=60))
    found = findings(settings)["clock"]
    assert not found.is_good
    assert "-60 seconds off the database's" in found.message


def test_a_database_without_tables_is_found(tmp_path: Path) -> None:
    found = findings(elsewhere(tmp_path))["database"]
    assert not found.is_good
    assert found.message.startswith("the crawl database cannot be used now")


@pytest.mark.postgres
def test_a_postgresql_without_tables_is_waited_for_like_one_that_is_away(postgres: object, tmp_path: Path) -> None:
    found = findings(elsewhere(tmp_path, database_url=postgres.new_database()))["database"]  # type: ignore[attr-defined]
    assert found.message.startswith("the crawl database cannot be used now: relation")


def test_status_shows_the_workers_of_other_machines(settings: Settings, engine: database.Engine) -> None:
    control.beat(engine, "crawler-far-away-1", control.WorkerKind.CRAWLER, 1, {"hosts": 3, "visits": 0})
    old = datetime.now(UTC) - timedelta(minutes=5)
    control.beat(engine, "indexer-far-away-2", control.WorkerKind.INDEXER, 2, {}, old)
    parts = {part.name: part for part in read_status(settings).parts}
    assert parts["crawler"].is_up
    assert parts["crawler"].note == "crawler-far-away-1, hosts 3"
    assert not parts["indexer"].is_up


@pytest.mark.node
def test_a_cluster_with_the_plugin_is_found_well(node: Settings, tmp_path: Path) -> None:
    writer = credentials(node, ElasticUser.WRITER)
    there = elsewhere(
        tmp_path, elasticsearch_url=writer.url, elasticsearch_user=writer.user, elasticsearch_password=writer.password
    )
    found = findings(there)
    for subject in ("elasticsearch", "versions", "analysis"):
        assert found[subject].is_good, found[subject]
    assert found["analysis"].message == "南京市 长江大桥"


@pytest.mark.node
def test_a_cluster_without_the_plugin_or_of_another_version_is_found(
    node: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tokenize(elastic: Elastic, text: str, _tokenizer: str) -> object:
        return real(elastic, text, "jieba_nowhere")

    real = Elastic.tokenize
    monkeypatch.setattr(Elastic, "tokenize", tokenize)
    monkeypatch.setattr(Elastic, "node_versions", lambda _elastic: ("8.19.0",))
    writer = credentials(node, ElasticUser.WRITER)
    there = elsewhere(
        tmp_path, elasticsearch_url=writer.url, elasticsearch_user=writer.user, elasticsearch_password=writer.password
    )
    found = findings(there)
    assert "install it in every node" in found["analysis"].message
    assert "Elasticsearch is 8.19.0, 9.x is needed" in found["versions"].message
