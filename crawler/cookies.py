"""The cookies of one site, kept and sent by RFC 6265.

In: the Set-Cookie values of a response and where it came from. Out: the value of the Cookie header for a request.
One jar a site: nothing of one site ever reaches another. Bounded, since servers may send whatever they like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Final

from crawler.urls import registrable_domain

MAX_COOKIES: Final = 300
MAX_COOKIE_BYTES: Final = 4096
MAX_HEADER_BYTES: Final = 8192
"""Servers answer 400 to more; the cookies that came last go first into it."""
_ENDS_OF_TIME = 2.0**40
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_IS_ADDRESS = re.compile(r"[0-9.]+|.*:.*")
_TIME_ZONE = re.compile(r"\s*(?:GMT|UTC|Z)?\s*$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Cookie:
    """A cookie as it is kept."""

    name: str
    value: str
    domain: str
    host_only: bool
    path: str
    secure: bool
    expires_at: float
    """Seconds since the epoch; far in the future for cookies that live as long as the session."""


class CookieJar:
    """Cookies of all hosts of one site. Times are seconds since the epoch, given by the caller."""

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], Cookie] = {}
        self.revision = 0
        """Grows with every change, for whoever keeps a copy."""

    def store(self, set_cookies: Iterable[str], host: str, path: str, is_secure: bool, now: float) -> None:
        """Keep what a response from this host and path sets (or drop what it ends)."""
        for value in set_cookies:
            cookie = _parse(value, host, path, is_secure, now)
            if cookie is None:
                continue
            key = (cookie.domain, cookie.path, cookie.name)
            older = self._cookies.pop(key, None)
            if cookie.expires_at > now:
                self._cookies[key] = cookie
            self.revision += self._cookies.get(key) != older
        while len(self._cookies) > MAX_COOKIES:
            del self._cookies[next(iter(self._cookies))]

    def header(self, host: str, path: str, is_secure: bool, now: float) -> str:
        """The Cookie header's value for a request; empty if there is nothing to send."""
        if not self._cookies:
            return ""
        wanted = [
            cookie
            for cookie in self._cookies.values()
            if (is_secure or not cookie.secure)
            and cookie.expires_at > now
            and (host == cookie.domain if cookie.host_only else _domain_matches(host, cookie.domain))
            and _path_matches(path, cookie.path)
        ]
        wanted.sort(key=lambda cookie: -len(cookie.path))
        return _join(wanted)

    def __iter__(self) -> Iterator[Cookie]:
        return iter(tuple(self._cookies.values()))

    def __len__(self) -> int:
        return len(self._cookies)


def _parse(value: str, host: str, path: str, is_secure: bool, now: float) -> Cookie | None:
    """One Set-Cookie value, or None if it is to be ignored (RFC 6265 §5.2 and §5.3, prefixes of 6265bis)."""
    if _CONTROL.search(value) or len(value) > 2 * MAX_COOKIE_BYTES:
        return None
    pair, *parts = value.split(";")
    name, separator, content = pair.partition("=")
    if not separator:
        name, content = "", pair
    name, content = name.strip(), content.strip()
    if not (name or content) or len(name) + len(content) > MAX_COOKIE_BYTES:
        return None
    attributes = {key.strip().lower(): text.strip() for key, _, text in (part.partition("=") for part in parts)}
    asked_domain = attributes.get("domain", "").lstrip(".").lower()
    domain = _domain(asked_domain, host)
    secure = "secure" in attributes
    if domain is None or (secure and not is_secure) or not _keeps_its_prefix(name, attributes, asked_domain):
        return None
    asked_path = attributes.get("path", "")
    return Cookie(
        name,
        content,
        domain,
        host_only=not asked_domain or bool(_IS_ADDRESS.fullmatch(host)),
        path=asked_path if asked_path.startswith("/") else _default_path(path),
        secure=secure,
        expires_at=_expiry(attributes, now),
    )


def _domain(asked: str, host: str) -> str | None:
    """The domain that the cookie is for; None if this host may not set it."""
    if not asked or asked == host:
        return host
    if not _domain_matches(host, asked) or registrable_domain(asked) != registrable_domain(host):
        return None
    return asked


def _keeps_its_prefix(name: str, attributes: dict[str, str], asked_domain: str) -> bool:
    prefix = name.lower()
    if prefix.startswith("__host-"):
        return "secure" in attributes and not asked_domain and attributes.get("path") == "/"
    return not prefix.startswith("__secure-") or "secure" in attributes


def _domain_matches(host: str, domain: str) -> bool:
    return host == domain or (host.endswith("." + domain) and not _IS_ADDRESS.fullmatch(host))


def _path_matches(path: str, prefix: str) -> bool:
    path = path.partition("?")[0]
    return path == prefix or (path.startswith(prefix) and (prefix.endswith("/") or path[len(prefix)] == "/"))


def _default_path(path: str) -> str:
    path = path.partition("?")[0]
    return path[: path.rfind("/")] or "/"


def _expiry(attributes: dict[str, str], now: float) -> float:
    max_age = attributes.get("max-age", "")
    if re.fullmatch(r"-?[0-9]{1,18}", max_age):
        return now + int(max_age)
    expires = attributes.get("expires")
    if expires is None:
        return _ENDS_OF_TIME
    try:
        parsed = parsedate_to_datetime(_TIME_ZONE.sub(" GMT", expires.replace("-", " ")))
        return parsed.timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return _ENDS_OF_TIME  # A date that cannot be read: the cookie lives as long as the session (RFC 6265 §5.2.1).


def _join(cookies: list[Cookie]) -> str:
    pairs = [f"{cookie.name}={cookie.value}" if cookie.name else cookie.value for cookie in cookies]
    while pairs and sum(map(len, pairs)) + 2 * len(pairs) > MAX_HEADER_BYTES:
        pairs.pop()
    return "; ".join(pairs)
