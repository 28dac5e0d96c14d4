"""The only user of the Elasticsearch client."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from services.config import Settings, kept_port, kept_secret


class ElasticUser(StrEnum):
    """The local node's users; another cluster (ELASTICSEARCH_URL) has one for all."""

    READER = "reader"
    """Searches and analyzes."""
    WRITER = "writer"
    """Makes and fills indices."""
    APPENDER = "appender"
    """Adds to crawl-log and queries, and can do nothing else."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How one user reaches Elasticsearch."""

    url: str
    user: str
    password: str = field(repr=False)
    ca: Path | None = None


def credentials(settings: Settings, user: ElasticUser) -> Credentials:
    """Those of the cluster in the settings, else of this stack's local node (whether it runs or not)."""
    if settings.elasticsearch_url:
        return Credentials(
            url=settings.elasticsearch_url,
            user=settings.elasticsearch_user,
            password=settings.elasticsearch_password.get_secret_value(),
            ca=settings.elasticsearch_ca,
        )
    url = f"http://127.0.0.1:{kept_port(settings, 'node')}"
    return Credentials(url=url, user=user.value, password=kept_secret(settings, f"elasticsearch_{user}"))
