"""One visit of one claimed URL: robots, fetch or render, judgement, links. No database, no archive.

A claim comes in; a `Visit` goes out: the outcome for the frontier, the page for the archive (if any), the URLs
found and the URLs refused. `crawl` alone writes them down.
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from crawler import charset, fingerprint, links, politeness, priority, urls
from crawler.errors import BadUrl, FetchError, RefusedAddress
from crawler.fetcher import Fetcher
from crawler.prediction import Predictor
from crawler.records import (
    Claim,
    CrawlOutcome,
    CrawlStatus,
    CrawlUrl,
    Fault,
    FetchedPage,
    FetchErrorKind,
    FetchRequest,
    IndexState,
    Link,
    LinkKind,
    PageLinks,
    RejectedUrl,
    Rejection,
    RenderMode,
    RobotsDirectives,
    SiteSettings,
    Strategy,
    Topic,
    Validators,
)
from crawler.relevance import Relevance
from crawler.renderer import Renderer
from crawler.robots import Robots
from crawler.scope import Scope
from crawler.sitemaps import read_sitemap

REDIRECTS = frozenset({301, 302, 303, 307, 308})
GONE = frozenset({404, 410})
OF_THE_WAY = frozenset({Rejection.DEPTH, Rejection.NOFOLLOW})
"""Refusals that speak of how a URL was found: by another way it may be welcome."""
KNOWN_URLS = 200_000
AWAY = frozenset({FetchErrorKind.CONNECT, FetchErrorKind.DNS})
"""Nothing of this one page: its server, or the network, is away."""
PATIENCE = 3
"""A server that is away has so many times the tries of a page: with its back-off, minutes, as a restart takes."""
HTML_TYPES = ("text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml")


@dataclass(frozen=True, slots=True)
class VisitLimits:
    """Limits of single visits. Sources: `services.config`."""

    max_redirects: int = 10
    max_tries: int = 3


@dataclass(frozen=True, slots=True)
class Visit:
    """What one visit gives, to be written down in one transaction."""

    outcome: CrawlOutcome
    page: FetchedPage | None = None
    """To be archived; None: nothing came, or nothing worth keeping."""
    answer: FetchedPage | None = None
    """What the server answered, whether it is kept or not."""
    digest: str = ""
    index_state: IndexState = IndexState.SKIPPED
    unchanged: bool = False
    """The page is the one of the validators' capture: a revisit record will do."""
    found: tuple[CrawlUrl, ...] = ()
    rejected: tuple[RejectedUrl, ...] = ()
    is_on_topic: bool = False
    """The site has a topic, and this page is relevant to it."""
    withdraw: bool = False
    """The page's document has to leave the index: it asks for that, or has been gone for two looks."""
    host_pause_s: float | None = None
    """The host asked for quiet, or failed: no request to it for so long, at least."""
    crawl_delay_s: float | None = None
    """From robots.txt."""


@dataclass(frozen=True, slots=True)
class Focus:
    """What a topic makes of a run: how relevant pages are, and where links are likely to lead."""

    relevance: Relevance
    predictor: Predictor

    @classmethod
    def on(cls, topic: Topic) -> Focus:
        """Raises BadTopic."""
        relevance = Relevance(topic)
        return cls(relevance, Predictor(relevance))


@dataclass(frozen=True, slots=True)
class Site:
    """What a visit needs to know of the site that the claim belongs to."""

    settings: SiteSettings
    scope: Scope
    needs_browser: bool | None
    has_answered: bool = False
    """Pages of it came in this run: if it is away now, it is worth waiting for."""
    focus: Focus | None = None


class KnownUrls:
    """URLs that a run has met in this process: found, or refused for what they are. The newest so many of them.

    Most links of a site stand on all of its pages; this way each is looked at once.
    """

    def __init__(self, size: int = KNOWN_URLS) -> None:
        self._size = size
        self._urls: OrderedDict[tuple[int, str], None] = OrderedDict()

    def add(self, run_id: int, url: str) -> None:
        self._urls[run_id, url] = None
        if len(self._urls) > self._size:
            self._urls.popitem(last=False)

    def of_run(self, run_id: int, forget: bool = False) -> Callable[[str], bool]:
        """Whether a URL is known in a run. With `forget` none is: where a further link to a URL may count.

        Breadth-first, the first link is the shortest way already.
        """
        known = self._urls
        return (lambda _url: False) if forget else (lambda url: (run_id, url) in known)


@dataclass(slots=True)
class Visitor:
    """Visits claims. Collaborators are given; the renderer is made when the first page needs it."""

    fetcher: Fetcher
    robots: Robots
    open_renderer: Callable[[], Awaitable[Renderer]]
    limits: VisitLimits
    user_agent: str
    clock: Callable[[], datetime]
    chance: Callable[[], float] = random.random
    known: KnownUrls = field(default_factory=KnownUrls)
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def visit(self, claim: Claim, site: Site) -> Visit:
        """Visit one claim. Never raises for anything the page or its host does."""
        refusal = site.scope.refusal(claim.target)
        if refusal is not None:
            return _refused(claim, refusal, "the site's scope no longer holds this URL")
        request = _request(claim, site.settings)
        try:
            verdict = await self.robots.verdict(claim.target.url, request)
            if verdict.unreachable:
                return self._retry(
                    claim, FetchErrorKind.ROBOTS_UNREACHABLE, "robots.txt cannot be read", verdict.retry_at, PATIENCE
                )
            if not verdict.allowed:
                return _refused(claim, Rejection.ROBOTS, f"robots.txt: {verdict.line or 'disallowed'}")
            page, page_links = await self._fetch(claim, request, site)
            visit = self._judge(claim, page, page_links, site)
        except RefusedAddress as exc:
            return _refused(claim, Rejection.PRIVATE_ADDRESS, str(exc))
        except FetchError as exc:
            is_away = exc.kind in AWAY and (site.has_answered or claim.validators.capture_id is not None)
            return self._retry(claim, exc.kind, str(exc), None, PATIENCE if is_away else 1)
        if claim.target.kind is LinkKind.SEED:
            visit = self._with_links(visit, claim, [Link(url, kind=LinkKind.SITEMAP) for url in verdict.sitemaps], site)
        return replace(visit, answer=page, crawl_delay_s=verdict.crawl_delay_s)

    async def _fetch(self, claim: Claim, request: FetchRequest, site: Site) -> tuple[FetchedPage, PageLinks | None]:
        """The page, through the browser where the site or the page needs it, and its links if it is HTML."""
        mode = RenderMode.NEVER if claim.target.kind is LinkKind.SITEMAP else site.settings.render
        if mode is RenderMode.ALWAYS or (mode is RenderMode.AUTO and site.needs_browser):
            return await self._render(claim, request, None, site)
        page = await self._fetch_past_itself(claim, request)
        page_links = self._read_links(claim, page, site)
        if mode is RenderMode.AUTO and page_links is not None and links.needs_browser(page_links):
            return await self._render(claim, request, page, site)
        return page, page_links

    async def _fetch_past_itself(self, claim: Claim, request: FetchRequest) -> FetchedPage:
        """Fetch; a redirect to the same page (cookie walls do that) is followed on the spot."""
        page = await self.fetcher.fetch(request)
        for _ in range(self.limits.max_redirects):
            target = _redirect_target(page)
            if target is None or not _is_page(target, claim.target.urlkey):
                return page
            page = await self.fetcher.fetch(replace(request, url=target, validators=Validators()))
        raise FetchError(
            FetchErrorKind.PROTOCOL, f"{request.url} redirects to itself more than {self.limits.max_redirects} times"
        )

    async def _render(
        self, claim: Claim, request: FetchRequest, static: FetchedPage | None, site: Site
    ) -> tuple[FetchedPage, PageLinks | None]:
        """The rendered page; if the browser cannot be had and there is a static one, that one with a fault."""
        try:
            async with self._opening:
                renderer = await self.open_renderer()
            page = await renderer.fetch(request, static)
        except FetchError as exc:
            if static is None or exc.kind is not FetchErrorKind.BROWSER:
                raise
            page = replace(static, faults=(*static.faults, Fault.RENDER_FAILED))
        return page, self._read_links(claim, page, site)

    def _judge(self, claim: Claim, page: FetchedPage, page_links: PageLinks | None, site: Site) -> Visit:
        """What the answer means."""
        target = _redirect_target(page)
        if target is not None:
            return self._redirection(claim, page, target, LinkKind.REDIRECT, site)
        if page.status == 304:
            return _unchanged(claim, page, claim.validators.digest or "")
        if page.status in GONE:
            return _gone(claim, page)
        if page.status == 429 or page.status >= 500:
            return self._unwell(claim, page)
        if page.status >= 400:
            return _failed(claim, FetchErrorKind.HTTP_4XX, f"the server answered {page.status} {page.reason}".strip())
        if Fault.NOT_READ in page.faults:
            return _refused(claim, Rejection.TYPE, f"its content type is {page.header('Content-Type')}")
        if {Fault.PARTIAL, Fault.TOO_SLOW} & set(page.faults):
            return self._incomplete(claim, page)
        if claim.target.kind is LinkKind.SITEMAP:
            return self._listing(claim, page, site)
        if page_links is not None and page_links.refresh is not None:
            return self._redirection(claim, page, page_links.refresh, LinkKind.REFRESH, site)
        return self._page(claim, page, page_links, site)

    def _page(self, claim: Claim, page: FetchedPage, page_links: PageLinks | None, site: Site) -> Visit:
        """A page that came whole."""
        digest = fingerprint.digest(page.body)
        unchanged = digest == claim.validators.digest and page.rendered is None
        directives = self._directives(page, page_links)
        refused = (_rejected(claim, Rejection.NOINDEX),) if directives.noindex else ()
        is_indexable = not unchanged and not directives.noindex and _is_indexable(page)
        visit = Visit(
            outcome=CrawlOutcome(
                claim,
                CrawlStatus.UNCHANGED if unchanged else CrawlStatus.FETCHED,
                reason=Rejection.NOINDEX.value if directives.noindex else None,
                validators=_validators(page, digest),
            ),
            page=page,
            digest=digest,
            index_state=IndexState.WAITING if is_indexable else IndexState.SKIPPED,
            unchanged=unchanged,
            rejected=refused,
            withdraw=directives.noindex,
        )
        if page_links is None:
            return visit
        if site.focus is None:
            return self._with_links(visit, claim, page_links.links, site, directives.nofollow)
        return self._focused(visit, claim, page_links, site.focus, site, directives.nofollow)

    def _focused(
        self, visit: Visit, claim: Claim, page_links: PageLinks, focus: Focus, site: Site, nofollow: bool
    ) -> Visit:
        """The page judged by the topic, and its links by where they are likely to lead."""
        here = claim.target
        relevance = focus.relevance.of(page_links.text, page_links.title)
        score = focus.predictor.page_score(here.url, relevance)
        focus.predictor.learn(here.url, relevance, here.anchor, page_links.title, here.parent_url or "")
        promises = focus.predictor.score(page_links.links, here.url, score)
        visit = self._with_links(visit, claim, page_links.links, site, nofollow, promises)
        if score.is_relevant:
            return replace(visit, is_on_topic=True)
        return replace(
            visit,
            page=visit.page if focus.relevance.topic.archive_off_topic else None,
            outcome=replace(visit.outcome, reason=Rejection.IRRELEVANT.value),
            index_state=IndexState.SKIPPED,
            rejected=(*visit.rejected, _rejected(claim, Rejection.IRRELEVANT)),
            withdraw=True,
        )

    def _directives(self, page: FetchedPage, page_links: PageLinks | None) -> RobotsDirectives:
        of_response = links.header_directives(page.header_values("X-Robots-Tag"), self.user_agent)
        return of_response if page_links is None else of_response | page_links.directives

    def _read_links(self, claim: Claim, page: FetchedPage, site: Site) -> PageLinks | None:
        """One pass over the HTML that counts: the rendered one if there is one."""
        if page.status != 200 or not _is_html(page):
            return None
        decoded = charset.decode(page.body, page.header("Content-Type") or "")
        # Queries are written in the charset that the document came in, rendered or not.
        html, url = decoded.text, page.url
        if page.rendered is not None:
            html, url = page.rendered.html, page.rendered.final_url
        strategy = site.settings.strategy
        found = links.read_links(
            html,
            url,
            decoded.charset,
            with_context=strategy is Strategy.BEST_FIRST,
            with_text=site.focus is not None,
            is_known=self.known.of_run(claim.target.run_id, forget=strategy is not Strategy.BREADTH_FIRST),
        )
        if page.rendered is None or page.rendered.leads_to is None:
            return found
        return replace(found, links=(*found.links, Link(page.rendered.leads_to, kind=LinkKind.REFRESH)))

    def _with_links(
        self,
        visit: Visit,
        claim: Claim,
        links: Sequence[Link],
        site: Site,
        nofollow: bool = False,
        promises: Sequence[float | None] | None = None,
    ) -> Visit:
        """The visit with its links: those that join the frontier, and those that do not, each with its reason.

        `promises`: for each link, how likely it leads to the topic.
        """
        here = claim.target
        found: list[CrawlUrl] = []
        rejected: list[RejectedUrl] = []
        for link, promise in zip(links, promises or [None] * len(links), strict=True):
            try:
                target = _crawl_url(claim, link, site, promise)
            except BadUrl:
                rejected.append(RejectedUrl(here.run_id, link.url, link.url, Rejection.BAD_URL, here.url))
                continue
            refusal = Rejection.NOFOLLOW if nofollow or link.nofollow else site.scope.refusal(target)
            if refusal is None:
                found.append(target)
            else:
                rejected.append(RejectedUrl(target.run_id, target.url, target.urlkey, refusal, here.url))
            if refusal not in OF_THE_WAY:
                self.known.add(here.run_id, link.url)
        return replace(visit, found=(*visit.found, *found), rejected=(*visit.rejected, *rejected))

    def _listing(self, claim: Claim, page: FetchedPage, site: Site) -> Visit:
        """A sitemap or feed: no page of its own, but all that it lists is found."""
        sitemap = read_sitemap(page.body, page.url)
        digest = fingerprint.digest(page.body)
        outcome = CrawlOutcome(claim, CrawlStatus.LISTING, validators=_validators(page, digest))
        listed = [Link(entry.url, kind=LinkKind.LISTED) for entry in sitemap.pages]
        further = [Link(url, kind=LinkKind.SITEMAP) for url in sitemap.sitemaps]
        return self._with_links(Visit(outcome, page=page, digest=digest), claim, [*further, *listed], site)

    def _redirection(self, claim: Claim, page: FetchedPage, to: str, kind: LinkKind, site: Site) -> Visit:
        """A redirect or an immediate refresh: its target goes through scope and frontier like a link."""
        here = claim.target
        outcome = CrawlOutcome(claim, CrawlStatus.REDIRECTION, message=f"leads to {to}")
        moved = Visit(
            outcome,
            page=page,
            digest=fingerprint.digest(page.body),
            withdraw=claim.last_status is CrawlStatus.REDIRECTION,
        )
        try:
            target = _crawl_url(claim, Link(to, kind=kind), site)
        except BadUrl:
            return replace(moved, rejected=(RejectedUrl(here.run_id, to, to, Rejection.BAD_URL, here.url),))
        target = replace(
            target, depth=here.depth, priority=here.priority, anchor=here.anchor, redirects=here.redirects + 1
        )
        if here.kind is LinkKind.SEED and site.scope.admits_redirect_of_seed(target.url):
            return replace(moved, found=(replace(target, kind=LinkKind.SEED),))
        refusal = (
            Rejection.REDIRECT_LOOP if target.redirects > self.limits.max_redirects else site.scope.refusal(target)
        )
        if refusal is None:
            return replace(moved, found=(target,))
        return replace(
            moved,
            outcome=replace(outcome, reason=refusal.value),
            rejected=(RejectedUrl(target.run_id, target.url, target.urlkey, refusal, here.url),),
        )

    def _unwell(self, claim: Claim, page: FetchedPage) -> Visit:
        """429 or 5xx: tried again later, and the host is left in peace for a while."""
        kind = FetchErrorKind.HTTP_429 if page.status == 429 else FetchErrorKind.HTTP_5XX
        asked = politeness.retry_after_s(page.header("Retry-After"), self.clock())
        pause_s = politeness.backoff_s(claim.tries + 1, asked, self.chance())
        message = f"the server answered {page.status} {page.reason}".strip()
        visit = self._retry(claim, kind, message, self.clock() + timedelta(seconds=pause_s))
        return replace(visit, host_pause_s=pause_s)

    def _incomplete(self, claim: Claim, page: FetchedPage) -> Visit:
        """A cut page is kept and marked, never indexed as if it were whole, and tried again."""
        visit = self._retry(claim, FetchErrorKind.PROTOCOL, "the page came incomplete", None)
        return replace(visit, page=page, digest=fingerprint.digest(page.body))

    def _retry(
        self, claim: Claim, kind: FetchErrorKind, message: str, not_before: datetime | None, patience: int = 1
    ) -> Visit:
        """Tried again after a back-off, until the tries are used up; with `patience`, so many times as often."""
        if claim.tries + 1 >= patience * self.limits.max_tries:
            return _failed(claim, kind, message)
        at = not_before or self.clock() + timedelta(seconds=politeness.backoff_s(claim.tries + 1, None, self.chance()))
        outcome = CrawlOutcome(claim, CrawlStatus.FETCH_ERROR, next_visit_at=at, reason=kind.value, message=message)
        return Visit(outcome)


def _request(claim: Claim, settings: SiteSettings) -> FetchRequest:
    return FetchRequest(
        url=claim.target.url,
        site_id=claim.target.site_id,
        validators=claim.validators,
        allow_private=frozenset(settings.allow_private),
        headers=settings.headers,
        proxy=settings.proxy,
        referrer=claim.target.parent_url,
    )


def _redirect_target(page: FetchedPage) -> str | None:
    """Where a redirect leads: resolved, or as it stands if that is no URL of ours; None if the page is no redirect."""
    location = page.header("Location")
    if page.status not in REDIRECTS or not location:
        return None
    raw = location.encode("latin-1")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:  # bytes of another charset are sent back as they came
        text = "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in raw)
    try:
        return urls.normalize(text, base=page.url)
    except BadUrl:
        return text


def _is_page(url: str, urlkey: str) -> bool:
    try:
        return urls.urlkey(url) == urlkey
    except BadUrl:
        return False


def _is_html(page: FetchedPage) -> bool:
    kind = (page.header("Content-Type") or "").split(";")[0].strip().lower()
    return kind in HTML_TYPES or (not kind and b"<" in page.body[:1024])


def _is_indexable(page: FetchedPage) -> bool:
    """HTML and plain text; other types join as the extractor learns them."""
    kind = (page.header("Content-Type") or "").split(";")[0].strip().lower()
    return page.status == 200 and bool(page.body) and (_is_html(page) or kind == "text/plain")


def _crawl_url(claim: Claim, link: Link, site: Site, promise: float | None = None) -> CrawlUrl:
    """A link of a page as the frontier takes it. Raises BadUrl."""
    depth = claim.target.depth + 1
    return CrawlUrl(
        url=link.url,
        urlkey=urls.urlkey(link.url),
        host=urls.host_of(link.url),
        site_id=claim.target.site_id,
        run_id=claim.target.run_id,
        depth=depth,
        priority=priority.priority(site.settings.strategy, depth, link, promise),
        kind=link.kind,
        parent_url=claim.target.url,
        anchor=link.text[:200],
    )


def _validators(page: FetchedPage, digest: str) -> Validators:
    return Validators(etag=page.header("ETag"), last_modified=page.header("Last-Modified"), digest=digest)


def _rejected(claim: Claim, reason: Rejection) -> RejectedUrl:
    here = claim.target
    return RejectedUrl(here.run_id, here.url, here.urlkey, reason, here.parent_url)


def _refused(claim: Claim, reason: Rejection, message: str) -> Visit:
    outcome = CrawlOutcome(claim, CrawlStatus.REJECTED, reason=reason.value, message=message)
    return Visit(outcome, rejected=(_rejected(claim, reason),))


def _failed(claim: Claim, kind: FetchErrorKind, message: str) -> Visit:
    """Given up for this run; the next run tries again."""
    return Visit(CrawlOutcome(claim, CrawlStatus.FETCH_ERROR, reason=kind.value, message=message))


def _unchanged(claim: Claim, page: FetchedPage, digest: str) -> Visit:
    is_listing = claim.target.kind is LinkKind.SITEMAP
    status = CrawlStatus.LISTING if is_listing else CrawlStatus.UNCHANGED
    outcome = CrawlOutcome(claim, status, message="304 Not Modified")
    return Visit(outcome, page=page, digest=digest, unchanged=True)


def _gone(claim: Claim, page: FetchedPage) -> Visit:
    message = f"the server answered {page.status} {page.reason}".strip()
    outcome = CrawlOutcome(claim, CrawlStatus.GONE, message=message)
    is_second_look = claim.last_status is CrawlStatus.GONE
    return Visit(outcome, page=page, digest=fingerprint.digest(page.body), withdraw=is_second_look)
