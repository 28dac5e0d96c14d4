"""The start page and the results: what a visitor sees."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request, url_for
from flask_babel import gettext as _
from werkzeug.wrappers import Response

from services.query_log import QuerySource
from services.search.search import search
from web.asked import Asked, read_asked
from web.backends import backends
from web.readiness import Part, readiness

blueprint = Blueprint("search", __name__)


@blueprint.get("/")
def start() -> str:
    """The portal's name, a box, and what it holds; or why nothing can be found yet."""
    return render_template("start.html", now=readiness(backends()), parts=_part_names())


def _part_names() -> list[tuple[Part, str]]:
    return [
        (Part.DATABASE, _("Database")),
        (Part.SEARCH_ENGINE, _("Search engine")),
        (Part.CRAWLER, _("Crawler")),
        (Part.INDEXER, _("Indexer")),
        (Part.SCHEDULER, _("Scheduler")),
    ]


@blueprint.get("/search")
def results() -> str | Response:
    """A page of results for whatever was typed."""
    query = read_asked(request.args)
    if not query.text:
        return redirect(url_for("search.start"))
    page = search(backends().elastic, query)
    backends().note_search(page, QuerySource.WEB)
    return render_template("results.html", page=page, asked=Asked(query, page.last_page, backends().sites()))
