"""kill -9 of each process of the stack while it crawls, `plumbline up` again: nothing lost, nothing doubled.

One kill of each here; `make faults` goes on for hundreds.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.faulty_stack import CHILDREN, EXTRACTOR, NODE, SUPERVISOR, FaultyStack, Losses, wait_for
from tests.faults.known_site import KnownSite

pytestmark = [pytest.mark.node, pytest.mark.slow, pytest.mark.timeout(900)]
PAGES = 90


@pytest.fixture(scope="module")
def faulty() -> Iterator[FaultyStack]:
    """A stack with a node of its own that runs."""
    home = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
    faulty = FaultyStack(home, sample=True)
    try:
        faulty.up()
        yield faulty
    finally:
        faulty.down()
    assert not faulty.victims()
    shutil.rmtree(home)


@pytest.fixture(scope="module")
def site() -> Iterator[KnownSite]:
    with KnownSite(PAGES, delay_s=0.01) as site:
        yield site


@pytest.mark.parametrize("name", [*CHILDREN, EXTRACTOR, SUPERVISOR, NODE])
def test_nothing_is_lost_or_doubled_when_one_is_killed(faulty: FaultyStack, site: KnownSite, name: str) -> None:
    site.edition += 1
    before = len(site.log)
    faulty.crawl(site)
    pages_before = random.randrange(1, PAGES // 2)
    wait_for(lambda: len(site.log) >= before + pages_before, "the crawl to begin")
    wait_for(lambda: faulty.kill(name), f"the {name} to run")
    faulty.up()
    faulty.wait_until_idle()
    assert faulty.losses(site) == Losses()
    assert words_of(name) in faulty.log("supervisor" if name != EXTRACTOR else "indexer")


def words_of(name: str) -> str:
    """What the log says of it."""
    if name == EXTRACTOR:
        return "extracting process"
    if name == NODE:
        return "Elasticsearch has ended; starting it again"
    if name == SUPERVISOR:
        return "the stack was not stopped in good order: its supervisor"
    return f"the {name} was killed by signal 9; starting it again"
