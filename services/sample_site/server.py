"""The sample site's web server: the files of pages/ over HTTP.

In: a port, and a host that is loopback unless told otherwise. Out: GET and HEAD of the files with validators
(RFC 9110), redirects of old addresses, 404 for all else. Files are read at each request, so an edited page shows at
once.

Two files name the site's own address, which is known only when a request comes: in them `{origin}` is filled in.
"""

import argparse
import hashlib
import logging
import re
import signal
import socketserver
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import unquote, urlsplit

PAGES = Path(__file__).resolve().parent / "pages"
NOT_FOUND_PAGE = PAGES.parent / "not_found.html"

REDIRECTS = {"/tea/longjing.html": "/varieties/longjing.html"}
FILES_NAMING_THE_ORIGIN = frozenset({PAGES / "robots.txt", PAGES / "sitemap.xml"})

CONTENT_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
    ".xml": "application/xml",
}
HOST_HEADER = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resource:
    """What a GET answers: the bytes and the headers that describe them."""

    body: bytes
    content_type: str
    etag: str
    modified_at: datetime


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve from the command line; a port that cannot be had is one sentence and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m services.sample_site.server", description="Serve the sample site.")
    parser.add_argument("--port", type=_port_number, required=True, help="TCP port; 0 takes a free one")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        serve(options.port, options.host)
    except OSError as exc:
        sys.exit(f"the sample site cannot listen on {options.host}:{options.port}: {exc.strerror or exc}")


def serve(port: int, host: str = "127.0.0.1") -> None:
    """Serve until SIGTERM or SIGINT, from the main thread (others cannot handle signals); OSError if it cannot bind."""
    with open_server(port, host) as server:

        def stop(_signal: int, _frame: FrameType | None) -> None:
            # shutdown() waits for serve_forever(), which this very thread is running.
            threading.Thread(target=server.shutdown).start()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        print(f"sample site: http://{host}:{server.server_port}/", flush=True)
        server.serve_forever(poll_interval=0.2)


def open_server(port: int, host: str = "127.0.0.1") -> "SampleServer":
    """A bound server (port 0: a free port, see its server_port) whose serve_forever() the caller runs."""
    return SampleServer((host, port), SampleHandler)


def find_redirect(url_path: str) -> str | None:
    """Where an old address, or a folder named without its slash, has gone."""
    if url_path in REDIRECTS:
        return REDIRECTS[url_path]
    if not url_path or url_path.endswith("/"):
        return None
    folder = url_path + "/"
    return folder if find_file(folder) is not None else None


def find_file(url_path: str) -> Path | None:
    """The file of pages/ that a URL path names; a folder stands for its index.html. None for anything outside."""
    root, *segments = unquote(url_path).split("/")
    if root or not segments or {"", ".", ".."}.intersection(segments[:-1]):
        return None
    file = PAGES.joinpath(*segments[:-1], segments[-1] or "index.html")
    try:
        is_ours = file.resolve().is_relative_to(PAGES) and file.is_file()
    except (OSError, ValueError):  # A name that is too long, or holds a NUL.
        return None
    return file if is_ours else None


def read_resource(file: Path, origin: str) -> Resource:
    """The file as it is served to someone who asked at `origin`, such as http://127.0.0.1:8000."""
    body = file.read_bytes()
    if file in FILES_NAMING_THE_ORIGIN:
        body = body.replace(b"{origin}", origin.encode("ascii"))
    return Resource(
        body=body,
        content_type=content_type_of(file.suffix, body),
        etag=f'"{hashlib.sha256(body).hexdigest()[:32]}"',
        modified_at=datetime.fromtimestamp(int(file.stat().st_mtime), UTC),
    )


def content_type_of(suffix: str, body: bytes) -> str:
    """The media type; text in UTF-8 says so, and pages in an older charset leave the word to their own meta element."""
    media_type = CONTENT_TYPES.get(suffix, "application/octet-stream")
    if not media_type.startswith("text/"):
        return media_type
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return media_type
    return f"{media_type}; charset=utf-8"


def is_unchanged(resource: Resource, if_none_match: str | None, if_modified_since: str | None) -> bool:
    """Whether the client's copy is still good (RFC 9110, 13.2.2: a date counts only where there is no tag)."""
    if if_none_match is not None:
        tags = [tag.strip().removeprefix("W/") for tag in if_none_match.split(",")]
        return resource.etag in tags or tags == ["*"]
    if if_modified_since is None:
        return False
    try:
        since = parsedate_to_datetime(if_modified_since)
    except ValueError:
        return False
    return resource.modified_at <= (since if since.tzinfo else since.replace(tzinfo=UTC))


class SampleServer(ThreadingHTTPServer):
    """One thread a connection; none of them outlives the process."""

    daemon_threads = True
    request_queue_size = 64

    def server_bind(self) -> None:
        # HTTPServer would look up the host's full name, which takes seconds where there is no name server.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        log.debug("sample connection failed", exc_info=True)


class SampleHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD for the files of pages/."""

    server: SampleServer
    protocol_version = "HTTP/1.1"
    timeout = 30  # Seconds that an idle connection keeps its thread.
    wbufsize = 65536  # Headers and body leave together.

    def do_GET(self) -> None:
        try:
            url_path = urlsplit(self.path).path
        except ValueError:
            url_path = ""
        file = find_file(url_path)
        if file is not None:
            self._answer_file(file)
            return
        target = find_redirect(url_path)
        if target is not None:
            self._answer(HTTPStatus.MOVED_PERMANENTLY, {"Location": target})
            return
        missing = read_resource(NOT_FOUND_PAGE, self._origin())
        self._answer(HTTPStatus.NOT_FOUND, {"Content-Type": missing.content_type}, missing.body)

    def do_HEAD(self) -> None:
        self.do_GET()

    def version_string(self) -> str:
        return "plumbline-sample"

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("sample request", extra={"line": format % args})

    def _answer_file(self, file: Path) -> None:
        resource = read_resource(file, self._origin())
        validators = {
            "ETag": resource.etag,
            "Last-Modified": format_datetime(resource.modified_at, usegmt=True),
            "Cache-Control": "no-cache",
        }
        if is_unchanged(resource, self.headers["If-None-Match"], self.headers["If-Modified-Since"]):
            self._answer(HTTPStatus.NOT_MODIFIED, validators)
            return
        self._answer(HTTPStatus.OK, validators | {"Content-Type": resource.content_type}, resource.body)

    def _answer(self, status: HTTPStatus, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status is not HTTPStatus.NOT_MODIFIED:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _origin(self) -> str:
        host: str = self.headers["Host"] or ""
        if not HOST_HEADER.fullmatch(host):
            host = f"{self.server.server_name}:{self.server.server_port}"
        return f"http://{host}"


def _port_number(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"{port} is not between 0 and 65535")
    return port


if __name__ == "__main__":
    main()
