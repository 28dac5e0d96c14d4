"""Log lines as text and as JSON."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from services import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    handlers = logging.getLogger().handlers[:]
    yield io.StringIO()
    logging.getLogger().handlers[:] = handlers
    structlog.reset_defaults()


def test_json_lines_hold_the_fields_and_the_traceback(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    try:
        raise ValueError("wrong")
    except ValueError:
        structlog.get_logger("services.x").exception("page lost", url="http://x.example/茶")
    entry = json.loads(stream.getvalue())
    assert (entry["event"], entry["url"], entry["level"]) == ("page lost", "http://x.example/茶", "error")
    assert "ValueError: wrong" in entry["exception"]
    assert entry["timestamp"].endswith("Z")


def test_text_lines_are_plain(stream: io.StringIO) -> None:
    logs.configure("info", "text", stream)
    structlog.get_logger("services.x").info("run begins", run=3)
    assert "run begins run=3" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_below_the_level_nothing_is_logged_and_libraries_only_warn(stream: io.StringIO) -> None:
    logs.configure("warning", "text", stream)
    structlog.get_logger("services.x").info("quiet")
    assert stream.getvalue() == ""
    logs.configure("debug", "text", stream)
    logging.getLogger("some.library").info("chatter")
    logging.getLogger("some.library").warning("trouble")
    structlog.get_logger("services.x").debug("detail")
    assert "chatter" not in stream.getvalue()
    assert "trouble" in stream.getvalue()
    assert "detail" in stream.getvalue()


def test_what_is_bound_around_a_unit_of_work_is_in_every_line_of_it(stream: io.StringIO) -> None:
    logs.configure("info", "json", stream)
    with structlog.contextvars.bound_contextvars(run=7, url="http://x.example/"):
        structlog.get_logger("crawler.robots").info("robots.txt cannot be read", host="x.example")
    structlog.get_logger("crawler.crawl").info("run ends")
    first, last = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["run"], first["url"], first["host"]) == (7, "http://x.example/", "x.example")
    assert "run" not in last
