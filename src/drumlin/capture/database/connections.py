"""Connections to PostgreSQL with psycopg, set up so that values have the form `values` expects.

A password is never shown: errors name host, port, user and database only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from drumlin.capture.errors import DatabaseLost, DatabaseRefused
from drumlin.capture.values.types import SESSION

if TYPE_CHECKING:
    import psycopg

NO_PSYCOPG: Final = "capturing a PostgreSQL needs psycopg: pip install 'psycopg[binary]'"
_APPLICATION: Final = "drumlin capture"
#: Settings that detect a vanished machine within about a minute.
_ENDURANCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
#: The first libpq that can ask for a primary, even one whose transactions are read-only by default.
_PRIMARY_FROM: Final = 140000
#: No timeouts: a snapshot takes long, and its transaction is idle while the log is written.
_PATIENCE: Final = {
    "idle_in_transaction_session_timeout": "0",
    "lock_timeout": "0",
    "statement_timeout": "0",
}


def connect(url: str, *, is_replication: bool = False) -> psycopg.Connection[Any]:
    """Open a connection in autocommit mode.

    Raises:
        ModuleNotFoundError: psycopg is not installed; the message says what to do.
        DatabaseLost: the database cannot be reached.
        DatabaseRefused: the URL, the login or the database is rejected.
    """
    driver = loaded()
    from psycopg.conninfo import conninfo_to_dict

    from drumlin.capture.database.answering import AnsweredConnection

    try:
        given: dict[str, Any] = dict(conninfo_to_dict(url))
    except driver.ProgrammingError:
        raise DatabaseRefused(
            "the URL is not of the form postgresql://user@host/database"
        ) from None
    settings = {**SESSION, **({} if is_replication else _PATIENCE)}
    options = " ".join(f"-c {name}={value}" for name, value in settings.items())
    given["options"] = f"{given.get('options') or ''} {options}".strip()
    for name, value in _ENDURANCE.items():
        given.setdefault(name, value)
    if "," in str(given.get("host") or given.get("hostaddr") or ""):
        given.setdefault("target_session_attrs", _primary(driver))
    given.setdefault("application_name", _APPLICATION)
    if is_replication:
        given["replication"] = "database"
    try:
        return AnsweredConnection.connect(autocommit=True, **given)
    except driver.Error as error:
        raise failure_of(error, None) from None


def _primary(driver: Any) -> str:
    """The setting with which libpq skips standbys, if the URL names several hosts."""
    return "primary" if driver.pq.version() >= _PRIMARY_FROM else "read-write"


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


#: SQLSTATEs, and classes of them, of transient errors: the server shuts down, starts up, or is
#: briefly out of resources, or another connection still uses the slot or locks a table.
_PASSING: Final = ("08", "40", "53", "57", "58", "55006", "55P03")
#: Messages of permanent connection errors. libpq has no SQLSTATE for these: only a message of the
#: server or of libpq itself, after a colon.
_REJECTED: Final = re.compile(
    r"""(?:^|:\s+)(?:
    (?:\S+\ )?authentication\ failed | authentication\ method\ requirement
    | (?:fe_sendauth:\ )?no\ password\ supplied | empty\ password\ returned
    | connection\ requires\ a\ valid\ client\ certificate | channel\ binding\ (?:is\ )?required
    | no\ pg_hba\.conf\ entry | pg_hba\.conf\ rejects
    | role\ ".*?"\ (?:does\ not\ exist|is\ not\ permitted\ to\ log\ in)
    | database\ ".*?"\ does\ not\ exist
    | permission\ denied | must\ be\ superuser
    | unrecognized\ configuration\ parameter | invalid\ value\ for\ parameter
    | parameter\ ".*?"\ cannot\ be | \S+(?:\ \S+)?\ is\ outside\ the\ valid\ range
    | invalid\ command-line\ argument
    | server\ does\ not\ support\ (?:SSL|GSSAPI) | GSSAPI\ encryption\ required
    | (?:SSL\ error:\ )?certificate\ verify\ failed | server\ certificate\ for
    | (?:could\ not\ (?:read|load)\ )?(?:root\ )?(?:certificate|private\ key)\ file
    | invalid\ (?:\S+\ value|port\ number|connection\ option|integer\ value):?\ "
    )""",
    re.VERBOSE,
)
#: With several addresses, or with and without TLS, each attempt has its own message.
_ATTEMPTS: Final = re.compile(r"\n- host: |connection to server (?:at|on) ")
_ALL_ATTEMPTS: Final = "All failures were:"


def failure_of(error: Exception, connection: psycopg.Connection[Any] | None) -> Exception:
    """Convert an error of psycopg to one of this module. `connection`: None while connecting.

    An error that ends the connection counts as transient, as a new connection shows whether it
    persists. So does a failure to connect, unless it is known to be permanent.
    """
    text = " ".join(str(error).split())
    is_lost = _connect_passes(error) if connection is None else _passes(error, connection)
    return DatabaseLost(text) if is_lost else DatabaseRefused(text)


def _connect_passes(error: Exception) -> bool:
    if not isinstance(error, loaded().OperationalError):
        return False
    found = _ATTEMPTS.split(str(error).rpartition(_ALL_ATTEMPTS)[2])
    attempts = [each for each in map(str.strip, found) if each and not each.endswith(":")]
    # libpq reports a missing password separately, in any language of its messages.
    if len(attempts) == 1 and error.pgconn is not None and error.pgconn.needs_password:
        return False
    return not attempts or not all(_REJECTED.search(each) for each in attempts)


def _passes(error: Exception, connection: psycopg.Connection[Any]) -> bool:
    driver = loaded()
    if connection.closed or connection.broken:
        return True
    state = getattr(error, "sqlstate", None)
    if state is None:
        return isinstance(error, driver.OperationalError)
    assert isinstance(error, driver.Error)
    is_ended = error.diag.severity_nonlocalized in ("FATAL", "PANIC")
    return is_ended or state.startswith(_PASSING)
