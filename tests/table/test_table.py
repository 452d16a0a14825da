"""A topic as a mapping: looked up, followed, waited for, and what goes wrong meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.table import following
from rig.brokers.drumlin_server import running_server
from rig.waiting import wait_until


def rows(**values: str | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def test_it_is_a_mapping_that_follows(client: Client, topic: str) -> None:
    client.append(rows(a="1", b="2", c="3"), topic)
    with client.table(topic) as table:
        assert dict(table) == {b"a": b"1", b"b": b"2", b"c": b"3"}
        assert (table["a"], table[b"a"], len(table), "d" in table) == (b"1", b"1", 3, False)
        assert table.get("d") is None
        with pytest.raises(KeyError, match="'d'"):
            table["d"]
        with pytest.raises(TypeError, match="key 5"):
            table[5]  # type: ignore[index]
        report = client.append(rows(a="one", b=None, d="4"), topic)
        table.wait_until(report, timeout_ms=20_000)
        assert dict(table.items()) == {b"a": b"one", b"c": b"3", b"d": b"4"}
        arrow = table.to_arrow().sort_by("key")
        assert arrow.column("value").to_pylist() == [b"one", b"3", b"4"]
        assert arrow.schema.names == ["key", "value", "partition"]
        assert table.nbytes > 100
        assert sum(table.positions().values()) == 6
        assert set(table.lag().values()) == {0}
    with pytest.raises(drumlin.ClientError, match="closed"):
        table["a"]
    with pytest.raises(drumlin.ClientError, match="closed"):
        table.wait_until({0: 0})


def test_one_reads_what_one_has_written(client: Client, topic: str) -> None:
    with client.table(topic, decode="json") as table, client.writer(topic) as writer:
        for number in range(20):
            delivery = writer.send(f'{{"n": {number}}}', key="k")
            writer.flush()
            table.wait_until(delivery.result(20), timeout_ms=20_000)
            assert table["k"] == {"n": number}
        assert list(table) == ["k"]
        with client.transaction("tables") as transaction:
            report = transaction.append(rows(k='{"n": -1}'), topic)
            with pytest.raises(drumlin.RequestTimedOut, match=topic):
                table.wait_until(report, timeout_ms=200)
            assert table["k"] == {"n": 19}
        table.wait_until(report.partitions, timeout_ms=20_000)
        assert table["k"] == {"n": -1}
        client.append(rows(k="not JSON"), topic)
        table.refresh(20_000)
        with pytest.raises(drumlin.Undecodable, match="b'k'"):
            table["k"]


def test_what_cannot_be_waited_for(client: Client, topic: str) -> None:
    with client.table(topic) as table:
        with pytest.raises(ValueError, match=f"{topic}-7"):
            table.wait_until({7: 1})
        with pytest.raises(ValueError, match="'other'"):
            table.wait_until(drumlin.Delivered("other", 0, 1, 2))
        with pytest.raises(TypeError, match=f"the end of {topic}-0"):
            table.wait_until({(topic, 0): "1"})  # type: ignore[dict-item]


def test_changes_are_told_in_order(client: Client, topic: str) -> None:
    client.append(rows(a="1"), topic)
    told: list[drumlin.Change] = []
    with client.table(topic, decode="utf8", on_change=told.append) as table:
        for number in range(2, 50):
            report = client.append(rows(a=str(number)), topic)
        client.append(rows(b="1", a=None, nobody=None), topic)
        table.refresh(20_000)
        told_of_a = [(each.old, each.new) for each in told if each.key == "a"]
        assert told_of_a == [(str(n), str(n + 1)) for n in range(1, 49)] + [("49", None)]
        assert [each.new for each in told if each.key == "b"] == ["1"]
        assert {each.key for each in told} == {"a", "b"}
        ((_, placed),) = report.partitions.items()
        assert [each for each in told if each.key == "a"][-2].offset == placed.first_offset


def test_a_callback_that_raises_ends_it(client: Client, topic: str) -> None:
    def refuse(change: drumlin.Change) -> None:
        raise ArithmeticError(f"no {change.key!r}")

    with client.table(topic, on_change=refuse) as table:
        report = client.append(rows(a="1"), topic)
        with pytest.raises(drumlin.FollowingEnded, match=r"offset 0: .*no b'a'") as caught:
            table.wait_until(report, timeout_ms=20_000)
        assert isinstance(caught.value.__cause__, ArithmeticError)
        with pytest.raises(drumlin.FollowingEnded):
            len(table)


def test_a_callback_may_look_but_not_wait(client: Client, topic: str) -> None:
    seen: list[Any] = []
    table: drumlin.Table

    def look(change: drumlin.Change) -> None:
        seen.append(table[change.key])
        with pytest.raises(drumlin.ClientError, match="callback"):
            table.wait_until({0: 1})
        table.close()

    with client.table(topic, on_change=look) as table:
        client.append(rows(a="1"), topic)
        wait_until(lambda: seen, "a change")
    assert seen == [b"1"]


def test_in_an_asyncio_program(client: Client, topic: str) -> None:
    async def program() -> None:
        client.append(rows(a="1"), topic)
        with await asyncio.wrap_future(client.table_async(topic)) as table:
            assert table["a"] == b"1"
            report = client.append(rows(a="2"), topic)
            await asyncio.wrap_future(table.wait_until_async(report))
            assert table["a"] == b"2"
            waiting = asyncio.wrap_future(table.wait_until_async({0: 1000}))
        with pytest.raises(drumlin.ClientError, match="closed"):
            await waiting

    asyncio.run(program())


def test_the_same_key_in_two_partitions(client: Client, topic: str) -> None:
    client.append(rows(a="1"), topic, partition=lambda data, _: [0] * len(data))
    with client.table(topic) as table:
        report = client.append(rows(a="2"), topic, partition=lambda data, _: [1] * len(data))
        with pytest.raises(drumlin.EqualKeys, match="b'a'"):
            table.wait_until(report, timeout_ms=20_000)
    for beyond in (1 << 30, 1):
        with pytest.raises(drumlin.EqualKeys, match="b'a'"):
            client.table(topic, memory_bytes=beyond)
    with client.table(topic, partitions=[1, 2]) as table:
        assert dict(table) == {b"a": b"2"}


def test_a_tombstone_in_another_partition_deletes_nothing(client: Client, topic: str) -> None:
    for beyond in (1 << 30, 1):
        client.append(rows(a="1"), topic, partition=lambda data, _: [0] * len(data))
        with client.table(topic, memory_bytes=beyond) as table:
            client.append(rows(a=None), topic, partition=lambda data, _: [1] * len(data))
            table.refresh(20_000)
            assert dict(table) == {b"a": b"1"}


def test_beyond_its_memory_it_goes_to_the_disk(client: Client, topic: str, tmp_path: Any) -> None:
    expected = {f"k{n}": f"value {n}" for n in range(3000)}
    client.append(rows(**expected), topic, batch_bytes=10_000)
    with client.table(topic, decode="utf8", memory_bytes=100_000, folder=str(tmp_path)) as table:
        assert list(tmp_path.iterdir())
        assert dict(table.items()) == expected
        client.append(rows(k7="seven", k8=None, k3000="new"), topic)
        table.refresh(20_000)
        del expected["k8"]
        assert dict(table.items()) == expected | {"k7": "seven", "k3000": "new"}
        assert len(table) == 3000
        assert table.to_arrow().num_rows == 3000
    del table
    wait_until(lambda: not list(tmp_path.iterdir()), "the file to be gone")
    with pytest.raises(drumlin.TableTooLarge, match="100000 bytes"):
        client.table(topic, memory_bytes=100_000, beyond_memory="raise")


def test_it_grows_beyond_its_memory_while_it_follows(client: Client, topic: str) -> None:
    with (
        client.table(topic, memory_bytes=100_000) as table,
        client.table(topic, memory_bytes=100_000, beyond_memory="raise") as bounded,
    ):
        client.append(rows(**{f"k{n}": "v" * 100 for n in range(3000)}), topic, batch_bytes=10_000)
        table.refresh(20_000)
        assert len(table) == 3000
        with pytest.raises(drumlin.TableTooLarge):
            bounded.refresh(20_000)


def test_many_in_one_process(client: Client, topic: str) -> None:
    client.append(rows(a="1"), topic)
    tables = [client.table(topic) for _ in range(10)]
    report = client.append(rows(a="2"), topic)
    for table in tables:
        table.wait_until(report, timeout_ms=20_000)
        assert table["a"] == b"2"
    threads = threading.active_count()
    for table in tables:
        table.close()
    assert threading.active_count() == threads - 10


def test_records_that_are_deleted_before_they_were_read(client: Client, topic: str) -> None:
    topic += "-short"
    client.create_topic(topic, 1, configs={"cleanup.policy": "compact,delete"})
    client.append(rows(a="1"), topic)
    told: list[drumlin.Change] = []
    with client.table(topic, on_change=told.append) as table:
        (position,) = [place for place, end in table.positions().items() if end]
        # As if it had lagged: what it reads next is gone.
        engine = table._following._engine
        assert engine is not None
        end = client.append(rows(a="2"), topic)
        table.wait_until(end, timeout_ms=20_000)
        client.delete_records(topic, before={0: 2})
        client.append(rows(a="3"), topic)
        table.refresh(20_000)
        table._thread.call_soon(engine.seek, position, 0)
        client.append(rows(a="4"), topic)
        table.refresh(20_000)
        assert dict(table) == {b"a": b"4"}
        assert told[-1].new == b"4"


@pytest.fixture
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_LOOK_S", 0.1)


@pytest.mark.usefixtures("looks_often")
def test_a_topic_that_is_deleted(client: Client, topic: str) -> None:
    with client.table(topic) as table:
        client.delete_topic(topic)
        with pytest.raises(drumlin.UnknownTopic, match=topic):
            table.wait_until({0: 1}, timeout_ms=60_000)
        with pytest.raises(drumlin.UnknownTopic, match=topic):
            table.get("a")


def test_a_topic_that_is_made_again(client: Client, topic: str) -> None:
    client.append(rows(a="1", b="2"), topic)
    told: list[drumlin.Change] = []
    with (
        client.table(topic, on_change=told.append) as table,
        client.table(topic, when_lost="raise") as strict,
    ):
        client.delete_topic(topic)
        client.create_topic(topic, 1)
        client.append(rows(b="new"), topic)
        wait_until(lambda: dict(table) == {b"b": b"new"}, "the new topic's rows")
        assert {(each.key, each.new) for each in told} == {(b"a", None), (b"b", b"new")}
        assert table.positions() == {(topic, 0): 1}
        with pytest.raises(drumlin.ClientError):
            strict.wait_until({0: 1000}, timeout_ms=60_000)


def test_records_of_a_new_topic_never_show_beside_old_rows(
    client: Client, address: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new topic has a record at the offset that the table reads next, and a fetch meets it."""
    monkeypatch.setattr(following, "_LOOK_S", 3600.0)
    client.append(rows(a="1", b="2"), topic, partition=lambda data, _: [0] * len(data))
    new = rows(x="1", y="2", z="3")
    told: list[drumlin.Change] = []
    with client.table(topic, on_change=told.append) as table, drumlin.connect(address) as other:
        engine, places = table._following._engine, table.positions().keys()
        assert engine is not None
        table._thread.call_soon(engine.pause, places)
        other.delete_topic(topic)
        other.create_topic(topic, 3)
        other.append(new, topic, partition=lambda data, _: [0] * len(data))
        table._thread.call_soon(engine.resume, places)
        wait_until(lambda: len(table) == 3, "the new rows")
        assert dict(table) == {b"x": b"1", b"y": b"2", b"z": b"3"}
        assert sorted((each.key, each.offset) for each in told) == [
            (each, -1) for each in (b"a", b"b", b"x", b"y", b"z")
        ]


def test_a_topic_that_is_made_again_while_it_is_loaded(
    client: Client, address: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Partitions that are read later are those of the new topic; no row of the old one is left."""
    for each in range(3):
        client.append(rows(**{f"old{each}": "1"}), topic, partition=lambda data, _, to=each: [to])
    bound = following.Following._bound_memory
    batches = 0

    def make_again(self: following.Following) -> None:
        nonlocal batches
        batches += 1
        bound(self)
        if batches == 1:
            other.delete_topic(topic)
            other.create_topic(topic, 3)
            other.append(rows(new1="1", new2="1"), topic, partition=lambda data, _: [1, 2])

    monkeypatch.setattr(following.Following, "_bound_memory", make_again)
    with drumlin.connect(address) as other, client.table(topic) as table:
        assert dict(table) == {b"new1": b"1", b"new2": b"1"}


@pytest.mark.usefixtures("looks_often")
def test_partitions_that_are_added(client: Client, topic: str) -> None:
    with client.table(topic) as table:
        client.add_partitions(topic, 5)
        client.append(rows(z="1"), topic, partition=lambda data, _: [4] * len(data))
        wait_until(lambda: dict(table) == {b"z": b"1"}, "the row of a new partition")


def test_a_client_that_is_closed(address: str, topic: str) -> None:
    client = drumlin.connect(address)
    table = client.table(topic)
    client.close()
    wait_until(lambda: table._following.error is not None, "the table to notice")
    with pytest.raises(drumlin.ClientError, match="closed"):
        len(table)
    table.close()


@pytest.mark.parametrize("beyond", [1 << 30, 1])
def test_it_is_given_up_while_it_loads(
    client: Client, topic: str, beyond: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stops with the batch that is read, and leaves no thread, file or error behind."""
    for each in range(3):
        client.append(rows(**{f"k{each}": "1"}), topic, partition=lambda data, _, to=each: [to])
    loads, may_go_on = threading.Event(), threading.Event()
    batches: list[int] = []
    bound = following.Following._bound_memory

    def hold(self: following.Following) -> None:
        bound(self)
        batches.append(len(self._working))
        loads.set()
        may_go_on.wait(60)

    monkeypatch.setattr(following.Following, "_bound_memory", hold)
    threads = threading.active_count()
    future = client.table_async(topic, memory_bytes=beyond, folder=str(tmp_path))
    assert loads.wait(60)
    assert bool(list(tmp_path.iterdir())) == (beyond == 1)
    assert future.cancel()
    may_go_on.set()
    wait_until(lambda: threading.active_count() == threads, "the thread to end")
    assert batches == [1]
    assert not list(tmp_path.iterdir())
    with client.table(topic) as table:  # the client is as it was
        assert len(table) == 3


def test_it_is_given_up_in_an_asyncio_program(client: Client, topic: str) -> None:
    client.append(rows(a="1"), topic)

    async def program() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await asyncio.wrap_future(client.table_async(topic))

    threads = threading.active_count()
    asyncio.run(program())
    wait_until(lambda: threading.active_count() <= threads, "the thread to end")


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_client_is_closed_while_its_broker_is_silent(tmp_path: Path, is_loaded: bool) -> None:
    """Nobody waits for a broker that may never answer."""
    with running_server(tmp_path, {}) as server:
        client = drumlin.connect(server.address, request_timeout_ms=1_000_000)
        client.create_topic("silent", 1)
        if is_loaded:
            table = client.table("silent")
        os.kill(server.pid, signal.SIGSTOP)
        try:
            future = client.table_async("silent")
            with pytest.raises(TimeoutError):
                future.result(0.3)
            client.close()  # within the time-out of this test
        finally:
            os.kill(server.pid, signal.SIGCONT)
        with pytest.raises(drumlin.ClientError, match="closed"):
            future.result(10)
        if is_loaded:
            with pytest.raises(drumlin.ClientError, match="closed"):
                table["a"]


def test_a_file_is_deleted_though_an_error_is_kept(
    client: Client, topic: str, tmp_path: Path
) -> None:
    """Its traceback refers to the rows, and so would keep their file."""
    client.append(rows(a="1"), topic)

    def fail(change: drumlin.Change) -> None:
        raise ValueError(f"no {change.key}")

    table = client.table(topic, on_change=fail, memory_bytes=1, folder=str(tmp_path))
    reading = iter(table)
    client.append(rows(b="2"), topic)
    wait_until(lambda: table._following.error is not None, "the callback to fail")
    with pytest.raises(drumlin.FollowingEnded):
        table.refresh(20_000)
    wait_until(lambda: not list(tmp_path.iterdir()), "the file to be gone")
    with pytest.raises(drumlin.ClientError):
        list(reading)


def test_arguments(client: Client, topic: str) -> None:
    for bad in (
        {"decode": "xml"},
        {"when_lost": "ignore"},
        {"beyond_memory": "swap"},
        {"memory_bytes": 0},
        {"on_change": 5},
    ):
        with pytest.raises((TypeError, ValueError), match=next(iter(bad))):
            client.table(topic, **bad)  # type: ignore[arg-type]
    with pytest.raises(drumlin.UnknownTopic):
        client.table("no-such-topic")
