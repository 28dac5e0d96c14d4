"""The one-shot service `secrets`: passwords, keys and certificates, made up once, each laid where its users see it.

    python -m services.docker.secrets [--folder FOLDER]            make what is missing
    python -m services.docker.secrets [--folder FOLDER] logins     how the owner signs in

Every folder under FOLDER is a volume that one service mounts. `setup` keeps the masters; the others hold copies, which
are laid anew each time, so that a service of a later version gets what it needs. Files are for their owner alone, but
for what a service with another user reads in a volume of its own.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from services import accounts, certificates
from services.elastic import ElasticUser

MASTERS = "setup"
CA = "ca.crt"
NODE_NAMES = ("elasticsearch", "elasticsearch-2", "elasticsearch-3", "localhost", "127.0.0.1")
PORTAL_OWNER = "portal_owner"
"""Written by `services.docker.setup`: the first password of the portal's owner."""
DATABASE = "plumbline"
"""Name of the crawl database, and of its user."""
DATABASE_PASSWORD = "postgres"
ELASTIC = "elasticsearch_elastic"
"""Of Elasticsearch's superuser."""
OTHERS_MAY_READ = frozenset({CA, DATABASE_PASSWORD})

_READER, _WRITER, _APPENDER = (f"elasticsearch_{user}" for user in ElasticUser)
KIBANA_SERVER, KIBANA_SETUP, KIBANA_OWNER = (
    f"elasticsearch_{user}" for user in (accounts.KIBANA_SERVER, accounts.KIBANA_SETUP, accounts.OWNER)
)
READERS: dict[str, tuple[str, ...]] = {
    "elasticsearch": (ELASTIC, CA, "node.crt", "node.key"),
    "kibana": (CA, "kibana.yml"),
    "kibana-setup": (CA, KIBANA_SETUP),
    "postgres": (DATABASE_PASSWORD,),
    "crawler": (CA, "pgpass", _APPENDER),
    "indexer": (CA, "pgpass", _WRITER),
    "scheduler": (CA, "pgpass", _WRITER),
    "web": (CA, "pgpass", _READER, _APPENDER, "web_session"),
}
"""What each service gets to see."""
PASSWORDS = (
    *(ELASTIC, _READER, _WRITER, _APPENDER, DATABASE_PASSWORD, "web_session"),
    *(KIBANA_SERVER, KIBANA_SETUP, KIBANA_OWNER),
    *("kibana_security_key", "kibana_objects_key", "kibana_reporting_key"),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Do it; a folder that cannot be written is one sentence and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m services.docker.secrets", description="Make the stack's secrets.")
    parser.add_argument("--folder", type=Path, default=Path("/secrets"), help="default: %(default)s")
    parser.add_argument("action", nargs="?", choices=["make", "logins"], default="make")
    options = parser.parse_args(arguments)
    try:
        if options.action == "logins":
            print(logins(options.folder / MASTERS), end="")
        else:
            make_secrets(options.folder, datetime.now(UTC))
            print("secrets are in place")
    except OSError as exc:
        sys.exit(f"plumbline: the secrets cannot be kept: {exc}")


def make_secrets(folder: Path, now: datetime) -> None:
    """Make up what is missing, and lay out what each service needs."""
    masters = folder / MASTERS
    masters.mkdir(parents=True, exist_ok=True)
    for name in PASSWORDS:
        if not (masters / name).exists():
            _write(masters / name, secrets.token_urlsafe(32).encode())
    _make_certificates(masters, now)
    database_password = (masters / DATABASE_PASSWORD).read_text()
    _write(masters / "pgpass", f"*:*:*:{DATABASE}:{database_password}\n".encode())
    _write(masters / "kibana.yml", _kibana_settings(masters).encode())
    for reader, names in READERS.items():
        (folder / reader).mkdir(exist_ok=True)
        for name in names:
            _write(folder / reader / name, (masters / name).read_bytes())


def logins(masters: Path) -> str:
    """How the owner signs in, for people; what is not there yet is said."""
    portal = masters / PORTAL_OWNER
    first = portal.read_text() if portal.exists() else "(not made yet: the service `setup` makes it)"
    return (
        f"portal  user owner  password {first}\n"
        f"Kibana  user {accounts.OWNER}  password {(masters / KIBANA_OWNER).read_text()}\n"
    )


def _make_certificates(masters: Path, now: datetime) -> None:
    authority_files, node_files = (masters / CA, masters / "ca.key"), (masters / "node.crt", masters / "node.key")
    if not all(path.exists() for path in authority_files):
        _write_pair(certificates.make_authority(now), *authority_files)
        for path in node_files:
            path.unlink(missing_ok=True)
    is_made = all(path.exists() for path in node_files)
    if is_made and not certificates.must_be_renewed(node_files[0].read_bytes(), NODE_NAMES, now):
        return
    authority = certificates.KeyPair(*(path.read_bytes() for path in authority_files))
    _write_pair(certificates.make_node_certificate(authority, NODE_NAMES, now), *node_files)


def _write_pair(pair: certificates.KeyPair, certificate: Path, key: Path) -> None:
    _write(key, pair.key)
    _write(certificate, pair.certificate)


def _kibana_settings(masters: Path) -> str:
    """The secret part of Kibana's settings; JSON is YAML."""
    settings = {
        "elasticsearch.password": KIBANA_SERVER,
        "xpack.security.encryptionKey": "kibana_security_key",
        "xpack.encryptedSavedObjects.encryptionKey": "kibana_objects_key",
        "xpack.reporting.encryptionKey": "kibana_reporting_key",
    }
    return json.dumps({key: (masters / name).read_text() for key, name in settings.items()}, indent=2) + "\n"


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; nothing is touched if it is the same already."""
    if path.exists() and path.read_bytes() == content:
        return
    fresh = path.with_name(path.name + ".new")
    fresh.unlink(missing_ok=True)
    fresh.touch(mode=0o600)
    fresh.write_bytes(content)
    fresh.chmod(0o444 if path.name in OTHERS_MAY_READ else 0o400)
    fresh.replace(path)


if __name__ == "__main__":
    main()
