"""A site whose pages are known: numbered, linked as a tree, each saying its number and the site's edition.

The test raises the edition; from then on every page is another one. So for each page there is one right document:
the one with the newest edition.
"""

from __future__ import annotations

import re

from tests.site.fake_site import FakeSite, Request, Route

BRANCHES = 9
_PAGE = re.compile(r"/page/(\d+)")


class KnownSite(FakeSite):
    """`pages` pages under `/`; each answer takes `delay_s`."""

    def __init__(self, pages: int, delay_s: float = 0.0, address: str = "127.0.0.1") -> None:
        self.pages = pages
        self.edition = 1
        self.delay_s = delay_s
        super().__init__(address=address)

    @property
    def addresses(self) -> list[str]:
        """The URL of every page."""
        return [self.url(_path(number)) for number in range(self.pages)]

    def text(self, number: int) -> str:
        """What only the newest edition of this page says."""
        return f"page {number} edition {self.edition}"

    def _pick(self, request: Request) -> Route:
        number = _number(request.target)
        if number is None or number >= self.pages:
            return Route(request.target, status=404, body="not here")
        return Route(request.target, body=self._html(number), hang_s=self.delay_s)

    def _html(self, number: int) -> str:
        children = range(number * BRANCHES + 1, min((number + 1) * BRANCHES + 1, self.pages))
        links = "".join(f'<li><a href="{_path(child)}">to {child}</a>' for child in children)
        prose = (
            f"<p>This is {self.text(number)} of the known site, 第{number}页, and it has a few words more to say.</p>"
        )
        return (
            f"<!doctype html><meta charset=utf-8><title>Page {number}</title><main>{prose * 3}<ul>{links}</ul></main>"
        )


def _path(number: int) -> str:
    return f"/page/{number}" if number else "/"


def _number(target: str) -> int | None:
    if target == "/":
        return 0
    match = _PAGE.fullmatch(target)
    return int(match[1]) if match else None
