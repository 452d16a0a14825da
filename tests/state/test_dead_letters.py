"""A function that raises stops the processor at the record, or has it put aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.state import Processor
from state.counting import check, committed

Made = Callable[..., Processor]
KEYS = ["a", "b", "bad", "a", "c", "bad", "a"]


def counting(processor: Processor, output: str) -> Callable[[pa.RecordBatch], None]:
    """Counts each record; a bad key fails when its work is half done."""

    def handle(batch: pa.RecordBatch) -> None:
        for key in batch.column("key").to_pylist():
            number = int(processor.state.get(key, b"0")) + 1
            processor.state[key] = b"%d" % number
            processor.send(output, b"%d" % number, key)
            if key == b"bad":
                raise ValueError("no such customer")

    return handle


@pytest.fixture
def output(client: Client, topic: str) -> str:
    client.create_topic(f"{topic}-output", 1)
    client.create_topic(f"{topic}-bad", 1)
    client.append(
        [
            {
                "key": key,
                "value": f"{key}{number}",
                "partition": 0,
                "headers": [{"key": "h", "value": b"1"}],
            }
            for number, key in enumerate(KEYS)
        ],
        topic,
        partition="partition",
    )
    return f"{topic}-output"


def test_the_record_is_named(
    client: Client, topic: str, group: str, made: Made, output: str
) -> None:
    processor = made()
    with pytest.raises(ValueError, match="no such customer") as raised:
        processor.run(counting(processor, output))
    assert f"while processing topic {topic!r} partition 0 offset 2;" in raised.value.__notes__[0]
    with pytest.raises(drumlin.ClientError, match="closed"):
        next(processor)
    assert committed(client, output) == []
    assert client.committed_offsets(group) == {}


def test_it_is_put_aside(client: Client, topic: str, group: str, made: Made, output: str) -> None:
    with made(dead_letters=f"{topic}-bad") as processor:
        processor.run(counting(processor, output))
    check(client, topic, output, group, Counter({b"a": 3, b"b": 1, b"c": 1}))
    letters = client.read(f"{topic}-bad", isolation="read_committed", headers=True).to_pylist()
    assert [(each["key"], each["value"]) for each in letters] == [
        (b"bad", b"bad2"),
        (b"bad", b"bad5"),
    ]
    headers = {each["key"]: each["value"] for each in letters[1]["headers"]}
    assert int(headers.pop("__drumlin.errors.timestamp")) > 0
    assert headers == {
        "h": b"1",
        "__connect.errors.topic": topic.encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"5",
        "__connect.errors.exception.class.name": b"ValueError",
        "__connect.errors.exception.message": b"no such customer",
    }


def test_an_abort_takes_letters_back(
    client: Client, topic: str, group: str, made: Made, output: str
) -> None:
    with made(dead_letters=f"{topic}-bad", commit_interval_ms=60_000) as processor:
        handle = counting(processor, output)
        aborted: list[int] = []

        def spoiling(batch: pa.RecordBatch) -> None:
            handle(batch)
            if not aborted and batch.column("offset")[-1].as_py() == len(KEYS) - 1:
                aborted.append(1)
                processor._work.output._writers[f"{topic}-bad"].flush()
                client.abort_transaction(processor._work._transactional_id)

        processor.run(spoiling)
    check(client, topic, output, group, Counter({b"a": 3, b"b": 1, b"c": 1}))
    assert len(committed(client, f"{topic}-bad")) == 2


def test_values_that_are_no_json_are_put_aside(
    client: Client, topic: str, group: str, made: Made
) -> None:
    client.create_topic(f"{topic}-bad", 1)
    values = [json.dumps({"n": 1}), "{", json.dumps({"n": 2}), json.dumps("three")]
    client.append(
        [{"value": each, "partition": 1} for each in values], topic, partition="partition"
    )
    seen: list[Any] = []
    with made(dead_letters=f"{topic}-bad", decode="json") as processor:
        processor.run(lambda batch: seen.extend(batch.column("value").to_pylist()))
    assert seen == [{"n": 1}, {"n": 2}, "three"]
    assert [value for _, value in committed(client, f"{topic}-bad")] == [b"{"]


def test_errors_of_the_client_are_no_records_fault(
    client: Client, topic: str, group: str, made: Made, output: str
) -> None:
    processor = made(dead_letters=f"{topic}-bad")

    def failing(batch: pa.RecordBatch) -> None:
        raise drumlin.ClientError("the cache is away")

    with pytest.raises(drumlin.ClientError, match="the cache is away"):
        processor.run(failing)
    assert committed(client, f"{topic}-bad") == []


def test_iterating_has_no_dead_letters(topic: str, made: Made) -> None:
    with (
        made(dead_letters=f"{topic}-bad") as processor,
        pytest.raises(drumlin.ClientError, match=r"see Processor\.run"),
    ):
        next(processor)


@pytest.mark.parametrize("what", ["close", "next"])
def test_a_function_cannot_commit_half_a_batch(
    client: Client, group: str, made: Made, output: str, what: str
) -> None:
    processor = made()

    def handle(batch: pa.RecordBatch) -> None:
        if batch.num_rows > 1:
            raise ValueError
        processor.state[b"a"] = b"1"
        _ = processor.close() if what == "close" else next(processor)

    with pytest.raises(drumlin.ClientError, match="can neither get the next batch nor close"):
        processor.run(handle)
    assert client.committed_offsets(group) == {}
