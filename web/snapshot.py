"""Snapshots: archived pages as they were, safe to open, the reader's words marked; and their bytes to download."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from flask import Blueprint, Response, abort, make_response, render_template, request, url_for
from flask_babel import gettext as _

from crawler.archive import captures
from crawler.charset import decode
from crawler.database import read
from crawler.errors import ArchiveError, CaptureDamaged, CaptureMissing
from crawler.records import ArchivedPage, Capture
from services.errors import SearchRefused, SearchUnavailable
from services.search.search import highlight_words
from web.backends import backends
from web.marking import WordMarker
from web.sanitizer import SNAPSHOT_POLICY, safe_html, safe_text
from web.words import FAULTS

log = structlog.get_logger(__name__)

blueprint = Blueprint("snapshot", __name__, url_prefix="/snapshot")

_MAX_ID = 2**63 - 1
_MAX_OTHERS = 200
_MAX_QUERY_CHARS = 500
_KEPT_S = 600
"""How long a browser may keep a page: a capture never changes, its marks hardly ever do."""

_HTML = re.compile(r"(?:text/html|application/xhtml\+xml)\b", re.IGNORECASE)
_TEXT = re.compile(r"(?:text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml|javascript)\b)", re.IGNORECASE)
_LOOKS_LIKE_HTML = re.compile(
    rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype|html|head|body|title|meta|script|table|div|p|h1|a)\b",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where a snapshot's parts and variations are."""

    capture_id: int
    query: str
    marks: bool

    @property
    def page(self) -> str:
        return self._of("snapshot.page", self.capture_id, self.marks)

    @property
    def raw(self) -> str:
        return url_for("snapshot.raw", capture_id=self.capture_id)

    @property
    def with_marks(self) -> str:
        return self._of("snapshot.frame", self.capture_id, marks=True)

    @property
    def without_marks(self) -> str:
        return self._of("snapshot.frame", self.capture_id, marks=False)

    def other(self, capture: Capture) -> str:
        """Another capture of the same page, shown the same way."""
        return self._of("snapshot.frame", capture.capture_id, self.marks)

    def _of(self, endpoint: str, capture_id: int, marks: bool) -> str:
        return url_for(endpoint, capture_id=capture_id, q=self.query or None, marks=None if marks else "off")


@blueprint.get(f"/<int(max={_MAX_ID}):capture_id>")
def frame(capture_id: int) -> str:
    """A page of ours that says what is shown, and the archived page in it."""
    capture, others = _find(capture_id)
    query = _query()
    addresses = Addresses(capture_id, query, _wants_marks())
    return render_template(
        "snapshot.html",
        capture=capture,
        others=others,
        query=query,
        addresses=addresses,
        faults=[FAULTS[fault] for fault in capture.faults],
    )


@blueprint.get(f"/<int(max={_MAX_ID}):capture_id>/page")
def page(capture_id: int) -> Response:
    """The archived page alone: rewritten, and sandboxed whether it is framed or opened by itself."""
    archived = _read(capture_id)
    response = make_response(_shown(archived, _marker()))
    response.headers["Content-Type"] = "text/html; charset=utf-8"
    response.headers["Content-Security-Policy"] = SNAPSHOT_POLICY
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    response.cache_control.private = True
    response.cache_control.max_age = _KEPT_S
    return response


@blueprint.get(f"/<int(max={_MAX_ID}):capture_id>/raw")
def raw(capture_id: int) -> Response:
    """The bytes of the page as the server sent them (content encoding undone); their SHA-256 is the digest."""
    archived = _read(capture_id)
    response = make_response(archived.body)
    response.headers["Content-Type"] = "application/octet-stream"
    response.headers["Content-Disposition"] = f'attachment; filename="capture-{capture_id}{_ending(archived)}"'
    response.headers["Content-Security-Policy"] = "sandbox; default-src 'none'"
    response.headers["X-Robots-Tag"] = "noindex, nofollow"
    response.set_etag(archived.capture.digest)
    response.cache_control.private = True
    response.cache_control.max_age = _KEPT_S
    return response


def _find(capture_id: int) -> tuple[Capture, Sequence[Capture]]:
    """A capture and all of its page, newest first."""
    with read(backends().engine) as conn:
        capture = captures.get(conn, capture_id)
        if capture is None:
            abort(404, _("There is no such snapshot."))
        return capture, captures.of_url(conn, capture.urlkey, _MAX_OTHERS)


def _read(capture_id: int) -> ArchivedPage:
    try:
        return backends().archive.read(capture_id)
    except CaptureMissing:
        abort(404, _("There is no such snapshot, or its file is no longer in the archive."))
    except CaptureDamaged:
        abort(410, _("This snapshot is damaged and cannot be shown. The damage is in the archive's file."))
    except ArchiveError as exc:
        log.error("archive unreadable", capture_id=capture_id, reason=str(exc))
        abort(503, _("The archive cannot be read at the moment."))


def _shown(archived: ArchivedPage, marker: WordMarker) -> str:
    capture = archived.capture
    if archived.dom_html is not None:
        return safe_html(archived.dom_html, capture.url, marker, rendered=True)
    if _is_html(archived):
        return safe_html(decode(archived.body, capture.content_type).text, capture.url, marker)
    if _TEXT.match(capture.content_type):
        return safe_text(decode(archived.body, capture.content_type).text, marker)
    return safe_text(_("This is a file, not a page. Its original bytes can be downloaded above."), WordMarker(()))


def _is_html(archived: ArchivedPage) -> bool:
    declared = archived.capture.content_type.strip()
    if _HTML.match(declared):
        return True
    is_undeclared = not declared or declared.startswith(("text/plain", "application/octet-stream", "unknown/"))
    return is_undeclared and bool(_LOOKS_LIKE_HTML.match(archived.body[:4096]))


def _ending(archived: ArchivedPage) -> str:
    if _is_html(archived):
        return ".html"
    return ".txt" if archived.capture.content_type.lower().startswith("text/plain") else ".bin"


def _query() -> str:
    return " ".join(request.args.get("q", "")[:_MAX_QUERY_CHARS].split())


def _wants_marks() -> bool:
    return request.args.get("marks") != "off"


def _marker() -> WordMarker:
    """The query's words, as the analyzer cuts them; as they were typed while it cannot be asked."""
    query = _query()
    if not query or not _wants_marks():
        return WordMarker(())
    try:
        return WordMarker(highlight_words(backends().elastic, query))
    except (SearchUnavailable, SearchRefused):
        return WordMarker(query.split())
