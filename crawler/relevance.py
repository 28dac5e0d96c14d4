"""How relevant a page is to a topic: its visible text in, a number from 0 to 1 out.

Three measures (`RelevanceMeasure`), all scaled so that a half means "as likely as not". Guide words are counted in one
pass over the text by an Aho-Corasick automaton that knows every spelling of each (width, traditional characters),
so the text itself is only put into lower case.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ahocorasick_rs import BytesAhoCorasick, Implementation

from crawler import han
from crawler.classifier import Classifier
from crawler.errors import BadTopic
from crawler.records import GuideWord, RelevanceMeasure, Topic
from crawler.terms import fold

TITLE_WEIGHT: Final = 3
"""A guide word in the title counts as if it stood there so often."""
SATURATION: Final = 1.2
LENGTH_SHARE: Final = 0.5
USUAL_CHARS: Final = 3_000
"""BM25's k1, b and average length; the first two as is usual."""
GUIDE_WORDS: Final = 100
"""The classic measure's own number of guide words: K = (1/length) · (1/100) · Σ weight · count."""
HALF_CLASSIC: Final = 1e-4
"""The K, with weights up to 1, that is worth a half: one full guide word in a hundred characters."""
HALF_SATURATED: Final = 1.5
"""The saturated sum, with weights up to 1, that is worth a half: between one and two guide words of full weight …"""
HALF_SHARE: Final = 0.12
"""… but no less than this share of all weights: of a hundred words, any page has some (measured on proposed words)."""
HALF_STRENGTH: Final = 1.0
"""The sum of weights in an anchor that is worth a half."""
MAX_SPELLINGS: Final = 64


class Relevance:
    """Judges pages by one topic. Building it trains the classifier, if there is one."""

    def __init__(self, topic: Topic) -> None:
        """Raises BadTopic if words and examples do not allow the measure."""
        self.topic = topic
        self.measure = topic.measure or best_measure(topic)
        self.words = GuideWords(topic.words)
        self.classifier: Classifier | None = None
        if topic.examples_for and topic.examples_against:
            self.classifier = Classifier(topic.examples_for, topic.examples_against)
        if self.measure is RelevanceMeasure.CLASSIFIER and self.classifier is None:
            raise BadTopic("the classifier needs example pages for and against the topic")
        if self.measure is not RelevanceMeasure.CLASSIFIER and not topic.words:
            raise BadTopic(f"the measure {self.measure.value} needs guide words")

    def of(self, text: str, title: str = "") -> float:
        """The relevance of a page with this visible text."""
        match self.measure:
            case RelevanceMeasure.CLASSIFIER:
                assert self.classifier is not None
                return self.classifier.probability(f"{title}\n{text}" if title else text)
            case RelevanceMeasure.SATURATED_COUNT:
                return self.words.saturated(text, title)
            case RelevanceMeasure.WEIGHTED_COUNT:
                return self.words.classic(text, title)

    def is_relevant(self, relevance: float) -> bool:
        return relevance >= self.topic.threshold


def best_measure(topic: Topic) -> RelevanceMeasure:
    """What measured best in bench/harvest of what the topic allows."""
    if topic.examples_for and topic.examples_against:
        return RelevanceMeasure.CLASSIFIER
    return RelevanceMeasure.SATURATED_COUNT


class GuideWords:
    """The guide words of a topic, ready to be counted in any text. Weights are scaled so that the heaviest is 1."""

    def __init__(self, words: tuple[GuideWord, ...]) -> None:
        folded = {fold(word.phrase): word.weight for word in words if fold(word.phrase)}
        heaviest = max((abs(weight) for weight in folded.values()), default=1.0) or 1.0
        self._weights = {phrase: weight / heaviest for phrase, weight in folded.items()}
        patterns = [(spelling, phrase) for phrase in self._weights for spelling in spellings(phrase)]
        self._half = max(HALF_SATURATED, HALF_SHARE * sum(w for w in self._weights.values() if w > 0))
        self._phrases = [phrase for _, phrase in patterns]
        self._bytes = [spelling.encode() for spelling, _ in patterns]
        self._begins_open = [not _is_word_byte(pattern[0]) for pattern in self._bytes]
        self._ends_open = [not _is_word_byte(pattern[-1]) for pattern in self._bytes]
        self._automaton = BytesAhoCorasick(self._bytes, implementation=Implementation.DFA) if patterns else None

    def counts(self, text: str) -> Counter[str]:
        """How often each guide word stands in the text, in any spelling. Latin words only whole, or with a plural s."""
        if self._automaton is None:
            return Counter()
        data = b" %b " % " ".join(text.split()).lower().encode("utf-8", "replace")
        found = self._automaton.find_matches_as_indexes(data, overlapping=True)
        return Counter(
            self._phrases[pattern] for pattern, start, end in found if self._is_whole(data, pattern, start, end)
        )

    def _is_whole(self, data: bytes, pattern: int, start: int, end: int) -> bool:
        """Chinese anywhere, Latin words only between others."""
        return (self._begins_open[pattern] or not _is_word_byte(data[start - 1])) and (
            self._ends_open[pattern] or _ends_word(data, end)
        )

    def strengths(self, texts: Sequence[str]) -> list[float]:
        """For each of many short texts (anchors), the weights of its guide words, scaled to below 1."""
        sums = [0.0] * len(texts)
        if self._automaton is None:
            return sums
        parts = [b" %b " % " ".join(text.split()).lower().encode("utf-8", "replace") for text in texts]
        data = b"".join(parts)
        ends = list(itertools.accumulate(map(len, parts)))
        seen: set[tuple[int, str]] = set()
        for pattern, start, end in self._automaton.find_matches_as_indexes(data, overlapping=True):
            place = (bisect.bisect_right(ends, start), self._phrases[pattern])
            if place not in seen and self._is_whole(data, pattern, start, end):
                seen.add(place)
                sums[place[0]] += self._weights[place[1]]
        return [max(total, 0.0) / (max(total, 0.0) + HALF_STRENGTH) for total in sums]

    def classic(self, text: str, title: str = "") -> float:
        """K = (1/length) · (1/100) · Σ weight · count, scaled to 0..1."""
        counts = self._page_counts(text, title)
        total = sum(self._weights[phrase] * count for phrase, count in counts.items())
        k = max(total, 0.0) / max(len(text), 1) / GUIDE_WORDS
        return k / (k + HALF_CLASSIC)

    def saturated(self, text: str, title: str = "") -> float:
        """Σ weight · saturated count (BM25 without the idf: the weights say it), scaled to 0..1."""
        total = self._saturated_sum(self._page_counts(text, title), len(text))
        return total / (total + self._half)

    def _page_counts(self, text: str, title: str) -> Counter[str]:
        counts = self.counts(text)
        if title:
            for phrase, count in self.counts(title).items():
                counts[phrase] += TITLE_WEIGHT * count
        return counts

    def _saturated_sum(self, counts: Mapping[str, int], length: int) -> float:
        slowness = SATURATION * (1 - LENGTH_SHARE + LENGTH_SHARE * length / USUAL_CHARS)
        return max(
            0.0,
            math.fsum(
                self._weights[phrase] * count * (SATURATION + 1) / (count + slowness)
                for phrase, count in counts.items()
            ),
        )


def spellings(phrase: str) -> tuple[str, ...]:
    """A folded phrase as texts may have it: simplified, traditional (all forms, some dozens at most), full-width."""
    forms = [(character, *han.traditional_forms(character)) for character in phrase]
    written = ("".join(form) for form in itertools.product(*forms))
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in phrase)
    return tuple(dict.fromkeys((phrase, wide, *_uniform(forms), *itertools.islice(written, MAX_SPELLINGS))))


def _uniform(forms: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The two spellings that are likeliest: first and last traditional form throughout."""
    return "".join(form[min(1, len(form) - 1)] for form in forms), "".join(form[-1] for form in forms)


def _is_word_byte(byte: int) -> bool:
    """An ASCII letter (in lower case) or digit."""
    return 0x61 <= byte <= 0x7A or 0x30 <= byte <= 0x39


def _ends_word(data: bytes, end: int) -> bool:
    following = data[end]
    if following == 0x73:  # a plural
        following = data[end + 1] if end + 1 < len(data) else 0x20
    return not _is_word_byte(following)
