"""Whoever starts the node is killed half-way; the next one gets it up all the same, and there is only one."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.faults.faulty_stack import FaultyStack, wait_for

pytestmark = [pytest.mark.node, pytest.mark.long]
LAUNCHER = "org.elasticsearch.launcher.CliToolLauncher"
SERVER = "org.elasticsearch.bootstrap.Elasticsearch"


@pytest.fixture
def faulty() -> Iterator[FaultyStack]:
    """Nothing runs yet."""
    home = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
    faulty = FaultyStack(home)
    yield faulty
    faulty.down()
    assert not processes_of(home, SERVER)
    shutil.rmtree(home)


@pytest.mark.parametrize("stage", [LAUNCHER, SERVER])
def test_a_start_that_was_killed_half_way_is_no_hindrance(faulty: FaultyStack, stage: str) -> None:
    starter = faulty.begin("node", "start")
    wait_for(lambda: processes_of(faulty.home, stage), "the node's launcher")
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    said = faulty.run("node", "start")
    assert "Elasticsearch: http://127.0.0.1:" in said
    assert len(processes_of(faulty.home, SERVER)) == 1
    assert faulty.run("node", "start").startswith("Elasticsearch: ")


def processes_of(home: Path, main_class: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            command = process.cmdline()
        except psutil.Error:
            continue
        if f"-Des.path.home={home}/node" in command and main_class in " ".join(command):
            found.append(process)
    return found
