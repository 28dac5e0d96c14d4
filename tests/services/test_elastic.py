"""The client: indices made once, bulks with an answer for each document, errors in our words."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from services.config import Settings
from services.elastic import (
    LOGS,
    BulkDocument,
    BulkOutcome,
    Credentials,
    Elastic,
    ElasticUser,
    IndexName,
    LogEntry,
    credentials,
)
from services.errors import SearchRefused, SearchUnavailable

CASES = Path(__file__).parent / "cases"
Answer = Callable[[str, bytes], tuple[int, Any]]


@contextmanager
def played_node(answer: Answer) -> Iterator[Elastic]:
    """A node that answers as it is told: the states of a cluster that a test cannot bring about."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, content = answer(self.path, body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("X-Elastic-Product", "Elasticsearch")
            self.send_header("Content-Type", "application/vnd.elasticsearch+json;compatible-with=9")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_HEAD = do_POST  # noqa: N815

        def log_message(self, *_args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with Elastic(Credentials(f"http://127.0.0.1:{server.server_port}", "", ""), "t-") as elastic:
            yield elastic
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def documents(*ids: str) -> list[BulkDocument]:
    return [BulkDocument(document_id, 1, {"title": document_id}) for document_id in ids]


def outcomes(results: Any) -> list[tuple[str, BulkOutcome]]:
    return [(result.document_id, result.outcome) for result in results]


def test_each_document_of_a_bulk_has_its_own_outcome():
    first, second = json.loads((CASES / "c47_bulk_answers.json").read_text("utf-8"))
    answers = iter((first, second))
    with played_node(lambda _path, _body: (200, next(answers))) as elastic:
        results = elastic.bulk(documents("d1", "d2", "d3"))
        assert outcomes(results) == [
            ("d1", BulkOutcome.INDEXED),
            ("d2", BulkOutcome.RETRY),
            ("d3", BulkOutcome.REFUSED),
        ]
        assert results[2].reason == "failed to parse field [published]"
        (blocked,) = elastic.bulk(documents("d2"))
        assert blocked.outcome is BulkOutcome.BLOCKED
        assert "disk usage exceeded flood-stage watermark" in (blocked.reason or "")


@pytest.mark.parametrize(
    ("status", "error", "outcome"),
    [
        (429, "es_rejected_execution_exception", BulkOutcome.RETRY),
        (503, "unavailable_shards_exception", BulkOutcome.RETRY),
        (403, "security_exception", BulkOutcome.RETRY),
        (403, "cluster_block_exception", BulkOutcome.BLOCKED),
        (409, "version_conflict_engine_exception", BulkOutcome.SUPERSEDED),
        (400, "document_parsing_exception", BulkOutcome.REFUSED),
    ],
)
def test_a_bulk_that_fails_as_a_whole_is_the_outcome_of_each(status, error, outcome):
    body = {"error": {"type": error, "reason": "why"}, "status": status}
    with played_node(lambda _path, _body: (status, body)) as elastic:
        assert outcomes(elastic.bulk(documents("a", "b"))) == [("a", outcome), ("b", outcome)]


def test_one_document_that_spoils_a_bulk_costs_only_itself():
    def answer(_path: str, body: bytes) -> tuple[int, Any]:
        if b'"bad"' in body:
            return 400, {"error": {"type": "x_content_parse_exception", "reason": "no JSON"}}
        ids = [json.loads(line)["index"]["_id"] for line in body.splitlines()[::2]]
        return 200, {"errors": False, "items": [{"index": {"_id": name, "status": 201}} for name in ids]}

    with played_node(answer) as elastic:
        results = outcomes(elastic.bulk(documents("a", "bad", "c")))
    assert results == [("a", BulkOutcome.INDEXED), ("bad", BulkOutcome.REFUSED), ("c", BulkOutcome.INDEXED)]


def test_a_node_that_is_not_there_is_said_in_a_sentence():
    with Elastic(Credentials("http://127.0.0.1:9", "", ""), "t-") as elastic:
        with pytest.raises(SearchUnavailable, match="cannot be reached; is the stack running"):
            elastic.search({"query": {"match_all": {}}})
        assert outcomes(elastic.bulk(documents("a"))) == [("a", BulkOutcome.RETRY)]


@pytest.mark.parametrize(
    ("status", "error"), [(429, SearchUnavailable), (503, SearchUnavailable), (400, SearchRefused)]
)
def test_errors_of_a_search_are_told_apart(status, error):
    body = {"error": {"type": "x", "reason": "outer", "caused_by": {"reason": "inner"}}, "status": status}
    with played_node(lambda _path, _body: (status, body)) as elastic, pytest.raises(error, match="outer: inner"):
        elastic.search({"query": {"match_all": {}}})


@pytest.fixture
def writer(node_settings: Settings) -> Iterator[Elastic]:
    with Elastic(credentials(node_settings, ElasticUser.WRITER), node_settings.index_prefix) as elastic:
        yield elastic


@pytest.mark.node
def test_several_processes_may_make_the_indices_at_once(writer):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: writer.ensure_indices(), range(4)))
    writer.ensure_indices()
    assert [writer.count(name=name) for name in IndexName] == [0, 0, 0]


@pytest.mark.node
def test_the_newer_version_wins_and_an_odd_document_is_refused(writer):
    writer.ensure_indices([IndexName.PAGES])
    assert outcomes(writer.bulk([BulkDocument("a", 2 << 20, {"title": "新"})])) == [("a", BulkOutcome.INDEXED)]
    late, odd, gone = writer.bulk(
        [
            BulkDocument("a", 1 << 20, {"title": "旧"}),
            BulkDocument("b", 1, {"colour": "red"}),
            BulkDocument("c", 1, None),
        ]
    )
    assert late.outcome is BulkOutcome.SUPERSEDED
    assert odd.outcome is BulkOutcome.REFUSED and "colour" in (odd.reason or "")
    assert gone.outcome is BulkOutcome.INDEXED  # to delete what is not there is done
    assert outcomes(writer.bulk([BulkDocument("a", 2 << 20, {"title": "新新"})])) == [("a", BulkOutcome.INDEXED)]
    assert writer.versions(["a", "b"]) == {"a": 2 << 20}
    writer.bulk([BulkDocument("a", 3 << 20, None)])
    writer.refresh()
    assert writer.count() == 0


@pytest.mark.node
def test_a_lone_surrogate_costs_only_its_document(writer):
    writer.ensure_indices([IndexName.PAGES])
    good, bad = writer.bulk([BulkDocument("a", 1, {"title": "好"}), BulkDocument("b", 1, {"title": "\ud800"})])
    assert good.outcome is BulkOutcome.INDEXED
    assert bad.outcome in (BulkOutcome.REFUSED, BulkOutcome.INDEXED)


@pytest.mark.node
def test_an_index_that_is_not_there_has_no_hits(node_settings):
    with Elastic(credentials(node_settings, ElasticUser.READER), f"{node_settings.index_prefix}no-") as reader:
        assert reader.search({"query": {"match_all": {}}})["hits"]["total"]["value"] == 0
        assert reader.count() == 0


@pytest.mark.node
def test_the_reader_reads_and_the_appender_appends(node_settings, writer):
    writer.ensure_indices()
    prefix = node_settings.index_prefix
    with Elastic(credentials(node_settings, ElasticUser.READER), prefix) as reader:
        assert [token.text for token in reader.analyze("地下水位监测站", "words_search")] == ["地下水位", "监测站"]
        assert [token.text for token in reader.tokenize("监测站", "jieba_index")] == ["监测", "监测站", "测站"]
        assert outcomes(reader.bulk(documents("a"))) == [("a", BulkOutcome.RETRY)]
    with Elastic(credentials(node_settings, ElasticUser.APPENDER), prefix) as appender:
        entry = LogEntry("1", {"at": "2026-01-20T03:00:00Z", "text": "水库"})
        assert outcomes(appender.append([entry], IndexName.QUERIES)) == [("1", BulkOutcome.INDEXED)]
        assert outcomes(appender.append([entry], IndexName.QUERIES)) == [("1", BulkOutcome.SUPERSEDED)]
        assert outcomes(appender.append([entry], IndexName.PAGES)) == [("1", BulkOutcome.RETRY)]
    writer.refresh(IndexName.QUERIES)
    assert writer.count(name=IndexName.QUERIES) == 1


@pytest.mark.node
def test_a_new_month_begins_a_new_index_and_the_alias_reads_all_of_them(node_settings, writer):
    for month, entry_id in ((11, "old"), (12, "new")):
        now = datetime(2026, month, 30, 23, 0, tzinfo=UTC)
        writer.ensure_indices([IndexName.CRAWL_LOG], now)
        writer.ensure_indices([IndexName.CRAWL_LOG], now)
        writer.append([LogEntry(entry_id, {"event": "visit"})], IndexName.CRAWL_LOG)
    writer.refresh(IndexName.CRAWL_LOG)
    found = writer.search({"query": {"match_all": {}}}, IndexName.CRAWL_LOG)["hits"]["hits"]
    prefix = f"{node_settings.index_prefix}crawl-log-"
    assert {hit["_id"]: hit["_index"] for hit in found} == {"old": f"{prefix}2026.11", "new": f"{prefix}2026.12"}


@pytest.mark.node
def test_logs_older_than_wanted_are_deleted_and_nothing_else(node_settings, writer):
    writer.ensure_indices([IndexName.PAGES])
    for year, month in ((2025, 9), (2025, 10), (2025, 11), (2026, 1)):
        writer.ensure_indices(LOGS, datetime(year, month, 1, tzinfo=UTC))
    now = datetime(2026, 1, 1, tzinfo=UTC)
    expired = writer.expire_logs(2, now)
    assert [name.removeprefix(node_settings.index_prefix) for name in expired] == [
        *("crawl-log-2025.09", "crawl-log-2025.10", "queries-2025.09", "queries-2025.10")
    ]
    assert writer.expire_logs(2, now) == ()
    assert writer.expire_logs(1, now) != ()
    assert [writer.count(name=name) for name in IndexName] == [0, 0, 0]
    results = writer.append([LogEntry("1", {})], IndexName.QUERIES)
    assert outcomes(results) == [("1", BulkOutcome.INDEXED)]


@pytest.mark.node
def test_an_entry_that_is_no_json_costs_only_itself(writer):
    writer.ensure_indices([IndexName.QUERIES])
    entries = [LogEntry("a", {"text": "好"}), LogEntry("b", {"at": "no time"}), LogEntry("c", {"text": "也好"})]
    told = dict(outcomes(writer.append(entries, IndexName.QUERIES)))
    assert told == {"a": BulkOutcome.INDEXED, "b": BulkOutcome.REFUSED, "c": BulkOutcome.INDEXED}
