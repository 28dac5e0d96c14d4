"""What every answer of the portal says to the browser for the reader's safety, and how session cookies are kept."""

from __future__ import annotations

import hashlib
from datetime import timedelta

from flask import Flask, Response, request
from flask_wtf.csrf import CSRFProtect
from werkzeug.middleware.proxy_fix import ProxyFix

from services.config import Settings, kept_secret

PAGE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
"""Nothing inline, nothing from elsewhere, no plug-in, framed by nobody."""

SESSION_HOURS = 12
"""A session of the owner ends after so long without a request."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

csrf = CSRFProtect()


def init_app(app: Flask, settings: Settings) -> None:
    """Sessions, forgery protection and headers of an application."""
    app.config.update(
        SECRET_KEY=kept_secret(settings, "web_session"),
        SESSION_COOKIE_NAME=_cookie_name(settings),
        SESSION_COOKIE_HTTPONLY=True,
        SESSION_COOKIE_SAMESITE="Lax",
        PERMANENT_SESSION_LIFETIME=timedelta(hours=SESSION_HOURS),
        WTF_CSRF_TIME_LIMIT=SESSION_HOURS * 3600,
        # Behind a TLS proxy the Referer may name another scheme than the request that reaches us.
        WTF_CSRF_SSL_STRICT=False,
        MAX_CONTENT_LENGTH=1_000_000,
    )
    if settings.trusted_proxies:
        n = settings.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=n, x_proto=n, x_host=n)  # type: ignore[method-assign]
    csrf.init_app(app)
    app.after_request(_add_headers)


def _cookie_name(settings: Settings) -> str:
    """One a stack: a browser sends the cookies of a host to all its ports, and a machine may hold two stacks."""
    return f"plumbline_session_{hashlib.sha256(bytes(settings.home)).hexdigest()[:8]}"


def _add_headers(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    response.headers.setdefault("Content-Security-Policy", PAGE_POLICY)
    if request.blueprint == "admin":
        response.headers["Cache-Control"] = "no-store"
    elif not response.headers.get("Cache-Control"):
        response.headers["Cache-Control"] = "private, no-cache"
    if response.mimetype == "text/html":
        response.vary.update(("Accept-Language", "Cookie"))
    return response
