"""Every setting of a stack: its type, unit, default and reason. The only place that reads the environment.

Order: defaults, then `plumbline.toml` in the home folder, then environment variables (`PLUMBLINE_` and the
setting's name in capitals). `docs/settings.md` lists them all; a test compares.

What the machine chooses once and keeps (ports, passwords) is here too: `kept_port` and `kept_secret`.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import random
import secrets
import socket
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock
from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from services.errors import ConfigurationError

SETTINGS_FILE = "plumbline.toml"
DATABASE_FILE = "crawl.db"
PORTS_FILE = "ports.json"
SECRETS_FILE = "secrets.json"
# Below the range from which the kernel gives out ports for outgoing connections (32768 and up), so that a port
# that is kept is not taken by a passing connection while its server is down.
PORT_RANGE = range(20000, 32000)
ROOT_HOME = Path("/var/lib/plumbline")


def default_home() -> Path:
    """Where a stack keeps its state: `.plumbline` in the working folder.

    Root's lies under `/var/lib/plumbline`, one folder a checkout, since the node's unprivileged user has to get
    at it (root's own home is closed to that user), and since two checkouts are two stacks.
    """
    if os.geteuid() != 0:
        return Path.cwd() / ".plumbline"
    checkout = Path(__file__).resolve().parents[1]
    return ROOT_HOME / f"{checkout.name}-{hashlib.sha256(bytes(checkout)).hexdigest()[:8]}"


def default_cache() -> Path:
    """Where downloads lie that can be had again. Root's lie where the node's unprivileged user can read them."""
    if os.geteuid() == 0:
        return Path("/var/cache/plumbline")
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "plumbline"


class Settings(BaseSettings):
    """All settings. Durations in seconds (`_s`), sizes in bytes (`_bytes`)."""

    model_config = SettingsConfigDict(env_prefix="PLUMBLINE_", extra="forbid", frozen=True, populate_by_name=True)

    home: Path = Field(default_factory=default_home, description="Folder of all state of this stack.")
    cache: Path = Field(default_factory=default_cache, description="Folder of downloads that can be had again.")

    database_url: str = Field("", description="Crawl database; empty: SQLite in the home folder.")
    archive: Path | None = Field(None, description="Folder of the WARC files; empty: `archive` in the home folder.")
    secrets: Path | None = Field(None, description="Folder with a file for each secret; empty: they are made up.")

    elasticsearch_url: str = Field(
        "", validation_alias="ELASTICSEARCH_URL", description="Another cluster than the local node."
    )
    elasticsearch_user: str = Field("", validation_alias="ELASTICSEARCH_USER", description="User of that cluster.")
    elasticsearch_password: SecretStr = Field(
        SecretStr(""), validation_alias="ELASTICSEARCH_PASSWORD", description="Password of that user."
    )
    elasticsearch_ca: Path | None = Field(
        None, validation_alias="ELASTICSEARCH_CA", description="Certificate authority file of that cluster."
    )
    index_prefix: str = Field("plumbline-", description="Before the name of each index and alias.")
    kibana_url: str = Field("", validation_alias="KIBANA_URL", description="Kibana that `kibana import` fills.")
    kibana_user: str = Field("", validation_alias="KIBANA_USER", description="Its user who may manage saved objects.")
    kibana_password: SecretStr = Field(
        SecretStr(""), validation_alias="KIBANA_PASSWORD", description="Password of that user."
    )
    kibana_ca: Path | None = Field(
        None, validation_alias="KIBANA_CA", description="Certificate authority file of that Kibana."
    )
    log_months: int = Field(12, ge=1, description="Months that `crawl-log` and `queries` are kept, beside this one.")
    node_heap_mb: int = Field(512, ge=256, description="Heap of the local node; 512 serves about a million pages.")
    node_start_timeout_s: float = Field(240.0, gt=0, description="Until the local node answers; 15 to 30 is usual.")

    web_host: str = Field("127.0.0.1", description="Address the portal listens on.")
    web_port: int = Field(0, ge=0, le=65535, description="Port of the portal; 0: a free one, chosen once and kept.")
    trusted_proxies: int = Field(0, ge=0, description="Proxies before the portal whose X-Forwarded headers are true.")
    web_threads: int = Field(8, ge=1, description="Requests served at once by one web process.")

    contact_url: str = Field("", description="The owner's page or mailto: address, named in the User-Agent.")
    crawl_delay_s: float = Field(1.0, ge=0, description="Between requests to one host; loopback waits nothing.")
    max_body_bytes: int = Field(20_000_000, gt=0, description="A body is cut there (after decompression too).")
    fetch_timeout_s: float = Field(60.0, gt=0, description="A whole fetch, from DNS to the last byte.")
    connect_timeout_s: float = Field(15.0, gt=0, description="Until the connection (and TLS) stands.")
    render_timeout_s: float = Field(20.0, gt=0, description="A whole rendering.")
    max_redirects: int = Field(10, ge=0, description="Redirects in a row before the chain is given up.")
    max_tries: int = Field(3, ge=1, description="Failed tries of a URL in one run.")
    fetch_concurrency: int = Field(32, ge=1, description="Requests under way at once in one crawler.")
    render_tabs: int = Field(2, ge=1, description="Pages rendered at once in one crawler.")
    outgoing_proxy: str = Field("", description="Proxy for all crawling, `http://host:port` or `socks5h://…`.")
    browser: str = Field("", description="Chromium's path; empty: an installed one, else Playwright's own.")

    browser_sandbox: bool = Field(True, description="Chromium's own sandbox; always off for root.")

    extract_processes: int = Field(0, ge=0, description="Extracting processes of one indexer; 0: one a core.")
    extract_timeout_s: float = Field(30.0, gt=0, description="One page's extraction, then it is given up.")

    health_host: str = Field("127.0.0.1", description="Address of health and metrics of each process.")
    health_port: int = Field(0, ge=0, le=65535, description="Port of health and metrics of each process; 0: none.")

    log_format: str = Field("text", pattern="^(text|json)$", description="`text` or `json`.")
    log_level: str = Field("info", pattern="^(debug|info|warning|error)$", description="Least level that is logged.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        home = Path(os.environ.get("PLUMBLINE_HOME") or default_home())
        toml = TomlConfigSettingsSource(settings_cls, toml_file=home / SETTINGS_FILE)
        return init_settings, env_settings, toml

    @property
    def effective_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.home / DATABASE_FILE}"

    @property
    def archive_folder(self) -> Path:
        return self.archive or self.home / "archive"

    @property
    def is_run_by_others(self) -> bool:
        """Whether somebody else starts the processes: an engine, which gives the secrets too."""
        return self.secrets is not None

    @property
    def user_agent(self) -> str:
        contact = f"; +{self.contact_url}" if self.contact_url else ""
        return f"Mozilla/5.0 (compatible; Plumbline/0.1{contact})"


def load_settings(**given: Any) -> Settings:
    """The settings of this process; `given` (from the command line) override file and environment."""
    try:
        settings = Settings(**given)
    except ValidationError as exc:
        raise ConfigurationError(_explain(exc)) from exc
    except ValueError as exc:
        raise ConfigurationError(f"{SETTINGS_FILE} cannot be read: {exc}") from exc
    return settings.model_copy(update={"home": settings.home.absolute(), "cache": settings.cache.absolute()})


def _explain(exc: ValidationError) -> str:
    first = exc.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    if first["type"] != "extra_forbidden":
        return f"setting {key}: {first['msg']} (got {first['input']!r})"
    near = difflib.get_close_matches(key, Settings.model_fields, n=1)
    return f"{SETTINGS_FILE}: there is no setting {key}" + (f"; is {near[0]} meant?" if near else "")


def child_environment(settings: Settings, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment for a process of this stack: ours, with the home folder made explicit."""
    return {
        **os.environ,
        "PLUMBLINE_HOME": str(settings.home),
        "PLUMBLINE_CACHE": str(settings.cache),
        **(extra or {}),
    }


def java_candidates() -> list[Path]:
    """Homes where a JDK may stand, best first: ES_JAVA_HOME, JAVA_HOME, PATH, /usr/lib/jvm."""
    named = [Path(os.environ[name]) for name in ("ES_JAVA_HOME", "JAVA_HOME") if os.environ.get(name)]
    on_path = [
        (Path(folder) / "java").resolve().parent.parent
        for folder in os.environ.get("PATH", "").split(os.pathsep)
        if folder and (Path(folder) / "java").is_file()
    ]
    return [*named, *on_path, *sorted(Path("/usr/lib/jvm").glob("*"))]


def is_root() -> bool:
    return os.geteuid() == 0


def python() -> str:
    """The interpreter that our own processes are started with."""
    return sys.executable


def make_home(settings: Settings) -> None:
    """Make the home folder, for its owner alone: it holds password hashes, logs and whatever was crawled.

    (Root's is opened as far as the node's user has to pass through; what others must not read in it is closed again.)
    """
    archive = (settings.archive_folder,) if settings.archive is None else ()
    try:
        settings.home.parent.mkdir(parents=True, exist_ok=True)
        for folder in (settings.home, *archive, settings.home / "logs"):
            folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as exc:
        raise ConfigurationError(
            f"{settings.home} cannot be made ({exc.strerror}); set PLUMBLINE_HOME to another folder"
        ) from exc


def kept_port(settings: Settings, name: str) -> int:
    """The loopback port of one server of this stack: a free one, chosen once and kept in the home folder."""
    port = _keep(settings, PORTS_FILE, name, _free_port)
    if not isinstance(port, int):
        raise ConfigurationError(f"{settings.home / PORTS_FILE}: {name} is {port!r}; a port is a number")
    return port


def web_port(settings: Settings) -> int:
    """The portal's port: the one in the settings, or one that is chosen once."""
    return settings.web_port or kept_port(settings, "web")


def kept_secret(settings: Settings, name: str) -> str:
    """A password or key of this stack: made up at its first use, kept in a file that only the owner can read.

    With a folder of secrets in the settings it is what the file of that name holds. Raises ConfigurationError.
    """
    if settings.secrets is not None:
        return _given_secret(settings.secrets / name)
    return str(_keep(settings, SECRETS_FILE, name, lambda _taken: secrets.token_urlsafe(32)))


def has_secret(settings: Settings, name: str) -> bool:
    """Whether the folder of secrets holds that one."""
    return settings.secrets is not None and (settings.secrets / name).is_file()


def _given_secret(path: Path) -> str:
    try:
        secret = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as exc:
        raise ConfigurationError(f"the secret {path} cannot be read: {exc}") from exc
    if not secret:
        raise ConfigurationError(f"the secret {path} is empty")
    return secret


def _keep(settings: Settings, file: str, name: str, choose: Callable[[Mapping[str, Any]], Any]) -> Any:
    path = settings.home / file
    kept = _read_kept(path)
    if name in kept:
        return kept[name]
    make_home(settings)
    with FileLock(f"{path}.lock"):
        kept = _read_kept(path)
        if name not in kept:
            kept[name] = choose(kept)
            _write_kept(path, kept)
    return kept[name]


def _read_kept(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as exc:
        raise ConfigurationError(f"{path} cannot be read: {exc}") from exc


def _write_kept(path: Path, kept: Mapping[str, Any]) -> None:
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(kept, file, indent=2)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _free_port(taken: Mapping[str, Any]) -> int:
    candidates = [port for port in PORT_RANGE if port not in taken.values()]
    return next(port for port in random.sample(candidates, len(candidates)) if port_is_free(port))


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True
