"""An extractor that stumbles over pages by name. A module of its own: the processes of the pool import it."""

from __future__ import annotations

import os
import signal
import time

from extractor.extract import extract
from extractor.records import Document, Source


def stumbling_extract(source: Source) -> Document:
    if source.url.endswith("hang"):
        time.sleep(600)
    if source.url.endswith("die"):
        os.kill(os.getpid(), signal.SIGKILL)
    if source.url.endswith("raise"):
        raise ValueError("odd page")
    return extract(source)
