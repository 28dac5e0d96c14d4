"""Waiting until processes are gone.

One whose parent does not collect it stays in the process table for ever as a zombie, as in a container whose first
process is no init; it is as gone as any.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

import psutil

POLL_S = 0.05


def wait_until_gone(processes: Iterable[psutil.Process], timeout_s: float) -> list[psutil.Process]:
    """Wait for the end of all; those that still run after the time."""
    deadline = time.monotonic() + timeout_s
    running = [process for process in processes if not is_gone(process)]
    while running and time.monotonic() < deadline:
        time.sleep(POLL_S)
        running = [process for process in running if not is_gone(process)]
    return running


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended (its number may be another's by now)."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
