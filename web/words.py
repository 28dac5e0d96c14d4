"""The words that people read for the crawler's closed sets of words."""

from __future__ import annotations

from flask_babel import LazyString
from flask_babel import lazy_gettext as _l

from crawler.records import CrawlStatus, Fault, FetchErrorKind, IndexState, LinkKind, Rejection
from services.control import WorkerKind

RUN_STATES: dict[str, LazyString] = {
    "never": _l("Not crawled yet"),
    "queued": _l("Waiting to begin"),
    "running": _l("Crawling"),
    "stopping": _l("Stopping"),
    "stopped": _l("Stopped"),
    "finished": _l("Finished"),
    "stalled": _l("No crawler is running"),
}

REJECTIONS: dict[str, LazyString] = {
    Rejection.SCOPE: _l("Outside the site's scope"),
    Rejection.ROBOTS: _l("Forbidden by the site's robots.txt"),
    Rejection.DEPTH: _l("Too many links from the start"),
    Rejection.TRAP: _l("Looks like an endless family of addresses"),
    Rejection.TYPE: _l("Not a kind of file that is crawled"),
    Rejection.SIZE: _l("Too large"),
    Rejection.DUPLICATE: _l("The same as another page"),
    Rejection.IRRELEVANT: _l("Off the subject"),
    Rejection.BUDGET: _l("The run's limit of pages was reached"),
    Rejection.PRIVATE_ADDRESS: _l("Leads to a private address"),
    Rejection.BAD_URL: _l("Not a proper address"),
    Rejection.REDIRECT_LOOP: _l("Redirects in a circle or too often"),
    Rejection.NOINDEX: _l("The page asks not to be indexed"),
    Rejection.NOFOLLOW: _l("The link asks not to be followed"),
    Rejection.EXCLUDED: _l("Excluded by you"),
}

FAILURES: dict[str, LazyString] = {
    FetchErrorKind.DNS: _l("The host name has no address"),
    FetchErrorKind.CONNECT: _l("No connection to the server"),
    FetchErrorKind.TLS: _l("No secure connection (certificate or encryption)"),
    FetchErrorKind.TIMEOUT: _l("The server took too long"),
    FetchErrorKind.PROTOCOL: _l("The server's answer made no sense"),
    FetchErrorKind.ROBOTS_UNREACHABLE: _l("The site's robots.txt cannot be read, so nothing may be fetched"),
    FetchErrorKind.HTTP_4XX: _l("The server refused (4xx)"),
    FetchErrorKind.HTTP_429: _l("The server asked us to slow down (429)"),
    FetchErrorKind.HTTP_5XX: _l("The server failed (5xx)"),
    FetchErrorKind.BROWSER: _l("The browser could not open the page"),
    FetchErrorKind.INTERNAL: _l("A fault of the crawler itself"),
    CrawlStatus.GONE: _l("The page is gone (404 or 410)"),
}

STATUSES: dict[str, LazyString] = {
    CrawlStatus.DISCOVERED: _l("Found, not visited yet"),
    CrawlStatus.FETCHED: _l("Fetched"),
    CrawlStatus.UNCHANGED: _l("Unchanged since the visit before"),
    CrawlStatus.REDIRECTION: _l("Leads on to another address"),
    CrawlStatus.FETCH_ERROR: _l("Could not be fetched"),
    CrawlStatus.GONE: _l("Gone"),
    CrawlStatus.REJECTED: _l("Left out at its visit"),
}

LINKS: dict[str, LazyString] = {
    LinkKind.SEED: _l("a start address of the site"),
    LinkKind.LINK: _l("a link"),
    LinkKind.REDIRECT: _l("a redirect"),
    LinkKind.REFRESH: _l("a page that sends its readers on"),
    LinkKind.FRAME: _l("a frame"),
    LinkKind.SITEMAP: _l("the sitemap"),
    LinkKind.PUSHED: _l("a request"),
}

INDEX_STATES: dict[str, LazyString] = {
    IndexState.WAITING: _l("waiting to be indexed"),
    IndexState.INDEXED: _l("in the index"),
    IndexState.SKIPPED: _l("nothing to index"),
    IndexState.REFUSED: _l("refused"),
}

FAULTS: dict[str, LazyString] = {
    Fault.PARTIAL: _l("the page ended early"),
    Fault.TOO_LARGE: _l("cut at the size limit"),
    Fault.TOO_SLOW: _l("cut at the time limit"),
    Fault.BAD_ENCODING: _l("its compression could not be undone"),
    Fault.BLOCKED: _l("a wall in place of the page"),
    Fault.RENDER_FAILED: _l("the browser failed, the page is shown as it was sent"),
}

QUEUE_STATES: dict[str, LazyString] = {
    "queued": _l("waiting for its visit"),
    "leased": _l("being visited"),
    "done": _l("done for this run"),
}

WORKERS: dict[str, LazyString] = {
    WorkerKind.CRAWLER: _l("Crawler"),
    WorkerKind.INDEXER: _l("Indexer"),
    WorkerKind.SCHEDULER: _l("Scheduler"),
    WorkerKind.WEB: _l("Portal"),
}

ENDINGS: dict[str, LazyString] = {
    "stopped": _l("Stopped by you"),
    "every URL visited": _l("Every page was visited"),
    "no page could be fetched": _l("No page could be fetched"),
    "the site was deleted": _l("The site was deleted"),
}
"""Why a run ended, as the crawler writes it down."""

STARTERS: dict[str, LazyString] = {"command line": _l("the command line"), "schedule": _l("the schedule")}
"""Who started a run, where that was not a user."""


def ending(reason: str | None) -> str:
    """Why a run ended, in the reader's language as far as the sentence is known."""
    if reason and reason.startswith("page budget reached"):
        return str(REJECTIONS[Rejection.BUDGET])
    return str(ENDINGS.get(reason or "", reason or ""))
