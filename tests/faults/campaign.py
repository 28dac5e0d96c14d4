"""The long set: a stack is killed by its parts, over and over, while it crawls sites with known content.

Run by `make faults`. The processes are killed in turn, in a new order each time, at random moments; `plumbline up`
follows each kill. After each round every page must have its newest edition as its one document. Shows progress and
prints one JSON object as its last line; exit code 1 if anything was lost, doubled, stuck or damaged.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.faults.faulty_stack import CHILDREN, EXTRACTOR, NODE, SUPERVISOR, FaultyStack, Losses
from tests.faults.known_site import KnownSite


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many, about an eighth of them of the node")
    parser.add_argument("--kills-per-round", type=int, default=3)
    parser.add_argument("--pages", type=int, default=150, help="of each of two sites")
    parser.add_argument("--delay", type=float, default=0.02, help="seconds that a page takes to answer")
    parser.add_argument("--seed", type=int, default=None, help="of the random numbers, to repeat a run")
    asked = parser.parse_args()
    # Ctrl-C, in the background too: the stack does not stay behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(10**6)
    say(f"random seed {seed}")
    home = Path(tempfile.mkdtemp(prefix="plumbline-faults-"))
    with KnownSite(asked.pages, asked.delay) as one, KnownSite(asked.pages, asked.delay, "127.0.0.2") as two:
        faulty = FaultyStack(home, sample=True)
        faulty.up()
        try:
            outcome = Campaign(faulty, (one, two), random.Random(seed)).run(asked.kills, asked.kills_per_round)
        finally:
            faulty.down()
    if not outcome["failed_rounds"]:
        shutil.rmtree(home)
    else:
        say(f"what is left can be looked at in {home}")
    print(json.dumps({**outcome, "seed": seed}, ensure_ascii=False))
    return 1 if outcome["failed_rounds"] else 0


class Campaign:
    """Rounds of kills against one stack."""

    def __init__(self, faulty: FaultyStack, sites: tuple[KnownSite, ...], chance: random.Random) -> None:
        self._faulty = faulty
        self._sites = sites
        self._chance = chance
        self._turns = self._in_turn()
        self._killed: Counter[str] = Counter()
        self._losses: list[Losses] = []
        self._recovery_s: list[float] = []
        self._runs = 0
        self._killed_busy = 0

    def run(self, kills: int, per_round: int) -> dict[str, object]:
        self._faulty.wait_until_idle()
        rounds = 0
        while self._killed.total() < kills:
            rounds += 1
            self._round(rounds, min(per_round, kills - self._killed.total()))
        failed = [losses for losses in self._losses if losses != Losses()]
        in_order = sorted(self._recovery_s)
        return {
            "kills": self._killed.total(),
            "by_process": dict(self._killed),
            "killed_while_busy": self._killed_busy,
            "rounds": rounds,
            "pages": sum(site.pages for site in self._sites) * self._runs,
            "lost": sum(len(losses.lost) for losses in failed),
            "doubled": sum(len(losses.doubled) for losses in failed),
            "strange": sum(len(losses.strange) for losses in failed),
            "stuck": sum(len(losses.stuck) for losses in failed),
            "damaged": sum(len(losses.damaged) for losses in failed),
            "failed_rounds": len(failed),
            "recovery_s_median": round(in_order[len(in_order) // 2], 1),
            "recovery_s_longest": round(in_order[-1], 1),
        }

    def _round(self, number: int, kills: int) -> None:
        """Kills while the newest edition is crawled and indexed, and what became of the pages."""
        names = [self._kill() for _ in range(kills)]
        recovery_s = self._faulty.wait_until_idle()
        losses = self._faulty.losses(*self._sites)
        self._losses.append(losses)
        self._recovery_s.append(recovery_s)
        verdict = "all there" if losses == Losses() else f"WRONG: {str(losses)[:2000]}"
        say(f"round {number}: killed {', '.join(names)}; whole again after {recovery_s:.1f} s; {verdict}")

    def _kill(self) -> str:
        """Kill the next one at a random moment of a crawl, and say `up` again."""
        if self._faulty.is_idle():
            for site in self._sites:
                site.edition += 1
            self._faulty.crawl(*self._sites)
            self._runs += 1
        time.sleep(self._chance.uniform(0.0, 3.0))
        name = next(self._turns)
        self._killed_busy += not self._faulty.is_idle()
        while not self._faulty.kill(name):
            time.sleep(0.05)
        self._killed[name] += 1
        self._faulty.up()
        return name

    def _in_turn(self) -> Iterator[str]:
        names = [SUPERVISOR, NODE, EXTRACTOR, *CHILDREN]
        while True:
            self._chance.shuffle(names)
            yield from names


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
