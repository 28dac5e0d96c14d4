"""What a container asks itself: is it well?"""

from __future__ import annotations

import subprocess
import sys

from services import health
from services.errors import ServiceError


def probe(*urls: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "services.docker.probe", *urls], capture_output=True, text=True, timeout=30
    )


def away() -> str:
    raise ServiceError("it is away")


def test_a_service_that_is_well_is_found_well() -> None:
    with health.serve_health("127.0.0.1", 0, {}) as port:
        done = probe(f"http://127.0.0.1:{port}/healthz", f"http://127.0.0.1:{port}/readyz")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_first_that_is_not_well_is_said_with_its_answer() -> None:
    with health.serve_health("127.0.0.1", 0, {"database": away}) as port:
        done = probe(f"http://127.0.0.1:{port}/healthz", f"http://127.0.0.1:{port}/readyz")
    assert done.returncode == 1
    assert "/readyz: 503" in done.stderr
    assert "it is away" in done.stderr
    gone = probe(f"http://127.0.0.1:{port}/healthz")
    assert gone.returncode == 1
    assert "refused" in gone.stderr
