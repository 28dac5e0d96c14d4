"""The admin: where the owner signs in, keeps the sites, starts and stops crawls and sees what came of them."""

from web.admin import charts
from web.admin.pages import blueprint

__all__ = ["blueprint", "charts"]
