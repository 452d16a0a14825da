"""Connections to PostgreSQL, where each end notices when the other one has vanished."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

#: Longer than it takes the server to notice that a client has vanished: until then it keeps the
#: client's transaction and locks.
NOTICED_MS: Final = 30_000
_ENDURANCE: Final = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
}
#: The same for the server's end; servers before 14 do not check the client during a statement.
_OF_SERVER: Final = """
SELECT set_config(name, given, false) FROM pg_settings JOIN (VALUES
    ('tcp_keepalives_idle', '10'), ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'),
    ('tcp_user_timeout', '25000'), ('client_connection_check_interval', '1000')
) AS settings (name, given) USING (name)
"""


def connect(url: str) -> psycopg.Connection[Any]:
    """A connection in autocommit mode. The URL takes precedence over the defaults here.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses the login.
    """
    given: dict[str, Any] = {**_ENDURANCE, **conninfo_to_dict(url)}
    connection = psycopg.connect(**given, autocommit=True)
    try:
        # Refused on systems that cannot detect a vanished client.
        with suppress(psycopg.errors.InvalidParameterValue):
            connection.execute(_OF_SERVER)
    except psycopg.Error:
        connection.close()
        raise
    return connection
