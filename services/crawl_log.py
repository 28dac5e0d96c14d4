"""What the crawler has put down, as entries of `crawl-log`: one for each visit, one for each first refusal of a URL.

es-mappings/crawl-log.json says which fields there are.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import structlog

from crawler.crawl import Written
from crawler.records import CrawlStatus, FetchedPage, FetchTimes, RejectedUrl
from crawler.urls import document_id, host_of
from crawler.visit import Visit
from services.appender import Appender
from services.elastic import LogEntry

VISIT = "visit"
REFUSAL = "refusal"
REMEMBERED_REFUSALS = 100_000

log = structlog.get_logger(__name__)


class CrawlLog:
    """What `run_crawler` calls when it has put something down."""

    def __init__(self, appender: Appender, worker: str) -> None:
        self._appender = appender
        self._worker = worker
        self._refused: OrderedDict[tuple[int, str], None] = OrderedDict()

    def __call__(self, written: Written) -> None:
        """Note it; neither waits nor raises."""
        try:
            news = replace(written, refused=tuple(filter(self._is_news, written.refused)))
            self._appender.add(crawl_log_entries(news, self._worker, datetime.now(UTC)))
        except Exception:
            log.exception("crawl log entry failed")

    def _is_news(self, refused: RejectedUrl) -> bool:
        """Not so for a link that is refused on every page of a site; the log would keep it once anyway."""
        key = refused.run_id, refused.urlkey
        if key in self._refused:
            return False
        self._refused[key] = None
        if len(self._refused) > REMEMBERED_REFUSALS:
            self._refused.popitem(last=False)
        return True


def crawl_log_entries(written: Written, worker: str, now: datetime) -> list[LogEntry]:
    """The entries of one transaction."""
    context = _Context(worker, written.site_keys, now)
    visits = [_of_visit(visit, capture_id, context) for visit, capture_id in written.visits]
    visited = {(visit.outcome.claim.target.run_id, visit.outcome.claim.target.urlkey) for visit, _ in written.visits}
    refusals = [
        _of_refusal(refused, context)
        for refused in written.refused
        if (refused.run_id, refused.urlkey) not in visited  # that one's visit says it
    ]
    return [*visits, *refusals]


@dataclass(frozen=True, slots=True)
class _Context:
    worker: str
    site_keys: Mapping[int, str]
    now: datetime

    def of(self, event: str, run_id: int, url: str) -> dict[str, Any]:
        """What entries of both kinds have."""
        return {
            "at": _iso(self.now),
            "event": event,
            "worker": self.worker,
            "run_id": run_id,
            "site": self.site_keys.get(run_id),
            "host": _host(url),
            "url": url,
        }


def _of_visit(visit: Visit, capture_id: int | None, context: _Context) -> LogEntry:
    outcome, claim = visit.outcome, visit.outcome.claim
    target, page = claim.target, visit.answer
    entry = {
        **context.of(VISIT, target.run_id, target.url),
        "parent_url": target.parent_url,
        "link_kind": target.kind.value,
        "depth": target.depth,
        "status": outcome.status.value,
        "reason": outcome.reason,
        "message": outcome.message,
        "retries": claim.tries,
        "capture_id": capture_id,
        **(_of_answer(page) if page else {}),
    }
    return LogEntry(f"{claim.url_id}-{claim.generation}", _known(entry))


def _of_answer(page: FetchedPage) -> dict[str, Any]:
    return {
        "at": _iso(page.fetched_at),
        "http_status": page.status,
        "media_type": (page.header("Content-Type") or "").partition(";")[0].strip().lower() or None,
        "size_bytes": len(page.body),
        "rendered": page.rendered is not None,
        "faults": [fault.value for fault in page.faults],
        **dict(_times(page.times)),
    }


def _times(times: FetchTimes) -> Iterator[tuple[str, float]]:
    for name in ("dns_s", "connect_s", "first_byte_s", "total_s", "render_s"):
        yield name, round(getattr(times, name), 4)


def _of_refusal(refused: RejectedUrl, context: _Context) -> LogEntry:
    entry = {
        **context.of(REFUSAL, refused.run_id, refused.url),
        "parent_url": refused.parent_url,
        "status": CrawlStatus.REJECTED.value,
        "reason": refused.reason.value,
    }
    # The same in every worker that meets the URL: of several first refusals in a run, one is kept.
    return LogEntry(f"refused-{refused.run_id}-{document_id(refused.urlkey)}", _known(entry))


def _host(url: str) -> str | None:
    """Host and port; None of what is no address of the web."""
    return host_of(url) if url.startswith(("http://", "https://")) else None


def _known(entry: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in entry.items() if value not in (None, [])}


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
