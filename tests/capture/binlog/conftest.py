"""A MariaDB for the tests of its captures, and a database in it for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from capture.binlog.captured import CapturedMariadb
from capture.binlog.server import Mariadb, running_mariadb

_numbers = count(1)


@pytest.fixture(scope="package")
def server() -> Iterator[Mariadb]:
    with running_mariadb() as found:
        yield found


def captured_on(server: Mariadb, broker: str) -> CapturedMariadb:
    """A database without tables, and a name for its capture."""
    name = f"m{next(_numbers)}"
    with server.connect() as connection:
        connection.cursor().execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    return CapturedMariadb(server, broker, name)


@pytest.fixture
def captured(server: Mariadb, drumlin_address: str) -> Iterator[CapturedMariadb]:
    with captured_on(server, drumlin_address) as found:
        yield found
