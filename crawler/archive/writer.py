"""Writing: pages are appended to a WARC file of one's own, and are safe once `sync` has returned.

Files are `YYYY/MM/<time>-<worker>-<n>.warc.gz` under the archive folder. Each is created anew by one writer, written
by it alone and never opened for writing again: what a crash leaves at the end of a file is never built upon.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from crawler.archive.warc import page_members, warcinfo_member
from crawler.errors import ArchiveError
from crawler.records import FetchedPage, Original, StoredRecords

MAX_FILE_BYTES: Final = 1_000_000_000
"""A file is closed when it has grown over this (WARC's own guidelines: 1 GB)."""


class WarcFile:
    """One new WARC file. After an ArchiveError all that was appended since the last `sync` is void."""

    def __init__(self, path: Path, created_at: datetime) -> None:
        """Create the file, which must not exist; its folder is made."""
        self.path = path
        try:
            self._new_folders = _make_folders(path.parent)
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        except OSError as exc:
            raise ArchiveError(f"cannot create {path}: {exc.strerror}") from exc
        self.size_bytes = self._synced_bytes = 0
        self._is_usable = True
        try:
            self.append(warcinfo_member(path.name, created_at))
        except ArchiveError:
            self.close()
            path.unlink(missing_ok=True)
            raise

    def append(self, members: bytes) -> int:
        """Write whole members at the end; returns their offset."""
        offset = self.size_bytes
        rest = memoryview(members)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError as exc:
            self._void()
            raise ArchiveError(f"cannot write to {self.path}: {exc.strerror}") from exc
        self.size_bytes += len(members)
        return offset

    def sync(self) -> None:
        """Put all on disk: the file, and the folders that are new with it."""
        if self._synced_bytes == self.size_bytes:
            return
        try:
            os.fsync(self._fd)
            for folder in self._new_folders:
                _sync_folder(folder)
        except OSError as exc:
            # What a failed fsync has dropped is not known, and a second one may succeed all the same.
            self._is_usable = False
            self._void()
            raise ArchiveError(f"cannot sync {self.path}: {exc.strerror}") from exc
        self._new_folders = ()
        self._synced_bytes = self.size_bytes

    def close(self) -> None:
        os.close(self._fd)

    @property
    def is_usable(self) -> bool:
        """Whether its end is a whole record, as far as is known."""
        return self._is_usable

    def _void(self) -> None:
        """Back to the last sync: the whole group will be appended again."""
        try:
            os.ftruncate(self._fd, self._synced_bytes)
            os.lseek(self._fd, self._synced_bytes, os.SEEK_SET)
        except OSError:
            self._is_usable = False
        self.size_bytes = self._synced_bytes
        if not self._synced_bytes:
            self._is_usable = False  # Not even its warcinfo record is there.


class ArchiveWriter:
    """One worker's way into the archive.

    `append` pages, then `sync` once for the group. After an ArchiveError from either the group is void: all pages
    since the last successful `sync` have to be appended again.
    """

    def __init__(
        self,
        folder: Path,
        worker: str,
        *,
        max_file_bytes: int = MAX_FILE_BYTES,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._folder = folder
        self._worker = re.sub(r"[^A-Za-z0-9.]+", "-", worker).strip("-") or "worker"
        self._max_file_bytes = max_file_bytes
        self._clock = clock
        self._files = 0
        self._file: WarcFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def append(self, page: FetchedPage, original: Original | None = None) -> StoredRecords:
        """Write a page's records; with an `original`, only a reference to its payload."""
        members = page_members(page, original)
        file = self._usable_file()
        offset = file.append(members.response + members.request + members.dom)
        dom_offset = offset + len(members.response) + len(members.request)
        return StoredRecords(
            warc_path=file.path.relative_to(self._folder).as_posix(),
            offset=offset,
            length=len(members.response),
            dom_offset=dom_offset if members.dom else None,
            dom_length=len(members.dom) or None,
        )

    def sync(self) -> None:
        """Put everything appended so far on disk."""
        if self._file is not None:
            self._file.sync()

    def close(self) -> None:
        """Sync and close the file; the next append begins a new one."""
        file, self._file = self._file, None
        if file is not None:
            try:
                file.sync()
            finally:
                file.close()

    def _usable_file(self) -> WarcFile:
        if self._file is not None and not self._file.is_usable:
            self._file.close()
            self._file = None
        if self._file is not None and self._file.size_bytes >= self._max_file_bytes:
            self.close()
        if self._file is None:
            self._file = WarcFile(self._new_path(), self._clock())
        return self._file

    def _new_path(self) -> Path:
        now = self._clock()
        self._files += 1
        name = f"{now:%Y%m%d%H%M%S%f}-{self._worker}-{self._files:05d}.warc.gz"
        return self._folder / f"{now:%Y}" / f"{now:%m}" / name


def _make_folders(folder: Path) -> tuple[Path, ...]:
    """Make a folder; returns those whose entries are new, and have to be synced for that."""
    missing = [place for place in (folder, *folder.parents) if not place.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    return (folder, *(place.parent for place in missing))


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
