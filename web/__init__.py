"""The portal: search pages for visitors, the admin for its owner."""

from web.application import create_app

__all__ = ["create_app"]
