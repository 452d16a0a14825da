"""Whatever is killed, and whenever: the topics become the tables, and nothing is there twice."""

from __future__ import annotations

import contextlib
import random
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymysql
import pytest

from capture.binlog.captured import CapturedMariadb
from rig.depth import seeds, so_many

SCHEMA = (
    """CREATE TABLE wide (id INT PRIMARY KEY, n BIGINT UNSIGNED, d DECIMAL(20,4), f FLOAT, t TEXT,
     b VARBINARY(300), at DATETIME(3), m TIMESTAMP(6) NULL, long_one TIME(2), e ENUM('a', 'é'),
     s SET('x', 'y', 'z'), l VARCHAR(40) CHARACTER SET latin1, bits BIT(9), big LONGTEXT,
     made INT AS (id + 1) VIRTUAL) CHARACTER SET utf8mb4""",
    "CREATE TABLE other (a VARCHAR(10), b INT, note TEXT, PRIMARY KEY (a, b))",
)
TABLES = ("wide", "other")


def transact(connection: Any, source: random.Random) -> None:
    """One transaction, sometimes rolled back, in which every statement may change anything."""
    connection.begin()
    try:
        with connection.cursor() as cursor:
            for _ in range(source.choice((1, 2, 5, 40))):
                _change(cursor, source)
        connection.rollback() if source.random() < 0.1 else connection.commit()
    except (pymysql.err.IntegrityError, pymysql.err.OperationalError) as error:
        if error.args[0] not in (1062, 1213):
            raise
        connection.rollback()  # a changed key is there already


def _change(cursor: Any, source: random.Random) -> None:
    key, kind = source.randrange(40), source.random()
    if source.random() < 0.3:
        a = source.choice(("a", "A", "b ", "ß"))
        if kind < 0.5:
            cursor.execute("REPLACE INTO other VALUES (%s, %s, %s)", (a, key, str(kind)))
        elif kind < 0.75:
            cursor.execute("UPDATE other SET b = b + 1 WHERE b = %s ORDER BY b DESC", (key,))
        else:
            cursor.execute("DELETE FROM other WHERE b = %s", (key,))
    elif kind < 0.5:
        row = (
            key,
            source.getrandbits(64),
            source.choice((None, "0.0001", "-12345678901.5")),
            source.choice((0.1, -3e38, None)),
            source.choice(("", "ünï😀", '\\N\t"')),
            source.randbytes(source.choice((0, 5, 299))),
            source.choice(("0000-00-00 00:00:00", "2024-02-29 12:00:00.5")),
            source.choice((None, "2024-02-29 12:00:00.123456")),
            source.choice(("-838:59:59", "00:00:00.5", None)),
            source.choice(("a", "é", None)),
            source.choice(("", "x,z")),
            source.choice(("€", "ÿ", "")),
            source.getrandbits(9),
            "x" * source.choice((0, 10, 30_000)),
        )
        marks = ", ".join(["%s"] * len(row))
        cursor.execute(f"REPLACE INTO wide VALUES ({marks}, DEFAULT)", row)
    elif kind < 0.7:
        cursor.execute("UPDATE wide SET n = n DIV 2, t = %s WHERE id < %s", (str(kind), key))
    elif kind < 0.85:
        cursor.execute("UPDATE wide SET id = id + 40 WHERE id = %s", (key,))
    else:
        cursor.execute("DELETE FROM wide WHERE id = %s", (key,))


@contextmanager
def load(captured: CapturedMariadb, seed: int) -> Iterator[None]:
    """Transactions in two threads, each with a domain of its own, as long as the block runs."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        source = random.Random(seed + number)
        try:
            while not stop.is_set():
                try:
                    setting = f"SET sql_mode = '', gtid_domain_id = {number}"
                    with captured.connect(init_command=setting) as connection:
                        while not stop.is_set():
                            transact(connection, source)
                            stop.wait(0.002)
                except (pymysql.err.OperationalError, pymysql.err.InterfaceError):
                    stop.wait(0.05)  # it is being restarted
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    try:
        yield
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert not failures, failures


def check(captured: CapturedMariadb) -> None:
    """The topics are what a capture that begins now would read."""
    again = CapturedMariadb(captured.mariadb, captured.broker, captured.name)
    with again:
        again.name, again.prefix = f"{captured.name}_again", f"{captured.prefix}_again"
        again.start_here()
        wanted = {each: f"{again.prefix}.{captured.name}.{each}" for each in TABLES}
        try:
            again.await_all()
        finally:
            assert again.stop() == 0
        for table in TABLES:
            assert captured.state(table) == captured.state_of(wanted[table])
            check_nothing_twice(captured, table)


def check_nothing_twice(captured: CapturedMariadb, table: str) -> None:
    """A tombstone is of a key that is there."""
    present: dict[str, bool] = defaultdict(bool)
    for _, _, key, value in captured.records(table):
        assert value is not None or present[key], f"{table}: a second tombstone of {key}"
        present[key] = value is not None


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 6))
def test_equal_after_kills(captured: CapturedMariadb, seed: int) -> None:
    captured.run(*SCHEMA)
    source = random.Random(seed)
    with captured.connect(init_command="SET sql_mode = ''") as connection:
        for _ in range(60):
            transact(connection, source)
    with load(captured, seed):
        for _ in range(so_many(2, 25)):
            captured.start()
            threading.Event().wait(source.uniform(0.3, 3.0))
            kind = source.random()
            if kind < 0.2:
                captured.mariadb.stop()
                captured.mariadb.start()
            elif kind < 0.3:
                captured.mariadb.kill()
                captured.mariadb.start()
            elif kind < 0.5:
                cut(captured)
            if kind < 0.5:
                threading.Event().wait(source.uniform(0.3, 2.0))
            assert captured.process is None or captured.process.poll() is None, captured.said()
            captured.kill()
        captured.start()
        threading.Event().wait(1.0)
    captured.await_all()
    check(captured)


def cut(captured: CapturedMariadb) -> None:
    for number, *_ in captured.rows(
        "SELECT id FROM information_schema.PROCESSLIST WHERE command = 'Binlog Dump'"
    ):
        with contextlib.suppress(pymysql.err.OperationalError):  # it has ended by itself
            captured.run(f"KILL {number}")


@pytest.mark.deep
def test_every_change_once(captured: CapturedMariadb) -> None:
    """A counter that goes up by one with each transaction, in two tables."""
    captured.run(
        "CREATE TABLE one (id INT PRIMARY KEY, n INT)",
        "CREATE TABLE two (id INT PRIMARY KEY, n INT)",
        "INSERT INTO one VALUES (1, 0)",
        "INSERT INTO two VALUES (1, 0)",
    )
    captured.start()
    captured.await_all()
    source = random.Random(1)
    number = 0
    for _ in range(so_many(2, 20)):
        stop = threading.Timer(source.uniform(0.2, 1.5), captured.kill)
        stop.start()
        with captured.connect() as connection, connection.cursor() as cursor:
            while stop.is_alive():
                number += 1
                connection.begin()
                cursor.execute("UPDATE one SET n = n + 1")
                cursor.execute("UPDATE two SET n = n + 1")
                connection.commit()
        stop.join()
        captured.start()
    captured.await_all()
    expected = [f'{{"id":1,"n":{each}}}' for each in range(number + 1)]
    for table in ("one", "two"):
        assert [value for _, _, _, value in captured.records(table)] == expected
