"""Two of what there is only one of: supervisors, schedulers."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from crawler import database
from crawler.database import runs, schedules
from services import control, stack
from services.config import Settings
from services.control import Schedule, WorkerKind
from tests.faults.faulty_stack import FaultyStack, Losses, elsewhere, wait_for
from tests.faults.known_site import KnownSite

pytestmark = [pytest.mark.node, pytest.mark.slow]


@pytest.fixture
def faulty(node: Settings) -> Iterator[FaultyStack]:
    """A stack on the suite's node; nothing runs yet."""
    home = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
    faulty = FaultyStack(home, elsewhere(node, "two"))
    yield faulty
    faulty.down()
    shutil.rmtree(home)


def test_of_three_stacks_that_are_started_at_once_one_runs(faulty: FaultyStack) -> None:
    in_background = [faulty.begin("up", "--detach"), faulty.begin("up", "--detach")]
    foreground = faulty.begin("up")
    for start in in_background:
        said = start.communicate()[0]
        assert start.returncode == 0, said
        assert "search page: http://127.0.0.1:" in said
    if foreground.poll() is None:  # it was the first
        assert faulty.victims()["supervisor"].pid == foreground.pid
        faulty.down()
    else:
        assert foreground.returncode == 1
    said = foreground.communicate()[0]
    assert ("the stack is up already: http://127.0.0.1:" in said) is (foreground.returncode == 1)


def test_a_second_scheduler_stands_by_and_takes_over_when_the_first_is_killed(faulty: FaultyStack) -> None:
    faulty.up()
    second = faulty.begin("process", "scheduler")
    try:
        with KnownSite(3) as site, stack.opened_database(faulty.settings) as engine:
            faulty.crawl(site)
            faulty.wait_until_idle()
            wait_for(lambda: len(schedulers(engine)) == 2, "two schedulers")
            (site_id,) = [found.site_id for found in control.list_sites(engine)]
            control.set_schedule(engine, site_id, Schedule(interval_s=3600.0))
            make_due(engine)
            wait_for(lambda: run_count(engine) == 2, "the scheduled run")
            faulty.kill("scheduler")
            make_due(engine)
            wait_for(lambda: run_count(engine) == 3, "a run that the other scheduler starts")
            faulty.wait_until_idle()
            assert run_count(engine) == 3
        assert faulty.losses(site) == Losses()
    finally:
        second.terminate()
        said = second.communicate()[0]
    assert "standing by" in said


def schedulers(engine: database.Engine) -> list[control.Worker]:
    return [worker for worker in control.list_workers(engine) if worker.kind is WorkerKind.SCHEDULER and worker.alive]


def make_due(engine: database.Engine) -> None:
    """The next time has come."""
    with database.write(engine) as conn:
        conn.execute(sa.update(schedules).values(next_due_at=datetime.now(UTC) - timedelta(seconds=1)))


def run_count(engine: database.Engine) -> int:
    with database.read(engine) as conn:
        return int(conn.execute(sa.select(sa.func.count()).select_from(runs)).scalar_one())
