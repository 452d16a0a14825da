"""A connection to PostgreSQL that reconnects when it breaks, with errors in plain words.

A password is never shown: messages of the server and of libpq do not contain it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from drumlin.serving.target import ReplacementLost, TargetRefused

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
Ask = Callable[["psycopg.Cursor[Any]"], T]

NO_PSYCOPG: Final = "a store in PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
#: Classes of SQLSTATEs for a server that is down, starts up, or is short of resources; and unique
#: violations: another process has just inserted the key, which a retry finds.
_PASSING: Final = ("08", "40", "53", "57", "58", "23505")
_KEY_TOO_LONG: Final = "54000"
_LACKS_RIGHTS: Final = "42501"
_PAUSES_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0)
_CONNECT: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "drumlin materialize",
}
_SETTINGS: Final = (
    # The open transaction of a paused process must not block the process that takes over.
    "-c idle_in_transaction_session_timeout=20000 -c statement_timeout=0 -c lock_timeout=0"
)


class KeyTooLong(TargetRefused):
    """A key is too long for an index."""


class PostgresConnection:
    """The connection for all tables of a process. Used by one thread."""

    def __init__(self, url: str, password: str | None) -> None:
        """
        Raises:
            ModuleNotFoundError: psycopg is not installed; the message says what to do.
            ValueError: the URL has an unknown option.
            OSError: PostgreSQL cannot be reached, or refuses the login.
        """
        try:
            import psycopg
        except ImportError as error:
            raise ModuleNotFoundError(NO_PSYCOPG, name="psycopg") from error
        self._driver = psycopg
        self._given = self._settings(url, password)
        #: The number of connections made so far: it identifies a session and its temporary tables.
        self.session = 0
        try:
            self._connection = self._connect()  # no retry: the address may be wrong
        except psycopg.Error as error:
            raise self._failure(error) from None

    def run(self, ask: Ask[T]) -> T:
        """Run `ask` in a transaction, again if the connection breaks.

        Raises:
            TargetRefused: a privilege is missing, or a key is too long.
            OSError: PostgreSQL has refused a statement, or is unreachable for too long.
        """
        for pause_s in (*_PAUSES_S, None):
            try:
                if self._connection.closed:
                    self._connection = self._connect()
                return self._transact(ask)
            except self._driver.Error as error:
                if pause_s is None or not self._passes(error):
                    raise self._failure(error) from None
            time.sleep(pause_s)
        raise AssertionError("the last try returns or raises")

    def run_in(self, session: int, ask: Ask[T]) -> T:
        """Run `ask` once, in a transaction that needs the temporary tables of this session.

        Raises:
            ReplacementLost: the connection broke.
            TargetRefused, OSError: as from `run`.
        """
        if session != self.session:
            raise ReplacementLost("PostgreSQL: the connection broke while a partition was loaded")
        try:
            return self._transact(ask)
        except self._driver.Error as error:
            failure = self._failure(error)
            if self._passes(error):
                raise ReplacementLost(str(failure)) from None
            raise failure from None

    def close(self) -> None:
        self._connection.close()

    def _transact(self, ask: Ask[T]) -> T:
        with self._connection.transaction(), self._connection.cursor() as cursor:
            return ask(cursor)

    def _connect(self) -> psycopg.Connection[Any]:
        made = self._driver.connect(autocommit=True, **self._given)
        self.session += 1
        return made

    def _settings(self, url: str, password: str | None) -> dict[str, Any]:
        from psycopg.conninfo import conninfo_to_dict

        try:
            given: dict[str, Any] = {**_CONNECT, **conninfo_to_dict(url)}
        except self._driver.ProgrammingError as error:
            raise ValueError(f"a store in PostgreSQL: {error}") from None
        given["options"] = f"{given.get('options', '')} {_SETTINGS}".strip()
        given["client_encoding"] = "UTF8"
        return given if password is None else {**given, "password": password}

    def _passes(self, error: psycopg.Error) -> bool:
        if self._connection.closed:
            return True
        return error.sqlstate is not None and error.sqlstate.startswith(_PASSING)

    def _failure(self, error: psycopg.Error) -> Exception:
        text = " ".join(str(error).split())
        if error.sqlstate == _KEY_TOO_LONG:
            return KeyTooLong(f"PostgreSQL: {text}")
        if error.sqlstate == _LACKS_RIGHTS:
            return TargetRefused(f"PostgreSQL: {text}")
        return OSError(f"PostgreSQL: {text}")
