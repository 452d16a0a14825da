"""Whatever is taken is settled: no caller waits in vain, and no record is lost with another one."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumlin
from client.write.flaky_log import Fault, FlakyLog, values
from drumlin.client.client import Client
from drumlin.client.errors import BufferFull, ClientError, DeliveryFailed
from drumlin.client.loops.loop_thread import LoopThread
from drumlin.client.write import open_batch
from drumlin.client.write.partition_sender import PartitionSender
from drumlin.client.write.writer import Writer
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.waiting import wait_until

NEVER_MS = 1_000_000
SOON_MS = 20_000


@pytest.fixture(scope="module")
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as broker:
        yield broker


@pytest.fixture
def log(broker: ScriptedBroker) -> FlakyLog:
    return FlakyLog(broker, iter(()))


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[Client]:
    with drumlin.connect(broker.address, retry_backoff_ms=2) as client:
        yield client


@pytest.mark.parametrize("count", [1, 30])
def test_a_record_that_is_refused_takes_no_other_with_it(
    log: FlakyLog, client: Client, count: int
) -> None:
    """However many are in its batch: few are encoded one by one, many in columns."""
    with client.writer("t", linger_ms=NEVER_MS) as writer:
        good = [writer.send(b"%d" % each) for each in range(count)]
        for odd in ({"a": 5}, [(5, b"x")], {"\udc80": b""}):
            with pytest.raises((TypeError, ValueError)):
                writer.send(b"odd", headers=odd)  # type: ignore[arg-type]
        good.append(writer.send(b"text", headers={"a": "text"}))
    assert [each.result().offset for each in good] == list(range(count + 1))
    assert log.records[-1].headers == (("a", b"text"),)


def test_what_changes_afterwards_is_written_as_it_was(log: FlakyLog, client: Client) -> None:
    value = bytearray(b"before")
    with client.writer("t", linger_ms=NEVER_MS) as writer:
        writer.send(value)  # type: ignore[arg-type]
        value[:] = b"behind"
    assert values(log) == [b"before"]


@pytest.mark.parametrize("count", [1, 20])
def test_header_names_that_take_four_bytes_a_character(
    log: FlakyLog, client: Client, count: int
) -> None:
    with client.writer("t", linger_ms=NEVER_MS) as writer:
        for each in range(count):
            writer.send(b"%d" % each, headers={"\N{FIRE}" * 1_000: b"x"})
    assert values(log) == [b"%d" % each for each in range(count)]


def test_a_loop_that_is_quicker_than_the_caller(
    log: FlakyLog, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has lingered before the call that opened it continues."""
    call_soon = LoopThread.call_soon

    def slowly(thread: LoopThread, function: Callable[..., object], *arguments: object) -> None:
        call_soon(thread, function, *arguments)
        if threading.current_thread() is threading.main_thread():
            thread.run(asyncio.sleep(0.01))

    writer = client.writer("t", linger_ms=0)
    monkeypatch.setattr(LoopThread, "call_soon", slowly)
    delivery = writer.send(b"0")
    assert delivery.result(timeout_ms=SOON_MS).offset == 0


class Broken(Exception):
    """Raised by a user's code, or by a fault of ours."""


def test_callbacks_that_raise(
    log: FlakyLog, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[Any] = []

    def on_delivery(delivered: Any, error: Any) -> None:
        told.append(delivered.offset)
        raise [Broken, SystemExit, KeyboardInterrupt][len(told) % 3]("of the user")

    with caplog.at_level(logging.CRITICAL), client.writer("t", on_delivery=on_delivery) as writer:
        sent = [writer.send(b"%d" % each) for each in range(5)]
        writer.flush(timeout_ms=SOON_MS)
        sent.append(writer.send(b"one more"))
    assert told == list(range(6))
    assert [each.result().offset for each in sent] == told


def test_callbacks_that_wait_for_the_client(log: FlakyLog, client: Client) -> None:
    """They would wait for themselves: they are told so."""
    writer: Writer
    told: list[str] = []

    def on_delivery(delivered: Any, error: Any) -> None:
        if told:
            return
        waits: list[Callable[[], object]] = [
            lambda: writer.flush(),
            lambda: writer.close(),
            lambda: writer.send(b"x").result(),
            lambda: client.partitions("t"),
            lambda: client.close(),
        ]
        for wait in waits:
            with pytest.raises(ClientError, match="must not wait for the client"):
                wait()
        told.append("all")

    with client.writer("t", on_delivery=on_delivery) as writer:
        writer.send(b"v")
        wait_until(lambda: told, "the callback to end")
    assert values(log) == [b"v", b"x"]


def test_a_callback_may_send(log: FlakyLog, client: Client) -> None:
    writer: Writer

    def on_delivery(delivered: Any, error: Any) -> None:
        if delivered.offset < 5:
            writer.send(b"%d" % (delivered.offset + 1))

    writer = client.writer("t", on_delivery=on_delivery, linger_ms=0)
    writer.send(b"0")
    wait_until(lambda: len(log.records) == 6, "the last of them")
    writer.close()


def test_a_partitioner_that_raises_or_chooses_nonsense(log: FlakyLog, client: Client) -> None:
    choices = iter(["x", 1.0, -1, 7, None, Broken("of the user"), 0])

    def partitioner(key: bytes | None, count: int) -> Any:
        chosen = next(choices)
        if isinstance(chosen, Exception):
            raise chosen
        return chosen

    with client.writer("t", partitioner=partitioner, linger_ms=NEVER_MS) as writer:
        for _ in range(6):
            with pytest.raises((TypeError, ValueError, Broken)):
                writer.send(b"odd")
        delivery = writer.send(b"good")
    assert delivery.result().offset == 0
    assert values(log) == [b"good"]


def test_a_partitioner_may_use_the_client(log: FlakyLog, client: Client) -> None:
    def partitioner(key: bytes | None, count: int) -> int:
        return client.partitions("t")[0]

    with client.writer("t", partitioner=partitioner, linger_ms=0) as writer:
        for each in range(30):
            writer.send(b"%d" % each)
    assert len(log.records) == 30


def broken(*arguments: object, **options: object) -> Any:
    raise Broken("a fault of ours")


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (open_batch, "encode_batch"),
        (PartitionSender, "put"),
        (PartitionSender, "_stamp"),
        (PartitionSender, "_prepare"),
        (PartitionSender, "_sort_failed"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
@pytest.mark.parametrize("linger_ms", [0, NEVER_MS])
def test_a_fault_of_ours_is_told_to_whoever_waits(
    log: FlakyLog,
    client: Client,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
    linger_ms: int,
) -> None:
    writer = client.writer("t", linger_ms=linger_ms)
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, broken)
        deliveries = [writer.send(b"%d" % each) for each in range(3)]
        with pytest.raises(DeliveryFailed, match="a fault of ours"):
            writer.flush(timeout_ms=SOON_MS)
        for each in deliveries:
            with pytest.raises(DeliveryFailed, match="a fault of ours") as failed:
                each.result()
            assert isinstance(failed.value.__cause__, Broken)
    good = writer.send(b"good")
    writer.close()
    assert good.result().partition == 0
    assert values(log) == [b"good"]


def test_a_client_that_is_closed_first(log: FlakyLog, client: Client) -> None:
    """Nothing that is open or on its way is waited for any more."""
    told: list[Any] = []
    writer = client.writer(
        "t", linger_ms=NEVER_MS, on_delivery=lambda found, error: told.append(str(error))
    )
    delivery = writer.send(b"v")
    client.close()
    with pytest.raises(DeliveryFailed, match="client was closed before"):
        delivery.result(timeout_ms=SOON_MS)
    assert told == ["the client was closed before the records were written"]
    with pytest.raises(ClientError, match="closed"):
        writer.send(b"v")
    writer.flush(timeout_ms=SOON_MS)
    writer.close()


def test_a_client_that_is_closed_while_somebody_waits(
    broker: ScriptedBroker, log: FlakyLog, client: Client
) -> None:
    broker.script("produce", lambda shape, request: Silence())
    writer = client.writer("t", linger_ms=0, buffer_bytes=10)
    ended: list[BaseException] = []

    def wait(work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except ClientError as error:
                ended.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    delivery = writer.send(b"v")
    wait_until(lambda: broker.asked("produce"), "the request")
    waiting = [wait(writer.flush), wait(delivery.result), wait(lambda: writer.send(b"w"))]
    client.close()
    for each in waiting:
        each.join(20)
        assert not each.is_alive()
    assert len(ended) == 3
    assert isinstance(delivery.done() and ended[0], ClientError)


def test_a_flush_does_not_wait_for_what_comes_later(log: FlakyLog, client: Client) -> None:
    """It ends although another thread keeps sending."""
    stop = threading.Event()
    with client.writer("t", linger_ms=0) as writer:

        def send() -> None:
            for number in itertools.count():
                if stop.is_set():
                    return
                writer.send(b"%d" % number)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            for _ in range(5):
                writer.flush(timeout_ms=SOON_MS)
        finally:
            stop.set()
            thread.join()


def test_a_callback_does_not_wait_for_room(
    broker: ScriptedBroker, log: FlakyLog, client: Client
) -> None:
    """The room that it would wait for is given back by the thread that it runs in."""
    errors: list[BaseException] = []

    def on_delivery(delivered: Any, error: Any) -> None:
        try:
            if len(log.records) == 1:
                for _ in range(2):
                    writer.send(b"x" * 900)
        except (BufferFull, ClientError) as full:
            errors.append(full)

    with client.writer("t", on_delivery=on_delivery, buffer_bytes=1_000) as writer:
        writer.send(b"x" * 900)
    assert len(errors) == 1


# -- and all together --------------------------------------------------------------------


class Odd(NamedTuple):
    """What must not be taken."""

    arguments: dict[str, Any]


class Length:
    def __len__(self) -> int:
        raise Broken("no length")

    def __str__(self) -> str:
        raise Broken("no text")

    __repr__ = __str__


class Pairs:
    def __iter__(self) -> Iterator[Any]:
        yield ("a", b"1")
        raise Broken("no more headers")


_ODD = st.sampled_from(
    [
        Odd({"value": 1.5}),
        Odd({"value": 2**70}),
        Odd({"value": {"a": 1}}),
        Odd({"value": "\ud800"}),
        Odd({"value": Length()}),
        Odd({"value": b"v", "key": 5}),
        Odd({"value": b"v", "key": "k\udfff"}),
        Odd({"value": b"v", "headers": {"a": 1.5}}),
        Odd({"value": b"v", "headers": {"a\udc80": b""}}),
        Odd({"value": b"v", "headers": {"a": "\udc80"}}),
        Odd({"value": b"v", "headers": {5: b""}}),
        Odd({"value": b"v", "headers": [("a", b"", b"")]}),
        Odd({"value": b"v", "headers": Pairs()}),
        Odd({"value": b"v", "headers": Length()}),
        Odd({"value": b"v", "timestamp": 1e300}),
        Odd({"value": b"v", "timestamp": 2**64}),
        Odd({"value": b"v", "timestamp": "now"}),
        Odd({"value": b"v", "partition": 1}),
        Odd({"value": b"v", "partition": "0"}),
        Odd({"value": b"v", "partition": Length()}),
    ]
)
_GOOD = st.builds(
    lambda key, headers, timestamp, kind: {
        "key": key,
        "headers": headers,
        "timestamp": timestamp,
        "kind": kind,
    },
    st.sampled_from([None, b"k", "k", b"k" * 70_000]),
    st.sampled_from([None, {"a": "text"}, [("a", b"1"), ("a", None)], {}]),
    st.sampled_from([None, 0, -1, 1_234, -(2**62) + 1, 2**62 - 1]),
    st.sampled_from([bytes, bytearray, memoryview, bytes.decode]),
)
_FAULTS: st.SearchStrategy[Fault] = st.sampled_from(
    [
        None,
        "lost",
        "dropped",
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.message_too_large,
    ]
)


@settings(max_examples=60, database=None)
@given(
    st.lists(st.one_of(_GOOD, _GOOD, _GOOD, _ODD), min_size=1, max_size=40),
    st.lists(_FAULTS, max_size=12),
    st.sampled_from([0, 1, NEVER_MS]),
    st.sampled_from([None, 1, 5, 17]),
    st.sampled_from(["none", "zstd"]),
    st.sampled_from([None, 2, 3]),
)
def test_what_is_reported_is_true(
    records: list[Any],
    faults: list[Fault],
    linger_ms: int,
    max_records: int | None,
    compression: str,
    raises_every: int | None,
) -> None:
    """Through a real connection, whatever is sent and whatever callbacks do."""
    told: list[bool] = []

    def on_delivery(delivered: Any, error: Any) -> None:
        told.append(error is None)
        if raises_every and len(told) % raises_every == 0:
            raise Broken("of the user")

    with ScriptedBroker({"t": 1}) as broker:
        log = FlakyLog(broker, iter(faults))
        with drumlin.connect(broker.address, retry_backoff_ms=1) as client:
            options: Any = {"linger_ms": linger_ms, "compression": compression}
            sent = _send_all(
                client.writer("t", max_records=max_records, on_delivery=on_delivery, **options),
                records,
            )
    assert len(told) == len(sent)
    written = values(log)
    for value, delivery in sent.items():
        assert delivery.done()
        try:
            offset = delivery.result().offset
            assert written.count(value) == 1
            assert offset in (-1, written.index(value))
        except DeliveryFailed as error:
            assert written.count(value) <= int(error.may_be_written)
    assert written == sorted(written, key=lambda value: int(value or b""))


def _send_all(writer: Writer, records: list[Any]) -> dict[bytes, open_batch.Delivery]:
    sent = {}
    for number, record in enumerate(records):
        if isinstance(record, Odd):
            with pytest.raises((TypeError, ValueError, Broken)):
                writer.send(**record.arguments)
            continue
        value = b"%d" % number
        plain = {name: each for name, each in record.items() if name != "kind"}
        sent[value] = writer.send(record["kind"](value), **plain)
    writer.flush(timeout_ms=SOON_MS)
    writer.close()
    return sent
