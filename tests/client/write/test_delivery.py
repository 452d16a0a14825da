"""Every record exactly once and in order, whatever happens to requests and answers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from client.write.flaky_log import Fault, FlakyLog, answer, values
from drumlin.client.client import Client
from drumlin.client.errors import DeliveryFailed
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker
from rig.data.messages import Shape
from rig.waiting import wait_until

ROWS = [b"%d" % number for number in range(60)]
BATCH_BYTES = 120  # some records a batch


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 1}) as broker:
        yield broker


def client_of(broker: ScriptedBroker) -> Client:
    return drumlin.connect(broker.address, retry_backoff_ms=2, request_timeout_ms=10_000)


def append(client: Client, **options: Any) -> Any:
    table = pa.table({"value": ROWS})
    return client.append(table, "t", batch_bytes=BATCH_BYTES, **options)


def random_faults(seed: int) -> Iterator[Fault]:
    rng = random.Random(seed)
    choices: list[Fault] = [
        "lost",
        "dropped",
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_enough_replicas,
        ErrorCode.request_timed_out,
        ErrorCode.leader_not_available,
    ]
    for _ in range(40):
        yield rng.choice(choices) if rng.random() < 0.4 else None


@pytest.mark.parametrize("seed", range(12))
def test_each_record_once_and_in_order(broker: ScriptedBroker, seed: int) -> None:
    log = FlakyLog(broker, random_faults(seed))
    with client_of(broker) as client:
        report = append(client)
    assert values(log) == ROWS
    assert report.record_count == len(ROWS)
    assert report.partitions[0] == (0, len(ROWS), len(ROWS))


def test_nothing_overtakes_the_first_batch(broker: ScriptedBroker) -> None:
    """A broker without any state of a producer takes whatever sequence comes first."""
    log = FlakyLog(broker, iter([ErrorCode.not_leader_or_follower] * 3))
    with client_of(broker) as client:
        append(client)
    assert values(log) == ROWS
    assert log.headers[0].base_sequence == 0


@pytest.mark.parametrize("seed", range(4))
def test_a_writer_delivers_as_well(broker: ScriptedBroker, seed: int) -> None:
    log = FlakyLog(broker, random_faults(100 + seed))
    with client_of(broker) as client, client.writer("t", batch_bytes=BATCH_BYTES) as writer:
        deliveries = [writer.send(value) for value in ROWS]
    assert values(log) == ROWS
    assert [each.result().offset for each in deliveries] == list(range(len(ROWS)))


def test_sequences_go_on_from_append_to_append(broker: ScriptedBroker) -> None:
    log = FlakyLog(broker, iter(()))
    with client_of(broker) as client:
        append(client)
        append(client)
    assert values(log) == ROWS + ROWS
    assert {(each.producer_id, each.producer_epoch) for each in log.headers} == {(1001, 0)}
    assert len(broker.asked("init_producer_id")) == 1


def test_an_unanswered_request_is_repeated(broker: ScriptedBroker) -> None:
    log = FlakyLog(broker, iter([None, "silent"]))
    options = {"retry_backoff_ms": 2, "request_timeout_ms": 300}
    with drumlin.connect(broker.address, **options) as client:
        append(client)
    assert values(log) == ROWS


def test_a_refused_batch_is_reported_and_the_rest_goes_on(broker: ScriptedBroker) -> None:
    log = FlakyLog(broker, iter([None, ErrorCode.message_too_large]))
    with client_of(broker) as client:
        with pytest.raises(DeliveryFailed, match="'t' partition 0: message_too_large") as error:
            append(client)
        written = values(log)
        assert error.value.acknowledged == len(written)
        # One batch is missing; what follows it is there, under the next epoch.
        missing = [value for value in ROWS if value not in written]
        start = ROWS.index(missing[0])
        assert written == ROWS[:start] + ROWS[start + len(missing) :]
        assert [each.producer_epoch for each in log.headers][:2] == [0, 1]
        append(client)
    assert values(log) == written + ROWS


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.unknown_producer_id,
        ErrorCode.invalid_producer_epoch,
    ],
)
def test_a_broker_that_forgot_the_producer(broker: ScriptedBroker, code: ErrorCode) -> None:
    log = FlakyLog(broker, iter([None, None, code]))
    with client_of(broker) as client:
        append(client)
    assert values(log) == ROWS
    assert {each.producer_epoch for each in log.headers} == {0, 1}


def test_a_duplicate_too_old_to_be_known_counts_as_written(broker: ScriptedBroker) -> None:
    FlakyLog(broker, iter([ErrorCode.duplicate_sequence_number]))
    with client_of(broker) as client:
        report = client.append(pa.table({"value": [b"x"]}), "t")
    assert report.partitions[0] == (-1, -1, 1)


def test_time_runs_out_with_the_last_reason(broker: ScriptedBroker) -> None:
    def refuse(shape: Shape, request: Any) -> Any:
        return answer(shape, request, ErrorCode.not_enough_replicas)

    FlakyLog(broker, iter(()))
    broker.script("produce", refuse)
    with client_of(broker) as client, pytest.raises(DeliveryFailed, match="not_enough_replicas"):
        append(client, delivery_timeout_ms=200)


def test_an_append_that_cannot_go_on_says_what_was_written() -> None:
    """The second partition's records cannot be encoded when those of the first are on their way."""
    with ScriptedBroker({"t": 2}) as broker:
        log = FlakyLog(broker, iter(["lost"]))
        large = [each.ljust(40_000) for each in ROWS]  # so that nothing is held for others
        table = pa.table(
            {
                "value": large,
                "partition": [0] * 30 + [1] * 30,
                "timestamp": [0] * 30 + [-5] * 29 + [2**63 - 1],
            }
        )
        with client_of(broker) as client:
            with pytest.raises(ValueError, match="timestamp of row 59 is out of range") as failed:
                client.append(table, "t", partition="partition")
            assert failed.value.__notes__ == ["30 records of this append were written"]
            assert values(log) == large[:30]
            append(client)


def test_a_new_leader_is_found() -> None:
    with ScriptedBroker({"t": 1}, node_id=1) as old, ScriptedBroker({"t": 1}, node_id=2) as new:
        log = FlakyLog(new, iter(()))
        old.script("init_producer_id", log.init_producer_id)

        def move(shape: Shape, request: Any) -> Any:
            old.leader_id = 2
            old.brokers = {2: new.port}
            return answer(shape, request, ErrorCode.not_leader_or_follower)

        old.script("produce", move)
        with client_of(old) as client:
            append(client)
    assert values(log) == ROWS


@pytest.mark.parametrize("acks", ["all", "leader", "none"])
def test_a_new_leader_is_found_without_retries(acks: Any) -> None:
    """What the old one refused is lost, and no more: it is not asked again and again."""
    with ScriptedBroker({"t": 1}, node_id=1) as old, ScriptedBroker({"t": 1}, node_id=2) as new:
        log = FlakyLog(new, iter(["silent"] * 9 if acks == "none" else []))

        def move(shape: Shape, request: Any) -> Any:
            old.leader_id = 2
            old.brokers = {2: new.port}
            # A broker has no other way to refuse what wants no answer.
            code = ErrorCode.not_leader_or_follower
            return CloseConnection() if acks == "none" else answer(shape, request, code)

        old.script("produce", move)
        written: list[bytes] = []
        with client_of(old) as client:

            def is_written() -> bool:
                written.append(b"%d" % len(written))
                table = pa.table({"value": written[-1:]})
                try:
                    client.append(table, "t", acks=acks, retries=0)
                except DeliveryFailed:
                    return False
                return bool(log.records)

            wait_until(is_written, "the new leader")
    assert len(old.asked("produce")) == 1 or acks == "none"
    assert values(log)[0] in written
    assert len(values(log)) + len(old.asked("produce")) <= len(written)


def test_without_acks_nothing_is_awaited(broker: ScriptedBroker) -> None:
    log = FlakyLog(broker, iter(["silent"] * 100))
    with client_of(broker) as client:
        report = append(client, acks="none")
        assert report.partitions[0] == (-1, -1, len(ROWS))
        client.refresh()  # answered after them on the same connection
    assert values(log) == ROWS
    assert {each.producer_id for each in log.headers} == {-1}


def test_a_broker_that_is_killed_and_started_again(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path)
    wanted = [b"%d" % number for number in range(3_000)]
    try:
        server.start()
        with drumlin.connect(server.address, retry_backoff_ms=10) as client:
            client.create_topic("t", 1)
            with client.writer("t", batch_bytes=500, linger_ms=1) as writer:
                for number, value in enumerate(wanted):
                    writer.send(value)
                    if number in (1_000, 2_000):
                        server.kill()
                        server.start()
            found = client.read("t")["value"].to_pylist()
    finally:
        server.close()
    assert found == wanted
