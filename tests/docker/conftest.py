"""The compose file as docker compose itself reads it, and as YAML with its comments' anchors."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CHECKER = Path(__file__).parent / "compose_check"

ReadCompose = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def read_compose(tmp_path_factory: pytest.TempPathFactory) -> ReadCompose:
    """`read_compose(*profiles, VARIABLE=value…)`: the project, by the parser of docker compose (compose-go)."""
    if shutil.which("go") is None:
        pytest.skip("Go is missing: the compose file cannot be read with compose's own parser")
    checker = tmp_path_factory.mktemp("compose") / "compose_check"
    # -mod=readonly is the default: what is compiled is what go.sum names.
    subprocess.run(["go", "build", "-o", checker, "."], cwd=CHECKER, check=True, timeout=280)

    def read(*profiles: str, **variables: str) -> dict[str, Any]:
        environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables}
        done = subprocess.run(
            [checker, ROOT / "docker-compose.yml", *profiles],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        project: dict[str, Any] = json.loads(done.stdout)
        return project

    return read
