"""The local Elasticsearch node: fetched by Maven, set up in the home folder, started, found again and stopped.

The distribution is unpacked once a version into the cache folder and shared; what belongs to one stack (plugins,
configuration, data, logs) lies in its home, with links to the rest. The node runs as a process of its own that
outlives the command that started it. It listens on loopback only, at ports that are chosen once. Elasticsearch
refuses to run as root: started by root it runs as the system user `plumbline`.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import os
import pwd
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import structlog
from filelock import FileLock

from services.accounts import roles
from services.config import ROOT_HOME, Settings, child_environment, is_root, kept_port, kept_secret, make_home
from services.elastic import Credentials, ElasticUser, credentials
from services.ending import wait_until_gone
from services.errors import NodeError
from services.java import find_jdk

ELASTICSEARCH_VERSION = "9.5.3"
ARTIFACT = f"org.elasticsearch.distribution.integ-test-zip:elasticsearch:{ELASTICSEARCH_VERSION}:zip"
COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
PLUGIN = "analysis-jieba"
PLUGIN_TARGET = Path(__file__).parent / "elasticsearch" / PLUGIN / "target"
NODE_USER = "plumbline"
NODE_CLASS = "org.elasticsearch.bootstrap.Elasticsearch"
MIN_FREE_BYTES = 1_000_000_000
FETCH_TIMEOUT_S = 3600.0
STOP_TIMEOUT_S = 60.0
POLL_S = 0.2

# What a failing start says, and what it means for the owner.
_CAUSES = (
    (r"Address already in use|BindHttpException|BindTransportException", "its port is taken by another program"),
    (r"insufficient memory for the Java|Cannot allocate memory|Could not reserve enough space", "memory ran out"),
    (r"failed to obtain node lock", "another process is using its data folder"),
    (r"No space left on device", "the disk is full"),
    (r"AccessDeniedException|Permission denied", "a file or folder of it is not accessible to its user"),
    (r"[Cc]annot (?:downgrade|upgrade) a node from version", "its data folder is of a version it cannot read"),
    (r"was built for Elasticsearch version", "an installed plugin is for another version of Elasticsearch"),
)


@dataclass(frozen=True, slots=True)
class NodeOwner:
    """The user that the node runs as when root starts it."""

    name: str
    uid: int
    gid: int


class LocalNode:
    """The node of one stack. All methods may be called by several processes at once."""

    def __init__(self, settings: Settings, say: Callable[[str], None] | None = None) -> None:
        """`say` gets one line for the owner before anything that takes long."""
        self._settings = settings
        self._say = say or (lambda _line: None)
        self._log = structlog.get_logger(__name__)
        self.folder = settings.home / "node"
        self.log_file = self.folder / "logs" / "plumbline.log"

    def ensure_running(self) -> Credentials:
        """Start the node if need be, wait until it answers, and return its writer's credentials.

        With another cluster in the settings there is nothing to start. Raises NodeError.
        """
        if not self._settings.elasticsearch_url:
            make_home(self._settings)
            self.folder.mkdir(exist_ok=True)
            with FileLock(self.folder / "start.lock"):
                self._ensure_running()
        return credentials(self._settings, ElasticUser.WRITER)

    def is_running(self) -> bool:
        """Whether the node's process is there and answers."""
        return self.process() is not None and self._health() is not None

    def stop(self) -> bool:
        """Stop the node; False if there was none. Its data stay."""
        process = self.process()
        if process is None:
            return self._end_starters()
        process.terminate()
        if wait_until_gone([process], STOP_TIMEOUT_S):
            self._log.warning("node does not stop; killed", pid=process.pid)
            process.kill()
            wait_until_gone([process], STOP_TIMEOUT_S)
        return True

    def process(self) -> psutil.Process | None:
        """The node's process, whether it answers yet or not; never another one that has got its old number.

        A start that was killed half-way may leave a node without its file, so the file is not believed alone.
        """
        try:
            process = psutil.Process(int(self._pid_file.read_text()))
            if self._is_ours(process):
                return process
        except (OSError, ValueError, psutil.Error):
            pass
        return next((process for process in psutil.process_iter() if self._is_ours(process)), None)

    def _is_ours(self, process: psutil.Process) -> bool:
        command = _command(process)
        return f"-Des.path.home={self.folder}" in command and any(part.endswith(NODE_CLASS) for part in command)

    @property
    def _pid_file(self) -> Path:
        return self.folder / "pid"

    def _ensure_running(self) -> None:
        plugin = plugin_zip()
        if self.process() is not None:
            if self._plugin_is_current(plugin):
                self._wait_until_answering(self._deadline())
                return
            self._say("the jieba plugin was rebuilt: starting the node again")
            self.stop()
        distribution = fetch_distribution(self._settings, self._say)
        owner = node_owner() if is_root() else None
        self._end_starters()
        self._prepare(distribution, owner)
        if not self._plugin_is_current(plugin):
            self._install_plugin(plugin, owner)
        self._start(owner)

    def _deadline(self) -> float:
        return time.monotonic() + self._settings.node_start_timeout_s

    def _prepare(self, distribution: Path, owner: NodeOwner | None) -> None:
        """Lay out the node's folder and write its configuration anew."""
        free = shutil.disk_usage(self.folder).free
        if free < MIN_FREE_BYTES:
            raise NodeError(
                f"only {free / 1e9:.1f} GB are free at {self.folder}: Elasticsearch takes no documents below"
                f" {MIN_FREE_BYTES / 1e9:.0f} GB; free some space"
            )
        for name in ("bin", "lib", "modules"):
            _link(self.folder / name, distribution / name)
        shutil.rmtree(self.folder / "tmp", ignore_errors=True)
        for name in ("plugins", "config", "config/jvm.options.d", "data", "logs", "tmp"):
            (self.folder / name).mkdir(exist_ok=True)
        self.folder.chmod(0o700)  # whoever passes through the home must not read the index here
        self._write_configuration(distribution / "config")
        if owner is not None:
            self._hand_over(owner)

    def _write_configuration(self, templates: Path) -> None:
        config = self.folder / "config"
        for left_over in config.glob("*.tmp"):  # Elasticsearch refuses to start over a keystore that it was writing.
            left_over.unlink()
        shutil.copyfile(templates / "log4j2.properties", config / "log4j2.properties")
        options = (templates / "jvm.options").read_text().splitlines()
        without_gc_log = [line for line in options if "-Xlog:gc" not in line]
        (config / "jvm.options").write_text("\n".join(without_gc_log) + "\n")
        heap_mb = self._settings.node_heap_mb
        (config / "jvm.options.d" / "heap.options").write_text(f"-Xms{heap_mb}m\n-Xmx{heap_mb}m\n")
        (config / "elasticsearch.yml").write_text(_to_yaml(self._elasticsearch_settings()))
        (config / "roles.yml").write_text(_to_yaml(roles(self._settings.index_prefix)))
        users = [(user.value, kept_secret(self._settings, f"elasticsearch_{user}")) for user in ElasticUser]
        (config / "users").write_text("".join(f"{name}:{hash_password(password)}\n" for name, password in users))
        (config / "users_roles").write_text("".join(f"{name}:{name}\n" for name, _ in users))

    def _elasticsearch_settings(self) -> dict[str, Any]:
        return {
            "cluster.name": "plumbline",
            "node.name": "plumbline",
            "path.data": str(self.folder / "data"),
            "path.logs": str(self.folder / "logs"),
            "http.host": "127.0.0.1",
            "http.port": kept_port(self._settings, "node"),
            "transport.host": "127.0.0.1",
            "transport.port": kept_port(self._settings, "node_transport"),
            "discovery.type": "single-node",
            "xpack.security.enabled": True,
            "xpack.security.transport.ssl.enabled": False,
            "xpack.security.enrollment.enabled": False,
            # A page of five million characters takes 60 MB while it is indexed; the default allows 10 % of the heap.
            "indexing_pressure.memory.limit": "30%",
            # Shares of a disk mean little to one node on somebody's machine: a big disk 95 % full has room.
            "cluster.routing.allocation.disk.watermark.low": "800mb",
            "cluster.routing.allocation.disk.watermark.high": "600mb",
            "cluster.routing.allocation.disk.watermark.flood_stage": "400mb",
        }

    def _hand_over(self, owner: NodeOwner) -> None:
        """Give the node's folder to its user, and see that the user can get there."""
        for path in (self._settings.cache, self._settings.home, ROOT_HOME):
            if path == ROOT_HOME and ROOT_HOME not in self._settings.home.parents:
                continue
            path.chmod(path.stat().st_mode | 0o111)
        for folder, folders, files in os.walk(self.folder):
            for name in (".", *folders, *files):
                os.chown(Path(folder) / name, owner.uid, owner.gid, follow_symlinks=False)
        for may, path in (("-w", self.folder / "data"), ("-x", self.folder / "bin" / "elasticsearch")):
            if subprocess.run(["test", may, str(path)], **_as_user(owner)).returncode != 0:
                raise NodeError(
                    f"Elasticsearch may not run as root, and its user {owner.name} cannot get at {path.resolve()}: set"
                    " PLUMBLINE_HOME and PLUMBLINE_CACHE to folders that other users can enter"
                )

    def _plugin_is_current(self, plugin: Path) -> bool:
        marker = self.folder / "plugin.sha256"
        return marker.is_file() and marker.read_text() == _plugin_mark(plugin)

    def _install_plugin(self, plugin: Path, owner: NodeOwner | None) -> None:
        self._say("installing the jieba plugin into the node")
        marker = self.folder / "plugin.sha256"
        marker.unlink(missing_ok=True)
        for left_over in (self.folder / "plugins").iterdir():
            shutil.rmtree(left_over)
        # A copy, because the node's user may not be able to read our checkout.
        copy = Path(shutil.copyfile(plugin, self.folder / "tmp" / plugin.name))
        command = [str(self.folder / "bin" / "elasticsearch-plugin"), "install", "--batch", copy.as_uri()]
        done = subprocess.run(
            command,
            env=self._environment(owner),
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            **_as_user(owner),
        )
        if done.returncode != 0:
            raise NodeError(f"the jieba plugin could not be installed: {_last_line(done.stderr or done.stdout)}")
        copy.unlink()
        marker.write_text(_plugin_mark(plugin))

    def _environment(self, owner: NodeOwner | None) -> dict[str, str]:
        jdk = find_jdk(owner.name if owner else None)
        temporary = self.folder / "tmp"
        return child_environment(
            self._settings,
            {
                "ES_JAVA_HOME": str(jdk.home),
                "JAVA_HOME": "",  # the start script warns of one
                "ES_PATH_CONF": str(self.folder / "config"),
                "ES_TMPDIR": str(temporary),
                # Of the launcher and of the plugin installer, which runs out of memory with less. It is cut at spaces.
                "CLI_JAVA_OPTS": "-Xmx512m"
                + ("" if re.search(r"\s", str(temporary)) else f" -Djava.io.tmpdir={temporary}"),
                "HOME": str(temporary),
            },
        )

    def _start(self, owner: NodeOwner | None) -> None:
        self._say("starting Elasticsearch (usually 15 to 30 seconds)")
        self._pid_file.unlink(missing_ok=True)
        deadline = self._deadline()
        start_log = self.folder / "logs" / "start.log"
        with start_log.open("wb") as output:
            # With -d the launcher ends once the node is up, or when it has failed.
            launcher = subprocess.Popen(
                [self.folder / "bin" / "elasticsearch", "-d", "-p", self._pid_file],
                env=self._environment(owner),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **_as_user(owner),
            )
        try:
            status = launcher.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            _kill_group(launcher)
            raise NodeError(
                f"Elasticsearch did not start within {self._settings.node_start_timeout_s:.0f} s (see {start_log})"
            ) from None
        except BaseException:
            _kill_group(launcher)
            raise
        if status != 0:
            raise NodeError(f"Elasticsearch did not start: {explain_start(start_log, status)} (see {start_log})")
        self._wait_until_answering(deadline)

    def _end_starters(self) -> bool:
        """End what is left of a start (or an installation of the plugin) whose command was killed half-way.

        Otherwise it would bring up a node of its own beside ours.
        """
        # The script, the launcher of the server, and the tools: each as its command line shows it.
        begins = (f"{self.folder}/bin/elasticsearch", f"{self.folder}/lib/tools/", f"-Des.path.home={self.folder}")
        left = [p for p in psutil.process_iter() if any(part.startswith(begins) for part in _command(p))]
        for process in left:
            self._log.warning("an earlier start of the node was cut off; what is left of it is ended", pid=process.pid)
            _kill_tree(process)
        return bool(left)

    def _wait_until_answering(self, deadline: float) -> None:
        while self._health() not in ("yellow", "green"):
            if self.process() is None:
                raise NodeError(f"Elasticsearch ended while it was starting (see {self.log_file})")
            if time.monotonic() > deadline:
                raise NodeError(f"Elasticsearch does not answer (see {self.log_file}); try: plumbline node stop")
            time.sleep(POLL_S)

    def _health(self) -> str | None:
        """The cluster's colour; None while it does not answer."""
        reader = credentials(self._settings, ElasticUser.READER)
        port = kept_port(self._settings, "node")
        token = base64.b64encode(f"{reader.user}:{reader.password}".encode()).decode()
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
        try:
            connection.request("GET", "/_cluster/health", headers={"Authorization": f"Basic {token}"})
            answer = connection.getresponse()
            if answer.status == http.HTTPStatus.UNAUTHORIZED:
                raise NodeError(f"what listens on port {port} refuses our password; try: plumbline node stop")
            return str(json.loads(answer.read())["status"]) if answer.status == http.HTTPStatus.OK else None
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            return None
        finally:
            connection.close()


def plugin_zip() -> Path:
    """The built jieba plugin; NodeError if it has not been built."""
    built = sorted(PLUGIN_TARGET.glob(f"{PLUGIN}-*.zip"), key=lambda path: path.stat().st_mtime)
    if not built:
        raise NodeError("the jieba plugin has not been built; run: make setup")
    return built[-1]


def fetch_distribution(settings: Settings, say: Callable[[str], None]) -> Path:
    """The unpacked distribution in the cache folder, fetched by Maven if it is not there yet."""
    name = f"elasticsearch-{ELASTICSEARCH_VERSION}"
    target = settings.cache / name
    if target.is_dir():
        return target
    try:
        settings.cache.mkdir(parents=True, exist_ok=True)
        with FileLock(settings.cache / f"{name}.lock"), tempfile.TemporaryDirectory(dir=settings.cache) as scratch:
            if not target.is_dir():
                say(f"fetching Elasticsearch {ELASTICSEARCH_VERSION} with Maven (132 MB)")
                archive = _download(Path(scratch))
                _unpack(archive, Path(scratch) / "unpacked")
                (Path(scratch) / "unpacked" / name).rename(target)
    except OSError as exc:
        raise NodeError(f"Elasticsearch cannot be put into {settings.cache}: {exc}") from exc
    return target


def node_owner() -> NodeOwner:
    """The unprivileged user for a node that root starts, made if it is missing."""
    with contextlib.suppress(KeyError):
        return _owner(NODE_USER)
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin", NODE_USER]
    try:
        made = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as exc:
        raise NodeError(f"Elasticsearch may not run as root, and there is no useradd to make {NODE_USER}") from exc
    try:
        return _owner(NODE_USER)
    except KeyError:
        raise NodeError(f"user {NODE_USER} for Elasticsearch cannot be made: {_last_line(made.stderr)}") from None


def hash_password(password: str) -> str:
    """A line of Elasticsearch's `users` file. Few rounds do: our passwords are 256 random bits, not words."""
    salt = secrets.token_bytes(32)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, 1000, 32)
    return f"{{PBKDF2}}1000${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def explain_start(start_log: Path, status: int) -> str:
    """Why a start failed, in a few words, from what the launcher and the node printed."""
    printed = start_log.read_text(errors="replace")
    for pattern, meaning in _CAUSES:
        if re.search(pattern, printed):
            return meaning
    if status in (-signal.SIGKILL, 128 + signal.SIGKILL):
        return "it was killed, perhaps because memory ran out"
    errors = [line for line in printed.splitlines() if re.search(r"ERROR|[Ee]xception|^fatal", line)]
    return errors[0].strip() if errors else f"exit code {status}"


def _download(scratch: Path) -> Path:
    maven = shutil.which("mvn")
    if maven is None:
        raise NodeError("Maven is missing; install it, for example by: sudo apt-get install maven")
    command = [maven, "-B", "-q", COPY_GOAL, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={scratch}"]
    try:
        # Somewhere without a pom.xml, which Maven would read.
        done = subprocess.run(
            command, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as exc:
        raise NodeError(f"Maven has not fetched Elasticsearch within {FETCH_TIMEOUT_S:.0f} s") from exc
    archive = scratch / f"elasticsearch-{ELASTICSEARCH_VERSION}.zip"
    if done.returncode != 0 or not archive.is_file():
        errors = [line for line in done.stdout.splitlines() if line.startswith("[ERROR]")]
        raise NodeError(f"Maven could not fetch Elasticsearch: {errors[0] if errors else _last_line(done.stderr)}")
    return archive


def _unpack(archive: Path, target: Path) -> None:
    """Unpack for all users to read, whatever our umask, keeping what is executable so."""
    try:
        with zipfile.ZipFile(archive) as file:
            file.extractall(target)
            executable = {info.filename for info in file.infolist() if info.external_attr >> 16 & 0o100}
    except zipfile.BadZipFile as exc:
        raise NodeError(f"what Maven fetched is not a whole zip file ({exc}); try again") from exc
    for folder, _, names in os.walk(target):
        Path(folder).chmod(0o755)
        for name in names:
            path = Path(folder) / name
            path.chmod(0o755 if str(path.relative_to(target)) in executable else 0o644)


def _link(link: Path, target: Path) -> None:
    if link.is_symlink() and link.readlink() == target:
        return
    link.unlink(missing_ok=True)
    link.symlink_to(target)


def _to_yaml(content: dict[str, Any]) -> str:
    """One line a key, its value as JSON, which is YAML. (A roles file that is JSON altogether holds no role.)"""
    return "".join(f"{key}: {json.dumps(value)}\n" for key, value in content.items())


def _plugin_mark(plugin: Path) -> str:
    return f"{hashlib.sha256(plugin.read_bytes()).hexdigest()} {ELASTICSEARCH_VERSION}\n"


def _owner(name: str) -> NodeOwner:
    entry = pwd.getpwnam(name)
    return NodeOwner(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _as_user(owner: NodeOwner | None) -> dict[str, Any]:
    return {} if owner is None else {"user": owner.uid, "group": owner.gid, "extra_groups": []}


def _kill_group(launcher: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()


def _command(process: psutil.Process) -> list[str]:
    """Its command line; empty if it is gone."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _kill_tree(process: psutil.Process) -> None:
    with contextlib.suppress(psutil.Error):
        process.suspend()  # It starts nothing more while it is looked at.
        family = [process, *process.children(recursive=True)]
        for member in family:
            with contextlib.suppress(psutil.Error):
                member.kill()
        wait_until_gone(family, STOP_TIMEOUT_S)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else "no message"
