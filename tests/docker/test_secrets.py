"""Secrets: made once, laid out for each service, and certificates that a TLS client takes."""

from __future__ import annotations

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from services import certificates
from services.docker import secrets

NOW = datetime.now(UTC)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_secrets_are_made_once_and_each_service_sees_its_own(tmp_path: Path) -> None:
    secrets.make_secrets(tmp_path, NOW)
    before = contents(tmp_path)
    secrets.make_secrets(tmp_path, NOW)
    assert contents(tmp_path) == before
    for reader, names in secrets.READERS.items():
        assert {path.name for path in (tmp_path / reader).iterdir()} == set(names)
    assert len({(tmp_path / "setup" / name).read_text() for name in secrets.PASSWORDS}) == len(secrets.PASSWORDS)


def test_files_are_for_their_owner_alone_but_for_what_another_user_reads(tmp_path: Path) -> None:
    secrets.make_secrets(tmp_path, NOW)
    for path in tmp_path.rglob("*"):
        if path.is_file():
            expected = 0o444 if path.name in {"ca.crt", "postgres"} else 0o400
            assert stat.S_IMODE(path.stat().st_mode) == expected, path


def test_what_was_lost_is_laid_out_again_from_the_masters(tmp_path: Path) -> None:
    secrets.make_secrets(tmp_path, NOW)
    lost = tmp_path / "web" / "elasticsearch_reader"
    before = lost.read_text()
    lost.unlink()
    secrets.make_secrets(tmp_path, NOW)
    assert lost.read_text() == before


def test_the_certificate_of_the_nodes_is_renewed_before_it_ends_and_the_authority_stays(tmp_path: Path) -> None:
    secrets.make_secrets(tmp_path, NOW)
    authority, node = (tmp_path / "setup" / name for name in ("ca.crt", "node.crt"))
    before = authority.read_bytes(), node.read_bytes()
    secrets.make_secrets(tmp_path, NOW + certificates.NODE_LIFE - certificates.RENEW_BEFORE - timedelta(days=1))
    assert (authority.read_bytes(), node.read_bytes()) == before
    secrets.make_secrets(tmp_path, NOW + certificates.NODE_LIFE - certificates.RENEW_BEFORE + timedelta(days=1))
    assert authority.read_bytes() == before[0]
    assert node.read_bytes() != before[1]
    assert (tmp_path / "elasticsearch" / "node.crt").read_bytes() == node.read_bytes()


def test_a_certificate_that_lacks_a_name_is_renewed() -> None:
    pair = certificates.make_node_certificate(certificates.make_authority(NOW), ["elasticsearch"], NOW)
    assert not certificates.must_be_renewed(pair.certificate, ["elasticsearch"], NOW)
    assert certificates.must_be_renewed(pair.certificate, ["elasticsearch", "127.0.0.1"], NOW)


def test_a_client_takes_the_certificate_by_its_names_and_from_its_authority_alone(tmp_path: Path) -> None:
    secrets.make_secrets(tmp_path / "one", NOW)
    secrets.make_secrets(tmp_path / "other", NOW)
    node = tmp_path / "one" / "elasticsearch"
    assert shake_hands(node, node / "ca.crt", "localhost") is None
    assert shake_hands(node, node / "ca.crt", "127.0.0.1") is None
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(node, node / "ca.crt", "elsewhere.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(node, tmp_path / "other" / "elasticsearch" / "ca.crt", "localhost")


def shake_hands(node: Path, authority: Path, name: str) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(node / "node.crt", node / "node.key")
    asking = ssl.create_default_context(cafile=str(authority))
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            serving.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        asking.wrap_socket(ours, server_hostname=name).close()
    finally:
        ours.close()
        thread.join()


def test_the_owner_is_told_how_to_sign_in(tmp_path: Path) -> None:
    secrets.make_secrets(tmp_path, NOW)
    assert "not made yet" in secrets.logins(tmp_path / "setup")
    (tmp_path / "setup" / secrets.PORTAL_OWNER).write_text("first-password")
    told = secrets.logins(tmp_path / "setup")
    assert "portal  user owner  password first-password\n" in told
    assert (tmp_path / "setup" / secrets.KIBANA_OWNER).read_text() in told


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit, match="plumbline: the secrets cannot be kept"):
        secrets.main(["--folder", str(tmp_path / "file")])
