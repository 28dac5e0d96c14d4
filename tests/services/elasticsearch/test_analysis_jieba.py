"""The plugin's words against jieba itself: from the built classes, without a node."""

from __future__ import annotations

import copy
import json
import os
import random
import subprocess
import unicodedata
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from services.java import find_jdk

PLUGIN = Path(__file__).parents[3] / "services" / "elasticsearch" / "analysis-jieba"
EVAL_DATA = Path(os.environ.get("PLUMBLINE_EVAL_DATA", "")) / "segmentation"
MODES = ["jieba_search", "jieba_search --hmm", "jieba_index", "jieba_index --hmm", "jieba_all"]
WRITTEN = [
    "",
    "我来到北京清华大学",
    "小明硕士毕业于中国科学院计算所，后在日本京都大学深造",
    "他来到了网易杭研大厦😀，买T恤、AT&T、C++和X光线机，涨3.5%，v2.0-beta",
    "工信处女干事每月经过下属科室都要亲口交代24口交换机等技术性器件的安装工作",
    "全角ＡＢＣ１２３　半角ｶﾞ\r第二行\t𠮷野家👨\u200d👩\u200d👧é①½Ⅷ한국어ひらがな",
    "+-#&._%+++---.5.5%a.b",
    "哈" * 5000 + "a" * 5000,
]


class Token(NamedTuple):
    term: str
    start: int
    end: int
    position: int


def tokens(texts: Iterable[str], tokenizer: str, *options: str) -> list[list[Token]]:
    """What the plugin's tokenizer makes of each text."""
    classes = [str(PLUGIN / "target" / "classes"), str(PLUGIN / "target" / "provided" / "*")]
    assert Path(classes[0]).is_dir(), "the plugin is not built: make setup"
    command = [str(find_jdk().home / "bin" / "java"), "-cp", os.pathsep.join(classes), "io.plumbline.Main"]
    lines = "".join(text + "\n" for text in texts)
    answer = subprocess.run(
        [*command, *tokenizer.split(), *options], input=lines.encode(), stdout=subprocess.PIPE, check=True
    )
    return [[Token(*token) for token in json.loads(line)] for line in answer.stdout.decode().split("\n")[:-1]]


@pytest.fixture(scope="module")
def jieba(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenizer of jieba's, with jieba's dictionary only."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import jieba as package
    package.setLogLevel("ERROR")
    tokenizer = package.Tokenizer()
    tokenizer.tmp_dir = str(tmp_path_factory.mktemp("jieba"))
    tokenizer.initialize()
    return tokenizer


@pytest.fixture
def own_jieba(jieba: Any) -> Iterator[Any]:
    """One to which words may be added."""
    tokenizer = copy.copy(jieba)
    tokenizer.FREQ = dict(jieba.FREQ)
    yield tokenizer
    from jieba import finalseg

    finalseg.Force_Split_Words.clear()


@pytest.fixture(scope="module")
def made_up_texts(jieba: Any) -> list[str]:
    """Dictionary words, those with Latin letters above all, torn and mixed with what jieba treats apart."""
    dice = random.Random(20130101)
    words: list[str] = [word for word, frequency in jieba.FREQ.items() if frequency]
    latin_words = [word for word in words if not word.isascii() and any(char.isascii() for char in word)]
    ranges = [
        (0x20, 0x2FF),
        (0x2000, 0x30FF),
        (0x4E00, 0x9FFF),
        (0xF900, 0xFFFF),
        (0x1D400, 0x1D7FF),
        (0x20000, 0x2A6DF),
    ]

    def part() -> str:
        kind = dice.random()
        if kind < 0.4:
            return dice.choice(words)
        if kind < 0.6:
            return dice.choice(latin_words)[: dice.randint(1, 5)]
        if kind < 0.8:
            return "".join(dice.choices("abcXTAB019.%-+#& ，。\t\r", k=dice.randint(1, 4)))
        return chr(dice.randint(*dice.choice(ranges)))

    return ["".join(part() for _ in range(dice.randint(1, 12))) for _ in range(3000)]


@pytest.mark.parametrize("mode", MODES)
def test_the_words_are_those_of_jieba(jieba: Any, made_up_texts: list[str], mode: str) -> None:
    assert_like_jieba([*WRITTEN, *made_up_texts], mode, jieba)


@pytest.mark.slow
@pytest.mark.skipif(not EVAL_DATA.is_dir(), reason="needs PLUMBLINE_EVAL_DATA")
@pytest.mark.parametrize("name", ["sentences.txt", "fuzz.txt"])
@pytest.mark.parametrize("mode", MODES)
def test_the_words_of_the_evaluation_data_are_those_of_jieba(jieba: Any, mode: str, name: str) -> None:
    texts = (EVAL_DATA / name).read_bytes().decode().rstrip("\n").split("\n")
    assert_like_jieba(texts, mode, jieba)


@pytest.mark.parametrize("mode", MODES)
def test_words_of_the_owner_are_cut_as_by_jieba(own_jieba: Any, made_up_texts: list[str], mode: str) -> None:
    texts = [text for text in made_up_texts if text.isalpha() and not text.isascii()]
    items = made_up_items([text for text in texts if len(text) > 8][:100])
    own_jieba.load_userdict(items)
    assert_like_jieba(texts, mode, own_jieba, items)


def test_endless_text_is_cut_like_jieba_cuts_it(jieba: Any) -> None:
    text = "中国科学院计算技术研究所的工程师在北京大学生活动中心喝咖啡" * 2000
    assert_like_jieba([text], "jieba_index", jieba)


def made_up_items(texts: list[str]) -> list[str]:
    """User words that occur in the texts, all simplified: the plugin knows others as OpenCC writes them, too."""
    dice = random.Random(1)
    items = []
    for text in texts:
        start = dice.randrange(len(text) - 4)
        word = "".join(char for char in text[start : start + 4] if "\u4e00" <= char <= "\u9fd5")
        if word and word.encode("gb2312", "ignore").decode("gb2312") == word:
            items.append(word + dice.choice(["", "", " 5", " 100000 n", " nz", " 0"]))
    return items


def assert_like_jieba(texts: list[str], mode: str, jieba: Any, items: Iterable[str] = ()) -> None:
    tokenizer, *hmm = mode.split()
    cut = {
        "jieba_search": lambda text: jieba.cut(text, HMM=bool(hmm)),
        "jieba_index": lambda text: jieba.cut_for_search(text, HMM=bool(hmm)),
        "jieba_all": lambda text: jieba.cut(text, cut_all=True),
    }[tokenizer]
    ours = tokens(texts, mode, *items)
    assert len(ours) == len(texts)
    for text, found in zip(texts, ours, strict=True):
        assert words(token.term for token in found) == words(cut(text)), text
        assert_offsets(text, found)


def words(terms: Iterable[str]) -> Counter[str]:
    """Terms that have a letter or a number."""
    return Counter(term for term in terms if any(unicodedata.category(char)[0] in "LN" for char in term))


def assert_offsets(text: str, found: list[Token]) -> None:
    units = text.encode("utf-16-le")
    for token in found:
        assert units[2 * token.start : 2 * token.end].decode("utf-16-le") == token.term
    assert found == sorted(found, key=lambda token: (token.start, token.end))
    assert [token.position for token in found] == sorted(token.position for token in found)
