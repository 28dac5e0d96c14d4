"""The start page and the results: what a visitor sees."""

from __future__ import annotations

from flask import Blueprint, redirect, render_template, request, url_for
from werkzeug.wrappers import Response

from services.query_log import QuerySource
from services.search.search import search
from web.asked import Asked, read_asked
from web.backends import backends
from web.readiness import readiness

blueprint = Blueprint("search", __name__)


@blueprint.get("/")
def start() -> str:
    """The portal's name, a box, and what it holds; or why nothing can be found yet."""
    return render_template("start.html", now=readiness(backends()))


@blueprint.get("/search")
def results() -> str | Response:
    """A page of results for whatever was typed."""
    query = read_asked(request.args)
    if not query.text:
        return redirect(url_for("search.start"))
    page = search(backends().elastic, query)
    backends().note_search(page, QuerySource.WEB)
    return render_template("results.html", page=page, asked=Asked(query, page.last_page, backends().sites()))
