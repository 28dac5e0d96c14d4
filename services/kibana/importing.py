"""Our saved objects into a running Kibana, through its saved-objects API. May be done again at any time."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.config import Settings, has_secret, kept_secret
from services.errors import ConfigurationError, KibanaError
from services.kibana.objects import saved_objects, to_ndjson

REQUEST_TIMEOUT_S = 60.0
POLL_S = 2.0
FILE_NAME = "plumbline.ndjson"
SETUP_USER = "kibana_setup"
"""In a cluster that `services.accounts` has set up; its password is the secret `elasticsearch_kibana_setup`."""


@dataclass(frozen=True, slots=True)
class KibanaAccess:
    """Where Kibana is, and who asks it. The user has to be allowed to manage saved objects."""

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    ca: Path | None = None


def access(settings: Settings) -> KibanaAccess:
    """As the settings have it. Raises ConfigurationError."""
    secret = f"elasticsearch_{SETUP_USER}"
    if not settings.kibana_url:
        raise ConfigurationError("no Kibana is named; set KIBANA_URL to its address, like http://127.0.0.1:5601")
    if not settings.kibana_user and has_secret(settings, secret):
        return KibanaAccess(settings.kibana_url, SETUP_USER, kept_secret(settings, secret), settings.kibana_ca)
    password = settings.kibana_password.get_secret_value()
    return KibanaAccess(settings.kibana_url, settings.kibana_user, password, settings.kibana_ca)


class Kibana:
    """One Kibana. Raises KibanaError, whose sentence says what to do."""

    def __init__(self, access: KibanaAccess, pause: Callable[[float], None] = time.sleep) -> None:
        self._access = access
        self._pause = pause
        self._url = access.url.rstrip("/")

    def wait_until_ready(self, within_s: float, say: Callable[[str], None]) -> None:
        """Until it can be used; it takes a minute or two to start."""
        deadline = time.monotonic() + within_s
        told = ""
        while (reason := self._why_not_ready()) is not None:
            if time.monotonic() >= deadline:
                raise KibanaError(f"Kibana at {self._url} was not ready within {within_s:.0f} s: {reason}")
            if reason != told:
                say(f"waiting for Kibana: {reason}")
                told = reason
            self._pause(POLL_S)

    def bring_in(self, prefix: str) -> int:
        """Import all objects, over those of an earlier import; returns how many there are."""
        body, content_type = _form(to_ndjson(saved_objects(prefix)))
        status, answer = self._ask("POST", "/api/saved_objects/_import?overwrite=true", body, content_type)
        if status != 200:
            raise KibanaError(f"Kibana refused the import: {_said(status, answer)}")
        if not answer.get("success"):
            raise KibanaError(f"Kibana took not all objects: {_first_error(answer)}")
        return int(answer["successCount"])

    def _why_not_ready(self) -> str | None:
        """None if it is ready. Raises if it never will be."""
        try:
            status, answer = self._ask("GET", "/api/status")
        except OSError as exc:
            return f"it does not answer ({exc})"
        if status in (401, 403):
            raise KibanaError(
                f"Kibana at {self._url} refuses the user {self._access.user or '(none)'}: set KIBANA_USER and"
                " KIBANA_PASSWORD to an account that may manage saved objects"
            )
        level = answer.get("status", {}).get("overall", {}).get("level") if status in (200, 503) else None
        return None if level == "available" else str(level or f"it answers {status}")

    def _ask(self, method: str, path: str, body: bytes | None = None, content_type: str = "") -> tuple[int, Any]:
        headers = {"kbn-xsrf": "true", "Accept": "application/json"}
        if content_type:
            headers["Content-Type"] = content_type
        if self._access.user:
            token = base64.b64encode(f"{self._access.user}:{self._access.password}".encode()).decode()
            headers["Authorization"] = f"Basic {token}"
        request = urllib.request.Request(self._url + path, data=body, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S, context=self._tls()) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as exc:
            return exc.code, _parsed(exc.read())

    def _tls(self) -> ssl.SSLContext | None:
        if not self._url.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=str(self._access.ca) if self._access.ca else None)


def _form(ndjson: str) -> tuple[bytes, str]:
    """The objects as the file of a form; the body and its content type."""
    boundary = uuid.uuid4().hex
    head = (
        f"--{boundary}\r\n"
        f'Content-Disposition: form-data; name="file"; filename="{FILE_NAME}"\r\n'
        "Content-Type: application/ndjson\r\n\r\n"
    )
    body = head.encode() + ndjson.encode() + f"\r\n--{boundary}--\r\n".encode()
    return body, f"multipart/form-data; boundary={boundary}"


def _parsed(content: bytes) -> Any:
    """JSON, or nothing: a Kibana that starts, and a proxy before it, answer with plain text."""
    try:
        answer = json.loads(content)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _said(status: int, answer: Any) -> str:
    return str(answer.get("message") or f"it answered {status}")


def _first_error(answer: Any) -> str:
    errors = answer.get("errors") or [{}]
    first = errors[0]
    error = first.get("error", {})
    reason = error.get("message") or error.get("type") or "no reason given"
    return f"{first.get('type')} {first.get('id')}: {reason} ({len(errors)} in all)"
