"""Settings: where they come from, what is said of wrong ones, and what is chosen once and kept."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from services import stack
from services.config import (
    PORT_RANGE,
    Settings,
    child_environment,
    has_secret,
    java_candidates,
    kept_port,
    kept_secret,
    load_settings,
    make_home,
    port_is_free,
    web_port,
)
from services.errors import ConfigurationError

DOCUMENT = Path(__file__).parents[2] / "docs" / "settings.md"
CHOSEN_BY_MACHINE = {"home": "`.plumbline`, see below", "cache": "`~/.cache/plumbline`, see below"}


def documented_rows() -> Iterator[str]:
    """The rows that docs/settings.md must have, one a setting."""
    for name, setting in Settings.model_fields.items():
        variable = setting.validation_alias or f"PLUMBLINE_{name.upper()}"
        default = CHOSEN_BY_MACHINE.get(name) or shown_default(setting)
        yield f"| `{name}` | `{variable}` | {default} | {setting.description} |"


def shown_default(setting: FieldInfo) -> str:
    default = setting.default.get_secret_value() if isinstance(setting.default, SecretStr) else setting.default
    return "" if default in ("", None) else f"`{default}`"


def write_toml(home: Path, text: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "plumbline.toml").write_text(text)


@pytest.mark.parametrize("row", list(documented_rows()))
def test_every_setting_is_documented_with_its_default(row: str) -> None:
    assert row in DOCUMENT.read_text("utf-8").splitlines()


def test_no_setting_is_documented_that_there_is_not() -> None:
    rows = [line for line in DOCUMENT.read_text("utf-8").splitlines() if line.startswith("| `")]
    assert len(rows) == len(Settings.model_fields)


def test_the_environment_overrides_the_file_which_overrides_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(tmp_path, "crawl_delay_s = 2.5\nmax_tries = 5\n")
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_MAX_TRIES", "7")
    settings = load_settings()
    assert (settings.crawl_delay_s, settings.max_tries, settings.max_redirects) == (2.5, 7, 10)
    assert load_settings(max_tries=9).max_tries == 9


def test_the_cluster_can_be_named_in_file_and_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toml(tmp_path, 'elasticsearch_url = "http://a.example:9200"\n')
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    assert load_settings().elasticsearch_url == "http://a.example:9200"
    monkeypatch.setenv("ELASTICSEARCH_URL", "http://b.example:9200")
    assert load_settings().elasticsearch_url == "http://b.example:9200"


def test_a_wrong_value_is_named_with_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    monkeypatch.setenv("PLUMBLINE_WEB_PORT", "eighty")
    with pytest.raises(ConfigurationError, match=r"setting web_port: .*integer.*'eighty'"):
        load_settings()


def test_a_value_out_of_bounds_is_named_with_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLUMBLINE_NODE_HEAP_MB", "64")
    with pytest.raises(ConfigurationError, match=r"setting node_heap_mb: .*256"):
        load_settings()


def test_an_unknown_key_in_the_file_is_named_with_the_nearest_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_toml(tmp_path, "crawl_delay = 2\n")
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"no setting crawl_delay; is crawl_delay_s meant\?"):
        load_settings()


def test_a_file_that_is_not_toml_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_toml(tmp_path, "crawl_delay_s == 2\n")
    monkeypatch.setenv("PLUMBLINE_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"plumbline\.toml cannot be read"):
        load_settings()


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    assert "hush" not in repr(load_settings(home=tmp_path, elasticsearch_password="hush"))


def test_a_port_is_chosen_once_and_kept(settings: Settings) -> None:
    port = kept_port(settings, "web")
    assert port in PORT_RANGE
    assert port_is_free(port)
    assert kept_port(settings, "web") == port
    assert kept_port(settings, "node") != port
    assert kept_port(load_settings(home=settings.home), "web") == port


def test_a_port_in_the_settings_comes_first(settings: Settings) -> None:
    assert web_port(load_settings(home=settings.home, web_port=8080)) == 8080


def test_a_secret_is_made_up_once_and_for_the_owner_alone(settings: Settings) -> None:
    secret = kept_secret(settings, "session")
    assert len(secret) >= 40
    assert kept_secret(settings, "session") == secret
    assert kept_secret(settings, "other") != secret
    assert stat.S_IMODE((settings.home / "secrets.json").stat().st_mode) == 0o600


def test_the_home_is_its_owner_s_alone(settings: Settings) -> None:
    make_home(settings)
    assert {stat.S_IMODE(path.stat().st_mode) for path in (settings.home, settings.archive_folder)} == {0o700}


def test_a_home_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"cannot be made .*; set PLUMBLINE_HOME"):
        make_home(load_settings(home=tmp_path / "file" / "home"))


def test_processes_that_choose_at_once_agree(settings: Settings) -> None:
    with ThreadPoolExecutor(8) as threads:
        ports = list(threads.map(lambda name: kept_port(settings, name), ["web", "node", "sample"] * 8))
    assert len(set(ports)) == 3


def test_a_damaged_file_of_ports_is_one_sentence(settings: Settings) -> None:
    settings.home.mkdir(parents=True)
    (settings.home / "ports.json").write_text("{")
    with pytest.raises(ConfigurationError, match=r"ports\.json cannot be read"):
        kept_port(settings, "web")


def test_a_child_gets_the_home_that_is_used(settings: Settings) -> None:
    environment = child_environment(settings, {"EXTRA": "1"})
    assert environment["PLUMBLINE_HOME"] == str(settings.home)
    assert environment["EXTRA"] == "1"


def test_javas_named_in_the_environment_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ES_JAVA_HOME", str(tmp_path / "es"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").touch()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert java_candidates()[:3] == [tmp_path / "es", tmp_path / "jdk", tmp_path]


def test_a_given_secret_is_the_content_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "web_session").write_text("from the engine\n")
    settings = load_settings(home=tmp_path / "home", secrets=tmp_path)
    assert kept_secret(settings, "web_session") == "from the engine"
    assert has_secret(settings, "web_session")
    assert not (settings.home / "secrets.json").exists()


def test_a_given_secret_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    settings = load_settings(home=tmp_path / "home", secrets=tmp_path)
    assert not has_secret(settings, "web_session")
    with pytest.raises(ConfigurationError, match=r"the secret .*/web_session cannot be read"):
        kept_secret(settings, "web_session")
    (tmp_path / "web_session").write_text("\n")
    with pytest.raises(ConfigurationError, match=r"the secret .*/web_session is empty"):
        kept_secret(settings, "web_session")


def test_a_copy_with_other_folders_uses_them(settings: Settings, tmp_path: Path) -> None:
    assert settings.archive_folder == settings.home / "archive"
    copy = settings.model_copy(update={"archive": tmp_path, "database_url": "sqlite:///other.db"})
    assert (copy.archive_folder, copy.effective_database_url) == (tmp_path, "sqlite:///other.db")


def test_who_is_given_secrets_is_started_by_somebody_else(settings: Settings, tmp_path: Path) -> None:
    assert not settings.is_run_by_others
    given = load_settings(home=tmp_path / "home", secrets=tmp_path)
    assert given.is_run_by_others
    assert not stack.ensure_up(given, lambda _line: None)
    assert not given.home.exists()
