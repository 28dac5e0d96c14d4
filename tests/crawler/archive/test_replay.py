"""pywb, the replay server that most WARC files are read with, in a virtual environment of its own.

Its dependencies would break brotli in ours. It is made once a checkout, under `.cache/pywb`.
"""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from filelock import FileLock

from crawler.records import IndexState
from tests.crawler.archive.shelf import Shelf, make_page

PYWB = "pywb==2.10.0"
CHECKOUT = Path(__file__).resolve().parents[3]
START_S = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def pywb() -> Path:
    """The folder of pywb's programs."""
    home = CHECKOUT / ".cache" / "pywb"
    home.parent.mkdir(exist_ok=True)
    with FileLock(home.with_suffix(".lock")):
        if not (home / "bin" / "wayback").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(home)], check=True)
            subprocess.run([str(home / "bin" / "pip"), "install", "--quiet", PYWB], check=True)
    return home / "bin"


@contextmanager
def _replaying(pywb: Path, folder: Path, files: list[Path]) -> Iterator[str]:
    """A collection of the files, served on loopback; gives its address."""
    manager = str(pywb / "wb-manager")
    subprocess.run([manager, "init", "pages"], cwd=folder, check=True, capture_output=True)
    subprocess.run([manager, "add", "pages", *map(str, files)], cwd=folder, check=True, capture_output=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    log = (folder / "log").open("wb")
    server = subprocess.Popen(
        [str(pywb / "wayback"), "--bind", "127.0.0.1", "--port", str(port)], cwd=folder, stdout=log, stderr=log
    )
    try:
        _wait_for(server, port, folder / "log")
        yield f"http://127.0.0.1:{port}/pages"
    finally:
        server.terminate()
        server.wait(timeout=20)
        log.close()


def _wait_for(server: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"pywb did not start: {log.read_text()}")


def _get(address: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_pywb_replays_what_we_archive(pywb: Path, shelf: Shelf, tmp_path: Path) -> None:
    page = "<html><body><p>闸门维护。</p></body></html>".encode("gb18030")
    html = ("Content-Type", "text/html; charset=gb2312")
    chunked, packed = ("Transfer-Encoding", "chunked"), ("Content-Encoding", "gzip")
    shelf.keep(make_page("http://h.example/plain", page + b"1", headers=(html, chunked)))
    shelf.keep(make_page("http://h.example/packed", gzip.compress(page + b"2"), headers=(html, chunked, packed)))
    shelf.keep(make_page("http://h.example/cut", page + b"3", headers=(html, ("Content-Length", "99999"))))
    shelf.keep(make_page("http://h.example/h2", page + b"4", headers=(html,), protocol="HTTP/2"))
    first = shelf.keep(make_page("http://h.example/first", page, headers=(html,)))
    second = shelf.keep(make_page("http://h.example/second", page, headers=(html,)), first.capture_id)
    again = shelf.keep(
        make_page("http://h.example/first", b"", status=304, headers=()), first.capture_id, IndexState.SKIPPED
    )
    shelf.writer.close()
    folder = tmp_path / "replay"
    folder.mkdir()
    with _replaying(pywb, folder, shelf.files()) as address:
        for name, end in (("plain", b"1"), ("packed", b"2"), ("cut", b"3"), ("h2", b"4")):
            assert _get(f"{address}/2026id_/http://h.example/{name}") == (200, page + end)
        for capture in (first, second, again):
            when = f"{capture.captured_at:%Y%m%d%H%M%S}"
            assert _get(f"{address}/{when}id_/{capture.url}") == (200, page)
        status, replayed = _get(f"{address}/2026mp_/http://h.example/packed")
        assert status == 200 and "闸门维护".encode("gb18030") in replayed
        assert _get(f"{address}/2026id_/http://h.example/none")[0] == 404
