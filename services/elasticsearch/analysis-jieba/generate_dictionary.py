"""Write jieba's dictionary and HMM tables in the form that the plugin loads.

Usage: generate_dictionary.py DIRECTORY

The source is the PyPI package jieba, version and content pinned below: the copy that this interpreter has, or else one
that pip fetches into a temporary folder. Three UTF-8 files come out, one record a line, fields between tabs:

    words.txt         word, frequency          sorted; of a word that jieba lists twice the last line counts, as in jieba
    frequencies.txt   frequency, its logarithm of each frequency that occurs; the first line is jieba's total
    hmm.txt           kind, state(s) or character, logarithms of probability in the order B M E S

Logarithms are written as hexadecimal floats, so that Java works with the very numbers of Python and ties are
decided alike.
"""

import hashlib
import importlib.util
import math
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

VERSION = "0.42.1"
SHA256 = {
    "dict.txt": "7197c3211ddd98962b036cdf40324d1ea2bfaa12bd028e68faa70111a88e12a8",
    "finalseg/prob_emit.py": "27d46b1c9efe4dd148fde8be042a21be40e3562d0c7f1273f9de7abae12ebb8d",
    "finalseg/prob_start.py": "14c5706ced5cd3b42eb4873d4b88f7f52a7bdf80fbd767bc4423d361e20c5330",
    "finalseg/prob_trans.py": "54dfbc252ed71480d4f0cdfdf516ecfbe44efd0f6c3c64b158e7039f2906c91b",
}
STATES = "BMES"
MIN_LOG = -3.14e100  # finalseg.MIN_FLOAT: what is not in its tables


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        package = installed_package() or fetched_package(Path(scratch))
        write_dictionary(package / "dict.txt", target)
        write_model(package / "finalseg", target)


def installed_package() -> Path | None:
    spec = importlib.util.find_spec("jieba")
    if spec is None or spec.origin is None:
        return None
    package = Path(spec.origin).parent
    return package if is_pinned(package) else None


def fetched_package(scratch: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--target", scratch, f"jieba=={VERSION}"], check=True)
    if not is_pinned(scratch / "jieba"):
        sys.exit(f"jieba {VERSION} from the package index does not have the expected content")
    return scratch / "jieba"


def is_pinned(package: Path) -> bool:
    return all(
        (package / name).is_file() and hashlib.sha256((package / name).read_bytes()).hexdigest() == digest
        for name, digest in SHA256.items()
    )


def write_dictionary(source: Path, target: Path) -> None:
    frequencies: dict[str, int] = {}
    total = 0
    for line in source.read_text(encoding="utf-8").splitlines():
        word, frequency = line.strip().split(" ")[:2]
        frequencies[word] = int(frequency)
        total += int(frequency)
    write_records(target / "words.txt", sorted(frequencies.items()))
    distinct = [total, *sorted(set(frequencies.values()))]
    write_records(target / "frequencies.txt", [(value, math.log(value).hex()) for value in distinct])


def write_model(source: Path, target: Path) -> None:
    start, transitions, emissions = (
        runpy.run_path(str(source / f"prob_{name}.py"))["P"] for name in ("start", "trans", "emit")
    )
    records = [("start", "", *hexes(start))]
    records += [("transition", state, *hexes(transitions[state])) for state in STATES]
    for character in sorted(set().union(*emissions.values())):
        of_states = {state: emissions[state][character] for state in STATES if character in emissions[state]}
        records.append(("emission", character, *hexes(of_states)))
    write_records(target / "hmm.txt", records)


def hexes(logarithms: dict[str, float]) -> list[str]:
    return [float(logarithms.get(state, MIN_LOG)).hex() for state in STATES]


def write_records(path: Path, records: list[tuple[object, ...]]) -> None:
    lines = ("\t".join(map(str, record)) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
