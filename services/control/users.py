"""Who may sign in to the admin. Passwords are kept as argon2 hashes; tries are slowed down for all processes alike."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from typing import Any

import sqlalchemy as sa
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from sqlalchemy.engine import Connection, Engine

from crawler import database
from crawler.database import sign_in_tries, users
from services.errors import ConfigurationError, NotFound

FREE_TRIES = 5
"""Wrong passwords in a row before each further try has to wait, twice as long each time."""
NAME_WAIT_S = 30.0
"""At most, for one name: whoever tries someone else's name does not keep them out for long."""
ADDRESS_WAIT_S = 900.0
"""At most, for one address."""
FORGIVEN_AFTER = timedelta(days=1)
LEAST_PASSWORD = 8
_HASHER = PasswordHasher()


class Role(StrEnum):
    OWNER = "owner"
    EDITOR = "editor"


@dataclass(frozen=True, slots=True)
class User:
    user_id: int
    name: str
    role: Role
    session_key: str
    """A session holds it; when it changes, all sessions of the user end."""


@dataclass(frozen=True, slots=True)
class NewUser:
    """A user just made, with the only sight of a generated password."""

    user: User
    password: str


@dataclass(frozen=True, slots=True)
class SignIn:
    """The answer to a try: the user, or None and how long to wait before the next one."""

    user: User | None
    wait_s: float = 0.0


def ensure_owner(engine: Engine, name: str = "owner", now: datetime | None = None) -> NewUser | None:
    """Make the first owner with a generated password; None if there is a user already."""
    password = secrets.token_urlsafe(12)
    with database.write(engine) as conn:
        if conn.dialect.name == "postgresql":
            conn.execute(sa.text("LOCK TABLE users IN SHARE ROW EXCLUSIVE MODE"))
        if conn.execute(sa.select(users.c.id).limit(1)).first() is not None:
            return None
        return NewUser(_insert(conn, name, password, Role.OWNER, now or datetime.now(UTC)), password)


def add_user(engine: Engine, name: str, password: str, role: Role, now: datetime | None = None) -> User:
    """Raises ConfigurationError if the name is taken or the password too short."""
    _check_password(password)
    if not name.strip():
        raise ConfigurationError("a user needs a name")
    try:
        with database.write(engine) as conn:
            return _insert(conn, name.strip(), password, role, now or datetime.now(UTC))
    except sa.exc.IntegrityError as exc:
        raise ConfigurationError(f"there is a user {name.strip()!r} already") from exc


def get_user(engine: Engine, user_id: int) -> User | None:
    with database.read(engine) as conn:
        row = conn.execute(sa.select(users).where(users.c.id == user_id)).first()
    return None if row is None else _user(row)


def list_users(engine: Engine) -> list[User]:
    with database.read(engine) as conn:
        return [_user(row) for row in conn.execute(sa.select(users).order_by(users.c.name))]


def sign_in(engine: Engine, name: str, password: str, address: str, now: datetime | None = None) -> SignIn:
    """Try a password. Each try is written down before the password is looked at, so that many at once do not help."""
    at = now or datetime.now(UTC)
    subjects = {f"name:{name.strip().casefold()[:200]}": NAME_WAIT_S, f"address:{address[:200]}": ADDRESS_WAIT_S}
    with database.write(engine) as conn:
        wait_s = _wait_s(conn, subjects, at)
        if wait_s > 0:
            return SignIn(None, wait_s)
        _note_try(conn, list(subjects), at)
        row = conn.execute(sa.select(users).where(users.c.name == name.strip())).first()
    is_right = _verify(row.password_hash if row is not None else _nobody(), password) and row is not None
    with database.write(engine) as conn:
        if not is_right or row is None:
            return SignIn(None, _wait_s(conn, subjects, at))
        conn.execute(sa.delete(sign_in_tries).where(sign_in_tries.c.subject.in_(list(subjects))))
        if _HASHER.check_needs_rehash(row.password_hash):
            new_hash = _HASHER.hash(password)
            conn.execute(sa.update(users).where(users.c.id == row.id).values(password_hash=new_hash))
    return SignIn(_user(row))


def set_password(engine: Engine, user_id: int, password: str) -> User:
    """Change a password; all sessions of the user end. Raises NotFound, ConfigurationError."""
    _check_password(password)
    return _change(engine, user_id, password_hash=_HASHER.hash(password), session_key=_new_session_key())


def set_role(engine: Engine, user_id: int, role: Role) -> User:
    """Raises NotFound; ConfigurationError if nobody would be owner any more."""
    with database.write(engine) as conn:
        if role is not Role.OWNER:
            _keep_an_owner(conn, user_id)
    return _change(engine, user_id, role=role.value)


def delete_user(engine: Engine, user_id: int) -> None:
    """Raises ConfigurationError if nobody would be owner any more."""
    with database.write(engine) as conn:
        _keep_an_owner(conn, user_id)
        conn.execute(sa.delete(users).where(users.c.id == user_id))


def _insert(conn: Connection, name: str, password: str, role: Role, now: datetime) -> User:
    row = {
        "name": name,
        "password_hash": _HASHER.hash(password),
        "role": role.value,
        "session_key": _new_session_key(),
        "created_at": now,
    }
    return _user(conn.execute(sa.insert(users).values(row).returning(users)).one())


def _change(engine: Engine, user_id: int, **values: str) -> User:
    with database.write(engine) as conn:
        row = conn.execute(sa.update(users).where(users.c.id == user_id).values(values).returning(users)).first()
    if row is None:
        raise NotFound(f"there is no user {user_id}")
    return _user(row)


def _keep_an_owner(conn: Connection, user_id: int) -> None:
    others = sa.select(users.c.id).where(users.c.role == Role.OWNER.value, users.c.id != user_id).limit(1)
    if conn.execute(others).first() is None:
        raise ConfigurationError("the last owner has to stay an owner")


def _check_password(password: str) -> None:
    if len(password) < LEAST_PASSWORD:
        raise ConfigurationError(f"a password has at least {LEAST_PASSWORD} characters")


def _verify(password_hash: str, password: str) -> bool:
    try:
        return _HASHER.verify(password_hash, password)
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobody() -> str:
    """A hash that no password fits, so that an unknown name takes as long as a known one."""
    return _HASHER.hash(secrets.token_urlsafe(32))


def _new_session_key() -> str:
    return secrets.token_urlsafe(16)


def _user(row: Any) -> User:
    return User(row.id, row.name, Role(row.role), row.session_key)


def _wait_s(conn: Connection, subjects: dict[str, float], now: datetime) -> float:
    """Seconds until the next try of these subjects; 0: now."""
    rows = conn.execute(sa.select(sign_in_tries).where(sign_in_tries.c.subject.in_(list(subjects))))
    waits = [
        _wait_of_one_s(row, subjects[row.subject], now)
        for row in rows
        if row.failures >= FREE_TRIES and row.last_at > now - FORGIVEN_AFTER
    ]
    return max([0.0, *waits])


def _wait_of_one_s(row: Any, most_s: float, now: datetime) -> float:
    since_s: float = max(
        0.0, (now - row.last_at).total_seconds()
    )  # a clock that was set back keeps nobody out for longer
    wait_s = min(2.0 ** min(int(row.failures) - FREE_TRIES, 30), most_s)
    return wait_s - since_s


def _note_try(conn: Connection, subjects: list[str], now: datetime) -> None:
    conn.execute(sa.delete(sign_in_tries).where(sign_in_tries.c.last_at < now - FORGIVEN_AFTER))
    rows = [{"subject": subject, "failures": 1, "last_at": now} for subject in sorted(subjects)]
    statement = database.insert(conn, sign_in_tries)
    conn.execute(
        statement.on_conflict_do_update(
            index_elements=["subject"], set_={"failures": sign_in_tries.c.failures + 1, "last_at": now}
        ),
        rows,
    )
