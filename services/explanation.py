"""What `plumbline explain` says: all that is known of one URL, step by step, and what comes next."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import TypeAdapter

from crawler.records import CrawlStatus, IndexState
from services.control import KnownUrl, SeenCapture, UrlHistory

_ADAPTER = TypeAdapter(UrlHistory)


def explanation_json(history: UrlHistory) -> dict[str, Any]:
    """The `explain` form of the program's JSON: the history, and `next`, one sentence."""
    shown: dict[str, Any] = _ADAPTER.dump_python(history, mode="json")
    return {**shown, "next": what_comes_next(history)}


def explanation_text(history: UrlHistory) -> str:
    """The same for people."""
    lines = [history.url]
    if history.urlkey != history.url:
        lines.append(f"  recognised as {history.urlkey}")
    if history.known is not None:
        lines += _known_lines(history.known)
    lines += [f"  {_time(capture.captured_at)}  {_capture_text(capture)}" for capture in history.captures]
    for rejection in history.rejections:
        from_page = f", found on {rejection.parent_url}" if rejection.parent_url else ""
        lines.append(
            f"  {_time(rejection.rejected_at)}  left out by {rejection.site_key}: {rejection.reason}{from_page}"
        )
    for verdict in history.scopes:
        says = "in scope" if verdict.refusal is None else f"out of scope ({verdict.refusal})"
        lines.append(f"  site {verdict.site_key}: {says}")
    lines.append(f"next: {what_comes_next(history)}")
    return "".join(f"{line}\n" for line in lines)


def what_comes_next(history: UrlHistory) -> str:
    """One sentence on what will become of the URL, or why nothing will."""
    known = history.known
    if known is None:
        return _next_of_unknown(history)
    if known.state == "queued":
        later = f", not before {_time(known.next_visit_at)}" if known.next_visit_at else ""
        return f"it waits to be visited{later}"
    if known.state == "leased":
        return "it is being visited"
    if known.status is CrawlStatus.REJECTED:
        return f"nothing: it was refused ({known.message or known.reason})"
    if known.status is CrawlStatus.FETCH_ERROR or known.status is CrawlStatus.GONE:
        return f"the next run of {known.site_key} tries it again ({known.message or known.reason or known.status})"
    waiting = next((capture for capture in history.captures if capture.index_state is IndexState.WAITING), None)
    if waiting is not None:
        return "its newest capture waits for the indexer"
    newest = history.captures[0] if history.captures else None
    if newest is not None and newest.index_state is IndexState.REFUSED:
        return f"it could not be indexed ({newest.index_error}); try again by: plumbline reindex --refused"
    return f"the next run of {known.site_key} visits it again"


def _next_of_unknown(history: UrlHistory) -> str:
    if history.rejections:
        return f"nothing: it was left out ({history.rejections[0].reason})"
    admitting = [verdict.site_key for verdict in history.scopes if verdict.refusal is None]
    if admitting:
        return f"it is visited if a page of {admitting[0]} links to it; no page did so far"
    return "nothing: no site has it in its scope"


def _known_lines(known: KnownUrl) -> list[str]:
    found = f"  {_time(known.discovered_at)}  found as a {known.kind} at depth {known.depth} of {known.site_key}"
    if known.parent_url:
        found += f", on {known.parent_url}"
    if known.visited_at is None:
        return [found]
    why = f" ({known.message or known.reason})" if known.message or known.reason else ""
    return [found, f"  {_time(known.visited_at)}  last visit: {known.status}{why}"]


def _capture_text(capture: SeenCapture) -> str:
    what = f"capture {capture.capture_id}: {capture.status} {capture.content_type or 'no type'}"
    parts = [what, f"{capture.size_bytes} bytes"]
    parts += ["rendered"] if capture.rendered else []
    parts += ["unchanged"] if capture.unchanged else []
    parts += list(capture.faults)
    parts.append(f"{capture.index_state}" + (f" ({capture.index_error})" if capture.index_error else ""))
    return ", ".join(parts)


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}Z"
