"""A stack that crawls, indexes and searches for an hour: the memory and the files of its processes stay as they are.

Run by hand: `python -m tests.faults.endurance --minutes 60`. Shows progress and prints one JSON object as its last
line: for each process, with all that it started, megabytes and open files in the second and in the last quarter of
the time. Exit code 1 if one has grown, or if a browser is left at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import signal
import statistics
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import psutil

from services import stack
from tests.faults.campaign import say
from tests.faults.faulty_stack import FaultyStack
from tests.faults.known_site import KnownSite

ALLOWED_GROWTH = 1.1
ALLOWED_MB = 30.0
ALLOWED_FILES = 15
QUERIES = ("茶", "龙井 绿茶", "page edition", '"known site"', "nothing at all")


@dataclass(frozen=True, slots=True)
class Size:
    """Of a process and all that it started."""

    mb: float
    files: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--pages", type=int, default=100)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    home = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
    sizes: dict[str, list[Size]] = defaultdict(list)
    rounds = 0
    with KnownSite(asked.pages, 0.01) as site:
        faulty = FaultyStack(home, sample=True)
        faulty.up()
        try:
            faulty.wait_until_idle()
            ends_at = time.monotonic() + asked.minutes * 60
            while time.monotonic() < ends_at:
                rounds += 1
                go_round(faulty, site)
                for name, process in faulty.victims().items():
                    sizes[name].append(size_of(process, with_children=name != "supervisor"))
                if rounds % 10 == 0:
                    latest = {name: f"{found[-1].mb:.0f} MB {found[-1].files}" for name, found in sizes.items()}
                    say(f"round {rounds}: {latest}")
        finally:
            faulty.down()
    shutil.rmtree(home)
    browsers = browsers_of(home)
    report = {name: compare(found) for name, found in sizes.items()}
    grown = [name for name, found in report.items() if found["has_grown"]]
    print(json.dumps({"minutes": asked.minutes, "rounds": rounds, "grown": grown, "browsers": browsers, **report}))
    return 1 if grown or browsers else 0


def go_round(faulty: FaultyStack, site: KnownSite) -> None:
    """A new edition, the sample site once more, and some searches."""
    site.edition += 1
    faulty.crawl(site)
    faulty.crawl_sample()
    for query in QUERIES:
        address = f"{stack.portal_address(faulty.settings)}?{urllib.parse.urlencode({'q': query})}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            answer.read()
    faulty.wait_until_idle()


def size_of(process: psutil.Process, with_children: bool) -> Size:
    mb, files = 0.0, 0
    family = [process, *(process.children(recursive=True) if with_children else [])]
    for member in family:
        with contextlib.suppress(psutil.Error):
            mb += member.memory_full_info().pss / 1e6
            files += member.num_fds()
    return Size(mb, files)


def compare(found: list[Size]) -> dict[str, float | bool]:
    """The second quarter, when all has been used, and the last one."""
    quarter = max(1, len(found) // 4)
    early, late = found[quarter : 2 * quarter] or found, found[-quarter:]
    mb_early, mb_late = (statistics.median(size.mb for size in part) for part in (early, late))
    files_early, files_late = (statistics.median(size.files for size in part) for part in (early, late))
    has_grown = mb_late > mb_early * ALLOWED_GROWTH + ALLOWED_MB or files_late > files_early + ALLOWED_FILES
    return {
        "mb_early": round(mb_early, 1),
        "mb_late": round(mb_late, 1),
        "files_early": files_early,
        "files_late": files_late,
        "has_grown": has_grown,
    }


def browsers_of(home: Path) -> int:
    """Browsers that nobody has any more."""
    found = 0
    for process in psutil.process_iter(["name", "ppid"]):
        if "chrom" in (process.info["name"] or "") and process.info["ppid"] == 1:
            with contextlib.suppress(psutil.Error):
                found += process.environ().get("PLUMBLINE_HOME") == str(home)
    return found


if __name__ == "__main__":
    sys.exit(main())
