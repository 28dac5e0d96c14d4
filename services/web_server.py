"""Settings of gunicorn, which reads this module (`--config python:services.web_server`): the portal's web server."""

from __future__ import annotations

import sys
from typing import Any

from services import logs
from services.config import load_settings, web_port

_settings = load_settings()

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
    """Our own logging, in the process that serves."""
    logs.configure(_settings.log_level, _settings.log_format)
