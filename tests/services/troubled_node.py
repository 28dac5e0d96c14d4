"""The real node behind a proxy that lets single documents, or whole requests, fail as an unwell node lets them fail.

What no test may do to a node that others use (fill its disk, overrun its queues, stop it between two questions) is
answered by the proxy, in the words of the real one; everything else is the real node's own answer.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from services.elastic import Credentials

_PASSED_ON = ("Authorization", "Content-Type", "Accept")


@dataclass(frozen=True)
class Sent:
    """One operation of a bulk, as it came."""

    document_id: str
    version: int
    source: Mapping[str, Any] | None


@dataclass(frozen=True)
class Trouble:
    """What the node says of one operation."""

    status: int
    type: str
    reason: str


BUSY = Trouble(429, "es_rejected_execution_exception", "queue full")
BLOCKED = Trouble(429, "cluster_block_exception", "disk usage exceeded flood-stage watermark")
CONFLICT = Trouble(409, "version_conflict_engine_exception", "conflict")
REFUSED = Trouble(400, "document_parsing_exception", "failed to parse field [published_at]")

Tell = Callable[[Sent], Trouble | None]


def no_trouble(_sent: Sent) -> None:
    return None


class TroubledNode:
    """The proxy. `tell` decides of each operation, `is_away` of each path; `bulks` are all that came."""

    def __init__(self, node: Credentials) -> None:
        self.tell: Tell = no_trouble
        self.is_away: Callable[[str], bool] = lambda _path: False
        self.bulks: list[list[Sent]] = []
        self._node = node
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def credentials(self) -> Credentials:
        return replace(self._node, url=f"http://127.0.0.1:{self._server.server_port}")

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        if self.is_away(path):
            return 503, "application/json", b'{"error": {"type": "unavailable", "reason": "away"}, "status": 503}'
        if not path.partition("?")[0].endswith("/_bulk"):
            return self._ask(method, path, headers, body)
        sent = _operations(body)
        self.bulks.append([operation for operation, _ in sent])
        troubles = [self.tell(operation) for operation, _ in sent]
        passed = b"".join(lines for (_, lines), trouble in zip(sent, troubles, strict=True) if trouble is None)
        items = []
        if passed:
            status, kind, content = self._ask(method, path, headers, passed)
            if status != 200:
                return status, kind, content
            items = json.loads(content)["items"]
        answered = iter(items)
        merged = [
            next(answered) if trouble is None else _item(operation, trouble)
            for (operation, _), trouble in zip(sent, troubles, strict=True)
        ]
        content = json.dumps({"took": 1, "errors": any(troubles), "items": merged}).encode()
        return 200, "application/vnd.elasticsearch+json;compatible-with=9", content

    def _ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, str, bytes]:
        request = urllib.request.Request(self._node.url + path, body or None, dict(headers), method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers.get("Content-Type", ""), answer.read()
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code, exc.headers.get("Content-Type", ""), exc.read()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        troubled = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
                status, kind, content = troubled.answer(self.command, self.path, headers, body)
                self.send_response(status)
                self.send_header("X-Elastic-Product", "Elasticsearch")
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = _serve  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _operations(body: bytes) -> list[tuple[Sent, bytes]]:
    """Each operation of a bulk, and its lines."""
    lines = iter(body.splitlines(keepends=True))
    found = []
    for line in lines:
        ((action, fence),) = json.loads(line).items()
        document = next(lines) if action == "index" else b""
        sent = Sent(fence["_id"], fence["version"], json.loads(document) if document else None)
        found.append((sent, line + document))
    return found


def _item(sent: Sent, trouble: Trouble) -> dict[str, Any]:
    error = {"type": trouble.type, "reason": trouble.reason}
    action = "delete" if sent.source is None else "index"
    return {action: {"_index": "pages", "_id": sent.document_id, "status": trouble.status, "error": error}}
