"""What a body is recognised by. Pure functions."""

from __future__ import annotations

import hashlib


def digest(body: bytes) -> str:
    """SHA-256 in hex: equal for equal bytes, and checked each time the archive gives a page back."""
    return hashlib.sha256(body).hexdigest()
