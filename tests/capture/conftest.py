"""A PostgreSQL for the tests of captures, and a database in it for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import psycopg
import pytest

from capture.captured import Captured
from rig.servers.postgres import Postgres, running_postgres
from rig.waiting import wait_until

_numbers = count(1)


@pytest.fixture(scope="package")
def postgres() -> Iterator[Postgres]:
    """It sends transactions before their commit as soon as they are not small."""
    with running_postgres() as server:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            if connection.info.server_version >= 130000:
                connection.execute("ALTER SYSTEM SET logical_decoding_work_mem = '64kB'")
                connection.execute("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def address(request: pytest.FixtureRequest) -> str:
    """Drumlin, but for tests that ask for another by a parameter."""
    found: str = request.getfixturevalue(getattr(request, "param", "drumlin_address"))
    return found


@pytest.fixture
def captured(postgres: Postgres, address: str) -> Iterator[Captured]:
    """A database without tables, and a name for its capture."""
    number = next(_numbers)
    name = f"c{number}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    with Captured(postgres, postgres.url(name), address, name) as found:
        yield found
    slot = f"drumlin_{name}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE slot_name = %s",
            (slot,),
        )
        wait_until(lambda: _is_dropped(connection, slot), "the end of the slot")


def _is_dropped(connection: psycopg.Connection[Any], slot: str) -> bool:
    """It keeps WAL, and would use up the number of slots."""
    connection.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
        " WHERE slot_name = %s AND active_pid IS NULL",
        (slot,),
    )
    found = connection.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE slot_name = %s", (slot,)
    ).fetchone()
    return found == (0,)
