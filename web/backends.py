"""What the portal stands on: the crawl database, the archive and Elasticsearch, opened once for each process."""

from __future__ import annotations

import atexit
import time
from datetime import UTC, datetime
from functools import cached_property
from typing import cast

from flask import current_app
from sqlalchemy.engine import Engine

from crawler.archive.archive import Archive
from crawler.database import open_database
from crawler.errors import DatabaseError
from services import control
from services.appender import Appender
from services.config import Settings
from services.elastic import Elastic, ElasticUser, IndexName, credentials
from services.query_log import QuerySource, query_log_entry
from services.search.records import SearchPage

PORTAL_KEPT_S = 5.0
"""The portal's name and footer stand on every page, and change once a year."""


class Backends:
    """Opened when first used, so that the portal starts (and says what is missing) before they do."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._portal: tuple[float, control.PortalSettings] | None = None

    @cached_property
    def engine(self) -> Engine:
        return open_database(self.settings.effective_database_url)

    @cached_property
    def archive(self) -> Archive:
        return Archive(self.settings.archive_folder, self.engine)

    @cached_property
    def elastic(self) -> Elastic:
        return Elastic(credentials(self.settings, ElasticUser.READER), self.settings.index_prefix)

    @cached_property
    def _query_log(self) -> Appender:
        elastic = Elastic(credentials(self.settings, ElasticUser.APPENDER), self.settings.index_prefix)
        appender = Appender(elastic, IndexName.QUERIES)
        atexit.register(appender.close)
        return appender

    def note_search(self, page: SearchPage, source: QuerySource) -> None:
        """Note a search in the log of queries, in the background."""
        entry = query_log_entry(page, source, datetime.now(UTC))
        if entry is not None:
            self._query_log.add([entry])

    def portal(self) -> control.PortalSettings:
        """How the portal presents itself; as it is known, or by default, while the database cannot be read."""
        now = time.monotonic()
        if self._portal is None or now - self._portal[0] > PORTAL_KEPT_S:
            try:
                self._portal = (now, control.read_portal(self.engine))
            except DatabaseError:
                return self._portal[1] if self._portal else control.PortalSettings()
        return self._portal[1]

    def close(self) -> None:
        """Close what was opened."""
        if "engine" in self.__dict__:
            self.engine.dispose()
        if "elastic" in self.__dict__:
            self.elastic.close()
        if "_query_log" in self.__dict__:
            self._query_log.close()

    def sites(self) -> list[control.Site]:
        """The sites of the filters."""
        return control.list_sites(self.engine)


def backends() -> Backends:
    """Those of the current application."""
    return cast(Backends, current_app.extensions["plumbline"])
