"""What each image installs: the part of requirements-dev.lock that its extra in pyproject.toml asks for.

`python -m services.docker.locks` writes them (`make lock` calls it). What depends on what is read from the installed
packages, so it is quick and asks nobody; versions and digests are those that the whole project is tested with.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FULL_LOCK = ROOT / "requirements-dev.lock"
PROJECT = "plumbline"
LOCKS = {
    ROOT / "requirements.lock": ("all",),
    **{
        ROOT / "services" / "docker" / f"{image}.lock": (image, "postgres")
        for image in ("web", "crawler", "indexer", "scheduler", "setup")
    },
}


def main() -> None:
    """Write them all; a package that the full lock lacks is one sentence and exit status 1."""
    blocks = read_blocks(FULL_LOCK.read_text("utf-8"))
    for path, extras in LOCKS.items():
        needed = closure(extras)
        missing = needed - blocks.keys()
        if missing:
            sys.exit(f"{FULL_LOCK.name} lacks {', '.join(sorted(missing))}; run: make lock")
        path.write_text(lock_text(blocks, needed), "utf-8")


def lock_text(blocks: dict[str, str], needed: Iterable[str]) -> str:
    """The blocks of those packages, sorted."""
    return "".join(blocks[name] for name in sorted(needed))


def read_blocks(lock: str) -> dict[str, str]:
    """A lock file's blocks (a line `name==version` and its digests) by the packages' normal names."""
    blocks = re.findall(r"^\S+==(?:.*\\\n)*.*\n", lock, flags=re.MULTILINE)
    return {canonicalize_name(block.partition("==")[0]): block for block in blocks}


def closure(extras: Iterable[str]) -> set[str]:
    """The normal names of all packages that the project needs with those extras, itself left out."""
    seen: set[tuple[str, str]] = set()
    ahead = [(PROJECT, extra) for extra in ("", *extras)]
    while ahead:
        wanted = ahead.pop()
        if wanted not in seen:
            seen.add(wanted)
            ahead += _needs(*wanted)
    return {name for name, _ in seen} - {PROJECT}


def _needs(package: str, extra: str) -> Iterator[tuple[str, str]]:
    """What an installed package asks for in this environment, with one of its extras or none."""
    for line in importlib.metadata.requires(package) or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            name = canonicalize_name(requirement.name)
            yield name, ""
            yield from ((name, of_it) for of_it in requirement.extras)


if __name__ == "__main__":
    main()
