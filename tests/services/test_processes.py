"""What the processes of a stack share."""

from __future__ import annotations

import subprocess
import sys

from crawler.records import SiteSettings
from services import control
from services.config import Settings
from services.processes import open_crawl_database

COUNT_SITES = """
import sys
from pathlib import Path
from services import control
from services.config import load_settings
from services.processes import open_crawl_database
engine = open_crawl_database(load_settings(home=Path(sys.argv[1])))
print(len(control.list_sites(engine)))
engine.dispose()
"""


def sites_seen_elsewhere(settings: Settings) -> int:
    """How many sites another process sees, which is gone after that."""
    seen = subprocess.run(
        [sys.executable, "-c", COUNT_SITES, str(settings.home)], capture_output=True, text=True, check=True
    )
    return int(seen.stdout)


def test_a_database_that_is_opened_twice_in_a_process_keeps_what_both_write(settings: Settings) -> None:
    first = open_crawl_database(settings)
    open_crawl_database(settings).dispose()
    assert sites_seen_elsewhere(settings) == 0
    control.create_or_update(first, "a.example:80", SiteSettings(("http://a.example/",)))
    assert sites_seen_elsewhere(settings) == 1
    first.dispose()


def test_the_database_of_a_new_home_is_its_owner_s_alone(settings: Settings) -> None:
    open_crawl_database(settings).dispose()
    assert (settings.home / "crawl.db").stat().st_mode & 0o777 == 0o600
