"""For machines that watch or read the portal: health, readiness, robots.txt, and the favicon's usual address."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify, redirect, request, url_for
from werkzeug.wrappers import Response as BaseResponse

from crawler.errors import DatabaseError
from services.errors import NotFound, SearchRefused, SearchUnavailable
from web.backends import backends
from web.readiness import State, readiness, why_not_found

blueprint = Blueprint("health", __name__)

_ROBOTS = """User-agent: *
Disallow: /admin
Disallow: /snapshot
Disallow: /search
Disallow: /api
Disallow: /language
"""


@blueprint.get("/healthz")
def healthz() -> Response:
    """This process answers."""
    return Response("ok\n", mimetype="text/plain")


@blueprint.get("/readyz")
def readyz() -> tuple[Response, int]:
    """Whether searches can be answered: the database and Elasticsearch are there, and what is wrong if not.

    With `site=KEY`: whether a whole crawl of that site can be found.
    """
    if "site" in request.args:
        return _site_is_found(request.args["site"])
    found = readiness(backends())
    is_up = found.state not in (State.NO_DATABASE, State.NO_SEARCH)
    answer = jsonify(
        ready=is_up,
        database=found.state is not State.NO_DATABASE,
        elasticsearch=is_up,
        documents=found.documents,
        reasons={part.name.lower(): reason for part, reason in found.reasons.items()},
    )
    return answer, 200 if is_up else 503


def _site_is_found(key: str) -> tuple[Response, int]:
    try:
        reason = why_not_found(backends(), key)
    except NotFound as exc:
        return jsonify(ready=False, site=key, reason=str(exc)), 404
    except (DatabaseError, SearchUnavailable, SearchRefused) as exc:
        reason = str(exc)
    return jsonify(ready=reason is None, site=key, reason=reason), 200 if reason is None else 503


@blueprint.get("/robots.txt")
def robots() -> Response:
    """Crawlers keep out of what is not the portal's own, or costs much; the start page is theirs."""
    return Response(_ROBOTS, mimetype="text/plain")


@blueprint.get("/favicon.ico")
def favicon() -> BaseResponse:
    return redirect(url_for("static", filename="favicon.svg"), 301)
