"""What Kibana gets: data views, saved searches and dashboards, by name. `objects` builds the saved objects of them."""

from __future__ import annotations

from dataclasses import dataclass

from services.elastic import IndexName


@dataclass(frozen=True, slots=True)
class DataView:
    """One index as Kibana's users pick it."""

    index: IndexName
    title: str
    time_field: str


@dataclass(frozen=True, slots=True)
class SavedSearch:
    """A search in Discover."""

    name: str
    title: str
    description: str
    index: IndexName
    query: str
    """In KQL."""
    columns: tuple[str, ...]
    newest_first: str
    """The field of time that orders it."""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """Panels under a title, two in a row."""

    name: str
    title: str
    description: str
    panels: tuple[str, ...]
    time_from: str
    """In Elasticsearch's date math, until now."""
    refresh_s: int | None = None
    searches: tuple[str, ...] = ()
    """Saved searches below the panels, over the whole width."""

    @property
    def period(self) -> tuple[int, str]:
        """`time_from` as a number and its unit: `h`, `d` or `y`."""
        return int(self.time_from[len("now-") : -1]), self.time_from[-1]


DATA_VIEWS = (
    DataView(IndexName.PAGES, "Pages", "captured_at"),
    DataView(IndexName.CRAWL_LOG, "Crawl log", "at"),
    DataView(IndexName.QUERIES, "Searches of visitors", "at"),
)

SEARCHES = (
    SavedSearch(
        "pages",
        "Pages",
        "What the portal holds; type a word, Chinese ones too, into the bar.",
        IndexName.PAGES,
        "",
        ("title", "site", "language", "kind", "published_at", "url"),
        "captured_at",
    ),
    SavedSearch(
        "visits",
        "Visits",
        "Every page that was asked for.",
        IndexName.CRAWL_LOG,
        "event: visit",
        ("site", "status", "http_status", "reason", "total_s", "size_bytes", "rendered", "url"),
        "at",
    ),
    SavedSearch(
        "failures",
        "Failures",
        "Visits that brought no page, with the reason in words.",
        IndexName.CRAWL_LOG,
        "event: visit and (status: fetch_error or status: gone)",
        ("site", "host", "reason", "http_status", "retries", "message", "url"),
        "at",
    ),
    SavedSearch(
        "refused-urls",
        "Refused URLs",
        "URLs that are not crawled, and which page led to them.",
        IndexName.CRAWL_LOG,
        "status: rejected",
        ("site", "reason", "url", "parent_url"),
        "at",
    ),
    SavedSearch(
        "slow-visits",
        "Slow visits",
        "Pages that took more than five seconds.",
        IndexName.CRAWL_LOG,
        "total_s > 5 or render_s > 5",
        ("site", "host", "total_s", "first_byte_s", "render_s", "size_bytes", "url"),
        "at",
    ),
    SavedSearch(
        "searches-without-results",
        "Searches without results",
        "What visitors looked for in vain.",
        IndexName.QUERIES,
        "none_found: true and page: 1",
        ("text", "site", "language", "source"),
        "at",
    ),
)

DASHBOARDS = (
    Dashboard(
        "crawl-in-progress",
        "Crawl in progress",
        "What the crawlers are doing now.",
        ("visits-over-time", "visits-by-site", "answer-times", "bytes-over-time"),
        time_from="now-1h",
        refresh_s=10,
        searches=("visits",),
    ),
    Dashboard(
        "sites-and-hosts",
        "Sites and hosts",
        "Which sites the portal lives on, and how their hosts answer.",
        ("pages-by-site", "hosts-visited", "host-answer-times", "bytes-by-host"),
        time_from="now-30d",
    ),
    Dashboard(
        "failures-by-cause",
        "Failures by cause",
        "What went wrong where, and what was refused by which rule.",
        ("failures-by-cause", "failures-over-time", "failing-hosts", "http-statuses", "refusals-by-reason"),
        time_from="now-7d",
        searches=("failures", "refused-urls"),
    ),
    Dashboard(
        "freshness",
        "Freshness",
        "How long ago pages were visited, and how often they change.",
        ("captures-over-time", "changed-or-unchanged", "captures-by-site"),
        time_from="now-90d",
    ),
    Dashboard(
        "content-over-time",
        "Content over time",
        "When what the portal holds was published.",
        ("publications-over-time", "publications-by-site", "page-sizes"),
        time_from="now-10y",
        searches=("pages",),
    ),
    Dashboard(
        "languages-and-kinds",
        "Languages and kinds",
        "What sort of pages there are.",
        ("languages", "kinds", "charsets", "media-types"),
        time_from="now-10y",
    ),
    Dashboard(
        "searches",
        "Searches",
        "What visitors ask for, and what they do not find.",
        ("searches-over-time", "search-times", "top-searches", "searches-without-results"),
        time_from="now-30d",
        searches=("searches-without-results",),
    ),
)
