"""docker-compose.yml rehearsed on a machine without a container engine: `make rehearse`.

What an engine would do is done with what the kernel has: every Dockerfile step runs in a layer of its own over this
machine's files (overlayfs), every service in namespaces of its own (files, network, processes, host name), with the
user, the environment, the volumes, the read-only root and the networks that the compose file gives it, and without
capabilities. Services start in the order of their conditions, and are healthy when their own health commands say so.

What differs: the base images (this machine's Python, JDK, Maven, Chromium and PostgreSQL stand in; Elasticsearch is
the distribution of Maven Central, which lacks a few modules, so that its users come from files and not from the
security API) and limits of memory (they are compared with what was
used). Kibana, Caddy and Prometheus are not here and are left out. It needs root, iproute2, util-linux, Go, Maven, a
JDK, PostgreSQL and Chromium, and leaves nothing behind.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from services.accounts import roles  # noqa: E402
from services.config import load_settings  # noqa: E402
from services.elastic import ElasticUser  # noqa: E402
from services.java import find_jdk  # noqa: E402
from services.node import fetch_distribution, hash_password  # noqa: E402
from tests.databases import postgres_programs  # noqa: E402

PYTHON_HOME = "/usr/local/image-python"
PATH = f"{PYTHON_HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ELASTICSEARCH_HOME = "/usr/share/elasticsearch"
NOT_HERE = {"kibana", "kibana-setup", "caddy", "prometheus"}
NOT_IN_DISTRIBUTION = ("ingest.geoip", "xpack.ml")
"""Settings of modules that the distribution of Maven Central does not have."""
MOST_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
FILES_OF_NODE = 65535
"""What Elasticsearch demands of a node that others may join."""
HEAP = "-Xms512m -Xmx512m"
"""An engine's limit of memory would say it."""
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
PASSWD_POSTGRES = "postgres:x:999:999::/var/lib/postgresql:/bin/sh\n"
POSTGRES_ENTRYPOINT = """
set -e
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  initdb -D "$PGDATA" -U "$POSTGRES_USER" --pwfile="$POSTGRES_PASSWORD_FILE" $POSTGRES_INITDB_ARGS >/dev/null
  echo "host all all all scram-sha-256" >> "$PGDATA/pg_hba.conf"
  pg_ctl -D "$PGDATA" -w -o "-c listen_addresses=''" start >/dev/null
  if [ "$POSTGRES_DB" != "$POSTGRES_USER" ] || true; then createdb -U "$POSTGRES_USER" "$POSTGRES_DB"; fi
  pg_ctl -D "$PGDATA" -w stop >/dev/null
fi
exec postgres -D "$PGDATA" -c listen_addresses='*'
"""
SETUP_WITHOUT_USERS = """
from services import accounts
from services.docker import setup
accounts.create = lambda *_: None
setup.main()
"""
ELASTICSEARCH_ENTRYPOINT = """
set -e
rm -f config/elasticsearch.keystore
bin/elasticsearch-keystore create
bin/elasticsearch-keystore add -x bootstrap.password < "$ELASTIC_PASSWORD_FILE"
exec bin/elasticsearch
"""


def say(line: str) -> None:
    print(line, flush=True)


def run(*command: str | Path, **more: Any) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise SystemExit(f"FAILED: {' '.join(map(str, command))[:300]}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


# Dockerfiles.


@dataclass(frozen=True)
class Stage:
    """One FROM of a Dockerfile, and what follows it."""

    name: str
    parent: str
    steps: tuple[tuple[str, str], ...]
    """Instruction and the rest of the line."""


def read_dockerfile(path: Path) -> dict[str, Stage]:
    """The stages by name; the last one without a name is `final`."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text("utf-8"), flags=re.MULTILINE).replace("\\\n", " ")
    stages: dict[str, Stage] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, rest = line.split(maxsplit=1)
        if word == "FROM":
            parent, _, name = rest.partition(" AS ")
            stages[name or "final"] = Stage(name or "final", parent, ())
        elif stages:
            last = list(stages)[-1]
            stages[last] = Stage(last, stages[last].parent, (*stages[last].steps, (word, rest)))
    return stages


@dataclass
class Image:
    """Layers of files, the newest first, and what a container of it begins with."""

    layers: list[Path]
    environment: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0:0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)


class Builder:
    """Builds images in a scratch folder."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._built: dict[tuple[str, str], Image] = {}
        self._context = scratch / "context"
        self._copy_context()

    def build(self, dockerfile: str, target: str) -> Image:
        key = (dockerfile, target)
        if key not in self._built:
            stages = read_dockerfile(ROOT / dockerfile)
            stage = stages[target]
            if stage.parent in stages:
                parent = self.build(dockerfile, stage.parent)
            else:
                parent = self._base(stage.parent.split(":")[0])
            began = time.monotonic()
            self._built[key] = self._build(dockerfile, stage, parent)
            say(f"built {Path(dockerfile).stem}/{target} in {time.monotonic() - began:.0f} s")
        return self._built[key]

    def _copy_context(self) -> None:
        """What .dockerignore lets through."""
        rules = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        kept_out = [rule for rule in rules if rule and rule[0] not in "#!*"]
        for rule in rules:
            source = ROOT / rule[1:]
            if rule.startswith("!") and source.is_dir():
                shutil.copytree(source, self._context / rule[1:], ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
            elif rule.startswith("!"):
                self._context.mkdir(exist_ok=True)
                shutil.copy(source, self._context / rule[1:])
        for rule in kept_out:
            shutil.rmtree(self._context / rule, ignore_errors=True)

    def _base(self, image: str) -> Image:
        """What stands in for an image that we do not build."""
        layer = self._new_layer()
        os.setxattr(layer / "tmp", "trusted.overlay.opaque", b"y")
        (layer / "etc").mkdir()
        for name, content in (("passwd", PASSWD), ("group", "root:x:0:\n"), ("shadow", ""), ("gshadow", "")):
            (layer / "etc" / name).write_text(content)
        if image == "python":
            made = Image([layer], {"PATH": PATH})
            execute(made, f"/usr/bin/python3 -m venv {PYTHON_HOME}")
            return made
        java = str(find_jdk().home)
        if image == "maven":
            return Image([layer], {"PATH": PATH, "JAVA_HOME": java, "HOME": "/root"})
        if image == "docker.elastic.co/elasticsearch/elasticsearch":
            home = layer / ELASTICSEARCH_HOME[1:]
            shutil.copytree(fetch_distribution(load_settings(), say), home, symlinks=True)
            for name in ("data", "logs", "plugins", "config/jvm.options.d"):
                (home / name).mkdir(exist_ok=True)
            for folder, folders, files in os.walk(home):
                for name in (".", *folders, *files):
                    os.chown(Path(folder) / name, 1000, 0)
            return Image([layer], {"PATH": PATH, "ES_JAVA_HOME": java, "ES_JAVA_OPTS": HEAP}, user="1000:0")
        raise SystemExit(f"nothing stands in for {image}")

    def _build(self, dockerfile: str, stage: Stage, parent: Image) -> Image:
        image = Image([self._new_layer(), *parent.layers], dict(parent.environment), parent.folder, parent.user)
        arguments: dict[str, str] = {}
        for word, rest in stage.steps:
            if word == "ENV":
                image.environment |= dict(part.split("=", 1) for part in shlex.split(rest))
            elif word == "ARG":
                name, _, default = rest.partition("=")
                arguments[name] = os.environ.get(name, default)
            elif word == "WORKDIR":
                image.folder = rest
                (image.layers[0] / rest[1:]).mkdir(parents=True, exist_ok=True)
            elif word == "COPY":
                self._copy(dockerfile, image, shlex.split(rest))
            elif word == "RUN":
                self._run(dockerfile, image, rest, arguments)
            elif word == "USER":
                image.user = rest
            elif word == "ENTRYPOINT":
                image.entrypoint, image.command = json.loads(rest), []
            elif word == "CMD":
                image.command = json.loads(rest)
            else:
                raise SystemExit(f"{dockerfile}: {word} is not rehearsed")
        return image

    def _copy(self, dockerfile: str, image: Image, words: Sequence[str]) -> None:
        flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--"))
        *sources, target = (word for word in words if not word.startswith("--"))
        place = image.layers[0] / str(Path(image.folder) / target)[1:]
        for source in sources:
            found = self._find(dockerfile, flags["from"], source) if "from" in flags else self._context / source
            into = place / found.name if target.endswith("/") else place
            make_parents(into, image.layers[0], image.layers[1:])
            if found.is_dir():
                shutil.copytree(found, into, dirs_exist_ok=True)
            else:
                shutil.copy(found, into)
            if "chown" in flags:
                user, _, group = flags["chown"].partition(":")
                os.chown(into, int(user), int(group))

    def _run(self, dockerfile: str, image: Image, line: str, arguments: Mapping[str, str]) -> None:
        brought: list[Path] = []
        while found := re.match(r"--mount=(\S+)\s+", line):
            mount = dict(part.split("=", 1) for part in found[1].split(","))
            line = line[found.end() :]
            if mount["type"] == "secret":
                brought.append(image.layers[0] / "run" / "secrets" / mount["id"])
                source = ROOT / "services" / "docker" / f"{mount['id']}.xml"
            else:
                brought.append(image.layers[0] / mount["target"][1:])
                source = self._find(dockerfile, mount["from"], mount["source"])
            brought[-1].parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, brought[-1])
        execute(image, line, arguments)
        for path in brought:
            path.unlink()

    def _find(self, dockerfile: str, stage: str, path: str) -> Path:
        return next(layer / path[1:] for layer in self.build(dockerfile, stage).layers if (layer / path[1:]).exists())

    def _new_layer(self) -> Path:
        return new_layer(self._scratch)


def new_folder(place: Path, prefix: str) -> Path:
    """One that becomes the root of somebody's files: all may enter."""
    folder = Path(tempfile.mkdtemp(prefix=f"{prefix}-", dir=place))
    folder.chmod(0o755)
    return folder


def new_layer(scratch: Path) -> Path:
    """An empty one, but for /tmp, which this machine's must not shine through."""
    layer = new_folder(scratch / "layers", "layer")
    (layer / "tmp").mkdir()
    (layer / "tmp").chmod(0o1777)
    return layer


def make_parents(path: Path, layer: Path, lower: Sequence[Path]) -> None:
    """The folders above a path of a layer, with owner and mode of those of the layers below that they cover."""
    for parent in reversed(path.relative_to(layer).parents[:-1]):
        if (layer / parent).exists():
            continue
        (layer / parent).mkdir()
        covered = next((place / parent for place in [*lower, Path("/")] if (place / parent).is_dir()), None)
        if covered is not None:
            found = covered.stat()
            os.chown(layer / parent, found.st_uid, found.st_gid)
            (layer / parent).chmod(found.st_mode & 0o7777)


def execute(image: Image, line: str, arguments: Mapping[str, str] | None = None) -> None:
    """A RUN: in the newest layer, as the image's user; what it needs of this machine's set-up is its certificates."""
    environment = image.environment | dict(arguments or {})
    for name in ("PIP_CERT", "SSL_CERT_FILE", "HTTPS_PROXY", "https_proxy"):
        if name in os.environ:
            environment[name] = os.environ[name]
    lower = ":".join(map(str, [*image.layers[1:], Path("/")]))
    with tempfile.TemporaryDirectory(dir=image.layers[0].parent) as scratch:
        work, merged = Path(scratch) / "work", Path(scratch) / "merged"
        work.mkdir()
        merged.mkdir()
        script = "\n".join(
            [
                "set -e",
                "mount --make-rprivate /",
                f"mount -t overlay overlay -o lowerdir={lower},upperdir={image.layers[0]},workdir={work} {merged}",
                f"mount -t proc proc {merged}/proc",
                f"mount --rbind /dev {merged}/dev",
                f"exec {as_user(image.user, merged)} {exports(environment)} sh -c "
                + shlex.quote(f"cd {shlex.quote(image.folder)} && {line}"),
            ]
        )
        run("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script)


def as_user(user: str, root: Path, bounded: bool = False) -> str:
    uid, _, gid = user.partition(":")
    caps = "--no-new-privs --inh-caps=-all --bounding-set=-all" if bounded else ""
    return f"chroot {root} setpriv --reuid {uid} --regid {gid or uid} --clear-groups {caps}"


def exports(environment: Mapping[str, str]) -> str:
    return "env -i " + " ".join(f"{name}={shlex.quote(str(value))}" for name, value in environment.items())


# Networks.


class Network:
    """The compose file's networks: bridges in a namespace of their own, which reach nothing else."""

    def __init__(self, name: str, networks: Sequence[str]) -> None:
        self._switch = f"{name}-net"
        self._numbers = {network: number for number, network in enumerate(networks, 1)}
        self._namespaces: list[str] = []
        self._hosts: dict[str, list[tuple[str, str]]] = {}
        self._add_namespace(self._switch)
        for network, number in self._numbers.items():
            self._ip(self._switch, "link", "add", f"br{number}", "type", "bridge")
            self._ip(self._switch, "link", "set", f"br{number}", "up")
            self._hosts[network] = []

    def join(self, namespace: str, name: str, networks: Sequence[str]) -> None:
        """A namespace for a container, with an address on each of its networks."""
        self._add_namespace(namespace)
        for network in networks:
            number = self._numbers[network]
            self._hosts[network].append((name, f"10.231.{number}.{len(self._hosts[network]) + 10}"))
            link = f"v{len(self._namespaces)}n{number}"
            self._ip(
                self._switch, "link", "add", link, "type", "veth", "peer", "name", f"eth{number}", "netns", namespace
            )
            self._ip(self._switch, "link", "set", link, "master", f"br{number}", "up")
            self._ip(namespace, "addr", "add", f"{self._hosts[network][-1][1]}/24", "dev", f"eth{number}")
            self._ip(namespace, "link", "set", f"eth{number}", "up")

    def hosts(self, networks: Sequence[str]) -> str:
        """The hosts file of a container: who else is on its networks."""
        lines = [f"{address} {name}" for network in networks for name, address in self._hosts[network]]
        return "\n".join(["127.0.0.1 localhost", *lines]) + "\n"

    def remove(self) -> None:
        for namespace in reversed(self._namespaces):
            run("ip", "netns", "del", namespace)

    def _add_namespace(self, namespace: str) -> None:
        run("ip", "netns", "add", namespace)
        self._namespaces.append(namespace)
        self._ip(namespace, "link", "set", "lo", "up")

    def _ip(self, namespace: str, *arguments: str) -> None:
        run("ip", "-n", namespace, *arguments)


# Services.


@dataclass
class Container:
    """A service that runs or ran."""

    name: str
    service: Mapping[str, Any]
    image: Image
    process: subprocess.Popen[bytes]
    log: Path
    peak_bytes: int = 0

    def note_memory(self) -> None:
        with_children = psutil.Process(self.process.pid).children(recursive=True)
        used = 0
        for process in with_children:
            try:
                used += process.memory_full_info().pss
            except psutil.Error:
                continue
        self.peak_bytes = max(self.peak_bytes, used)

    def call(self, command: Sequence[str], timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A command in the container, as `docker exec` would run it."""
        inside = psutil.Process(self.process.pid)
        while children := inside.children():
            inside = children[0]
            if inside.name() not in ("unshare", "sh", "ip"):
                break
        environment = exports(self.image.environment | (self.service.get("environment") or {}))
        shell = f"cd {self.image.folder} && exec {shlex.join(command)}"
        enter = ["nsenter", "-t", str(inside.pid), "-m", "-n", "-u", "-p", "-r", "-w"]
        uid, _, gid = (self.service.get("user") or self.image.user).partition(":")
        user = ["setpriv", "--reuid", uid, "--regid", gid or uid, "--clear-groups", "--no-new-privs"]
        return subprocess.run(
            [*enter, *user, *shlex.split(environment), "sh", "-c", shell],
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )

    def is_healthy(self) -> tuple[bool, str]:
        kind, *words = self.service["healthcheck"]["test"]
        done = self.call(words if kind == "CMD" else ["sh", "-c", words[0]])
        return done.returncode == 0, (done.stdout + done.stderr).strip()


class Rehearsal:
    """The stack, as the compose file has it."""

    def __init__(self, scratch: Path, project: Mapping[str, Any], scale: Mapping[str, int]) -> None:
        self._scratch = scratch
        self._project = project
        self._scale = scale
        self._builder = Builder(scratch)
        self._network = Network(f"rh{os.getpid()}", list(project["networks"]))
        self.containers: dict[str, Container] = {}
        self._joined: dict[str, Sequence[str]] = {}

    def build(self) -> dict[str, Image]:
        """All images that the file says how to build."""
        return {
            service["image"]: self._builder.build(
                service["build"]["dockerfile"], service["build"].get("target") or "final"
            )
            for service in self._project["services"].values()
            if "build" in service
        }

    def up(self, images: Mapping[str, Image]) -> None:
        """Start the services as their conditions allow, and wait until all are healthy."""
        names = [name for name in self._project["services"] if name not in NOT_HERE]
        copies = {name: [name, *(f"{name}-copy{n}" for n in range(2, self._scale.get(name, 1) + 1))] for name in names}
        for name in names:
            for copy in copies[name]:
                self._joined[copy] = list(self._project["services"][name].get("networks") or ())
                self._network.join(f"rh{os.getpid()}-{copy}", copy if copy == name else name, self._joined[copy])
        waiting = list(names)
        began = time.monotonic()
        while waiting:
            for name in [name for name in waiting if self._may_start(name)]:
                waiting.remove(name)
                for copy in copies[name]:
                    self._start(copy, name, images)
            self._wait_a_little(began)
        self._wait_until_healthy(began)

    def down(self) -> None:
        """End everything that was started, in the reverse order."""
        for container in reversed(self.containers.values()):
            if container.process.poll() is None:
                inside = psutil.Process(container.process.pid).children(recursive=True)
                for process in inside[:3]:
                    process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 40
        for container in self.containers.values():
            try:
                container.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                container.process.kill()
                container.process.wait()
        self._network.remove()

    def run_again(self, name: str, images: Mapping[str, Image], *arguments: str) -> str:
        """A one-shot service once more, as `docker compose run` would; what it printed."""
        container = self._start(name, name, images, arguments)
        if container.process.wait(120) != 0:
            raise SystemExit(f"FAILED: {name} a second time\n{container.log.read_text()}")
        return container.log.read_text()

    def _may_start(self, name: str) -> bool:
        for other, wanted in (self._project["services"][name].get("depends_on") or {}).items():
            if other in NOT_HERE:
                continue
            container = self.containers.get(other)
            if container is None:
                return False
            if wanted["condition"] == "service_completed_successfully":
                if container.process.poll() is None:
                    return False
                if container.process.returncode != 0:
                    raise SystemExit(f"FAILED: {other}\n{container.log.read_text()[-3000:]}")
            elif not container.is_healthy()[0]:
                return False
        return True

    def _wait_a_little(self, began: float) -> None:
        for container in self.containers.values():
            ended = container.process.poll()
            if ended not in (None, 0) or (ended == 0 and "healthcheck" in container.service):
                raise SystemExit(f"FAILED: {container.name} ended ({ended})\n{container.log.read_text()[-4000:]}")
            if ended is None:
                container.note_memory()
        if time.monotonic() - began > 900:
            raise SystemExit("FAILED: not all became healthy in 15 minutes\n" + self._complaints())
        time.sleep(1)

    def _wait_until_healthy(self, began: float) -> None:
        waiting = [container for container in self.containers.values() if "healthcheck" in container.service]
        while waiting:
            for container in list(waiting):
                if container.is_healthy()[0]:
                    say(f"healthy after {time.monotonic() - began:.0f} s: {container.name}")
                    waiting.remove(container)
            self._wait_a_little(began)

    def _complaints(self) -> str:
        stays = [container for container in self.containers.values() if "healthcheck" in container.service]
        return "\n".join(f"{c.name}: {said}" for c in stays for well, said in [c.is_healthy()] if not well)

    def _start(
        self, copy: str, name: str, images: Mapping[str, Image], arguments: Sequence[str] | None = None
    ) -> Container:
        service = self._project["services"][name]
        image = self._postgres_image() if name == "postgres" else images[service["image"]]
        command = self._command(name, service, image, arguments)
        folder = new_folder(self._scratch / "containers", copy)
        script = self._script(copy, service, image, command, folder)
        log = folder / "log"
        enter = ["ip", "netns", "exec", f"rh{os.getpid()}-{copy}"]
        isolate = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child"]
        with log.open("wb") as output:
            process = subprocess.Popen(
                [*enter, *isolate, "sh", "-c", script],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        say(f"started {copy}")
        self.containers[copy] = Container(copy, service, image, process, log)
        return self.containers[copy]

    def _command(
        self, name: str, service: Mapping[str, Any], image: Image, arguments: Sequence[str] | None
    ) -> list[str]:
        if name == "postgres":
            return ["sh", "-c", POSTGRES_ENTRYPOINT]
        if name.startswith("elasticsearch"):
            seed_users(image, self._scratch / "volumes" / "secrets-setup")
            return ["sh", "-c", ELASTICSEARCH_ENTRYPOINT]
        if name == "setup":
            return ["python", "-c", SETUP_WITHOUT_USERS, *(service["command"] if arguments is None else arguments)]
        entrypoint = service.get("entrypoint") or image.entrypoint
        given = service.get("command") or (image.command if not service.get("entrypoint") else [])
        return [*entrypoint, *(given if arguments is None else arguments)]

    def _postgres_image(self) -> Image:
        layer = new_layer(self._scratch)
        (layer / "etc").mkdir()
        (layer / "etc" / "passwd").write_text(PASSWD + PASSWD_POSTGRES)
        programs = postgres_programs()
        assert programs is not None
        return Image([layer], {"PATH": f"{programs}:{PATH}", "PGDATA": "/var/lib/postgresql/data"}, user="999:999")

    def _script(self, copy: str, service: Mapping[str, Any], image: Image, command: Sequence[str], folder: Path) -> str:
        upper, work, root = (folder / name for name in ("upper", "work", "root"))
        for path in (upper / "etc", work, root):
            path.mkdir(parents=True)
        (upper / "etc" / "hosts").write_text(self._network.hosts(self._joined[copy]))
        tmpfs = [mount.partition(":")[::2] for mount in service.get("tmpfs", [])]
        mounts = [(mount, self._source(mount, image)) for mount in service.get("volumes", [])]
        for target in [*(place for place, _ in tmpfs), *(mount["target"] for mount, _ in mounts)]:
            self._make_mount_point(
                upper,
                image,
                target,
                is_file=any(mount["target"] == target and source.is_file() for mount, source in mounts),
            )
        read_only = "ro," if service.get("read_only") else ""
        layers = ":".join(map(str, [*image.layers, Path("/")]))
        lines = [
            "set -e",
            "mount --make-rprivate /",
            f"hostname {service.get('hostname') or copy}",
            f"mount -t overlay overlay -o {read_only}lowerdir={layers},upperdir={upper},workdir={work} {root}",
            f"mount -t proc proc {root}/proc",
            f"mount --rbind /dev {root}/dev",
            f"mount -t tmpfs -o mode=1777,size={service.get('shm_size', 64 << 20)} tmpfs {root}/dev/shm",
            *(
                f"mount -t tmpfs -o {options or 'mode=1777'},nosuid,nodev,noexec tmpfs {root}{place}"
                for place, options in tmpfs
            ),
        ]
        for mount, source in mounts:
            lines.append(f"mount --bind {source} {root}{mount['target']}")
            if mount.get("read_only"):
                lines.append(f"mount -o remount,ro,bind {root}{mount['target']}")
        files = (service.get("ulimits") or {}).get("nofile")
        if files is not None:
            wanted = files["hard"] if isinstance(files, dict) else files
            lines.append(f"ulimit -n {min(int(wanted), MOST_FILES)}")
        environment = image.environment | (service.get("environment") or {})
        if service.get("hostname"):
            environment["HOSTNAME"] = service["hostname"]
        user = service.get("user") or image.user
        inside = f"cd {image.folder} && exec {shlex.join(command)}"
        lines.append(f"exec {as_user(user, root, bounded=True)} {exports(environment)} sh -c {shlex.quote(inside)}")
        return "\n".join(lines)

    def _source(self, mount: Mapping[str, Any], image: Image) -> Path:
        if mount["type"] == "bind":
            return Path(mount["source"])
        volume = self._scratch / "volumes" / mount["source"]
        if not volume.exists():
            volume.mkdir()
        # An empty volume takes its owner from the image that is mounted over.
        if not any(volume.iterdir()):
            inside = next((p for layer in image.layers if (p := layer / mount["target"][1:]).is_dir()), None)
            if inside is not None:
                os.chown(volume, inside.stat().st_uid, inside.stat().st_gid)
            elif mount["target"] == "/var/lib/postgresql/data":
                os.chown(volume, 999, 999)
        return volume

    def _make_mount_point(self, upper: Path, image: Image, target: str, is_file: bool) -> None:
        place = upper / target[1:]
        make_parents(place, upper, image.layers)
        if is_file:
            place.touch()
        else:
            place.mkdir(exist_ok=True)


def seed_users(image: Image, masters: Path) -> None:
    """Roles and users as files: the index that the security API keeps them in needs a module that is not here."""
    config = image.layers[0] / ELASTICSEARCH_HOME[1:] / "config"
    users = [(user.value, (masters / f"elasticsearch_{user}").read_text()) for user in ElasticUser]
    granted = roles("plumbline-").items()
    (config / "roles.yml").write_text("".join(f"{name}: {json.dumps(privileges)}\n" for name, privileges in granted))
    (config / "users").write_text("".join(f"{name}:{hash_password(password)}\n" for name, password in users))
    (config / "users_roles").write_text("".join(f"{name}:{name}\n" for name, _ in users))


def check(what: str, is_so: bool, said: object = "") -> None:
    if not is_so:
        raise SystemExit(f"FAILED: {what}\n{said}")
    say(f"ok: {what}")


def read_project(profiles: Sequence[str]) -> dict[str, Any]:
    """The compose file by compose's own parser."""
    with tempfile.TemporaryDirectory() as folder:
        checker = Path(folder) / "compose_check"
        run("go", "build", "-o", checker, ".", cwd=Path(__file__).parent / "compose_check")
        found: dict[str, Any] = json.loads(run(checker, ROOT / "docker-compose.yml", *profiles).stdout)
    return found


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A file system of its own, in memory: layers must not lie within the root that they are laid over."""
    folder = Path(tempfile.mkdtemp(prefix="plumbline-rehearsal-"))
    run("mount", "-t", "tmpfs", "-o", "mode=0755,size=8g", "tmpfs", folder)
    for name in ("layers", "containers", "volumes"):
        (folder / name).mkdir()
    try:
        yield folder
    finally:
        # What still ends in it must not hide why the rehearsal has failed.
        run("umount", "--lazy", folder)
        folder.rmdir()


def look_at(stack: Rehearsal, images: Mapping[str, Image], scratch: Path) -> None:
    """What must be true of a stack that is all healthy."""
    containers = stack.containers
    web, crawler = containers["web"], containers["crawler"]
    ask = "import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
    found = json.loads(
        web.call(["python", "-c", ask, "http://127.0.0.1:8080/api/v1/search?q=%E9%BE%99%E4%BA%95"]).stdout
    )
    check("the sample's pages are found", found["total"] > 3, found)
    check(
        "their address is the one that the crawler has", found["hits"][0]["url"].startswith("http://sample-site:8080/")
    )
    everything = json.loads(web.call(["python", "-c", ask, "http://127.0.0.1:8080/readyz"]).stdout)
    check(f"{everything['documents']} pages are in the index", everything["documents"] > 60, everything)
    names = [name for name in containers if name.startswith("crawler")]
    told = [containers[name].call(["python", "-c", ask, "http://127.0.0.1:9400/metrics"]).stdout for name in names]
    fetched = sum(
        float(n) for text in told for n in re.findall(r'^plumbline_visits_total\{status="fetched"\} (\S+)', text, re.M)
    )
    check(f"crawlers told Prometheus of {fetched:.0f} pages", fetched > 60)
    told_status = web.call(["python", "-m", "services.command_line", "status"])
    check("`plumbline status` sees the others from within a container", "crawler" in told_status.stdout, told_status)
    say(told_status.stdout)
    doctor = crawler.call(["python", "-m", "services.command_line", "doctor"])
    check(
        "`plumbline doctor` finds nothing wrong in a container", doctor.returncode == 0, doctor.stdout + doctor.stderr
    )
    look_at_walls(containers)
    look_for_secrets(containers, scratch)
    for name in ("secrets", "setup"):
        stack.run_again(name, images, *(("--sample", "1") if name == "setup" else ()))
    check("one-shot services change nothing the second time", True)
    logins = stack.run_again("secrets", images, "logins")
    check(
        "the owner is told how to sign in",
        re.search(r"portal  user owner  password \S{16}\n", logins) is not None,
        logins,
    )


def look_at_walls(containers: Mapping[str, Container]) -> None:
    """What a container cannot do."""
    web = containers["web"]
    check("a container's files cannot be written", web.call(["touch", "/opt/plumbline/x"]).returncode != 0)
    check(
        "nor can the archive by who only reads it", web.call(["touch", "/var/lib/plumbline/archive/x"]).returncode != 0
    )
    status = web.call(["cat", "/proc/self/status"]).stdout
    check("it runs as an unprivileged user", re.search(r"^Uid:\s+1000\s+1000", status, re.M) is not None, status)
    reach = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"
    outside = web.call(["python", "-c", reach, "sample-site", "8080"]).returncode == 0
    check("portal and sample site share a network", outside)
    inside = containers["sample-site"].call(["python", "-c", reach, "postgres", "5432"])
    check("the sample site does not reach the database", inside.returncode != 0)
    for library in ("playwright", "trafilatura", "pycurl"):
        check(f"the web image has no {library}", web.call(["python", "-c", f"import {library}"]).returncode != 0)


def look_for_secrets(containers: Mapping[str, Container], scratch: Path) -> None:
    masters = scratch / "volumes" / "secrets-setup"
    values = [path.read_text().strip() for path in masters.iterdir() if path.suffix != ".crt"]
    leaks = [c.name for c in containers.values() for value in values if value in c.log.read_text(errors="replace")]
    check("no secret is in a log", not leaks, leaks)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--profile", action="append", default=[], help="such as cluster")
    parser.add_argument("--build-only", action="store_true", help="rehearse the Dockerfiles alone")
    options = parser.parse_args()
    missing = [
        name for name in ("ip", "unshare", "setpriv", "nsenter", "go", "mvn", "curl") if shutil.which(name) is None
    ]
    if os.geteuid() != 0 or missing or postgres_programs() is None:
        raise SystemExit(
            f"the rehearsal needs root, PostgreSQL and programs of this machine (missing: {missing or 'none'})"
        )
    project = read_project(options.profile)
    with scratch_folder() as scratch:
        stack = Rehearsal(scratch, project, {"crawler": 2, "indexer": 2})
        try:
            images = stack.build()
            strip_settings(images["plumbline-elasticsearch"])
            if not options.build_only:
                stack.up(images)
                look_at(stack, images, scratch)
                report_memory(stack.containers.values())
        finally:
            stack.down()
    say("rehearsed")


def strip_settings(image: Image) -> None:
    """Leave out what only the full distribution knows."""
    settings = next(
        file for layer in image.layers if (file := layer / ELASTICSEARCH_HOME[1:] / "config/elasticsearch.yml").exists()
    )
    lines = settings.read_text("utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(NOT_IN_DISTRIBUTION)]
    dropped = ", ".join(line.strip() for line in lines if line not in kept)
    say(f"left out, since only the full distribution has them: {dropped}")
    if MOST_FILES < FILES_OF_NODE:
        say(f"this machine allows {MOST_FILES} open files: the node stays alone, or it would refuse to start")
        kept.append("transport.host: 127.0.0.1\n")
    settings.write_text("".join(kept), "utf-8")


def report_memory(containers: Any) -> None:
    for container in containers:
        limit = int(container.service["mem_limit"])
        if container.peak_bytes:
            say(f"memory: {container.name} used {container.peak_bytes >> 20} MB of {limit >> 20}")
            check(f"{container.name} stays within its limit", container.peak_bytes < limit)


if __name__ == "__main__":
    main()
