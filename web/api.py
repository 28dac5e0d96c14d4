"""The JSON API, version 1. Errors are RFC 9457 problem documents (`web.application` writes them)."""

from __future__ import annotations

from dataclasses import replace

from flask import Blueprint, Response, abort, jsonify, request, url_for

from services.query_log import QuerySource
from services.search.search import MAX_PAGE_SIZE, search
from web.asked import read_asked
from web.backends import backends

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")


@blueprint.get("/search")
def search_json() -> Response:
    """The `search` form of the program's JSON. Parameters: q, page, size, site, lang, after, before, sort."""
    query = read_asked(request.args)
    size = request.args.get("size", str(query.size))
    if not (size.isascii() and size.isdecimal() and 1 <= len(size) <= 4 and 1 <= int(size) <= MAX_PAGE_SIZE):
        abort(400, f"size: a number from 1 to {MAX_PAGE_SIZE}")
    page = search(backends().elastic, replace(query, size=int(size)))
    backends().note_search(page, QuerySource.API)
    return jsonify(page.to_json(_snapshot_url))


def _snapshot_url(capture_id: int) -> str:
    return url_for("snapshot.frame", capture_id=capture_id, _external=True)
