"""The one-shot service `setup`: users and roles, tables, indices, the owner, and at first the sample portal.

    python -m services.docker.setup [--sample 0|1]

Runs whenever the stack is started, and changes only what is missing or has changed with the version. Its folder of
secrets holds the masters that `services.docker.secrets` made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import tenacity

from crawler import database
from crawler.database import Engine
from crawler.errors import CrawlerError, DatabaseError
from services import accounts, control, logs, portal
from services.config import Settings, kept_secret, load_settings
from services.docker.secrets import PORTAL_OWNER
from services.elastic import Credentials, Elastic, ElasticUser, credentials
from services.errors import ConfigurationError, SearchUnavailable, ServiceError

SUPERUSER = "elastic"
SAMPLE_SITE = "sample-site:8080"
"""Where the crawler finds the sample site."""
SAMPLE_PORTAL = Path(__file__).parents[2] / "portal.toml"
PATIENCE_S = 120.0
"""Elasticsearch and PostgreSQL are healthy before this runs; it is for what may happen all the same."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Do it; what goes wrong is one sentence and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m services.docker.setup", description="Set the stack up.")
    parser.add_argument("--sample", choices=["0", "1"], default="0", help="begin with the sample portal")
    options = parser.parse_args(arguments)
    try:
        settings = load_settings()
        logs.configure(settings.log_level, settings.log_format)
        for line in set_up(settings, with_sample=options.sample == "1"):
            print(line, flush=True)
    except (ServiceError, CrawlerError) as exc:
        sys.exit(f"plumbline: {exc}")


def set_up(settings: Settings, with_sample: bool) -> list[str]:
    """Set everything up; a line on each thing that was done. Raises ServiceError or CrawlerError."""
    if settings.secrets is None or not settings.elasticsearch_url:
        raise ConfigurationError("PLUMBLINE_SECRETS and ELASTICSEARCH_URL say where the secrets and Elasticsearch are")
    done = [*_patiently(_set_up_elasticsearch, settings), *_patiently(_set_up_database, settings, with_sample)]
    return [*done, "the stack is set up"]


def _patiently(step: object, *arguments: object) -> list[str]:
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type((SearchUnavailable, DatabaseError)),
        wait=tenacity.wait_fixed(2),
        stop=tenacity.stop_after_delay(PATIENCE_S),
        reraise=True,
    )
    done: list[str] = retrying(step, *arguments)  # type: ignore[arg-type]
    return done


def _set_up_elasticsearch(settings: Settings) -> list[str]:
    def password(user: str) -> str:
        return kept_secret(settings, f"elasticsearch_{user}")

    superuser = Credentials(settings.elasticsearch_url, SUPERUSER, password(SUPERUSER), settings.elasticsearch_ca)
    users = (*ElasticUser, accounts.KIBANA_SERVER, accounts.KIBANA_SETUP, accounts.OWNER)
    with Elastic(superuser, settings.index_prefix) as elastic:
        accounts.create(elastic, {str(user): password(user) for user in users})
    with Elastic(credentials(settings, ElasticUser.WRITER), settings.index_prefix) as elastic:
        elastic.ensure_indices()
    return ["Elasticsearch has its users, roles and indices"]


def _set_up_database(settings: Settings, with_sample: bool) -> list[str]:
    engine = database.open_database(settings.effective_database_url)
    try:
        database.migrate(engine)
        owner = control.ensure_owner(engine)
        if owner is None:
            return ["the crawl database is up to date"]
        assert settings.secrets is not None  # set_up has seen to it
        _keep_password(settings.secrets / PORTAL_OWNER, owner.password)
        if with_sample:
            _begin_sample(engine)
        return ["the crawl database is made; `docker compose run --rm secrets logins` says how to sign in"]
    finally:
        engine.dispose()


def _keep_password(path: Path, password: str) -> None:
    try:
        path.touch(mode=0o600)
        path.write_text(password)
    except OSError as exc:
        raise ServiceError(f"the owner's password cannot be kept in {path}: {exc.strerror}") from exc


def _begin_sample(engine: Engine) -> None:
    file = portal.read_portal_file(SAMPLE_PORTAL, SAMPLE_SITE)
    for site_id in portal.apply(engine, file):
        control.start(engine, site_id, "setup")


if __name__ == "__main__":
    main()
