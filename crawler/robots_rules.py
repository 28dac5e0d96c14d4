"""What a robots.txt says (RFC 9309): its bytes in, the rules for one crawler out, and verdicts on paths.

Parsed here and not by protego 0.7, which a test compares it with: that one lets `Disallow: /%D0%C2/` and `/%CE%C5/`
be the same (bytes that are no UTF-8 become one replacement character), does not know `User-agent: Name/1.0`, and
cannot say which line decided, which the owner of a site wants to know. As generous as it is where people misspell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

MAX_BYTES: Final = 512_000
"""RFC 9309 §2.5 asks for at least 500 kibibytes; what lies beyond is not read."""
MAX_PATTERN_CHARS: Final = 8192
"""No URL of such a length is ever asked for."""

_BOM = b"\xef\xbb\xbf"
_AGENT = ("user-agent", "useragent", "user agent")
_ALLOW = ("allow",)
_DISALLOW = ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw")
_DELAY = ("crawl-delay", "crawldelay", "crawl delay")
MAX_SITEMAPS: Final = 100
_SITEMAP = re.compile(r"\s*site-?map\s*:\s*(\S+)", re.I)
_FIELD = re.compile(rf"({'|'.join(map(re.escape, (*_AGENT, *_ALLOW, *_DISALLOW, *_DELAY)))})(?:\s*:|\s)\s*(.*)", re.I)
_TOKEN = re.compile(r"[a-z_-]+", re.I)
_PLAIN = re.compile(r"[A-Za-z0-9/_.~-]*")
_UNIT = re.compile(r"%[0-9A-Fa-f]{2}|[^A-Za-z0-9/_.~-]", re.S)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT = frozenset(":/?#[]@!&'()+,;=")
"""Reserved characters stay as they are; `*` and `$` are spelled out, since in a pattern they mean something."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One line that allows or disallows."""

    rank: tuple[int, bool]
    """The longest pattern decides; of two equally long ones, the one that allows."""
    parts: tuple[str, ...]
    """What stands between the `*` of the canonical pattern."""
    is_anchored: bool
    """The pattern ends with `$`."""
    line: str
    """`12: Disallow: /x`, as the file has it."""

    @property
    def allow(self) -> bool:
        return self.rank[1]

    def matches(self, path: str) -> bool:
        """Greedy from the left, so linear whatever the pattern is."""
        first, *middle = self.parts
        if not path.startswith(first):
            return False
        if not middle:
            return not self.is_anchored or path == first
        position = len(first)
        for part in middle[:-1]:
            position = path.find(part, position)
            if position < 0:
                return False
            position += len(part)
        if self.is_anchored:
            return len(path) - len(middle[-1]) >= position and path.endswith(middle[-1])
        return path.find(middle[-1], position) >= 0


@dataclass(frozen=True, slots=True)
class RobotsRules:
    """The rules of a robots.txt for one crawler."""

    crawl_delay_s: float | None = None
    _rules: dict[str, list[Rule]] = field(default_factory=dict)
    """By what their patterns begin with, highest rank first: of 20,000 rules, a path meets a handful."""
    _lengths: tuple[int, ...] = ()
    sitemaps: tuple[str, ...] = ()
    """As they are written, of whatever group."""

    def decide(self, path: str) -> tuple[bool, str | None]:
        """Whether a path (with its query) may be fetched, and the line that says so (None: no line does)."""
        path = canonical_path(path)
        if path == "/robots.txt":
            return True, None
        best: Rule | None = None
        for length in self._lengths:
            for rule in self._rules.get(path[:length], ()):
                if best is not None and rule.rank <= best.rank:
                    break
                if rule.matches(path):
                    best = rule
                    break
        return (True, None) if best is None else (best.allow, best.line)


def parse(body: bytes, product: str) -> RobotsRules:
    """The rules that hold for the product token `product`, whatever the bytes are."""
    own, everyone = _Group(), _Group()
    wanted = product.lower()
    for agents, group in _groups(body):
        if wanted in agents:
            own.add(group)
        if "*" in agents:
            everyone.add(group)
    return replace(_index(own if own.is_named else everyone), sitemaps=_sitemaps(body))


def canonical_path(path: str) -> str:
    """A path and query in the one spelling that patterns are compared with (RFC 9309 §2.2.2)."""
    if _PLAIN.fullmatch(path):
        return path or "/"
    if not path.isascii():
        path = path.encode("utf-8", "surrogatepass").decode("latin-1")
    path = _UNIT.sub(_spell, path.partition("#")[0])
    return path if path.startswith("/") else "/" + path


@dataclass(slots=True)
class _Group:
    rules: list[Rule] = field(default_factory=list)
    crawl_delay_s: float | None = None
    is_named: bool = False

    def add(self, other: _Group) -> None:
        self.is_named = True
        self.rules += other.rules
        delays = [delay for delay in (self.crawl_delay_s, other.crawl_delay_s) if delay is not None]
        self.crawl_delay_s = max(delays, default=None)


def _groups(body: bytes) -> Iterator[tuple[set[str], _Group]]:
    """Each group with the agents it is for. Lines that are none of ours (Sitemap, …) belong to no group."""
    agents: set[str] = set()
    group = _Group()
    has_rules = False
    for number, raw in enumerate(_lines(body), 1):
        match = _FIELD.match(raw.partition("#")[0].strip())
        if match is None:
            continue
        name, value = match[1].lower(), match[2].strip()
        if name in _AGENT:
            if has_rules:
                yield agents, group
                agents, group, has_rules = set(), _Group(), False
            agents.add(_agent(value))
        else:
            has_rules = True
            _take(group, name, value, f"{number}: {_shown(raw)}")
    yield agents, group


def _sitemaps(body: bytes) -> tuple[str, ...]:
    found = (match[1] for line in _lines(body) if (match := _SITEMAP.match(line)))
    return tuple(dict.fromkeys(found))[:MAX_SITEMAPS]


def _lines(body: bytes) -> list[str]:
    """Bytes above ASCII stay apart from each other: one character each."""
    if len(body) > MAX_BYTES:
        end = max(body.rfind(b"\n", 0, MAX_BYTES), body.rfind(b"\r", 0, MAX_BYTES))
        body = body[: max(end, 0)]
    return [line.decode("latin-1") for line in body.removeprefix(_BOM).replace(b"\0", b"").splitlines()]


def _agent(value: str) -> str:
    """The product token of a User-agent line: `Name/1.0 (x)` and `Name*` name `name`."""
    if value.startswith("*"):
        return "*"
    token = _TOKEN.match(value)
    return token[0].lower() if token else ""


def _take(group: _Group, name: str, value: str, line: str) -> None:
    if name in _DELAY:
        delay = _delay(value)
        if delay is not None:
            group.crawl_delay_s = max(delay, group.crawl_delay_s or 0.0)
        return
    if not value or len(value) > MAX_PATTERN_CHARS:
        return
    allow = name in _ALLOW
    pattern = _canonical_pattern(value)
    group.rules.append(_rule(allow, pattern, line))
    folder, _, page = pattern.rpartition("/")
    if allow and page in ("index.html", "index.htm"):  # Meant, and read by Google, as the folder itself too.
        group.rules.append(_rule(True, folder + "/$", line))


def _rule(allow: bool, pattern: str, line: str) -> Rule:
    parts = tuple(pattern.removesuffix("$").split("*"))
    return Rule((len(pattern), allow), parts, pattern.endswith("$"), line)


def _delay(value: str) -> float | None:
    try:
        delay = float(value)
    except ValueError:
        return None
    return delay if math.isfinite(delay) and delay >= 0 else None


def _canonical_pattern(value: str) -> str:
    value = re.sub(r"^https?://[^/]*", "", value, flags=re.I) or "/"
    anchor = "$" if value.endswith("$") else ""
    parts = value.removesuffix("$").split("*")
    pattern = "*".join(_UNIT.sub(_spell, part) for part in parts)
    if not pattern.startswith(("/", "*")):
        pattern = "/" + pattern  # `Disallow: admin` means what it would mean with the slash.
    return re.sub(r"\*{2,}", "*", pattern) + anchor


def _spell(unit: re.Match[str]) -> str:
    """One character or escape: unreserved ones bare, reserved ones as they are, all others escaped in capitals."""
    text = unit[0]
    if len(text) == 3:
        byte = int(text[1:], 16)
        return chr(byte) if byte in _UNRESERVED else text.upper()
    return text if text in _KEPT else f"%{ord(text):02X}"


def _index(group: _Group) -> RobotsRules:
    rules: dict[str, list[Rule]] = {}
    for rule in sorted(group.rules, key=lambda rule: rule.rank, reverse=True):
        rules.setdefault(rule.parts[0], []).append(rule)
    lengths = tuple(sorted({len(beginning) for beginning in rules}, reverse=True))
    return RobotsRules(group.crawl_delay_s, rules, lengths)


def _shown(raw: str) -> str:
    return raw.strip().encode("latin-1").decode("utf-8", "replace")[:200]
