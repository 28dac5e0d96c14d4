"""How every process of the stack logs: structured lines on standard output, as text or as JSON.

Modules take `structlog.get_logger(__name__)`; messages are constant, values go in fields. Whoever starts a process
decides where its output goes: the supervisor keeps a rotated file of each, a container's engine its own.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import Processor

OURS = ("crawler", "extractor", "services", "web")


def configure(level: str, log_format: str, stream: TextIO | None = None) -> None:
    """Log at `level` (other libraries: warnings) in `log_format`, `text` or `json`."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(level),
    )
    target = stream or sys.stdout
    formatter = structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_renderers(log_format, target)],
    )
    handler = logging.StreamHandler(target)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("elastic_transport").setLevel(logging.ERROR)  # services.elastic says it better
    for name in OURS:
        logging.getLogger(name).setLevel(level.upper())
    # When the supervisor is killed our output has nowhere to go; that must not end what is under way.
    logging.raiseExceptions = False


def _renderers(log_format: str, stream: TextIO) -> list[Processor]:
    if log_format == "json":
        return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer(ensure_ascii=False)]
    plain = structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=0
    )
    return [plain]
