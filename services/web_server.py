"""Settings of gunicorn, which reads this module (`--config python:services.web_server`): the portal's web server."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

from crawler import database
from services import health, logs
from services.config import load_settings, web_port
from services.elastic import ElasticUser

_settings = load_settings()
_beside = ExitStack()

wsgi_app = "web:create_app()"
bind = f"{_settings.web_host}:{web_port(_settings)}"
# One process serves a portal of a million pages: it waits for Elasticsearch most of the time.
workers = 1
worker_class = "gthread"
threads = _settings.web_threads
timeout = 60
graceful_timeout = 10
# No file on the disk that may block: gunicorn touches it all the time.
worker_tmp_dir = "/dev/shm" if sys.platform == "linux" else None
control_socket_disable = True
errorlog = "-"
loglevel = "warning"


def post_worker_init(_worker: Any) -> None:
    """In the process that serves: our own logging, and health and metrics at a port of their own."""
    logs.configure(_settings.log_level, _settings.log_format)
    engine = database.open_database(_settings.effective_database_url)
    _beside.callback(engine.dispose)
    checks = {
        "database": health.database_check(engine),
        "archive": health.archive_check(_settings),
        "elasticsearch": health.elasticsearch_check(_settings, ElasticUser.READER),
    }
    _beside.enter_context(health.health_server(_settings, checks))


def worker_exit(_server: Any, _worker: Any) -> None:
    """That process ends."""
    _beside.close()
