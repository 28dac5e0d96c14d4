"""The Dockerfiles: that hadolint has nothing to say, and that each image installs what its code imports."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from services.docker import locks
from services.node import ELASTICSEARCH_VERSION
from tests.docker.conftest import ROOT

FOLDER = ROOT / "services" / "docker"
DOCKERFILES = sorted(FOLDER.glob("*.Dockerfile"))
# What each image begins with, and what its work imports where it is needed.
ENTRIES = {
    "web": ["services.command_line", "services.processes", "services.web_server", "web", "web.*"],
    "crawler": [
        "services.command_line",
        "services.processes",
        "crawler.crawl",
        "services.crawl_log",
        "services.health",
    ],
    "indexer": ["services.command_line", "services.processes", "services.indexer", "services.health"],
    "scheduler": ["services.command_line", "services.processes", "services.scheduler", "services.health"],
    "setup": ["services.docker.secrets", "services.docker.setup", "services.command_line", "services.kibana.importing"],
}
KEPT_OUT = {
    "web": {"playwright", "trafilatura", "pycurl", "uvloop"},
    "indexer": {"playwright", "flask", "pycurl"},
    "crawler": {"trafilatura", "flask"},
    "scheduler": {"playwright", "trafilatura", "flask", "lxml"},
    "setup": {"playwright", "trafilatura", "flask", "lxml"},
}


@pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_has_nothing_to_say(dockerfile: Path) -> None:
    done = subprocess.run([Path(sys.executable).with_name("hadolint"), dockerfile], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_hadolint_would_say_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp\n")
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, tmp_path / "Dockerfile"], capture_output=True, text=True)
    assert "DL3006" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize("path", locks.LOCKS, ids=lambda path: path.name)
def test_the_lock_files_are_what_pyproject_asks_for(path: Path) -> None:
    blocks = locks.read_blocks(locks.FULL_LOCK.read_text("utf-8"))
    needed = locks.closure(locks.LOCKS[path])
    assert path.read_text("utf-8") == locks.lock_text(blocks, needed), "run: python -m services.docker.locks"


@pytest.mark.parametrize("image", ENTRIES)
def test_an_image_holds_what_its_code_imports_and_nothing_of_the_others(image: str) -> None:
    installed = set(re.findall(r"^([\w.-]+)==", (FOLDER / f"{image}.lock").read_text("utf-8"), flags=re.MULTILINE))
    packages = importlib.metadata.packages_distributions()
    imported = imported_at_start(expand(ENTRIES[image]))
    missing = {name for name in imported if not installed & {normal(package) for package in packages[name]}}
    assert missing == set()
    assert not KEPT_OUT[image] & installed


def expand(entries: list[str]) -> list[str]:
    modules = []
    for entry in entries:
        if entry.endswith(".*"):
            folder = ROOT / entry.removesuffix(".*")
            modules += [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in folder.rglob("*.py")]
        else:
            modules.append(entry)
    return [module.removesuffix(".__init__") for module in modules]


def imported_at_start(entries: list[str]) -> set[str]:
    """Packages of others that are loaded with these modules, what is imported in functions left out."""
    seen: set[str] = set()
    found: set[str] = set()
    ahead = list(entries)
    while ahead:
        module = ahead.pop()
        path = file_of(module)
        if path is None or module in seen:
            continue
        seen.add(module)
        ahead += [module.rsplit(".", n)[0] for n in range(1, module.count(".") + 1)]
        for target in top_level_imports(ast.parse(path.read_text("utf-8"))):
            owner = next((name for name in prefixes(target) if file_of(name)), None)
            if owner is not None:
                ahead.append(owner)
            elif target.partition(".")[0] not in sys.stdlib_module_names:
                found.add(target.partition(".")[0])
    return found


def top_level_imports(tree: ast.Module) -> list[str]:
    found = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def prefixes(target: str) -> list[str]:
    return [target, *(target.rsplit(".", n)[0] for n in range(1, target.count(".") + 1))]


def file_of(module: str) -> Path | None:
    path = ROOT.joinpath(*module.split("."))
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_image_ends_in_an_unprivileged_user() -> None:
    for dockerfile in DOCKERFILES:
        stages = re.split(r"^FROM ", dockerfile.read_text("utf-8"), flags=re.MULTILINE)[1:]
        finals = [stage for stage in stages if "ENTRYPOINT" in stage or stage.startswith("docker.elastic.co")]
        assert finals
        for stage in finals:
            assert re.findall(r"^USER (.*)$", stage, flags=re.MULTILINE)[-1:] in (["1000:1000"], ["1000:0"])


def test_what_is_copied_is_there_and_is_sent_to_the_engine() -> None:
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_in = {line.removeprefix("!") for line in ignored if line.startswith("!")}
    for dockerfile in DOCKERFILES:
        for line in re.findall(r"^COPY (?!--from)(?:--\S+ )*(.*)$", dockerfile.read_text("utf-8"), flags=re.MULTILINE):
            *sources, _target = line.split()
            for source in sources:
                assert (ROOT / source).exists(), f"{dockerfile.name} copies {source}"
                assert source.partition("/")[0] in let_in, f".dockerignore keeps {source} out"


def test_all_say_the_same_version_of_elasticsearch() -> None:
    dockerfile = (FOLDER / "elasticsearch.Dockerfile").read_text("utf-8")
    assert f"ARG ELASTICSEARCH_VERSION={ELASTICSEARCH_VERSION}\n" in dockerfile
    compose = YAML(typ="safe").load((ROOT / "docker-compose.yml").read_text("utf-8"))
    assert compose["services"]["kibana"]["image"].endswith(f":{ELASTICSEARCH_VERSION}")
    pom = (ROOT / "services/elasticsearch/analysis-jieba/pom.xml").read_text("utf-8")
    assert f"<elasticsearch.version>{ELASTICSEARCH_VERSION}</elasticsearch.version>" in pom


def test_the_folders_of_secrets_are_made_in_the_image_of_the_service_that_fills_them() -> None:
    from services.docker import secrets

    dockerfile = (FOLDER / "python.Dockerfile").read_text("utf-8")
    made = set(re.findall(r"/secrets/([\w-]+)", dockerfile))
    assert made == {*secrets.READERS, secrets.MASTERS}
