"""The crawler's exceptions.

CrawlerError
├── FetchError(kind)          no page came; `kind` is a FetchErrorKind
│   └── RefusedAddress        the host resolves to an address that may not be asked
├── ArchiveError
│   ├── CaptureMissing        no such capture, or its file is gone
│   └── CaptureDamaged        the bytes are not what the row says
├── DatabaseError             the crawl database cannot be used
├── BadTopic                  a topic that cannot be used
└── BadUrl                    not a URL that could ever be fetched
"""

from __future__ import annotations

from crawler.records import FetchErrorKind


class CrawlerError(Exception):
    """Root of all that the crawler raises on purpose."""


class FetchError(CrawlerError):
    """No page came. The message is one sentence for the owner."""

    def __init__(self, kind: FetchErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class RefusedAddress(FetchError):
    """The host is, or resolves to, a private, loopback, link-local or metadata address."""

    def __init__(self, message: str) -> None:
        super().__init__(FetchErrorKind.CONNECT, message)


class ArchiveError(CrawlerError):
    """The archive could not do what was asked."""


class CaptureMissing(ArchiveError):
    """No such capture, or its file is gone."""


class CaptureDamaged(ArchiveError):
    """The archived bytes do not match their row."""


class DatabaseError(CrawlerError):
    """The crawl database cannot be used."""


class BadUrl(CrawlerError):
    """Not a URL that could ever be fetched."""


class BadTopic(CrawlerError):
    """A topic that cannot be used. The message is one sentence for the owner."""
