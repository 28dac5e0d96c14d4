"""Whoever starts the node is killed half-way; the next one gets it up all the same, and there is only one."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from services.ending import is_gone
from tests.faults.faulty_stack import FaultyStack, wait_for

pytestmark = [pytest.mark.node, pytest.mark.long]
SERVER = "org.elasticsearch.bootstrap.Elasticsearch"
STAGES = {
    "installer": "bin/elasticsearch-plugin",
    "script": "node/bin/elasticsearch -d",
    "launcher": "-Dcli.name=server",
    "server": SERVER,
}


@pytest.fixture
def faulty() -> Iterator[FaultyStack]:
    """Nothing runs yet."""
    home = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
    faulty = FaultyStack(home)
    yield faulty
    faulty.down()
    assert not processes_of(home, SERVER)
    shutil.rmtree(home)


@pytest.mark.parametrize("stage", STAGES)
def test_a_start_that_was_killed_half_way_is_no_hindrance(faulty: FaultyStack, stage: str) -> None:
    starter = faulty.begin("node", "start")
    wait_for(lambda: processes_of(faulty.home, STAGES[stage]), f"the {stage}")
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    said = faulty.run("node", "start")
    assert "Elasticsearch: http://127.0.0.1:" in said
    assert len(processes_of(faulty.home, SERVER)) == 1
    assert faulty.run("node", "start").startswith("Elasticsearch: ")


def test_what_a_killed_start_left_behind_is_stopped_by_down(faulty: FaultyStack) -> None:
    starter = faulty.begin("node", "start")
    wait_for(lambda: processes_of(faulty.home, STAGES["launcher"]), "the launcher")
    starter.send_signal(signal.SIGKILL)
    starter.communicate()
    faulty.down()
    assert not [process for process in processes_of(faulty.home, "java") if not is_gone(process)]


def processes_of(home: Path, words: str) -> list[psutil.Process]:
    """Those that have to do with the node of a home and have the words in their command line."""
    found = []
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
        except psutil.Error:
            continue
        if f"{home}/node" in command and words in command:
            found.append(process)
    return found
