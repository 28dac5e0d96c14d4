"""How likely a link leads to a page of the topic, before it is fetched; learned while the run goes on.

A logistic regression over hashed terms of the anchor, its surroundings and the URL, and over a few numbers: what topic
and classifier say of those texts, how relevant the page is that holds the link, what it inherited from the pages before
it, and how often the parent, the URL's folder and its host have kept their promise so far. The numbers' weights begin
at values that make sense without any learning; every fetched page moves them and teaches the terms (AdaGrad).

Deterministic, of bounded memory, and one pass of array operations a page: some microseconds a link.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from base64 import b64decode, b64encode
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt

from crawler.records import Link, LinkKind, PageScore
from crawler.relevance import Relevance
from crawler.terms import SIZE, Indices, Numbers, hashed

INHERITANCE: Final = 0.6
"""What a page off topic passes on of what it inherited: three pages after a relevant one, a fifth is left."""
REMEMBERED_LINKS: Final = 20_000
"""Links whose features are kept until their page is fetched (about 700 bytes each)."""
REMEMBERED_FAMILIES: Final = 20_000
"""Parents, folders and hosts whose record is kept."""
TERM_RATE: Final = 0.4
NUMBER_RATE: Final = 0.05
TITLE_SHARE: Final = 0.5
"""A fetched page's title teaches as an anchor would, at this share of the rate."""
PRIOR_TRIES: Final = 4.0
"""A family is trusted half when it has been tried so often."""
PRIOR_BASE: Final = 0.1
"""Share of relevant pages that is expected before anything is known, as if of twenty pages."""
PRIOR_PAGES: Final = 20.0
MAX_LOGIT: Final = 3.0

_STATE_VERSION: Final = 1
_PAGINATION: Final = re.compile(
    r"\W*(?:\d{1,4}|[上下前后後]一?[页頁]|[首尾末][页頁]|第\s*\d+\s*[页頁]|next(?: page)?|prev(?:ious)?(?: page)?"
    r"|first|last|older|newer|page \d+)\W*",
    re.IGNORECASE,
)
_NAVIGATION: Final = re.compile(
    r"\W*(?:主[页頁]|目[录錄]|索引|登[录錄]|[注註][册冊]|[关關][于於]我[们們]|[联聯][系繫]我[们們]|[帮幫]助|[网網]站地[图圖]|返回"
    r"|home|index|contents|log ?in|sign (?:in|up)|register|about(?: us)?|contact(?: us)?|help|site ?map|terms"
    r"|privacy(?: policy)?|up|back)\W*",
    re.IGNORECASE,
)

# The numbers of a link, and the weight that each begins with.
_PRIOR: Final[Sequence[tuple[str, float]]] = (
    ("bias", -1.0),
    ("classified anchor", 1.0),
    ("classified context", 0.4),
    ("guide words in anchor", 3.0),
    ("guide words in context", 1.0),
    ("guide words in url", 2.0),
    ("relevance of parent", 1.5),
    ("inherited", 1.0),
    ("record of parent", 0.5),
    ("record of folder", 0.5),
    ("record of host", 0.3),
    ("pagination", 0.0),
    ("navigation", -1.0),
    ("no text", -0.3),
    ("not a plain link", 0.0),
)
_NAMES: Final = [name for name, _ in _PRIOR]
_PARENT_RECORD: Final = _NAMES.index("record of parent")
_FOLDER_RECORD: Final = _NAMES.index("record of folder")
_HOST_RECORD: Final = _NAMES.index("record of host")
_INHERITED: Final = _NAMES.index("inherited")
_START: Final = np.array([weight for _, weight in _PRIOR], np.float32)


class _Features(NamedTuple):
    """What a link was judged by, kept until its page comes."""

    terms: Indices
    values: Numbers
    numbers: Numbers
    parent: str


class _Record(NamedTuple):
    """How often a family of links was followed, and how often it led to the topic."""

    tries: int = 0
    hits: int = 0


class Predictor:
    """One run's predictions. `score` what is found, `learn` what was fetched."""

    def __init__(self, relevance: Relevance, state: bytes | None = None) -> None:
        """`state`: what `state()` gave earlier; one that another version wrote is left aside."""
        self._relevance = relevance
        self._terms: Numbers = np.zeros(2 * SIZE, np.float32)
        self._steps: Numbers = np.ones(2 * SIZE, np.float32)
        self._numbers: Numbers = _START.copy()
        self._records: OrderedDict[str, _Record] = OrderedDict()
        self._links: OrderedDict[str, _Features] = OrderedDict()
        self._all = _Record()
        if state:
            self._restore(state)

    def page_score(self, url: str, relevance: float) -> PageScore:
        """What a fetched page is worth to its links. `url` as it was scored when it was found."""
        features = self._links.get(url)
        passed_on = float(features.numbers[_INHERITED]) * INHERITANCE if features is not None else 0.0
        return PageScore(relevance, self._relevance.is_relevant(relevance), max(relevance, passed_on))

    def score(self, links: Sequence[Link], parent_url: str, parent: PageScore) -> list[float]:
        """For each link of a page, the probability that it leads to the topic."""
        if not links:
            return []
        found = self._features(links, parent_url, parent)
        scores = [self._probability(features) for features in found]
        for link, features, score in zip(links, found, scores, strict=True):
            self._remember(link.url, features, score)
        return scores

    def score_again(self, url: str) -> float | None:
        """What is thought now of a link found earlier; None if it is no longer remembered."""
        features = self._links.get(url)
        if features is None:
            return None
        features = features._replace(numbers=self._with_records(url, features))
        return self._probability(features)

    def learn(self, url: str, relevance: float, anchor: str = "", title: str = "", parent_url: str = "") -> None:
        """A page was fetched: what its link promised is compared with what it is."""
        is_hit = self._relevance.is_relevant(relevance)
        features = self._links.pop(url, None)
        if features is None:
            link = Link(url, anchor)
            features = self._features([link], parent_url, PageScore(0.0, False))[0]
        else:
            features = features._replace(numbers=self._with_records(url, features))
        self._step(features, is_hit, 1.0)
        if title:
            features = self._features([Link("", title)], "", PageScore(0.0, False))[0]
            self._step(features, is_hit, TITLE_SHARE)
        for family in (f"p {features.parent or parent_url}", *_families(url)):
            self._count(family, is_hit)
        self._all = _Record(self._all.tries + 1, self._all.hits + is_hit)

    def state(self) -> bytes:
        """What was learned, as compressed JSON of some tens of kilobytes at most; links still out are not in it."""
        learned = np.flatnonzero(self._terms)
        data = {
            "version": _STATE_VERSION,
            "all": self._all,
            "numbers": [float(weight) for weight in self._numbers],
            "terms": _packed(learned.astype(np.uint32)),
            "weights": _packed(self._terms[learned].astype(np.float16)),
            "steps": _packed(self._steps[learned].astype(np.float16)),
            "records": [(family, *record) for family, record in self._records.items()],
        }
        return zlib.compress(json.dumps(data).encode())

    def _restore(self, state: bytes) -> None:
        data = json.loads(zlib.decompress(state))
        if data.get("version") != _STATE_VERSION or len(data["numbers"]) != len(_START):
            return
        self._all = _Record(*data["all"])
        self._numbers = np.array(data["numbers"], np.float32)
        learned = np.frombuffer(b64decode(data["terms"]), np.uint32)
        self._terms[learned] = np.frombuffer(b64decode(data["weights"]), np.float16)
        self._steps[learned] = np.frombuffer(b64decode(data["steps"]), np.float16)
        self._records.update((family, _Record(tries, hits)) for family, tries, hits in data["records"])

    # Features.

    def _features(self, links: Sequence[Link], parent_url: str, parent: PageScore) -> list[_Features]:
        n = len(links)
        texts = [*(link.text for link in links), *(link.context for link in links), *map(_url_words, links)]
        terms = hashed(texts)
        order = np.argsort(terms.owner, kind="stable")
        owner, numbers = terms.owner[order], terms.numbers[order]
        sizes = np.bincount(owner, minlength=3 * n)
        values = (1 / np.sqrt(np.maximum(sizes, 1)))[owner].astype(np.float32)
        values[owner // n == 1] *= 0.5  # what stands around a link says less than what it says itself
        keys = numbers + np.where(owner >= 2 * n, np.uint32(SIZE), np.uint32(0))
        of_text = self._classified(numbers, owner, sizes)
        guided = self._relevance.words.strengths(texts)
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        shared = self._number_rows(links, parent_url, parent, of_text, guided)
        return [
            _Features(
                np.concatenate([keys[bounds[i + k * n] : bounds[i + k * n + 1]] for k in range(3)]),
                np.concatenate([values[bounds[i + k * n] : bounds[i + k * n + 1]] for k in range(3)]),
                shared[i],
                parent_url,
            )
            for i in range(n)
        ]

    def _classified(self, numbers: Indices, owner: npt.NDArray[np.intp], sizes: npt.NDArray[np.intp]) -> Numbers:
        """The page classifier's opinion of each text, as a logit around nothing."""
        classifier = self._relevance.classifier
        if classifier is None:
            return np.zeros(len(sizes), np.float32)
        return classifier.opinions(numbers, owner, len(sizes))

    def _number_rows(
        self, links: Sequence[Link], parent_url: str, parent: PageScore, of_text: Numbers, guided: Sequence[float]
    ) -> Numbers:
        n = len(links)
        rows = np.zeros((n, len(_START)), np.float32)
        rows[:, 0] = 1.0
        rows[:, 1] = of_text[:n]
        rows[:, 2] = of_text[n : 2 * n]
        rows[:, 3] = guided[:n]
        rows[:, 4] = guided[n : 2 * n]
        rows[:, 5] = guided[2 * n :]
        rows[:, 6] = parent.relevance
        rows[:, 7] = parent.inherited
        rows[:, 8] = self._reputation(f"p {parent_url}")
        for i, link in enumerate(links):
            folder, host = _families(link.url)
            rows[i, 9:] = (
                self._reputation(folder),
                self._reputation(host),
                bool(_PAGINATION.fullmatch(link.text)),
                bool(_NAVIGATION.fullmatch(link.text)),
                not link.text,
                link.kind is not LinkKind.LINK,
            )
        return rows

    def _with_records(self, url: str, features: _Features) -> Numbers:
        """The numbers with the records as they are now."""
        numbers = features.numbers.copy()
        folder, host = _families(url)
        numbers[_PARENT_RECORD] = self._reputation(f"p {features.parent}")
        numbers[_FOLDER_RECORD] = self._reputation(folder)
        numbers[_HOST_RECORD] = self._reputation(host)
        return numbers

    def _reputation(self, family: str) -> float:
        """How much better (or worse) than all links together a family did, as a difference of logits."""
        record = self._records.get(family)
        if record is None:
            return 0.0
        base = self._base()
        rate = (record.hits + PRIOR_TRIES * base) / (record.tries + PRIOR_TRIES)
        return max(-MAX_LOGIT, min(MAX_LOGIT, _logit(rate) - _logit(base)))

    def _base(self) -> float:
        return (self._all.hits + PRIOR_BASE * PRIOR_PAGES) / (self._all.tries + PRIOR_PAGES)

    # The model.

    def _probability(self, features: _Features) -> float:
        value = float(features.numbers @ self._numbers) + float(self._terms[features.terms] @ features.values)
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, value))))

    def _step(self, features: _Features, is_hit: bool, share: float) -> None:
        error = np.float32(self._probability(features) - is_hit) * np.float32(share)
        slope = error * features.values
        np.add.at(self._steps, features.terms, slope * slope)
        np.subtract.at(self._terms, features.terms, TERM_RATE * slope / np.sqrt(self._steps[features.terms]))
        self._numbers -= np.float32(NUMBER_RATE) * error * features.numbers

    def _remember(self, url: str, features: _Features, score: float) -> None:
        known = self._links.get(url)
        if known is None or self._probability(known) < score:
            self._links[url] = features
        self._links.move_to_end(url)
        while len(self._links) > REMEMBERED_LINKS:
            self._links.popitem(last=False)

    def _count(self, family: str, is_hit: bool) -> None:
        record = self._records.get(family, _Record())
        self._records[family] = _Record(record.tries + 1, record.hits + is_hit)
        self._records.move_to_end(family)
        while len(self._records) > REMEMBERED_FAMILIES:
            self._records.popitem(last=False)


def _url_words(link: Link) -> str:
    split = urlsplit(link.url)
    return unquote(f"{split.path} {split.query}")


def _families(url: str) -> tuple[str, str]:
    """The URL's folder and its host."""
    host, _, path = url.partition("//")[2].partition("/")
    folder = path.partition("?")[0].rpartition("/")[0]
    return f"f {host}/{folder}", f"h {host}"


def _logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


def _packed(array: npt.NDArray[np.generic]) -> str:
    return b64encode(array.tobytes()).decode()
