"""Connections to a MariaDB with PyMySQL. All values are bytes in their own character sets.

A password is never shown: errors name host, port and user only.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from drumlin.capture.database import silence
from drumlin.capture.errors import CaptureRefused, DatabaseLost, DatabaseRefused

if TYPE_CHECKING:
    import pymysql

NO_PYMYSQL: Final = "capturing a MariaDB needs PyMySQL: pip install pymysql"
_SCHEMES: Final = ("mariadb", "mysql")
_PORT: Final = 3306
_CONNECT_TIMEOUT_S: Final = 10
#: The options of the URL: files, named as in MariaDB's own programs.
_FILES: Final = ("ssl_ca", "ssl_cert", "ssl_key")
_OTHERS: Final = ("unix_socket",)
#: Settings that make a session independent of the server's defaults. No timeouts: a snapshot takes
#: long, and its connection is idle while the log is written.
_SESSION: Final = (
    "SET SESSION time_zone = '+00:00', sql_mode = '', wait_timeout = 86400, "
    "net_write_timeout = 86400, net_read_timeout = 86400, max_statement_time = 0, "
    "lock_wait_timeout = 30, character_set_results = NULL, "
    "sql_select_limit = DEFAULT, "
    "idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0"
)
#: Transient errors: the server is full, starts up or shuts down, or has ended the statement, or a
#: table was altered meanwhile.
_PASSING: Final = frozenset(
    (1040, 1053, 1077, 1079, 1129, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226)
) | {1317, 1412, 1927, 1969, 4166}
#: Errors for tables or columns dropped since the catalog was read.
_OTHERS_DOING: Final = frozenset((1054, 1146))


#: Errors for missing privileges: for a table, a column or the binlog.
_DENIED: Final = frozenset((1142, 1143, 1227))


class DatabaseDenied(DatabaseRefused):
    """The user lacks a privilege for the statement."""


class Address(NamedTuple):
    """The address of a server, and the login. `repr` leaves out the password."""

    options: dict[str, Any]
    database: str | None

    def __repr__(self) -> str:
        return f"<Address of {self.options.get('host')}>"


def is_of_mariadb(url: str) -> bool:
    return urlsplit(url).scheme in _SCHEMES


def address_of(url: str) -> Address:
    """
    Raises:
        DatabaseRefused: the URL has another form.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
        user, host = parts.username, parts.hostname
    except ValueError:
        raise _bad_url() from None
    if parts.scheme not in _SCHEMES or user is None or (parts.path.count("/") > 1):
        raise _bad_url()
    options: dict[str, Any] = {"host": host or "localhost", "port": port, "user": unquote(user)}
    password = parts.password
    options["password"] = os.environ.get("MYSQL_PWD", "") if password is None else unquote(password)
    for name, value in parse_qsl(parts.query, keep_blank_values=True):
        if name not in (*_FILES, *_OTHERS):
            known = ", ".join((*_FILES, *_OTHERS))
            raise DatabaseRefused(f"the URL has {name!r}: there are {known}")
        options[name] = value
    if "ssl_ca" in options:
        options["ssl_verify_cert"] = options["ssl_verify_identity"] = True
    return Address(options, unquote(parts.path[1:]) or None)


def _bad_url() -> DatabaseRefused:
    return DatabaseRefused("the URL is not of the form mariadb://user@host/database")


def connect(url: str, silence_s: float | None = None) -> pymysql.Connection[Any]:
    """Open a connection in autocommit mode.

    `silence_s`: the connection counts as lost if a request gets no answer for this long; None: for
    as long as a slow query may take.

    Raises:
        ModuleNotFoundError: PyMySQL is not installed; the message says what to do.
        DatabaseLost: the database cannot be reached.
        DatabaseRefused: the URL, the login or the database is rejected.
    """
    driver = loaded()
    address = address_of(url)
    try:
        connection: pymysql.Connection[Any] = driver.connect(
            **address.options,
            autocommit=True,
            charset="utf8mb4",
            conv=dict(driver.converters.encoders),  # values remain bytes
            use_unicode=False,
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=_CONNECT_TIMEOUT_S,  # for the login
            program_name="drumlin capture",
        )
    except driver.Error as error:
        raise failure_of(error) from None
    except (OSError, ValueError, RuntimeError) as error:  # key files, or the kind of login
        raise DatabaseRefused(f"{error}") from None
    connection._read_timeout = silence.SLOW_S if silence_s is None else silence_s
    if "mariadb" not in connection.get_server_info().lower():
        connection.close()
        raise CaptureRefused(
            "the server is a MySQL, or calls itself one: only MariaDB can be captured"
        )
    return connection


@contextlib.contextmanager
def connected(url: str) -> Iterator[pymysql.Connection[Any]]:
    """A connection as from `connect`, closed at the end of the block."""
    connection = connect(url)
    try:
        yield connection
    finally:
        close(connection)


def close(connection: pymysql.Connection[Any]) -> None:
    if connection.open:
        with contextlib.suppress(loaded().Error):
            connection.close()


def prepare(connection: pymysql.Connection[Any]) -> None:
    """Set the session so that values have the form that `column_values` expects.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
    """
    rows(connection, _SESSION)
    rows(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def loaded() -> Any:
    """The module pymysql.

    Raises:
        ModuleNotFoundError: it is not installed; the message says what to do.
    """
    try:
        import pymysql
    except ImportError as error:
        raise ModuleNotFoundError(NO_PYMYSQL, name="pymysql") from error
    return pymysql


def rows(
    connection: pymysql.Connection[Any], statement: str, values: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """The rows that a statement returns, with values as bytes.

    Raises:
        DatabaseLost, DatabaseRefused: the statement failed.
    """
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement, values or None)
            return list(cursor.fetchall())
    except loaded().Error as error:
        raise failure_of(error) from None


def failure_of(error: Exception) -> Exception:
    """Convert an error of PyMySQL to one of a capture."""
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = " ".join(str(error.args[1] if len(error.args) > 1 else error).split())
    return failure(number, text)


def failure(number: int, text: str) -> Exception:
    """The error with this number, of the server or of PyMySQL (from 2000 to 2999, and 0)."""
    is_lost = number in _PASSING or number in _OTHERS_DOING or number == 0
    if is_lost or 2000 <= number < 3000:
        return DatabaseLost(text)
    kind = DatabaseDenied if number in _DENIED else DatabaseRefused
    return kind(f"{text} (error {number})")


def quoted_user(user: str) -> str:
    """A user as the server names it (`name@host`), quoted for an SQL statement."""
    name, _, host = user.rpartition("@")
    return f"{quoted(name)}@{quoted(host)}"


def quoted(name: str) -> str:
    """A name, quoted for an SQL statement."""
    return "`" + name.replace("`", "``") + "`"
