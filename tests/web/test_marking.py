"""Where words stand in texts."""

from __future__ import annotations

import pytest

from web.marking import WordMarker


def found(words: list[str], text: str) -> list[str]:
    return [text[start:end] for start, end in WordMarker(words).spans(text)]


@pytest.mark.parametrize(
    ("words", "text", "expected"),
    [
        (["软件包"], "一个软件包依赖软件包。", ["软件包", "软件包"]),
        (["软件", "软件包"], "软件包与软件", ["软件包", "软件"]),
        (["apt"], "用apt安装, APT, capt, apt-get", ["apt", "APT", "apt"]),
        (["ＡＰＴ"], "apt ａｐｔ", ["apt", "ａｐｔ"]),
        (["ｶﾅ"], "カナ", ["カナ"]),
        (["sql server"], "SQL\n Server", ["SQL\n Server"]),
        (["c++"], "C++ 入门", ["C++"]),
        (["2024"], "2024年, 12024", ["2024"]),
        (["ıstanbul"], "İİ ıstanbul", ["ıstanbul"]),
        (["𠮷野"], "在𠮷野家", ["𠮷野"]),
    ],
)
def test_words_are_found(words: list[str], text: str, expected: list[str]) -> None:
    assert found(words, text) == expected


def test_variants_match_each_other() -> None:
    marker = WordMarker(["软件"], variants={ord("軟"): ord("软")})
    assert list(marker.spans("軟件")) == [(0, 2)]


@pytest.mark.parametrize("words", [[], [""], [" "], ["。"], ["--"]])
def test_words_that_say_nothing_mark_nothing(words: list[str]) -> None:
    marker = WordMarker(words)
    assert not marker
    assert list(marker.spans("。-- ")) == []
