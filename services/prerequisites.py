"""What `make setup` gets beside the Python packages: the Elasticsearch distribution and a browser.

`python -m services.prerequisites` gets what is missing and says so; it is quick when nothing is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable

from crawler.renderer import find_browser
from services.config import Settings, is_root, load_settings
from services.errors import ConfigurationError, ServiceError
from services.node import fetch_distribution


def main() -> None:
    """Get all of it; one sentence and exit status 1 if something cannot be had."""
    try:
        settings = load_settings()
        fetch_distribution(settings, print)
        ensure_browser(settings, print)
    except ServiceError as exc:
        sys.exit(f"plumbline: {exc}")


def ensure_browser(settings: Settings, say: Callable[[str], None]) -> None:
    """The browser in the settings or an installed one; else Debian's where we may install it, else Playwright's own."""
    if settings.browser:
        if not os.access(settings.browser, os.X_OK):
            raise ConfigurationError(f"setting browser: {settings.browser} is no program that can be run")
        return
    if find_browser() is not None:
        return
    if is_root() and shutil.which("apt-get"):
        say("no Chromium was found: installing Debian's with apt-get install chromium")
        # The lists may be old or missing; if they cannot be renewed, the package may still be had.
        _succeeds("apt-get", "update")
        if _succeeds("apt-get", "install", "-y", "chromium"):
            return
        say("apt-get could not install chromium: trying Playwright's own")
    # Quick if it is there already.
    if not _succeeds(sys.executable, "-m", "playwright", "install", "chromium"):
        raise ConfigurationError("no browser was found or could be installed; try: sudo apt-get install chromium")


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, stdin=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    main()
