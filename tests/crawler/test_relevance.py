"""Relevance of pages, guide words and their spellings, topics from files, proposals."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import TypeAdapter

from crawler import terms
from crawler.errors import BadTopic
from crawler.records import GuideWord, RelevanceMeasure, Topic
from crawler.relevance import GuideWords, Relevance, spellings
from crawler.topic import load_topic, visible_text

TEA = [
    "绿茶 的 冲泡 水温 不宜 过高。龙井茶 以 清明 前 采摘 的 为 上品，茶叶 扁平 光滑，茶汤 清亮。泡茶 用 玻璃杯 。",
    "乌龙茶 是 半发酵 的 茶叶，铁观音 与 大红袍 最 有名。紫砂壶 泡茶 ，茶汤 金黄，茶叶 可 冲泡 七 次。",
    "普洱茶 越陈越香，茶饼 要 避光 保存。熟普 的 茶汤 红浓，茶叶 冲泡 前 先 洗茶。",
    "红茶 全发酵，祁门 红茶 香气 高。茶叶 揉捻 之后 发酵，茶汤 红亮，冲泡 可 加 牛奶。",
]
OTHER = [
    "足球 比赛 昨晚 结束，主队 以 二 比 一 获胜，球迷 欢呼。教练 表示 满意。",
    "新 款 手机 发布，屏幕 更 大，电池 更 耐用，处理器 性能 提升 三成。",
    "本市 地铁 三 号线 今日 开通，沿途 设 二十 站，市民 出行 更 方便。",
    "股市 今天 上涨，银行 板块 领涨，成交 额 放大，分析 师 看好 后市。",
    "医院 开设 夜间 门诊，挂号 可 在 网上 预约，患者 称 便。",
    "The council approved the budget for the new library and two schools in the district.",
]
NEW_TEA = "白茶 的 茶叶 只 经 萎凋 与 干燥，冲泡 后 茶汤 浅 黄，滋味 清甜。存放 多年 的 白茶 更 醇。"
NEW_OTHER = "马拉松 比赛 周日 举行，两 万 名 选手 参加，部分 道路 交通 管制，市民 可 乘 地铁 出行。"


def words(*phrases: str) -> tuple[GuideWord, ...]:
    return tuple(GuideWord(phrase) for phrase in phrases)


def test_a_latin_word_counts_only_whole_or_as_a_plural() -> None:
    guide = GuideWords(words("layer", "c++"))
    counts = guide.counts("Layers and a layer, players and layering. C++ is not c; C++11")
    assert counts == {"layer": 2, "c++": 2}


def test_a_chinese_word_counts_anywhere_and_within_longer_guide_words_too() -> None:
    assert GuideWords(words("图层", "图层蒙版")).counts("新建图层蒙版，再选图层") == {"图层": 2, "图层蒙版": 1}


@pytest.mark.parametrize("text", ["軟體的圖層蒙版與預設", "软体的图层蒙版与预设"])
def test_a_word_written_in_one_script_is_found_in_the_other(text: str) -> None:
    assert GuideWords(words("圖層蒙版")).counts(text) == {"图层蒙版": 1}
    assert GuideWords(words("图层蒙版")).counts(text) == {"图层蒙版": 1}


def test_full_width_letters_upper_case_and_line_breaks_do_not_hide_a_word() -> None:
    guide = GuideWords(words("gimp", "Image Processing"))
    assert guide.counts("ＧＩＭＰ GIMP\nimage\n   PROCESSING") == {"gimp": 2, "image processing": 1}


def test_a_character_of_several_traditional_forms_is_found_in_each() -> None:
    assert {"头发", "頭髮", "頭發"} <= set(spellings("头发"))
    assert all(GuideWords(words("头发")).counts(form) for form in ("头发", "頭髮", "頭發"))


def test_the_classic_measure_is_weight_times_count_over_length() -> None:
    guide = GuideWords((GuideWord("茶", 4), GuideWord("壶", 2)))
    k = (2 * 1.0 + 1 * 0.5) / 10 / 100
    assert guide.classic("茶茶壶一二三四五六七") == pytest.approx(k / (k + 1e-4))


def test_a_repeated_word_gains_less_each_time_under_the_saturated_measure() -> None:
    guide = GuideWords(words("茶叶", "冲泡"))
    once, often, both = (guide.saturated(text) for text in ("茶叶一二三四", "茶叶" * 30, "茶叶冲泡一二"))
    assert once < often < both


def test_a_word_of_negative_weight_speaks_against_the_topic() -> None:
    guide = GuideWords((GuideWord("苹果", 1), GuideWord("手机", -1)))
    assert guide.saturated("苹果很甜") > guide.saturated("苹果手机") == 0.0


@pytest.mark.parametrize("measure", list(RelevanceMeasure))
def test_every_measure_tells_a_page_of_the_topic_from_another(measure: RelevanceMeasure) -> None:
    topic = Topic(words=words("茶叶", "茶汤", "冲泡"), examples_for=tuple(TEA), examples_against=tuple(OTHER))
    relevance = Relevance(replace(topic, measure=measure))
    assert relevance.of(NEW_TEA) > 0.5 > relevance.of(NEW_OTHER)
    assert 0 <= relevance.of("") <= 0.5


def test_the_classifier_is_the_measure_where_there_are_examples_for_and_against() -> None:
    with_examples = Topic(words=words("茶叶"), examples_for=tuple(TEA), examples_against=tuple(OTHER))
    assert Relevance(with_examples).measure is RelevanceMeasure.CLASSIFIER
    assert Relevance(Topic(words=words("茶叶"))).measure is RelevanceMeasure.SATURATED_COUNT


def test_a_measure_that_the_topic_does_not_allow_is_refused_in_one_sentence() -> None:
    with pytest.raises(BadTopic, match="example pages for and against"):
        Relevance(Topic(words=words("茶叶"), measure=RelevanceMeasure.CLASSIFIER))
    with pytest.raises(BadTopic, match="needs guide words"):
        Relevance(Topic(examples_for=("a",), examples_against=("b",), measure=RelevanceMeasure.SATURATED_COUNT))


def test_traditional_text_is_judged_by_simplified_examples() -> None:
    relevance = Relevance(Topic(examples_for=tuple(TEA), examples_against=tuple(OTHER)))
    assert relevance.of("白茶 的 茶葉 沖泡 後 茶湯 淺 黃，紅茶 發酵") > 0.5


def test_a_text_with_lone_surrogates_and_rare_characters_is_judged_without_complaint() -> None:
    relevance = Relevance(Topic(words=words("茶叶"), examples_for=tuple(TEA), examples_against=tuple(OTHER)))
    assert 0 <= relevance.of("茶叶\ud800 𠮷野家 😀 \x00") <= 1
    assert relevance.words.counts("茶叶\ud800茶叶") == {"茶叶": 2}


def test_hashed_terms_are_the_same_whatever_case_width_or_script() -> None:
    one, other = terms.hashed(["GIMP 圖層 ＡＢＣ"]), terms.hashed(["gimp 图层 abc"])
    assert one.numbers.tolist() == other.numbers.tolist()
    assert terms.hashed(["gimp"]).numbers.tolist() != terms.hashed(["gimq"]).numbers.tolist()


def test_hashed_terms_know_their_text() -> None:
    found = terms.hashed(["红茶", "", "green tea", "绿茶叶"])
    assert sorted(found.owner.tolist()) == [0, 2, 2, 3, 3]


def test_proposed_words_are_those_that_set_the_examples_apart() -> None:
    proposed = [word.phrase for word in terms.propose(["".join(t.split()) for t in TEA], OTHER)]
    assert {"茶叶", "茶汤", "冲泡"} <= set(proposed[:8])
    assert not any(word in proposed for word in ("比赛", "地铁", "的", "茶叶可"))


def test_proposed_words_hold_english_phrases_and_no_stop_words() -> None:
    examples = [f"The layer mask of image {i} hides a part. A layer mask is grey." for i in "abcd"]
    proposed = [word.phrase for word in terms.propose(examples, OTHER)]
    assert "layer mask" in proposed
    assert not {"the", "of", "a", "the layer"} & set(proposed)


def test_proposed_weights_fall_from_one() -> None:
    weights = [word.weight for word in terms.propose(TEA, OTHER)]
    assert weights[0] == 1.0
    assert weights == sorted(weights, reverse=True)


def test_a_topic_file_gives_words_examples_and_threshold(tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "a.html").write_bytes(
        "<meta charset=gbk><title>绿茶</title><script>var 茶</script><p>冲泡绿茶</p>".encode("gbk")
    )
    (tmp_path / "other.txt").write_text("足球比赛", encoding="utf-8")
    path = tmp_path / "topic.toml"
    path.write_text(
        'name = "茶"\nthreshold = 0.6\nexamples_for = ["pages"]\nexamples_against = ["*.txt"]\n[words]\n"绿茶" = 2\n',
        encoding="utf-8",
    )
    topic = load_topic(path)
    assert topic == Topic("茶", (GuideWord("绿茶", 2.0),), ("绿茶\n冲泡绿茶",), ("足球比赛",), None, 0.6)
    assert TypeAdapter(Topic).validate_json(TypeAdapter(Topic).dump_json(topic)) == topic


def test_words_are_proposed_where_a_file_has_only_examples(tmp_path: Path) -> None:
    for i, text in enumerate(TEA):
        (tmp_path / f"tea{i}.txt").write_text("".join(text.split()), encoding="utf-8")
    for i, text in enumerate(OTHER):
        (tmp_path / f"other{i}.txt").write_text(text, encoding="utf-8")
    (tmp_path / "topic.toml").write_text('examples_for = ["tea*.txt"]\nexamples_against = ["other*.txt"]\n')
    assert "茶叶" in {word.phrase for word in load_topic(tmp_path / "topic.toml").words}


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("threshold = 2", "threshold: Input should be less than or equal to 1"),
        ("treshold = 0.5", "treshold: Extra inputs are not permitted"),
        ('measure = "best"', "measure: Input should be"),
        ('[words]\n"茶" = "much"', "words.茶: Input should be a valid number"),
        ('[words]\n"茶" = inf', "words.茶: Input should be a finite number"),
        ('name = "x"', "a topic needs guide words"),
        ('[words]\n"茶" = -1', "a topic needs guide words"),
        ('examples_for = ["no*.html"]', "examples_for: no page is found at 'no*.html'"),
        ("name = ", "not a TOML file"),
    ],
)
def test_a_bad_topic_file_gives_one_sentence_that_names_the_key(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "topic.toml"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadTopic) as caught:
        load_topic(path)
    assert str(path) in str(caught.value)
    assert fault in str(caught.value)


def test_a_missing_topic_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(BadTopic, match="there is no such topic file"):
        load_topic(tmp_path / "none.toml")


def test_visible_text_is_title_and_body_without_scripts() -> None:
    html = "<title> A </title><body><script>x()</script><style>p{}</style><p>one<p>two</body>"
    assert visible_text(html) == "A\none two"


@pytest.mark.parametrize("measure", list(RelevanceMeasure))
def test_a_page_is_judged_in_a_millisecond_or_so(measure: RelevanceMeasure) -> None:
    topic = Topic(words=terms.propose(TEA, OTHER), examples_for=tuple(TEA), examples_against=tuple(OTHER))
    relevance = Relevance(replace(topic, measure=measure))
    text = (NEW_TEA + NEW_OTHER) * 100
    relevance.of(text)
    began = time.process_time()
    for _ in range(10):
        relevance.of(text)
    assert (time.process_time() - began) / 10 < 0.02
