"""A topic as its owner writes it: a TOML file in, a `Topic` out.

    name = "GIMP"
    threshold = 0.5
    measure = "classifier"                 # or weighted-count, saturated-count; left out: the best that is possible
    examples_for = ["examples/gimp/*.html", "一段 文字.txt"]
    examples_against = ["examples/other"]  # files, patterns or folders, relative to this file

    [words]                                # phrase = weight; a negative weight speaks against the topic
    "图层" = 3
    "image processing" = 2

Example pages are HTML or plain text; their visible text is kept in the topic. If there are examples for and against
and no words, the words are proposed from them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError
from selectolax.lexbor import LexborHTMLParser

from crawler import charset, terms
from crawler.errors import BadTopic
from crawler.records import GuideWord, RelevanceMeasure, Topic
from crawler.relevance import Relevance

EXAMPLE_CHARS: Final = 6_000
"""Of each example; what sets a page apart is said by then, and the topic stays small."""
MAX_EXAMPLES: Final = 200
PAGE_NAMES: Final = (".html", ".htm", ".xhtml", ".txt")
_NOT_SEEN: Final = ["script", "style", "noscript", "template"]


class _TopicFile(BaseModel):
    """The keys of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = ""
    threshold: float = Field(0.5, ge=0, le=1)
    measure: RelevanceMeasure | None = None
    archive_off_topic: bool = True
    words: dict[Annotated[str, Field(min_length=1, max_length=100)], FiniteFloat] = {}
    examples_for: tuple[str, ...] = ()
    examples_against: tuple[str, ...] = ()


def load_topic(path: Path) -> Topic:
    """The topic in a file. Raises BadTopic, with one sentence that names the file and the key."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as exc:
        raise BadTopic(f"{path}: there is no such topic file") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise BadTopic(f"{path}: the topic file cannot be read ({exc})") from exc
    except tomllib.TOMLDecodeError as exc:
        raise BadTopic(f"{path}: not a TOML file ({exc})") from exc
    return read_topic(data, path.parent, str(path))


def read_topic(data: Mapping[str, Any], folder: Path, where: str) -> Topic:
    """The topic in a parsed file, or in a part of one.

    Example files are looked for in `folder`; `where` is what faults are said to be in.
    """
    try:
        given = _TopicFile.model_validate(data)
    except ValidationError as exc:
        first = exc.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise BadTopic(f"{where}: {key}: {first['msg']} (got {first['input']!r})") from exc
    examples_for = _read_examples(given.examples_for, folder, where, "examples_for")
    examples_against = _read_examples(given.examples_against, folder, where, "examples_against")
    words = tuple(GuideWord(phrase, weight) for phrase, weight in given.words.items())
    if not words and examples_for and examples_against:
        words = terms.propose(examples_for, examples_against)
    topic = Topic(
        given.name, words, examples_for, examples_against, given.measure, given.threshold, given.archive_off_topic
    )
    _check(topic, where)
    return topic


def visible_text(html: str) -> str:
    """Title and text of a page as a reader sees them: no markup, scripts or styles."""
    tree = LexborHTMLParser(html)
    tree.strip_tags(_NOT_SEEN)
    title = tree.css_first("title")
    body = tree.body.text(separator=" ", strip=True) if tree.body is not None else ""
    return f"{title.text(strip=True)}\n{body}" if title is not None else body


def _check(topic: Topic, where: str) -> None:
    if not any(word.weight > 0 for word in topic.words) and not (topic.examples_for and topic.examples_against):
        raise BadTopic(
            f"{where}: a topic needs guide words ([words], phrase = weight), or examples_for and examples_against"
        )
    try:
        Relevance(topic)
    except BadTopic as exc:
        raise BadTopic(f"{where}: {exc}") from exc


def _read_examples(patterns: Sequence[str], folder: Path, where: str, key: str) -> tuple[str, ...]:
    paths = [path for pattern in patterns for path in _matching(pattern, folder, where, key)]
    if len(paths) > MAX_EXAMPLES:
        raise BadTopic(f"{where}: {key}: {len(paths)} example pages; {MAX_EXAMPLES} at most")
    texts = [_read_example(path, where, key) for path in dict.fromkeys(paths)]
    return tuple(text for text in texts if text)


def _matching(pattern: str, folder: Path, where: str, key: str) -> list[Path]:
    try:
        found = sorted(folder.glob(pattern)) if not Path(pattern).is_absolute() else [Path(pattern)]
    except (ValueError, NotImplementedError) as exc:
        raise BadTopic(f"{where}: {key}: {pattern!r} is no file, folder or pattern") from exc
    files = [
        path
        for one in found
        for path in (sorted(p for p in one.iterdir() if p.suffix.lower() in PAGE_NAMES) if one.is_dir() else [one])
    ]
    if not files:
        raise BadTopic(f"{where}: {key}: no page is found at {pattern!r}")
    return files


def _read_example(path: Path, where: str, key: str) -> str:
    try:
        decoded = charset.decode(path.read_bytes())
    except OSError as exc:
        raise BadTopic(f"{where}: {key}: {path} cannot be read ({exc})") from exc
    text = decoded.text if path.suffix.lower() == ".txt" else visible_text(decoded.text)
    return text.strip()[:EXAMPLE_CHARS]
