"""The Flask application: settings in, portal out. One for each web process."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import structlog
from flask import Flask, Response, make_response, render_template, request, url_for
from flask_babel import gettext as _
from flask_wtf.csrf import CSRFError
from jinja2 import StrictUndefined
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as BaseResponse

from crawler.errors import DatabaseError
from services.config import Settings, load_settings
from services.errors import NotFound, SearchUnavailable
from web import admin, api, compression, formats, health, language, search, security, snapshot
from web.admin import sessions
from web.backends import Backends, backends

log = structlog.get_logger(__name__)

_STATIC_MAX_AGE_S = 365 * 24 * 3600


def create_app(settings: Settings | None = None) -> Flask:
    """The portal for `settings` (default: those of this process)."""
    settings = settings or load_settings()
    app = Flask("web", root_path=str(Path(__file__).parent))
    app.config["SEND_FILE_MAX_AGE_DEFAULT"] = _STATIC_MAX_AGE_S
    app.jinja_options = {**app.jinja_options, "undefined": StrictUndefined}
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.extensions["plumbline"] = Backends(settings)
    compression.init_app(app)
    security.init_app(app, settings)
    language.init_app(app)
    sessions.init_app(app)
    formats.init_app(app)
    app.jinja_env.globals.update(static_url=_static_url, here=_here)
    app.context_processor(lambda: {"portal": backends().portal()})
    for part in (search, snapshot, api, admin, health):
        app.register_blueprint(part.blueprint)
    _register_errors(app)
    return app


def _static_url(name: str) -> str:
    """A file's address with its digest, so that it can be kept for a year and is never stale."""
    return url_for("static", filename=name, v=_digest(name))


@cache
def _digest(name: str) -> str:
    return hashlib.sha256((Path(__file__).parent / "static" / name).read_bytes()).hexdigest()[:10]


def _here() -> str:
    """The path of this page, to come back to."""
    return request.full_path.rstrip("?")


def _register_errors(app: Flask) -> None:
    app.register_error_handler(HTTPException, _answer_http_error)
    app.register_error_handler(SearchUnavailable, _answer_search_unavailable)
    app.register_error_handler(DatabaseError, _answer_database_error)
    app.register_error_handler(NotFound, _answer_not_found)
    app.register_error_handler(Exception, _answer_unexpected)


def _answer_http_error(error: HTTPException) -> BaseResponse:
    if error.response is not None or error.code is None or error.code < 400:
        return error.get_response(request.environ)  # A redirect, or an answer that somebody made on purpose.
    if isinstance(error, CSRFError):
        return _message(400, _("This form is no longer valid"), _("Please go back, load the page again, and retry."))
    heading, sentence = _words_for(error.code)
    is_ours = error.description and error.description != type(error).description
    response = _message(error.code, heading, str(error.description) if is_ours else sentence)
    response.headers.extend((name, value) for name, value in error.get_headers() if name in ("Allow", "Retry-After"))
    return response


def _answer_search_unavailable(error: SearchUnavailable) -> BaseResponse:
    log.warning("search unavailable", reason=str(error))
    response = _message(503, _("The search is not ready"), _("It is starting or busy. Please try again in a moment."))
    response.headers["Retry-After"] = "5"
    return response


def _answer_database_error(error: DatabaseError) -> BaseResponse:
    log.error("database unavailable", reason=str(error))
    response = _message(503, _("The portal is not ready"), _("Its database is busy or away. Please try again soon."))
    response.headers["Retry-After"] = "5"
    return response


def _answer_not_found(error: NotFound) -> BaseResponse:
    heading, sentence = _words_for(404)
    return _message(404, heading, sentence)


def _answer_unexpected(error: Exception) -> BaseResponse:
    log.error("request failed", path=request.path, exc_info=error)
    return _message(500, *_words_for(500))


def _words_for(status: int) -> tuple[str, str]:
    """Heading and sentence of an error page."""
    return {
        400: (_("This request cannot be understood"), _("Something in the address or the form is not right.")),
        403: (_("Not allowed"), _("Please sign in first.")),
        404: (_("Not found"), _("There is no such page here; perhaps the address was cut or mistyped.")),
        405: (_("Not this way"), _("This address works by a button on one of our pages only.")),
        410: (_("No longer here"), _("What was here is gone.")),
        413: (_("Too large"), _("That was more than can be taken at once.")),
        429: (_("Too many requests"), _("Please wait a little and try again.")),
    }.get(status, (_("Something went wrong"), _("The fault is on our side and has been written down.")))


def _message(status: int, heading: str, sentence: str) -> BaseResponse:
    """An error in words; for programs as a problem document (RFC 9457)."""
    if request.path.startswith("/api/"):
        problem = {"type": "about:blank", "title": heading, "status": status, "detail": sentence}
        return Response(json.dumps(problem), status, mimetype="application/problem+json")
    page = render_template("message.html", status=status, heading=heading, sentence=sentence)
    return make_response(page, status)
