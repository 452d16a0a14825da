"""A produce request with very many batches delays no other client, whatever becomes of them."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.in_process import running
from broker.producing.test_produce import Side, request
from drumlin.broker.parts.flushes import Flushes
from drumlin.broker.producing import produce_appends
from drumlin.turns import TURN_S
from drumlin.wire.messages import parse_response
from rig.data.batches import Batch, Rec, batch

_PARTITIONS = 100


@asynccontextmanager
async def side(directory: Path, **configs: str) -> AsyncIterator[Side]:
    async with running(directory) as broker:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        await broker.metadata.create_topic("t", [[1]] * _PARTITIONS, named, UUID(int=7))
        yield Side(broker)


def produce(batches: list[bytes], **fields: Any) -> bytes:
    parts = [{"index": at % _PARTITIONS, "records": each} for at, each in enumerate(batches)]
    topics = [{"name": "t", "partition_data": parts}]
    return request("produce", 9, **{"acks": 1, "timeout": 1000, "topic_data": topics, **fields})


def outcomes(answer: bytes | str | None) -> list[Any]:
    assert isinstance(answer, bytes)
    _, response = parse_response("produce", 9, memoryview(answer)[4:])
    return list(response.responses[0].partition_responses)


async def most_in_one_turn(side: Side, frame: bytes, count: list[int]) -> tuple[int, Any]:
    """How often `count[0]` went up between two looks at it, while the frame is answered."""
    most = 0

    async def look() -> None:
        nonlocal most
        while True:
            most, count[0] = max(most, count[0]), 0
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    answer = await side.ask(frame)
    looking.cancel()
    return max(most, count[0]), answer


def counted(function: Callable[..., Any], count: list[int], takes_s: float) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        count[0] += 1
        ends_at = time.monotonic() + takes_s
        while time.monotonic() < ends_at:
            pass
        return function(*arguments)

    return call


def test_what_is_wrong_with_many_records_is_told_by_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    write = produce_appends.write_produce_answer

    def note(*arguments: Any) -> bytes:
        threads.append(threading.get_ident())
        return write(*arguments)

    async def run() -> None:
        async with side(tmp_path, cleanup_policy="compact") as one:
            monkeypatch.setattr(produce_appends, "write_produce_answer", note)
            keyless = Batch(tuple(Rec(key=None, value=bytes(40)) for _ in range(150))).encode()
            answered = outcomes(await one.ask(produce([keyless] * _PARTITIONS)))
            assert [len(each.record_errors) for each in answered] == [100] * _PARTITIONS
            assert threads[-1] != threading.get_ident()
            await one.ask(produce([keyless]))
            assert threads[-1] == threading.get_ident()

    asyncio.run(run())


def test_many_transactional_batches_are_looked_at_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with side(tmp_path) as one:
            producer = {"producer_id": 5, "producer_epoch": 0, "base_sequence": 0}
            records = batch(b"x", extra_attributes=0x10, **producer)
            count = [0]
            slow = counted(produce_appends.header_of, count, 0.6 * TURN_S)
            monkeypatch.setattr(produce_appends, "header_of", slow)
            frame = produce([records] * 300, transactional_id="nobody's")
            most, answer = await most_in_one_turn(one, frame, count)
            assert {each.error_code.name for each in outcomes(answer)} != {"none"}
            assert one.records() == 0
            assert 0 < most <= 2

    asyncio.run(run())


def test_many_flushes_do_not_begin_in_one_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with side(tmp_path, flush_messages="1") as one:
            count = [0]
            monkeypatch.setattr(Flushes, "flush", counted(Flushes.flush, count, 0.0))
            frame = produce([batch(b"x")] * _PARTITIONS)
            most, answer = await most_in_one_turn(one, frame, count)
            assert [each.error_code.value for each in outcomes(answer)] == [0] * _PARTITIONS
            logs = [log for log in one.broker.logs if log.name.startswith("t-")]
            assert [log.recovery_point for log in logs] == [1] * _PARTITIONS
            assert 0 < most < _PARTITIONS

    asyncio.run(run())
