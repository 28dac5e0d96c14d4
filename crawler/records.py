"""What crosses a boundary in the crawler and leaves it: frozen, slotted dataclasses and closed sets of words.

Times are aware UTC datetimes (`…_at`), durations seconds (`…_s`), sizes bytes (`…_bytes`). A *host* is always
host and port (`example.cn:443`), in politeness as in the default scope. A *urlkey* is the canonical form of a
URL, by which duplicates are recognised; the URL itself is what is sent.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Strategy(StrEnum):
    """The order in which the frontier gives out a run's URLs."""

    BREADTH_FIRST = "breadth-first"
    DEPTH_FIRST = "depth-first"
    BEST_FIRST = "best-first"


class RenderMode(StrEnum):
    """Whether a site's pages go through the browser; AUTO decides page by page and the site remembers."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class LinkKind(StrEnum):
    """How a URL was found."""

    SEED = "seed"
    LINK = "link"
    REDIRECT = "redirect"
    REFRESH = "refresh"
    FRAME = "frame"
    SITEMAP = "sitemap"
    """A sitemap or feed itself, which is read for what it lists."""
    LISTED = "listed"
    """A page that a sitemap lists."""
    PUSHED = "pushed"


class CrawlStatus(StrEnum):
    """What became of a URL at its last visit."""

    DISCOVERED = "discovered"
    FETCHED = "fetched"
    UNCHANGED = "unchanged"
    REDIRECTION = "redirection"
    LISTING = "listing"
    """A sitemap or feed, read for the pages that it lists."""
    FETCH_ERROR = "fetch_error"
    """Will be tried again."""
    GONE = "gone"
    """404, 410, or tried too often."""
    REJECTED = "rejected"
    """Refused after it was claimed (robots, private address): see its Rejection."""


class Rejection(StrEnum):
    """Why a URL is not crawled (or a page not indexed). The owner can read each one."""

    SCOPE = "scope"
    ROBOTS = "robots"
    DEPTH = "depth"
    TRAP = "trap"
    TYPE = "type"
    SIZE = "size"
    DUPLICATE = "duplicate"
    IRRELEVANT = "irrelevant"
    BUDGET = "budget"
    PRIVATE_ADDRESS = "private_address"
    BAD_URL = "bad_url"
    REDIRECT_LOOP = "redirect_loop"
    NOINDEX = "noindex"
    NOFOLLOW = "nofollow"
    EXCLUDED = "excluded"


class FetchErrorKind(StrEnum):
    """Why a fetch brought no page; FETCH_ERROR rows and the crawl's summary count by it."""

    DNS = "dns"
    CONNECT = "connect"
    TLS = "tls"
    TIMEOUT = "timeout"
    PROTOCOL = "protocol"
    ROBOTS_UNREACHABLE = "robots_unreachable"
    HTTP_4XX = "http_4xx"
    HTTP_429 = "http_429"
    HTTP_5XX = "http_5xx"
    BROWSER = "browser"
    INTERNAL = "internal"


class Fault(StrEnum):
    """What is wrong with a capture that was kept all the same."""

    PARTIAL = "partial"
    """The body ended early (shorter than Content-Length, no last chunk, cut compression)."""
    TOO_LARGE = "too_large"
    """Cut at the size limit."""
    TOO_SLOW = "too_slow"
    """Cut at the time limit."""
    BAD_ENCODING = "bad_encoding"
    """Content-Encoding is not what the bytes are; body holds the bytes as they came."""
    BLOCKED = "blocked"
    """A log-in, consent or robot wall instead of the page."""
    NOT_READ = "not_read"
    """The body was left unread: its content type is one that no part of us uses (audio, video, …)."""
    RENDER_FAILED = "render_failed"
    """The browser failed; the static page was kept."""


class IndexState(StrEnum):
    """Where a capture stands on its way into Elasticsearch."""

    WAITING = "waiting"
    INDEXED = "indexed"
    SKIPPED = "skipped"
    """Nothing to index: a redirect, an unchanged page, not text, noindex, or superseded by a newer capture."""
    REFUSED = "refused"
    """Elasticsearch or the extractor refused it; the reason is kept and shown."""


class RunState(StrEnum):
    """The life of a run. STOPPED can be started again and goes on where it was; FINISHED cannot."""

    QUEUED = "queued"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FINISHED = "finished"


class RelevanceMeasure(StrEnum):
    """How a page's relevance to a topic is measured."""

    WEIGHTED_COUNT = "weighted-count"
    """The classic one: weight times count of each guide word, over the length of the page."""
    SATURATED_COUNT = "saturated-count"
    """As in BM25: a word's tenth occurrence counts little, and long pages need more of them."""
    CLASSIFIER = "classifier"
    """Learned from the example pages for and against."""


@dataclass(frozen=True, slots=True)
class GuideWord:
    """A word or phrase that speaks for a topic; with a negative weight, against it."""

    phrase: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Topic:
    """What a focused crawl looks for. Read from a file by `crawler.topic`, judged by `crawler.relevance`."""

    name: str = ""
    words: tuple[GuideWord, ...] = ()
    examples_for: tuple[str, ...] = ()
    """Visible texts of pages that are of the topic."""
    examples_against: tuple[str, ...] = ()
    measure: RelevanceMeasure | None = None
    """None: the best that words and examples allow."""
    threshold: float = 0.5
    """Pages of less relevance (0 to 1) are off topic."""
    archive_off_topic: bool = True
    """Whether pages under the threshold are kept in the archive; they are never indexed."""


@dataclass(frozen=True, slots=True)
class PageScore:
    """What a page is worth to a topic, and what its links inherit of it."""

    relevance: float
    """0 to 1."""
    is_relevant: bool
    inherited: float = 0.0
    """0 to 1: how near the page is to pages of the topic on the way that led here, itself included."""


@dataclass(frozen=True, slots=True)
class SiteScope:
    """Which URLs belong to a site. Patterns are globs over path and query (`/news/*`), case-sensitive."""

    hosts: tuple[str, ...] = ()
    """host:port or bare host names allowed beside those of the seeds; `*.example.cn` allows sub-domains."""
    include: tuple[str, ...] = ()
    """If any is given, a URL must match one (seeds excepted)."""
    exclude: tuple[str, ...] = ()
    prefix: bool = False
    """Only under the folder of a seed."""
    max_depth: int | None = None
    max_pages: int | None = None
    """Pages fetched in one run."""


@dataclass(frozen=True, slots=True)
class SiteSettings:
    """Everything the owner sets for one site; the portal file and the admin edit this."""

    seeds: tuple[str, ...]
    name: str = ""
    scope: SiteScope = field(default_factory=SiteScope)
    strategy: Strategy = Strategy.BREADTH_FIRST
    render: RenderMode = RenderMode.AUTO
    delay_s: float | None = None
    """Between requests to one host; None is the crawler's default (1 s, none for loopback)."""
    allow_private: tuple[str, ...] = ()
    """host:port pairs that may have a private address; everything else private stays refused."""
    headers: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None
    """Outgoing proxy URL for this site, in place of the crawler's own setting."""
    enabled: bool = True
    topic: Topic | None = None
    """What a focused crawl keeps; None: every page in scope."""


@dataclass(frozen=True, slots=True)
class Validators:
    """What a conditional request and the comparison of digests need of the last good capture."""

    etag: str | None = None
    last_modified: str | None = None
    digest: str | None = None
    capture_id: int | None = None


@dataclass(frozen=True, slots=True)
class CrawlUrl:
    """A URL that was found and may be crawled in a run: what seeds and links hand to the frontier."""

    url: str
    urlkey: str
    host: str
    site_id: int
    run_id: int
    depth: int = 0
    priority: float = 0.0
    """Higher is sooner."""
    kind: LinkKind = LinkKind.LINK
    parent_url: str | None = None
    anchor: str = ""
    redirects: int = 0
    """How many redirects led here in a row."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A URL that the frontier has given to one worker, until the lease of its host ends."""

    target: CrawlUrl
    url_id: int
    generation: int
    """Handed out per URL at each claim, strictly growing: fences every later write of this visit."""
    tries: int
    """Failed tries since the last success."""
    validators: Validators
    last_status: CrawlStatus = CrawlStatus.DISCOVERED
    """What became of the visit before this one."""


@dataclass(frozen=True, slots=True)
class RejectedUrl:
    """A URL that is not crawled, and why."""

    run_id: int
    url: str
    urlkey: str
    reason: Rejection
    parent_url: str | None = None


@dataclass(frozen=True, slots=True)
class CrawlOutcome:
    """The only way back to the frontier: what became of a claim."""

    claim: Claim
    status: CrawlStatus
    next_visit_at: datetime | None = None
    """None with FETCH_ERROR means never again in this run."""
    reason: str | None = None
    """A FetchErrorKind or Rejection value, or None."""
    message: str | None = None
    """One sentence for the owner."""
    validators: Validators | None = None
    """To keep for the next visit; None leaves the old ones."""


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """What the fetcher and the renderer are asked for: one URL, no redirect followed."""

    url: str
    site_id: int
    """Cookies are kept, and browser contexts opened, per site."""
    validators: Validators = field(default_factory=Validators)
    allow_private: frozenset[str] = frozenset()
    """host:port pairs that may resolve to a private address."""
    headers: tuple[tuple[str, str], ...] = ()
    proxy: str | None = None
    referrer: str | None = None
    max_body_bytes: int | None = None
    """In place of the fetcher's own limit."""


@dataclass(frozen=True, slots=True)
class FetchTimes:
    """Seconds of each stage of a fetch."""

    dns_s: float = 0.0
    connect_s: float = 0.0
    first_byte_s: float = 0.0
    total_s: float = 0.0
    render_s: float = 0.0


@dataclass(frozen=True, slots=True)
class RenderedDom:
    """The page as the browser had it when it was taken."""

    html: str
    final_url: str
    """The document's address at that time (history routes change it)."""
    leads_to: str | None = None
    """Where a script wanted to send the browser: not followed, to be taken as a redirect."""


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """One response, as on the wire and decoded. Redirects are not followed: a 3xx is a page of its own."""

    url: str
    status: int
    reason: str
    headers: tuple[tuple[str, str], ...]
    """In wire order, names as sent, bytes read as latin-1."""
    request_head: bytes
    """Request line and headers as sent, through the blank line."""
    response_head: bytes
    """Status line and headers as received, through the blank line."""
    wire_body: bytes
    """Content encoding kept, transfer coding undone."""
    body: bytes
    """Content encoding undone, as far as it could be."""
    fetched_at: datetime
    ip: str | None = None
    times: FetchTimes = field(default_factory=FetchTimes)
    faults: tuple[Fault, ...] = ()
    rendered: RenderedDom | None = None

    def header(self, name: str) -> str | None:
        """The first value of a header, whatever the case of its name."""
        wanted = name.lower()
        return next((value for key, value in self.headers if key.lower() == wanted), None)

    def header_values(self, name: str) -> tuple[str, ...]:
        """All values of a header, in order."""
        wanted = name.lower()
        return tuple(value for key, value in self.headers if key.lower() == wanted)


@dataclass(frozen=True, slots=True)
class Link:
    """A link on a page, resolved against its base, fragment kept off unless it is a hash route."""

    url: str
    text: str = ""
    context: str = ""
    """Up to 120 characters of text around the link."""
    rel: tuple[str, ...] = ()
    kind: LinkKind = LinkKind.LINK

    @property
    def nofollow(self) -> bool:
        return "nofollow" in self.rel


@dataclass(frozen=True, slots=True)
class RobotsDirectives:
    """What a page (robots meta) or a response (X-Robots-Tag) asks for itself."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False

    def __or__(self, other: RobotsDirectives) -> RobotsDirectives:
        return RobotsDirectives(
            self.noindex or other.noindex, self.nofollow or other.nofollow, self.noarchive or other.noarchive
        )


@dataclass(frozen=True, slots=True)
class PageLinks:
    """What one pass over a page's HTML finds for the crawler."""

    links: tuple[Link, ...]
    base_url: str
    canonical: str | None
    """The one rel=canonical target, resolved; None if there is none or they conflict."""
    refresh: str | None
    """Where a meta refresh leads at once (delay of 30 s or less, not in noscript), resolved."""
    directives: RobotsDirectives
    text_chars: int
    """Visible characters outside scripts, styles and markup, white space not counted."""
    scripts: int
    """script elements that run (not JSON or templates)."""
    title: str = ""
    text: str = ""
    """The visible text, where it was asked for."""


@dataclass(frozen=True, slots=True)
class RobotsFile:
    """The last answer to a host's robots.txt."""

    host: str
    status: int
    """HTTP status after redirects; 0: no answer (timeout, cut body, refused)."""
    body: bytes
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Where the archive put a page: byte ranges of whole gzip members in one WARC file."""

    warc_path: str
    """Relative to the archive folder."""
    offset: int
    length: int
    dom_offset: int | None = None
    dom_length: int | None = None


@dataclass(frozen=True, slots=True)
class Original:
    """The capture that holds a payload which a later one only refers to (a `revisit` record)."""

    capture_id: int
    url: str
    captured_at: datetime


@dataclass(frozen=True, slots=True)
class NewCapture:
    """A capture about to get its row: the page is on disk already, synced."""

    claim: Claim
    captured_at: datetime
    status: int
    content_type: str
    digest: str
    size_bytes: int
    faults: tuple[Fault, ...]
    stored: StoredRecords
    index_state: IndexState
    revisit_of: int | None = None


@dataclass(frozen=True, slots=True)
class Capture:
    """One version of a page in the archive: a row that points at its bytes."""

    capture_id: int
    url_id: int
    site_id: int
    run_id: int | None
    url: str
    urlkey: str
    captured_at: datetime
    status: int
    content_type: str
    """The Content-Type header as sent, "" if none."""
    digest: str
    """sha256 hex of the decoded payload (of `body`)."""
    size_bytes: int
    generation: int
    faults: tuple[Fault, ...]
    revisit_of: int | None
    """The capture that holds the same payload, if this one is only a reference."""
    rendered: bool
    index_state: IndexState
    index_error: str | None = None


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A document that is to leave the index; its captures stay."""

    withdrawal_id: int
    document_id: str
    generation: int
    """Of the newest visit; a later one may bring the document back."""


@dataclass(frozen=True, slots=True)
class ArchivedPage:
    """What the archive gives back for a capture, its digest checked."""

    capture: Capture
    headers: tuple[tuple[str, str], ...]
    body: bytes
    """Content encoding undone."""
    dom_html: str | None
    """The rendered DOM, if the page was rendered."""
