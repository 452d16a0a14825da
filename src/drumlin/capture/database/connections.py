"""Connections to PostgreSQL with psycopg, whose settings make values look as `values` expects.

A password is never shown: errors name host, port, user and database only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.errors import CaptureError
from drumlin.capture.values.types import SESSION

if TYPE_CHECKING:
    import psycopg

NO_PSYCOPG: Final = "capturing a PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
_APPLICATION: Final = "drumlin capture"
_CONNECT_TIMEOUT_S: Final = 10
#: A snapshot takes long, and its transaction is idle while the log is written.
_PATIENCE: Final = {
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
}


class DatabaseLost(CaptureError, ConnectionError):
    """The database cannot be reached, or a connection to it broke. A retry may succeed."""


class DatabaseRefused(CaptureError):
    """The database has answered with an error that a retry does not cure."""


def connect(url: str, *, is_replication: bool = False) -> psycopg.Connection[Any]:
    """A connection in autocommit mode.

    Raises:
        ModuleNotFoundError: psycopg is not installed; the message says what to do.
        DatabaseLost: the database cannot be reached.
        DatabaseRefused: the URL, the login or the database is rejected.
    """
    driver = loaded()
    from psycopg.conninfo import conninfo_to_dict

    try:
        given: dict[str, Any] = dict(conninfo_to_dict(url))
    except driver.ProgrammingError:
        raise DatabaseRefused(
            "the URL is not of the form postgresql://user@host/database"
        ) from None
    settings = {**SESSION, **({} if is_replication else _PATIENCE)}
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    given["options"] = f"{given.get('options') or ''} {options}".strip()
    given.setdefault("connect_timeout", _CONNECT_TIMEOUT_S)
    given.setdefault("application_name", _APPLICATION)
    if is_replication:
        given["replication"] = "database"
    try:
        found: psycopg.Connection[Any] = driver.connect(autocommit=True, **given)
    except driver.OperationalError as error:
        raise failure_of(error, None) from None
    return found


def loaded() -> Any:
    """The module psycopg.

    Raises:
        ModuleNotFoundError: psycopg is not installed; the message says what to do.
    """
    try:
        import psycopg
    except ImportError as error:
        raise ModuleNotFoundError(NO_PSYCOPG, name="psycopg") from error
    return psycopg


#: Classes of SQLSTATE for a server that shuts down, starts up, or is briefly out of resources.
_PASSING: Final = ("08", "40", "53", "57", "58")
#: libpq's messages when a server rejects a connection: there is no SQLSTATE yet.
_REFUSALS: Final = ("FATAL:", "password", "authentication")
_COMING_UP: Final = ("starting up", "shutting down", "recovery", "too many", "remaining connection")


def failure_of(error: Exception, connection: psycopg.Connection[Any] | None) -> Exception:
    """An error of psycopg as one of this module."""
    text = " ".join(str(error).split())
    state = getattr(error, "sqlstate", None)
    if state is not None:
        is_lost = state.startswith(_PASSING)
    elif connection is None:
        is_lost = not any(each in text for each in _REFUSALS) or any(
            each in text for each in _COMING_UP
        )
    else:
        is_lost = connection.closed or connection.broken
    return DatabaseLost(text) if is_lost else DatabaseRefused(text)
