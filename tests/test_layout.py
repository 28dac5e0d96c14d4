"""The house rules that a machine can check: who imports whom, which library lives where, what lies at the top."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("crawler", "extractor", "services", "web")
TOP_LEVEL = {
    *(*FOLDERS, "es-mappings", "tests", "bench", "docs", ".ci"),
    *("docker-compose.yml", "portal.toml", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "NOTICE"),
    *("Makefile", "pyproject.toml", "requirements.lock", "requirements-dev.lock"),
    *(".gitignore", ".gitattributes", ".dockerignore", ".env.example", ".editorconfig"),
}

# A folder may import its own modules and these: whole folders, or single modules.
ALLOWED = {
    "crawler": (),
    "extractor": tuple(f"crawler.{name}" for name in ("records", "charset", "links", "urls", "fingerprint")),
    "services": ("crawler", "extractor"),
    "web": (
        *(f"services.{name}" for name in ("config", "elastic", "search", "control", "errors", "logs")),
        *(f"services.{name}" for name in ("appender", "query_log", "kibana")),
        *(f"crawler.{name}" for name in ("records", "archive", "database", "charset", "urls", "errors")),
    ),
}

# The one home of each library: modules or folders.
HOMES = {
    "pycurl": ("crawler.fetcher",),
    "playwright": ("crawler.renderer",),
    "warcio": ("crawler.archive",),
    "isal": ("crawler.archive", "crawler.content_coding"),
    "protego": ("crawler.robots_rules", "crawler.robots"),
    "trafilatura": ("extractor.body",),
    "elasticsearch": ("services.elastic",),
    "elastic_transport": ("services.elastic",),
    "apscheduler": ("services.scheduler",),
    "vl_convert": ("services.kibana.charts",),
    "flask": ("web",),
    "flask_babel": ("web",),
    "flask_login": ("web",),
    "flask_wtf": ("web",),
    "flask_limiter": ("web",),
    "sqlalchemy": (
        *("crawler.database", "crawler.frontier", "crawler.archive.captures", "crawler.migrations"),
        "services.control",
    ),
    "alembic": ("crawler.database", "crawler.migrations"),
    "click": ("services.command_line",),
}
# Typing alone: the engine is passed on by those who never ask it anything.
TYPES_ONLY = {"sqlalchemy.engine.Engine"}

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base"}
# Spelled apart, so that this file may hold them.
FORBIDDEN_WORDS = ("/wo" + "rk/", "../sha" + "red", "pypi.o" + "rg", "repo.maven.apa" + "che.org")
MAY_NAME_THEM = {Path(".ci/run")}


@dataclass(frozen=True)
class Import:
    """One imported name, as `module` or `module.name`."""

    target: str
    line: int
    is_relative: bool
    for_types_only: bool


@cache
def modules() -> dict[str, Path]:
    """All modules of ours by dotted name."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            if "target" not in parts and "-" not in "".join(parts):
                found[".".join(parts).removesuffix(".__init__")] = path
    return found


@cache
def imports(module: str) -> tuple[Import, ...]:
    return tuple(_read_imports(ast.parse(modules()[module].read_text("utf-8")), for_types_only=False))


def _read_imports(tree: ast.AST, for_types_only: bool) -> Iterator[Import]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, False, for_types_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield Import(f"{node.module or ''}.{alias.name}", node.lineno, node.level > 0, for_types_only)
        else:
            types_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
            yield from _read_imports(node, for_types_only or types_only)


def ours(target: str) -> str | None:
    """The module of ours that an import names; None for a library's."""
    while target:
        if target in modules():
            return target
        target = target.rpartition(".")[0]
    return None


def lies_in(name: str, places: tuple[str, ...]) -> bool:
    return any(name == place or name.startswith(f"{place}.") for place in places)


def describe(module: str, found: Import) -> str:
    return f"{modules()[module].relative_to(ROOT)}:{found.line} imports {found.target}"


def test_folders_import_only_what_they_may() -> None:
    wrong = [
        describe(module, found)
        for module in modules()
        for found in imports(module)
        if (target := ours(found.target)) is not None
        and target.partition(".")[0] != (folder := module.partition(".")[0])
        and not lies_in(target, ALLOWED[folder])
    ]
    assert wrong == []


def test_nobody_imports_the_web_or_the_tests() -> None:
    wrong = [
        describe(module, found)
        for module in modules()
        for found in imports(module)
        if found.target.partition(".")[0] == "tests"
        or (found.target.partition(".")[0] == "web" and not module.startswith("web"))
    ]
    assert wrong == []


def test_imports_are_absolute() -> None:
    assert [describe(module, found) for module in modules() for found in imports(module) if found.is_relative] == []


def test_each_library_has_one_home() -> None:
    wrong = [
        describe(module, found)
        for module in modules()
        for found in imports(module)
        if (library := found.target.partition(".")[0]) in HOMES
        and not lies_in(module, HOMES[library])
        and found.target not in TYPES_ONLY
    ]
    assert wrong == []


def test_only_the_settings_read_the_environment() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for module, path in modules().items()
        if module != "services.config"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and node.attr in ("environ", "environb", "getenv")
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    ]
    assert wrong == []


def test_no_module_imports_itself_by_a_detour() -> None:
    graph = {
        module: {
            target
            for found in imports(module)
            if not found.for_types_only and (target := ours(found.target)) is not None and target != module
        }
        for module in modules()
    }
    assert _cycle(graph) is None


def _cycle(graph: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(module: str, path: list[str]) -> list[str] | None:
        if module in path:
            return [*path[path.index(module) :], module]
        if module in done:
            return None
        for target in sorted(graph[module]):
            if (found := visit(target, [*path, module])) is not None:
                return found
        done.add(module)
        return None

    return next((found for module in graph if (found := visit(module, [])) is not None), None)


def test_a_cycle_would_be_found() -> None:
    assert _cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert _cycle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


@pytest.mark.parametrize(
    ("entry", "kept_out"),
    [("web", ("playwright", "trafilatura", "pycurl")), ("services.command_line", ("flask", "sqlalchemy", "lxml"))],
)
def test_what_must_be_light_is_light(entry: str, kept_out: tuple[str, ...]) -> None:
    """Asked of a real interpreter: what it has loaded after the import."""
    program = f"import sys, {entry}; print([name for name in {kept_out!r} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


def test_the_web_reaches_neither_browser_nor_extractor_at_any_time() -> None:
    """Also by imports inside functions."""
    reached, ahead = set(), ["web"]
    while ahead:
        module = ahead.pop()
        if module in reached:
            continue
        reached.add(module)
        package = [name for name in modules() if module == "web" and name.startswith("web.")]
        targets = [ours(found.target) for found in imports(module) if not found.for_types_only]
        ahead += [*package, *filter(None, targets)]
    assert not reached & {"crawler.renderer", "extractor.body"}


def test_every_module_says_first_what_it_is() -> None:
    wrong = [
        str(path.relative_to(ROOT))
        for path in modules().values()
        if path.stat().st_size and ast.get_docstring(ast.parse(path.read_text("utf-8"))) is None
    ]
    assert wrong == []


def test_a_file_is_a_noun_of_the_field() -> None:
    assert [str(path.relative_to(ROOT)) for path in modules().values() if path.stem in VAGUE_NAMES] == []


def test_tests_have_no_packages() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def tracked_files() -> list[Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [Path(name) for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


def test_only_what_belongs_there_lies_at_the_top() -> None:
    assert {path.parts[0] for path in tracked_files()} - TOP_LEVEL == set()


def test_project_files_name_no_place_outside_the_project() -> None:
    wrong = [
        f"{path} names {word}"
        for path in tracked_files()
        if path not in MAY_NAME_THEM and (content := (ROOT / path).read_bytes())
        for word in FORBIDDEN_WORDS
        if word.encode() in content
    ]
    assert wrong == []
