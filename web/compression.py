"""Answers made smaller on their way: text, for browsers that take gzip.

Not for the admin: its pages carry forgery tokens beside what a visitor may have typed, and compressing both together
would let an eavesdropper guess the one from the size of the other (BREACH).
"""

from __future__ import annotations

import gzip

from flask import Flask, Response, request

MIN_BYTES = 1400
"""Smaller answers fit into one packet anyway."""
LEVEL = 5

_TEXTS = frozenset(("text/html", "text/css", "text/javascript", "text/plain", "application/json", "image/svg+xml"))


def init_app(app: Flask) -> None:
    """Compress the answers of an application."""
    app.after_request(_compress)


def _compress(response: Response) -> Response:
    if request.blueprint == "admin" or response.mimetype not in _TEXTS or response.status_code not in (200, 404):
        return response
    response.vary.add("Accept-Encoding")
    if "Content-Encoding" in response.headers or not request.accept_encodings["gzip"]:
        return response
    response.direct_passthrough = False
    content = response.get_data()
    if len(content) >= MIN_BYTES:
        response.set_data(gzip.compress(content, LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
        etag, is_weak = response.get_etag()
        if etag and not is_weak:
            response.set_etag(etag, weak=True)
    return response
