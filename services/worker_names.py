"""What workers are called, and which of them are surely dead.

A worker's name says where its process ran and which one it was, so that a later worker of the same machine can tell
that it is gone and give back what it held, without waiting for its lease to end:

    crawler-HOSTNAME-PLACE-PID-START      PLACE: this boot and this space of process numbers
                                          START: when the process began, in clock ticks since boot

Those three numbers are never given twice, and no clock that is set back changes them. Of a worker of another place
(another machine or container, an earlier boot) nothing is known; its lease ends by itself.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import structlog

from crawler import database, frontier
from crawler.archive import captures
from services import control

_PROC = Path("/proc")
_GONE = frozenset("ZXx")
"""States of /proc/PID/stat in which a process will never do anything again."""

log = structlog.get_logger(__name__)


def worker_name(kind: control.WorkerKind) -> str:
    """The name of a worker in this process, which no other one has or will have."""
    pid = os.getpid()
    start = _start_ticks(pid)
    if start is None:  # No Linux: a name that nobody can tell anything from.
        return f"{kind}-{socket.gethostname()}-{pid}-{time.time_ns() // 1_000_000}"
    return f"{kind}-{socket.gethostname()}-{_place()}-{pid}-{start}"


def is_surely_dead(name: str) -> bool:
    """Whether the worker's process was one of this place and is gone; False also where that cannot be known."""
    parts = name.rsplit("-", 3)
    if len(parts) < 4 or parts[1] != _place() or not (parts[2].isdecimal() and parts[3].isdecimal()):
        return False
    return _start_ticks(int(parts[2])) != int(parts[3])


def free_the_dead(engine: database.Engine) -> list[str]:
    """Give back all that dead workers of this machine held; their names."""
    now = datetime.now(UTC)
    with database.read(engine) as conn:
        names = frontier.lease_owners(conn) | captures.index_owners(conn) | control.worker_ids(conn)
    dead = sorted(name for name in names if is_surely_dead(name))
    if not dead:
        return []
    with database.write(engine) as conn:
        hosts = frontier.free_hosts(conn, dead, now)
        waiting = captures.free(conn, dead)
        control.bury(conn, dead)
    for name in dead:
        log.warning("a worker has ended without taking leave; what it held is given back", worker=name)
    log.info("given back", hosts=hosts, captures=waiting)
    return dead


def _start_ticks(pid: int) -> int | None:
    """When a process began, in clock ticks since boot (proc(5), field 22 of stat); None if it is gone."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in _GONE else int(fields[19])


@cache
def _place() -> str:
    """This boot and this space of process numbers, in a few letters; "" where there is no such thing."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text()
        space = (_PROC / "self/ns/pid").readlink()
    except OSError:
        return ""
    return hashlib.blake2b(f"{boot}{space}".encode(), digest_size=4).hexdigest()
