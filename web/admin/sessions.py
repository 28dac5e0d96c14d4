"""Who is signed in: Flask-Login over the users of the crawl database."""

from __future__ import annotations

import hmac

from flask import Flask
from flask_login import LoginManager, UserMixin

from services import control
from web.backends import backends

_login = LoginManager()


class Account(UserMixin):  # type: ignore[misc]
    """A user as a session knows them. The id holds the session key, so that changing it ends all sessions."""

    def __init__(self, user: control.User) -> None:
        self.user = user

    @property
    def name(self) -> str:
        return self.user.name

    def get_id(self) -> str:
        return f"{self.user.user_id}:{self.user.session_key}"


def init_app(app: Flask) -> None:
    """Let an application know its signed-in user."""
    _login.init_app(app)
    _login.session_protection = "basic"


@_login.user_loader  # type: ignore[untyped-decorator]
def _load(identity: str) -> Account | None:
    user_id, _colon, session_key = identity.partition(":")
    if not user_id.isdecimal():
        return None
    user = control.get_user(backends().engine, int(user_id))
    if user is None or not hmac.compare_digest(user.session_key, session_key):
        return None
    return Account(user)
