"""Which Java this machine has: Elasticsearch and the plugin's build need a JDK of version 21 or newer.

`python -m services.java` prints the home of the one that is used.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from services.config import java_candidates
from services.errors import NodeError

MINIMUM_VERSION = 21
HOW_TO_INSTALL = "install one, for example by: sudo apt-get install openjdk-21-jdk-headless"


@dataclass(frozen=True, slots=True)
class Jdk:
    """A JDK: its home and its feature version (21, 25, …)."""

    home: Path
    version: int


def find_jdk(user: str | None = None) -> Jdk:
    """The first JDK that is new enough and that `user` (None: this process's) may run; NodeError if there is none."""
    too_old: list[str] = []
    for home in java_candidates():
        version = java_version(home)
        if version is None or not _may_run(home / "bin" / "java", user):
            continue
        if version >= MINIMUM_VERSION:
            return Jdk(home, version)
        too_old.append(f"{home} is {version}")
    found = f" ({'; '.join(dict.fromkeys(too_old))})" if too_old else ""
    raise NodeError(f"no JDK of version {MINIMUM_VERSION} or newer was found{found}: {HOW_TO_INSTALL}")


def java_version(home: Path) -> int | None:
    """The feature version of the JDK in a folder; None if there is no JDK in it (a bare runtime cannot compile)."""
    if not (home / "bin" / "java").is_file() or not (home / "bin" / "javac").is_file():
        return None
    try:
        stated = (home / "release").read_text()
    except OSError:
        stated = _ask_java(home)
    return parse_version(stated)


def parse_version(stated: str) -> int | None:
    """The feature version in a `release` file or in what `java -version` says."""
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', stated)
    return int(found[1]) if found else None


def _ask_java(home: Path) -> str:
    try:
        answer = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stderr


def _may_run(java: Path, user: str | None) -> bool:
    """Root's own folders are closed to the node's user: a JDK there is none for it."""
    if user is None:
        return True
    return subprocess.run(["test", "-x", java], user=user, group=user, extra_groups=[]).returncode == 0


if __name__ == "__main__":
    try:
        print(find_jdk().home)
    except NodeError as exc:
        sys.exit(str(exc))
