from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from services.ending import is_gone, wait_until_gone

CARELESS = """
import subprocess, sys
child = subprocess.Popen(["sleep", "600"])
print(child.pid, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def child() -> Iterator[psutil.Process]:
    """A process whose parent never collects it."""
    parent = subprocess.Popen(
        [sys.executable, "-c", CARELESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))
    yield child
    child.kill()
    parent.kill()
    parent.communicate()


def test_what_nobody_collects_is_gone_all_the_same(child: psutil.Process) -> None:
    assert not is_gone(child)
    child.kill()
    begun_at = time.monotonic()
    assert wait_until_gone([child], 60) == []
    assert time.monotonic() - begun_at < 30
    assert child.status() == psutil.STATUS_ZOMBIE


def test_what_still_runs_after_the_time_is_named(child: psutil.Process) -> None:
    assert wait_until_gone([child], 0.0) == [child]


def test_what_was_collected_is_gone() -> None:
    process = subprocess.Popen(["sleep", "600"])
    known = psutil.Process(process.pid)
    process.kill()
    process.wait()
    assert is_gone(known)
    assert wait_until_gone([known], 60) == []
