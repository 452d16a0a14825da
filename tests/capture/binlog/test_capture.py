"""Captures of a MariaDB, as users run them."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

import drumlin.capture
from capture.binlog.captured import CapturedMariadb
from capture.binlog.conftest import captured_on
from capture.binlog.recorded import position, sent
from capture.binlog.server import Mariadb, running_mariadb
from drumlin.capture import CaptureError, CaptureRefused
from drumlin.capture.binlog.changes import BinlogChanges
from drumlin.capture.binlog_events.charsets import Charsets
from drumlin.capture.binlog_events.events import EventDecoder
from drumlin.capture.changes import Table
from drumlin.capture.log import output as outputs
from drumlin.capture.log.kept_rows import TopicRows
from drumlin.capture.log.names import Names
from drumlin.capture.log.position import BinlogPosition, Definition, Position
from rig.descriptors import only_high_descriptors
from rig.servers.certificates import Certificates
from rig.waiting import wait_until

_ITEM = "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20))"


def test_snapshot_then_stream_then_stopped_and_started(captured: CapturedMariadb) -> None:
    captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one'), (2, 'two'), (3, 'three')")
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")
    captured.run(
        "INSERT INTO item VALUES (4, 'four'), (5, NULL)",
        "UPDATE item SET name = 'zwei' WHERE id = 2",
        "UPDATE item SET id = 30 WHERE id = 3",
        "DELETE FROM item WHERE id = 1",
    )
    captured.await_all()
    captured.check_equal("item")
    assert captured.stop() == 0
    before = captured.records("item")
    captured.start_here()
    captured.run("INSERT INTO item VALUES (6, 'six')")
    captured.await_all()
    captured.check_equal("item")
    after = captured.records("item")
    assert [each for each in after if each in before] == before
    assert len(after) == len(before) + 1
    keys = [(key, value) for _, _, key, value in before]
    assert ('{"id":3}', None) in keys
    assert ('{"id":30}', '{"id":30,"name":"three"}') in keys
    status = drumlin.capture.status(captured.url, captured.broker, name=captured.name)
    assert (status.phase, status.gtids) == ("stream", status.server_gtids)
    assert status.lag_transactions == 0
    assert status.tables == {f"{captured.name}.item": captured.topic("item")}


def test_in_a_process_that_has_many_files_open(captured: CapturedMariadb) -> None:
    captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
    with only_high_descriptors():
        captured.start_here()
        captured.await_all()
        captured.run("INSERT INTO item VALUES (2, 'two')")
        captured.await_all()
        captured.check_equal("item")
        assert captured.stop() == 0


def test_no_gap_and_no_overlap_between_snapshot_and_stream(captured: CapturedMariadb) -> None:
    """While a counter goes up, the topic has each of its values once, from the snapshot's on."""
    captured.run("CREATE TABLE one (id INT PRIMARY KEY, n INT)", "INSERT INTO one VALUES (1, 0)")
    stop = threading.Event()

    def work() -> None:
        with captured.connect() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute("UPDATE one SET n = n + 1")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        captured.start_here()
        wait_until(lambda: outputs.has_own_topic(captured.client, Names(captured.name)), "begin")
        captured.await_all()
    finally:
        stop.set()
        thread.join()
    captured.await_all()
    found = [json.loads(value or "")["n"] for _, _, _, value in captured.records("one")]
    ((last,),) = captured.rows("SELECT n FROM one")
    assert found == list(range(found[0], last + 1))
    assert len(found) > 2


def test_two_writers(captured: CapturedMariadb, drumlin_address: str) -> None:
    captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
    captured.start_here()
    captured.await_all()
    with CapturedMariadb(captured.mariadb, drumlin_address, captured.name) as second:
        second.start_here()
        wait_until(lambda: "continuing at" in second.said(), "the second")
        captured.run("INSERT INTO item VALUES (2, 'two')")
        assert captured.ended() == 1, (captured.said(), second.said())
        assert "another capture of this name has begun" in captured.said()
        second.await_all()
        second.check_equal("item")
        assert len(second.records("item")) == 2


@pytest.mark.deep
def test_paused_resumed_and_removed(captured: CapturedMariadb) -> None:
    captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
    captured.start_here()
    captured.await_all()
    assert captured.stop() == 0
    drumlin.capture.pause(captured.broker, name=captured.name)
    status = drumlin.capture.status(captured.url, captured.broker, name=captured.name)
    assert status.phase == "paused"
    with pytest.raises(CaptureRefused, match="of a MariaDB"):
        drumlin.capture.reread(captured.broker, tables=["*"], name=captured.name)
    drumlin.capture.resume(captured.broker, name=captured.name)
    captured.run("INSERT INTO item VALUES (2, 'two')")
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")
    assert drumlin.capture.remove(captured.url, captured.broker, name=captured.name)
    captured.run("INSERT INTO item VALUES (3, 'three')")
    assert captured.ended() == 1
    # What was read before is compared, and only what differs is written.
    captured.run("DELETE FROM item WHERE id = 1")
    before = len(captured.records("item"))
    captured.start_here()
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) <= before + 2


@pytest.mark.deep
def test_tables_that_are_created_later(captured: CapturedMariadb) -> None:
    captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
    captured.run("CREATE TABLE outside (id INT PRIMARY KEY)")
    tables = [f"{captured.name}.item", f"{captured.name}.new*", f"{captured.name}.old"]
    captured.start_here(tables=tables)
    captured.await_all()
    captured.run(
        "CREATE TABLE new1 LIKE item",
        "INSERT INTO new1 VALUES (1, 'a')",
        "CREATE TABLE IF NOT EXISTS new2 (PRIMARY KEY (id)) AS SELECT * FROM item",
        "INSERT INTO new1 VALUES (2, 'b')",
        "UPDATE new1 SET id = 7 WHERE id = 1",
        "CREATE TABLE new3 (id INT)",
        "INSERT INTO new3 VALUES (1)",
        "CREATE TABLE new4 (id UUID PRIMARY KEY)",
        "INSERT INTO new4 VALUES ('123e4567-e89b-12d3-a456-426655440000')",
        "CREATE TABLE another (id INT PRIMARY KEY)",
        "RENAME TABLE outside TO old",
    )
    captured.await_all()
    captured.check_equal("item", "new1", "new2", "new4")
    assert "captured from its creation on: table " in captured.said()
    assert f"not captured: table {captured.name}.new3 has no primary key" in captured.said()
    assert captured.stop() == 0
    # While it is not running.
    captured.run(
        "CREATE TABLE new5 (id INT PRIMARY KEY)",
        "INSERT INTO new5 VALUES (1), (2)",
        "DELETE FROM new5 WHERE id = 1",
        # It is there already when the binlog tells of it, and may have been before.
        "CREATE TABLE IF NOT EXISTS new6 (id INT PRIMARY KEY)",
        "ALTER TABLE new5 ADD more INT",
    )
    captured.start_here(tables=tables)
    captured.await_all()
    status = drumlin.capture.status(captured.url, captured.broker, name=captured.name)
    wanted = {f"{captured.name}.{each}" for each in ("item", "new1", "new2", "new4", "new5")}
    assert set(status.tables) == wanted
    assert [json.loads(each)["id"] for each in captured.state("new5").values()] == [2]
    assert f"has got its name later: table {captured.name}.old" in captured.said()
    captured.run("INSERT INTO new1 VALUES (9, 'z')", "INSERT INTO new5 VALUES (3, 4)")
    captured.await_all()
    captured.check_equal("new1")
    assert len(captured.state("new5")) == 2


@pytest.mark.deep
def test_purged(captured: CapturedMariadb) -> None:
    captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
    captured.start_here()
    captured.await_all()
    captured.run("INSERT INTO item VALUES (2, 'two')")
    captured.await_all()
    assert captured.stop() == 0
    # All that the topics have may be removed.
    captured.run("FLUSH BINARY LOGS", "PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
    _await_purged(captured)
    captured.start_here()
    captured.run("INSERT INTO item VALUES (3, 'three')")
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 3
    assert captured.stop() == 0
    # ... and not more than that.
    captured.run("INSERT INTO item VALUES (4, 'four')", "FLUSH BINARY LOGS")
    _await_purged(captured)
    captured.start_here()
    assert captured.ended() == 1
    assert "the server cannot send the changes that come next" in captured.said()
    assert "drumlin capture remove" in captured.said()


def _await_purged(captured: CapturedMariadb) -> None:
    def is_purged() -> bool:
        captured.run("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
        return len(captured.rows("SHOW BINARY LOGS")) == 1

    wait_until(is_purged, "the removal of old files")


@pytest.mark.deep
def test_another_binlog_of_the_same_server(drumlin_address: str) -> None:
    with running_mariadb() as server, captured_on(server, drumlin_address) as captured:
        captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
        captured.start_here()
        captured.await_all()
        captured.run("INSERT INTO item VALUES (2, 'two')")
        captured.await_all()
        assert captured.stop() == 0
        ((place,),) = captured.rows("SELECT @@global.gtid_binlog_pos")
        captured.run("RESET MASTER")
        captured.start_here()
        assert captured.ended() == 1
        assert "the server's binlog ends at its beginning" in captured.said()
        # Its new history has the same numbers.
        threading.Event().wait(1.1)
        while captured.rows("SELECT @@global.gtid_binlog_pos") <= [(place,)]:
            captured.run("INSERT INTO item SELECT max(id) + 1, 'x' FROM item")
        captured.run("INSERT INTO item SELECT max(id) + 1, 'x' FROM item")
        captured.start_here()
        assert captured.ended() == 1
        assert "this is another binlog" in captured.said()


@pytest.mark.deep
def test_replica_takes_over(drumlin_address: str) -> None:
    settings = {"log-slave-updates": "1"}
    with running_mariadb() as first, running_mariadb({**settings, "server-id": "8"}) as second:
        with second.connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                f"CHANGE MASTER TO master_host='127.0.0.1', master_port={first.port},"
                " master_user='admin', master_use_gtid=slave_pos, master_ssl=0"
            )
            cursor.execute("START SLAVE")
        with captured_on(first, drumlin_address) as captured:
            captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
            captured.start_here()
            captured.await_all()
            captured.run("INSERT INTO item VALUES (2, 'two')")
            captured.await_all()
            assert captured.stop() == 0
            captured.run("INSERT INTO item VALUES (3, 'three')")
            ((wanted,),) = captured.rows("SELECT @@global.gtid_binlog_pos")
            captured.mariadb = second
            captured.url = second.url(captured.name)
            with second.connect() as connection, connection.cursor() as cursor:
                cursor.execute("SELECT MASTER_GTID_WAIT(%s, 30)", (wanted,))
                cursor.execute("STOP SLAVE")
            captured.start_here()
            captured.run("INSERT INTO item VALUES (4, 'four')")
            captured.await_all()
            captured.check_equal("item")
            assert len(captured.records("item")) == 4


@pytest.mark.deep
def test_other_server_with_the_same_id(drumlin_address: str) -> None:
    # Neither has what other tests leave: positions in several domains, of different lengths.
    with running_mariadb() as one, captured_on(one, drumlin_address) as captured:
        captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
        captured.start_here()
        captured.await_all()
        captured.run("INSERT INTO item VALUES (2, 'two')")
        captured.await_all()
        assert captured.stop() == 0
        ((place,),) = captured.rows("SELECT @@global.gtid_binlog_pos")
        with running_mariadb() as other, other.connect() as connection:
            cursor = connection.cursor()
            cursor.execute(f"CREATE DATABASE {captured.name}")
            cursor.execute(f"USE {captured.name}")
            cursor.execute(_ITEM)
            for _ in range(int(place.rpartition("-")[2])):
                cursor.execute("INSERT INTO item SELECT coalesce(max(id), 0) + 1, 'x' FROM item")
            captured.url = other.url(captured.name)
            captured.start_here()
            assert captured.ended() == 1
            assert "this is another binlog" in captured.said()


@pytest.mark.deep
def test_what_is_missing_is_said(server: Mariadb, drumlin_address: str) -> None:
    with captured_on(server, drumlin_address) as captured:
        captured.run(
            _ITEM,
            "CREATE TABLE no_key (id INT)",
            "CREATE TABLE old (id INT PRIMARY KEY) ENGINE=MyISAM",
            "CREATE TABLE net (id INT PRIMARY KEY, ip INET6)",
            "CREATE TABLE chinese (id INT PRIMARY KEY, t VARCHAR(9) CHARACTER SET gbk)",
            "CREATE TABLE versions (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
            "CREATE TABLE child (id INT PRIMARY KEY, i INT, CONSTRAINT fk FOREIGN KEY (i)"
            " REFERENCES item (id) ON DELETE CASCADE)",
            f"CREATE USER {captured.name}@'127.0.0.1' IDENTIFIED BY 'secret'",
            f"GRANT SELECT ON {captured.name}.item TO {captured.name}@'127.0.0.1'",
        )
        name = captured.name
        with pytest.raises(CaptureRefused) as raised:
            drumlin.capture.setup(captured.url, name=name)
        said = str(raised.value)
        for each in (
            "no_key has no primary key",
            "old is of the engine MyISAM",
            "type inet6 is not supported",
            "character set gbk is not supported",
            "versions has system versioning",
            "has the foreign key fk",
        ):
            assert each in said
        url = f"mariadb://{name}:secret@127.0.0.1:{server.port}/{name}"
        with pytest.raises(CaptureRefused, match="GRANT REPLICATION SLAVE ON") as raised:
            drumlin.capture.setup(url, name=name)
        assert "secret" not in str(raised.value)
        captured.run(f"GRANT REPLICATION SLAVE ON *.* TO {name}@'127.0.0.1'")
        assert drumlin.capture.setup(url, name=name) == [f"{name}.item"]
        # These rights are enough.
        captured.url = url
        captured.start_here()
        captured.run("INSERT INTO item VALUES (1, 'one')")
        captured.await_all()
        captured.check_equal("item")
        assert captured.stop() == 0
        with pytest.raises(CaptureError, match="Access denied") as raised:
            drumlin.capture.setup(url.replace("secret", "sesame"), name=name)
        assert "sesame" not in str(raised.value)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("setting", "value", "word"),
    [
        ("binlog_format", "STATEMENT", "binlog_format is 'STATEMENT'"),
        ("binlog_row_image", "MINIMAL", "binlog_row_image is 'MINIMAL'"),
        ("binlog_row_metadata", "MINIMAL", "binlog_row_metadata is 'MINIMAL'"),
    ],
)
def test_settings(captured: CapturedMariadb, setting: str, value: str, word: str) -> None:
    captured.run(_ITEM)
    ((before,),) = captured.rows(f"SELECT @@global.{setting}")
    captured.run(f"SET GLOBAL {setting} = '{value}'")
    try:
        with pytest.raises(CaptureRefused, match=word):
            drumlin.capture.setup(captured.url, name=captured.name)
    finally:
        captured.run(f"SET GLOBAL {setting} = '{before}'")


@pytest.mark.deep
def test_tls(drumlin_address: str, tmp_path: Path) -> None:
    made = Certificates(tmp_path / "certificates")
    files = {"ssl-ca": "ca.crt", "ssl-cert": "server.crt", "ssl-key": "server.key"}
    settings = {"ssl": "1", **{name: made.path(file) for name, file in files.items()}}
    with running_mariadb(settings) as server, captured_on(server, drumlin_address) as captured:
        name = captured.name
        captured.run(
            "CREATE TABLE item (id INT PRIMARY KEY, name LONGTEXT)",
            f"CREATE USER {name}@'127.0.0.1' REQUIRE SSL",
            f"GRANT SELECT ON {name}.* TO {name}@'127.0.0.1'",
            f"GRANT REPLICATION SLAVE ON *.* TO {name}@'127.0.0.1'",
        )
        url = server.url(name, user=name)
        with pytest.raises(CaptureError, match="certificate"):
            drumlin.capture.setup(f"{url}?ssl_ca={made.path('stranger.crt')}", name=name)
        captured.url = f"{url}?ssl_ca={made.path('ca.crt')}"
        captured.start_here()
        captured.await_all()
        captured.run(
            "INSERT INTO item SELECT seq, repeat('x', seq) FROM seq_1_to_3000",
            "INSERT INTO item VALUES (9999, repeat('y', 900000))",
        )
        captured.await_all()
        captured.check_equal("item")


@pytest.mark.deep
def test_row_of_several_packets(server: Mariadb) -> None:
    """One packet of the protocol has 16 MiB at most."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE DATABASE large")
        cursor.execute("CREATE TABLE large.big (id INT PRIMARY KEY, t LONGBLOB)")
        start = position(server.url())
        sizes = [(1 << 24) - 1 - 50, (1 << 24) - 1 - 40, *range((1 << 24) - 40, (1 << 24) - 20), 1]
        sizes += [3 << 24, 0, 100]
        for number, size in enumerate(sizes):
            cursor.execute("INSERT INTO large.big VALUES (%s, repeat('x', %s))", (number, size))
    table = Table(1, "large", "big", "t", ("id",), ("integer",))
    charsets = Charsets({63: "binary"}, {})
    changes = BinlogChanges([table], charsets, TopicRows(), BinlogPosition(start))
    decoder, found = EventDecoder(True), []
    for data in sent(server.url(), start):
        event = decoder.take(memoryview(data))
        if event is not None:
            found += [len(str(each.value)) for each in changes.take(event)]
    assert found == [
        len(f'{{"id":{number},"t":"{"x" * ((size + 2) // 3 * 4)}"}}')
        for number, size in enumerate(sizes)
    ]


@pytest.mark.deep
def test_cascade_that_comes_later(captured: CapturedMariadb) -> None:
    captured.run(_ITEM, "CREATE TABLE child (id INT PRIMARY KEY, i INT)")
    captured.start_here()
    captured.await_all()
    captured.run(
        "ALTER TABLE child ADD CONSTRAINT fk FOREIGN KEY (i) REFERENCES item (id)"
        " ON DELETE SET NULL"
    )
    assert captured.ended() == 1
    assert "has the foreign key fk" in captured.said()


@pytest.mark.deep
def test_large_transaction(captured: CapturedMariadb) -> None:
    """Memory does not grow with it."""
    import psutil

    captured.run("CREATE TABLE big (id INT PRIMARY KEY, t LONGTEXT)")
    captured.start()
    captured.await_all()
    assert captured.process is not None
    process = psutil.Process(captured.process.pid)  # type: ignore[union-attr]
    before = process.memory_info().rss
    with captured.connect() as connection, connection.cursor() as cursor:
        connection.begin()
        for number in range(200):
            cursor.execute("INSERT INTO big VALUES (%s, repeat('x', 1000000))", (number,))
        connection.commit()
    peak = 0

    def look() -> Any:
        nonlocal peak
        peak = max(peak, process.memory_info().rss)
        return len(captured.state("big")) == 200

    wait_until(look, "the transaction to be there", 90)
    assert peak - before < 120 << 20


@pytest.mark.deep
def test_name_of_a_capture_of_another_kind(captured: CapturedMariadb) -> None:
    captured.run(_ITEM, "INSERT INTO item VALUES (1, 'one')")
    client, names = captured.client, Names(captured.name)
    outputs.create_own_topic(client, names)
    of_postgres = Definition("7", "shop", [Table(1, "public", "item", "x", ("id",), ("integer",))])
    output = outputs.Output(client, names)
    output.commit(Position("run", None), of_postgres)  # its first snapshot was interrupted
    output.abort()
    captured.start_here()
    assert captured.ended() == 1
    assert f"capture {captured.name} is of a PostgreSQL" in captured.said()
