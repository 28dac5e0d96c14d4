"""Which addresses the portal may send a reader to: its own pages, and archived pages on the web."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

_MAX_SHOWN_CHARS = 90


@dataclass(frozen=True, slots=True)
class ShownUrl:
    """A URL as people read it: percent-encoding undone where that gives text, long paths cut in the middle."""

    host: str
    path: str


def local_path(target: str, default: str = "/") -> str:
    """`target` if it is a path on this portal, else `default`: nobody is led out by a parameter."""
    is_path = target.startswith("/") and not target.startswith(("//", "/\\"))
    is_plain = target.isprintable() and "\\" not in target and len(target) <= 2000
    return target if is_path and is_plain else default


def is_web_url(url: str) -> bool:
    """Whether a crawled URL may become a link: http and https alone, with a host."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


def shown_url(url: str) -> ShownUrl:
    """Host and path of a URL for people."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ShownUrl("", url[:_MAX_SHOWN_CHARS])
    if not parts.netloc:
        return ShownUrl("", url[:_MAX_SHOWN_CHARS])
    path = _readable(parts.path) + (f"?{_readable(parts.query)}" if parts.query else "")
    return ShownUrl(parts.netloc.rpartition("@")[2], _shortened(path))


def _readable(quoted: str) -> str:
    text = unquote(quoted, errors="replace")
    return quoted if "\ufffd" in text or not text.isprintable() else text


def _shortened(path: str) -> str:
    if len(path) <= _MAX_SHOWN_CHARS:
        return path
    kept = _MAX_SHOWN_CHARS // 2
    return f"{path[:kept]}…{path[-kept:]}"
