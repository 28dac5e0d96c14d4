"""In which language the portal speaks to a reader: catalogs, and the choice among them.

Messages in code and templates are English; `translations/<language>.po` holds the others. The catalogs are read from
their sources at start (some milliseconds), so that no build step stands between a checkout and its languages.
"""

from __future__ import annotations

import io
from functools import cache, cached_property
from pathlib import Path

from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po
from babel.support import NullTranslations, Translations
from flask import Blueprint, Flask, abort, redirect, request
from flask_babel import Babel, Domain, get_locale
from werkzeug.wrappers import Response

from web.backends import backends
from web.links import local_path

CATALOGS = Path(__file__).parent / "translations"
LANGUAGES = {"zh": "中文", "en": "English"}
"""The languages that the pages can be had in, each by its own name. The portal's settings say which it offers."""

LANGUAGE_COOKIE = "plumbline_language"
_A_YEAR_S = 365 * 24 * 3600

blueprint = Blueprint("language", __name__)


@blueprint.get("/language/<code>")
def choose(code: str) -> Response:
    """Remember the reader's choice in their own browser, and go back to where they were."""
    if code not in LANGUAGES:
        abort(404)
    response = redirect(local_path(request.args.get("next", "")), 303)
    response.set_cookie(LANGUAGE_COOKIE, code, max_age=_A_YEAR_S, samesite="Lax", httponly=True)
    return response


def init_app(app: Flask) -> None:
    """Let an application speak the reader's language."""
    _SourceBabel(app, default_locale="en", locale_selector=chosen_language)
    app.register_blueprint(blueprint)
    app.jinja_env.globals.update(language=language_tag, languages=offered_languages)


def offered_languages() -> dict[str, str]:
    """The portal's languages by code, the one for readers of none of them first."""
    return {code: LANGUAGES[code] for code in backends().portal().languages}


def chosen_language() -> str:
    """The reader's own choice, else the best of what the browser accepts."""
    offered = offered_languages()
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen in offered:
        return chosen
    return request.accept_languages.best_match(offered) or next(iter(offered))


def language_tag() -> str:
    """For the `lang` attribute."""
    return "zh-CN" if str(get_locale()).startswith("zh") else "en"


@cache
def catalog(language: str) -> NullTranslations:
    """The messages of one language, read from its source."""
    source = CATALOGS / f"{language}.po"
    if not source.is_file():
        return NullTranslations()
    with source.open("rb") as file:
        messages = read_po(file, locale=language)
    compiled = io.BytesIO()
    write_mo(compiled, messages)
    compiled.seek(0)
    return Translations(compiled)


class _SourceDomain(Domain):  # type: ignore[misc]
    def get_translations(self) -> NullTranslations:
        return catalog(str(get_locale()))


class _SourceBabel(Babel):  # type: ignore[misc]
    @cached_property
    def domain_instance(self) -> Domain:
        return _SourceDomain()
