"""docker-compose.yml: that compose's own parser and schema take it, and that it fits what the code reads.

No engine is needed, and none is used.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from services.accounts import KIBANA_SETUP
from services.config import Settings, load_settings
from services.docker import secrets, setup
from services.elastic import ElasticUser
from tests.docker.conftest import ROOT, ReadCompose

PROFILES = ("tls", "cluster", "metrics")
ONE_SHOTS = {"secrets", "setup", "kibana-setup"}
OURS = {"secrets", "setup", "kibana-setup", "crawler", "indexer", "scheduler", "web", "sample-site"}
MAY_BE_SEEN = {"web": 8080, "kibana": 5601, "caddy": None, "prometheus": 9090}
OWN_USER = {"elasticsearch", "elasticsearch-2", "elasticsearch-3", "kibana", "caddy", "prometheus", *OURS}
"""Their images end in an unprivileged user (Caddy's alone in root, without capabilities)."""
MAY_WRITE = {"elasticsearch", "elasticsearch-2", "elasticsearch-3", "kibana"}
"""Elasticsearch makes its keystore, Kibana its caches, in places that are no volumes."""
MOUNT_POINTS = {"data", "config", "logs"}


@pytest.fixture(scope="session")
def project(read_compose: ReadCompose) -> dict[str, Any]:
    """Everything, all profiles included."""
    return read_compose(*PROFILES)


@pytest.fixture(scope="session")
def services(project: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = project["services"]
    return found


def environment(service: dict[str, Any]) -> dict[str, str]:
    return service.get("environment") or {}


def volumes(service: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By where they are mounted."""
    return {mount["target"]: mount for mount in service.get("volumes", [])}


def settings_of(service: dict[str, Any], home: Path) -> Settings:
    """The settings that a process of ours reads in that service's environment."""
    names = {
        setting.validation_alias or f"PLUMBLINE_{name.upper()}": name for name, setting in Settings.model_fields.items()
    }
    given = {}
    for variable, value in environment(service).items():
        assert variable in names, f"{variable} is no setting"
        given[names[variable]] = value
    return load_settings(**{"home": home, **given})


def test_the_schema_of_compose_takes_the_file() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run([*check, ROOT / "docker-compose.yml"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout


def test_a_wrong_file_would_not_be_taken(tmp_path: Path) -> None:
    wrong = tmp_path / "docker-compose.yml"
    wrong.write_text("services: {web: {image: a, cap_dropp: [ALL]}}\n")
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(wrong)]
    assert subprocess.run(check, capture_output=True, timeout=60).returncode == 1


@pytest.mark.parametrize("profiles", [(), ("tls",), ("cluster",), ("metrics",), PROFILES])
def test_the_parser_of_compose_reads_the_file_with_each_profile(
    read_compose: ReadCompose, profiles: tuple[str, ...]
) -> None:
    found = set(read_compose(*profiles)["services"])
    more = {"tls": {"caddy"}, "metrics": {"prometheus"}, "cluster": {"elasticsearch-2", "elasticsearch-3"}}
    assert found == {*OURS, "elasticsearch", "postgres", "kibana"}.union(*(more[name] for name in profiles))


def test_every_variable_of_env_example_is_read_and_has_the_default_that_it_shows(read_compose: ReadCompose) -> None:
    compose = (ROOT / "docker-compose.yml").read_text("utf-8")
    used = dict(re.findall(r"\$\{(\w+)(?::-([^}]*))?\}", compose))
    shown = dict(re.findall(r"^#(\w+)=(.*)$", (ROOT / ".env.example").read_text("utf-8"), flags=re.MULTILINE))
    of_compose_itself = {"COMPOSE_PROFILES"}
    assert set(shown) - of_compose_itself == set(used)
    free = {"PLUMBLINE_CONTACT_URL", "PLUMBLINE_DOMAIN", "PLUMBLINE_TRUSTED_PROXIES", "TLS_BIND", "APT_MIRROR"}
    free |= {"MAVEN_SETTINGS"}  # examples, where a default would say nothing
    different = {name for name in used if name not in free and shown[name] != used[name]}
    assert different == set()


def test_all_settings_of_our_processes_are_ones_that_the_code_reads(services: dict[str, Any], tmp_path: Path) -> None:
    for name in OURS:
        settings_of(services[name], tmp_path)
    crawler = settings_of(services["crawler"], tmp_path)
    assert crawler.effective_database_url.startswith("postgresql+psycopg://plumbline@postgres:5432/plumbline?")
    assert not crawler.browser_sandbox


def test_no_secret_is_in_an_environment_or_a_command(services: dict[str, Any]) -> None:
    for name, service in services.items():
        for variable, value in environment(service).items():
            holds = re.search(r"PASSWORD|SECRET|TOKEN|KEY", variable) and not variable.endswith(("_FILE", "_SECRETS"))
            assert not holds, f"{name} has {variable}"
            assert "@" not in value or ":" not in value.partition("://")[2].partition("@")[0], f"{name}: {variable}"


def test_each_service_mounts_its_own_secrets_and_can_read_what_it_needs(services: dict[str, Any]) -> None:
    for name, files in secrets.READERS.items():
        (folder, mount) = next(
            (target, mount)
            for target, mount in volumes(services[name]).items()
            if mount["source"].startswith("secrets-")
        )
        assert mount["source"] == f"secrets-{name}"
        assert mount["read_only"]
        for value in (*environment(services[name]).values(), *(services[name].get("command") or ())):
            for wanted in re.findall(rf"{re.escape(folder)}/([\w.-]+)", value):
                assert wanted in files, f"{name} looks for {wanted}"
    everywhere = {mount["source"] for mount in services["secrets"]["volumes"]}
    assert everywhere == {f"secrets-{name}" for name in (*secrets.READERS, secrets.MASTERS)}
    for mount in services["secrets"]["volumes"]:
        assert mount["target"] == f"/secrets/{mount['source'].removeprefix('secrets-')}"


def test_each_process_has_the_passwords_of_the_users_that_it_is() -> None:
    """Who is who in Elasticsearch is said by the calls of `credentials` in the code of each process."""
    users = {
        "crawler": {ElasticUser.APPENDER},
        "indexer": {ElasticUser.WRITER},
        "scheduler": {ElasticUser.WRITER},
        "web": {ElasticUser.READER, ElasticUser.APPENDER},
        "kibana-setup": {KIBANA_SETUP},
    }
    for name, expected in users.items():
        files = secrets.READERS[name]
        assert {file for file in files if file.startswith("elasticsearch_")} == {f"elasticsearch_{u}" for u in expected}


def test_only_portal_and_kibana_are_published_and_on_loopback(read_compose: ReadCompose) -> None:
    plain = read_compose()["services"]
    published = {name: service["ports"] for name, service in plain.items() if service.get("ports")}
    assert set(published) == {"web", "kibana"}
    for ports in published.values():
        assert [port["host_ip"] for port in ports] == ["127.0.0.1"]
    for name, service in read_compose(*PROFILES)["services"].items():
        for port in service.get("ports", []):
            assert port["host_ip"] == "127.0.0.1", name


def test_published_ports_are_the_ones_that_are_listened_on(services: dict[str, Any], tmp_path: Path) -> None:
    web = settings_of(services["web"], tmp_path)
    assert services["web"]["ports"][0]["target"] == web.web_port
    assert web.web_host == "0.0.0.0"
    assert services["kibana"]["ports"][0]["target"] == 5601
    caddyfile = (ROOT / "services/docker/Caddyfile").read_text("utf-8")
    assert f"reverse_proxy web:{web.web_port}" in caddyfile
    prometheus = YAML(typ="safe").load((ROOT / "services/docker/prometheus.yml").read_text("utf-8"))
    (sd,) = prometheus["scrape_configs"][0]["dns_sd_configs"]
    assert sd["port"] == web.health_port
    assert set(sd["names"]) == {"crawler", "indexer", "scheduler", "web"}


def test_health_is_asked_where_it_is_answered(services: dict[str, Any], tmp_path: Path) -> None:
    for name in ("crawler", "indexer", "scheduler", "web"):
        settings = settings_of(services[name], tmp_path)
        assert services[name]["healthcheck"]["test"][-1] == f"http://127.0.0.1:{settings.health_port}/readyz"
    sample = services["sample-site"]["healthcheck"]["test"]
    assert f"http://{setup.SAMPLE_SITE.replace('sample-site', '127.0.0.1')}/robots.txt" in sample
    assert any(url.endswith("/readyz?site=sample") for url in sample)
    assert 'key = "sample"' in setup.SAMPLE_PORTAL.read_text("utf-8")


def test_every_service_that_stays_has_a_health_check_and_the_others_end(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if name in ONE_SHOTS:
            assert service["restart"] == "no"
            assert "healthcheck" not in service
        else:
            assert service["restart"] == "unless-stopped"
            assert service["healthcheck"]["test"], name


def test_no_service_has_capabilities_or_may_get_any_or_all_of_the_memory(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["cap_drop"] == ["ALL"], name
        assert service.get("cap_add", []) == (["NET_BIND_SERVICE"] if name == "caddy" else []), name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(service["mem_limit"]) > 0, name
        assert service["logging"]["options"]["max-size"], name
        assert not service.get("privileged")
        assert service.get("read_only", False) or name in MAY_WRITE, name
        assert "user" in service or name in OWN_USER, name
    assert services["postgres"]["user"] == "999:999"


def test_what_can_be_scaled_has_neither_name_nor_port_of_its_own(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert "container_name" not in service, name
    for name in ("crawler", "indexer", "scheduler"):
        assert not services[name].get("ports")
        assert "hostname" not in services[name]


def test_the_archive_is_one_volume_where_each_process_looks_for_it(services: dict[str, Any], tmp_path: Path) -> None:
    for name, may_write in (("crawler", True), ("indexer", False), ("web", False)):
        mount = volumes(services[name])[str(settings_of(services[name], tmp_path).archive_folder)]
        assert mount["source"] == "archive"
        assert mount.get("read_only", False) is not may_write


def test_every_volume_is_declared_and_used(project: dict[str, Any]) -> None:
    used = {
        mount["source"]
        for service in project["services"].values()
        for mount in service.get("volumes", [])
        if mount["type"] == "volume"
    }
    assert used == set(project["volumes"])
    for service in project["services"].values():
        for mount in service.get("volumes", []):
            if mount["type"] == "bind":
                assert Path(mount["source"]).is_file(), mount["source"]


def test_databases_cannot_be_reached_from_outside_and_reach_nothing(project: dict[str, Any]) -> None:
    assert project["networks"]["data"]["internal"]
    for name in ("elasticsearch", "elasticsearch-2", "elasticsearch-3", "postgres", "indexer", "scheduler", "setup"):
        assert set(project["services"][name]["networks"]) == {"data"}, name
    assert project["services"]["secrets"]["network_mode"] == "none"


def test_what_needs_another_service_is_on_a_network_with_it(services: dict[str, Any], tmp_path: Path) -> None:
    needs = {
        "crawler": {"postgres", "elasticsearch", "sample-site"},
        "indexer": {"postgres", "elasticsearch"},
        "scheduler": {"postgres", "elasticsearch"},
        "web": {"postgres", "elasticsearch"},
        "setup": {"postgres", "elasticsearch"},
        "kibana": {"elasticsearch"},
        "kibana-setup": {"kibana"},
        "sample-site": {"web"},
        "caddy": {"web"},
        "prometheus": {"web", "crawler", "indexer", "scheduler"},
    }
    for name, others in needs.items():
        for other in others:
            assert set(services[name]["networks"]) & set(services[other]["networks"]), f"{name} cannot reach {other}"


def test_elasticsearch_is_called_by_a_name_that_its_certificate_has(services: dict[str, Any], tmp_path: Path) -> None:
    host = settings_of(services["web"], tmp_path).elasticsearch_url.removeprefix("https://").partition(":")[0]
    assert host in secrets.NODE_NAMES
    for name in ("elasticsearch", "elasticsearch-2", "elasticsearch-3"):
        assert services[name]["hostname"] == name
        assert name in secrets.NODE_NAMES
    nodes = YAML(typ="safe").load((ROOT / "services/docker/elasticsearch.yml").read_text("utf-8"))
    assert nodes["discovery.seed_hosts"] == ["elasticsearch", "elasticsearch-2", "elasticsearch-3"]
    assert nodes["node.store.allow_mmap"] is False


def test_every_image_has_a_version(services: dict[str, Any]) -> None:
    for name, service in services.items():
        if "build" not in service and service.get("pull_policy") != "never":
            assert re.search(r":v?\d", service["image"]), name


def test_what_is_not_pulled_is_built_by_another_service(services: dict[str, Any]) -> None:
    built = {service["image"] for service in services.values() if "build" in service}
    for name, service in services.items():
        if service.get("pull_policy") == "never":
            assert service["image"] in built, name


def test_without_the_sample_no_sample_site_runs(read_compose: ReadCompose) -> None:
    services = read_compose(PLUMBLINE_SAMPLE="0")["services"]
    assert services["sample-site"]["scale"] == 0
    assert services["setup"]["command"] == ["--sample", "0"]


def test_mirrors_reach_the_images_that_are_built(read_compose: ReadCompose) -> None:
    services = read_compose(PIP_INDEX_URL="https://mirror.example/simple", APT_MIRROR="https://mirror.example")[
        "services"
    ]
    for name, service in services.items():
        if "build" in service:
            assert service["build"]["args"]["PIP_INDEX_URL"] == "https://mirror.example/simple", name
    assert services["crawler"]["build"]["args"]["APT_MIRROR"] == "https://mirror.example"


def test_the_settings_of_kibana_are_in_two_files_that_do_not_contradict(tmp_path: Path) -> None:
    from datetime import UTC, datetime

    secrets.make_secrets(tmp_path, datetime.now(UTC))
    open_part = YAML(typ="safe").load((ROOT / "services/docker/kibana.yml").read_text("utf-8"))
    secret_part = json.loads((tmp_path / "kibana" / "kibana.yml").read_text("utf-8"))
    assert not open_part.keys() & secret_part.keys()
    assert open_part["elasticsearch.ssl.certificateAuthorities"] == ["/secrets/ca.crt"]
    assert "ca.crt" in secrets.READERS["kibana"]
