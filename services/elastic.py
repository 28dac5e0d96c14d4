"""Elasticsearch, as the rest of the program sees it. The only user of its client.

Searches and analyses go in as JSON and come out as JSON, to be built and read by services/search; documents go in by
`bulk`, which says of each one what became of it. The client's errors become SearchUnavailable (ask again later) or
SearchRefused (asking again does not help).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from elastic_transport import ConnectionTimeout, SerializationError, TransportError
from elastic_transport.client_utils import DEFAULT
from elasticsearch import ApiError, Elasticsearch

from services import metrics
from services.config import Settings, has_secret, kept_port, kept_secret
from services.errors import SearchRefused, SearchUnavailable

MAPPINGS = Path(__file__).parents[1] / "es-mappings"
SEARCH_TIMEOUT_S = 20.0
HEALTH_TIMEOUT_S = 5.0
WRITE_TIMEOUT_S = 120.0
"""A bulk of long documents under load; far more than it ever took."""
MAX_REASON_CHARS = 500
TRY_LATER = frozenset((408, 429, 502, 503, 504))


class ElasticUser(StrEnum):
    """The stack's users; another cluster (ELASTICSEARCH_URL) may have one for all. Roles: services/accounts.py."""

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
    url, secret = settings.elasticsearch_url, f"elasticsearch_{user}"
    if not url:
        url = f"http://127.0.0.1:{kept_port(settings, 'node')}"
        return Credentials(url, user.value, kept_secret(settings, secret))
    if not settings.elasticsearch_user and has_secret(settings, secret):
        return Credentials(url, user.value, kept_secret(settings, secret), settings.elasticsearch_ca)
    password = settings.elasticsearch_password.get_secret_value()
    return Credentials(url, settings.elasticsearch_user, password, settings.elasticsearch_ca)


def any_credentials(settings: Settings) -> Credentials:
    """Those of some user that this process may be: one of its services may hold the password of one user alone."""
    held = [user for user in ElasticUser if has_secret(settings, f"elasticsearch_{user}")]
    return credentials(settings, held[0] if held else ElasticUser.READER)


class IndexName(StrEnum):
    """The aliases of the stack, without its prefix. Each has its settings and mappings in es-mappings/."""

    PAGES = "pages"
    CRAWL_LOG = "crawl-log"
    QUERIES = "queries"


LOGS = frozenset((IndexName.CRAWL_LOG, IndexName.QUERIES))
"""Kept in an index a month (`crawl-log-2026.11`): the alias reads all of them, and writes to the newest."""


class BulkOutcome(StrEnum):
    """What became of one document of a bulk."""

    INDEXED = "indexed"
    SUPERSEDED = "superseded"
    """A newer version is there already: nothing to do."""
    REFUSED = "refused"
    """Never to be tried again as it is."""
    RETRY = "retry"
    """Too busy, or no answer: to be tried again, later."""
    BLOCKED = "blocked"
    """Elasticsearch takes no documents at all for now (its disk is nearly full)."""


@dataclass(frozen=True, slots=True)
class BulkDocument:
    """A document to index, or (source None) the id of one to delete.

    The greater version wins; the same one may be written again (external_gte), since an indexer that was killed
    before it could note its success does so.
    """

    document_id: str
    version: int
    source: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of the document of that id, and why if it is not in."""

    document_id: str
    outcome: BulkOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """An entry for a log. One that comes twice with the same id is kept once."""

    entry_id: str
    source: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Token:
    """A term of an analyzed text; offsets in UTF-16 units."""

    text: str
    start: int
    end: int
    position: int


class Elastic:
    """One client: one user, one index prefix. Safe to share between threads."""

    def __init__(self, credentials: Credentials, prefix: str) -> None:
        self.prefix = prefix
        self._client = Elasticsearch(
            credentials.url,
            basic_auth=(credentials.user, credentials.password) if credentials.user else None,
            ca_certs=str(credentials.ca) if credentials.ca else DEFAULT,
            request_timeout=SEARCH_TIMEOUT_S,
            max_retries=0,
            retry_on_timeout=False,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.close()

    def alias(self, name: IndexName) -> str:
        """The alias as Elasticsearch knows it."""
        return f"{self.prefix}{name}"

    def ensure_indices(self, names: Iterable[IndexName] = tuple(IndexName), now: datetime | None = None) -> None:
        """Make the indices that are not there yet, those of this month for the logs; several may do so at once."""
        for name in names:
            if name in LOGS:
                self._ensure_month(name, now or datetime.now(UTC))
            else:
                self._ensure_index(name)

    def expire_logs(self, keep_months: int, now: datetime) -> tuple[str, ...]:
        """Delete the logs of months that ended more than `keep_months` ago; their indices' names."""
        oldest_kept = now.year * 12 + now.month - keep_months
        with _translated():
            found = [index for name in LOGS for index in self._client.indices.get(index=f"{self.alias(name)}-*")]
            expired = sorted(index for index in found if (month := _month(index)) and month < oldest_kept)
            for index in expired:
                self._client.options(ignore_status=404).indices.delete(index=index)
        return tuple(expired)

    def delete_indices(self, names: Iterable[IndexName] = tuple(IndexName)) -> None:
        """Delete indices and all that is in them."""
        with _translated():
            for name in names:
                for index in self._client.indices.get(index=self.alias(name), ignore_unavailable=True):
                    self._client.indices.delete(index=index)

    def search(self, body: Mapping[str, Any], name: IndexName = IndexName.PAGES) -> dict[str, Any]:
        """The answer to a search; an index that is not there has no hits."""
        with metrics.SEARCH_SECONDS.time(), _translated():
            answer = self._client.search(index=self.alias(name), ignore_unavailable=True, **body)
        return dict(answer)

    def count(self, query: Mapping[str, Any] | None = None, name: IndexName = IndexName.PAGES) -> int:
        """How many documents match (all of them without a query)."""
        with _translated():
            answer = self._client.count(index=self.alias(name), query=query, ignore_unavailable=True)
        return int(answer["count"])

    def analyze(self, text: str, analyzer: str, name: IndexName = IndexName.PAGES) -> tuple[Token, ...]:
        """The terms of a text by an analyzer of an index."""
        with _translated():
            answer = self._client.indices.analyze(index=self.alias(name), analyzer=analyzer, text=text)
        return _tokens(answer["tokens"])

    def tokenize(self, text: str, tokenizer: str | Mapping[str, Any]) -> tuple[Token, ...]:
        """The raw output of a tokenizer of the cluster, no index needed."""
        with _translated():
            answer = self._client.indices.analyze(tokenizer=tokenizer, text=text)
        return _tokens(answer["tokens"])

    def refresh(self, name: IndexName = IndexName.PAGES) -> None:
        """Make all that is indexed visible to searches."""
        with _translated():
            self._client.indices.refresh(index=self.alias(name), ignore_unavailable=True)

    def bulk(self, documents: Sequence[BulkDocument], name: IndexName = IndexName.PAGES) -> tuple[BulkResult, ...]:
        """Index or delete documents, each fenced by its version; one result for each, in order. Never raises for one.

        A bulk that got no answer is RETRY for all: doing it twice does no harm, since versions are external.
        """
        if not documents:
            return ()
        ids = [document.document_id for document in documents]
        operations = [part for document in documents for part in _operation(document)]
        try:
            client = self._client.options(request_timeout=WRITE_TIMEOUT_S)
            with metrics.BULK_SECONDS.time():
                answer = client.bulk(index=self.alias(name), operations=operations, require_alias=True)
        except SerializationError as exc:
            return _same_for_all(ids, BulkOutcome.REFUSED, str(exc))
        except TransportError as exc:
            return _same_for_all(ids, BulkOutcome.RETRY, f"no answer from Elasticsearch ({exc.message})")
        except ApiError as exc:
            outcome = _outcome(exc.status_code, _error_type(exc.body))
            if outcome is BulkOutcome.REFUSED and len(documents) > 1:
                return tuple(result for document in documents for result in self.bulk([document], name))
            return _same_for_all(ids, outcome, _reason(exc))
        return tuple(_result(item) for item in answer["items"])

    def versions(self, document_ids: Iterable[str], name: IndexName = IndexName.PAGES) -> dict[str, int]:
        """The versions of those of the documents that are there."""
        with _translated():
            answer = self._client.mget(index=self.alias(name), ids=list(document_ids), source=False)
        return {found["_id"]: int(found["_version"]) for found in answer["docs"] if found.get("found")}

    def append(self, entries: Sequence[LogEntry], name: IndexName) -> tuple[BulkResult, ...]:
        """Add entries to a log; one result for each, in order. Never raises for one, as `bulk` does not.

        Without an answer it is RETRY for all: doing it twice does no harm, since entries have ids.
        """
        if not entries:
            return ()
        ids = [entry.entry_id for entry in entries]
        operations = [part for entry in entries for part in ({"create": {"_id": entry.entry_id}}, entry.source)]
        try:
            answer = self._client.bulk(index=self.alias(name), operations=operations, require_alias=True)
        except SerializationError as exc:
            return _same_for_all(ids, BulkOutcome.REFUSED, str(exc))
        except TransportError as exc:
            return _same_for_all(ids, BulkOutcome.RETRY, f"no answer from Elasticsearch ({exc.message})")
        except ApiError as exc:
            outcome = _outcome(exc.status_code, _error_type(exc.body))
            if outcome is BulkOutcome.REFUSED and len(entries) > 1:
                return tuple(result for entry in entries for result in self.append([entry], name))
            return _same_for_all(ids, outcome, _reason(exc))
        return tuple(_result(item) for item in answer["items"])

    def put_role(self, name: str, privileges: Mapping[str, Any]) -> None:
        """Make or change a role; `privileges` as the security API has them."""
        with _translated():
            self._client.security.put_role(name=name, **privileges)

    def put_user(self, name: str, password: str, roles: Sequence[str]) -> None:
        """Make or change a user."""
        with _translated():
            self._client.security.put_user(username=name, password=password, roles=list(roles))

    def set_password(self, name: str, password: str) -> None:
        """Change the password of a user that Elasticsearch has of its own."""
        with _translated():
            self._client.security.change_password(username=name, password=password)

    def node_versions(self) -> tuple[str, ...]:
        """The versions of the cluster's nodes, each once."""
        with _translated():
            client = self._client.options(request_timeout=HEALTH_TIMEOUT_S)
            answer = client.nodes.info(filter_path="nodes.*.version")
        return tuple(sorted({str(node["version"]) for node in answer["nodes"].values()}))

    def health(self) -> str:
        """The cluster's colour."""
        with _translated():
            return str(self._client.options(request_timeout=HEALTH_TIMEOUT_S).cluster.health()["status"])

    def _ensure_index(self, name: IndexName) -> None:
        alias = self.alias(name)
        with _translated():
            if self._client.indices.exists_alias(name=alias):
                return
        self._create(f"{alias}-000001", name, aliases={alias: {"is_write_index": True}})
        self._wait_until_ready(alias)

    def _ensure_month(self, name: IndexName, now: datetime) -> None:
        """See that the log of this month is there and is the one that is written to."""
        alias = self.alias(name)
        index = f"{alias}-{now:%Y.%m}"
        with _translated():
            if self._client.indices.exists_alias(name=alias, index=index):
                return
        self._create(index, name)
        with _translated():
            # At once, so that an entry that comes in between finds an index to go to.
            older = [other for other in self._client.indices.get(index=f"{alias}-*") if other != index]
            of_older = [{"add": {"index": other, "alias": alias, "is_write_index": False}} for other in older]
            newest = {"add": {"index": index, "alias": alias, "is_write_index": True}}
            self._client.indices.update_aliases(actions=[*of_older, newest])
        self._wait_until_ready(alias)

    def _create(self, index: str, name: IndexName, **more: Any) -> None:
        definition = json.loads((MAPPINGS / f"{name}.json").read_text("utf-8"))
        with _translated():
            try:
                self._client.indices.create(index=index, **definition, **more)
            except ApiError as exc:
                if _error_type(exc.body) != "resource_already_exists_exception":
                    raise

    def _wait_until_ready(self, alias: str) -> None:
        with _translated():
            health = self._client.options(request_timeout=WRITE_TIMEOUT_S).cluster.health(
                index=alias, wait_for_status="yellow", timeout="60s"
            )
        if health["timed_out"]:
            raise SearchUnavailable(f"the index {alias} did not become ready within a minute")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ConnectionTimeout as exc:
        raise SearchUnavailable("Elasticsearch did not answer in time; it may be overloaded") from exc
    except SerializationError as exc:
        raise SearchRefused(f"Elasticsearch was asked something that is no JSON: {exc}") from exc
    except TransportError as exc:
        raise SearchUnavailable("Elasticsearch cannot be reached; is the stack running?") from exc
    except ApiError as exc:
        if exc.status_code in TRY_LATER or _error_type(exc.body) == "no_shard_available_action_exception":
            raise SearchUnavailable(f"Elasticsearch is busy or starting: {_reason(exc)}") from exc
        raise SearchRefused(f"Elasticsearch refused a request: {_reason(exc)}") from exc


def _operation(document: BulkDocument) -> Iterator[Mapping[str, Any]]:
    fence = {"_id": document.document_id, "version": document.version, "version_type": "external_gte"}
    if document.source is None:
        yield {"delete": fence}
    else:
        yield {"index": fence}
        yield document.source


def _result(item: Mapping[str, Any]) -> BulkResult:
    (action,) = item.values()
    error = action.get("error") or {}
    status = action["status"]
    if status < 300 or (status == 404 and not error):  # A delete of what is not there is done.
        return BulkResult(action["_id"], BulkOutcome.INDEXED)
    outcome = _outcome(status, error.get("type", ""))
    return BulkResult(action["_id"], outcome, _cause(error)[:MAX_REASON_CHARS])


def _outcome(status: int, error_type: str) -> BulkOutcome:
    if error_type == "version_conflict_engine_exception":
        return BulkOutcome.SUPERSEDED
    if error_type in ("cluster_block_exception", "index_closed_exception"):
        return BulkOutcome.BLOCKED
    if status in TRY_LATER or status in (401, 403, 404, 500):
        return BulkOutcome.RETRY  # Not the document's fault: roles, an alias that is being swapped, a failing node.
    return BulkOutcome.REFUSED


def _same_for_all(ids: Iterable[str], outcome: BulkOutcome, reason: str) -> tuple[BulkResult, ...]:
    return tuple(BulkResult(document_id, outcome, reason[:MAX_REASON_CHARS]) for document_id in ids)


def _month(index: str) -> int | None:
    """The month of a log's index, counted from year 0; None of others."""
    match = re.search(r"-(\d{4})\.(\d{2})$", index)
    return int(match[1]) * 12 + int(match[2]) if match else None


def _error_type(body: Any) -> str:
    error = body.get("error") if isinstance(body, dict) else None
    return str(error.get("type", "")) if isinstance(error, dict) else ""


def _reason(exc: ApiError) -> str:
    error = exc.body.get("error") if isinstance(exc.body, dict) else None
    return (_cause(error) if isinstance(error, dict) else exc.message)[:MAX_REASON_CHARS]


def _cause(error: Mapping[str, Any]) -> str:
    """The reason of an error and the innermost cause that adds to it."""
    reasons = [str(error.get("reason", error.get("type", "")))]
    cause = error.get("caused_by") or next(iter(error.get("root_cause") or ()), None)
    while isinstance(cause, dict):
        reasons.append(str(cause.get("reason", "")))
        cause = cause.get("caused_by")
    return ": ".join(dict.fromkeys((reasons[0], reasons[-1])))


def _tokens(tokens: Iterable[Mapping[str, Any]]) -> tuple[Token, ...]:
    return tuple(
        Token(token["token"], token["start_offset"], token["end_offset"], token["position"]) for token in tokens
    )
