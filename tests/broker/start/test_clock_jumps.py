"""A wall clock that is set ahead removes nothing: not records, nor what clients have left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.start import chores
from drumlin.broker.start.broker import Broker
from drumlin.cli import app
from drumlin.metadata.names import TRANSACTION_STATE
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.time.clocks import JumpingClock
from rig.waiting import eventually, wait_until

DAY_MS = 24 * 3600 * 1000
NOW_MS = 1_700_000_000_000


@pytest.fixture
def clock() -> JumpingClock:
    return JumpingClock(NOW_MS)


class Kept:
    """What a broker has of its clients."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._client = RawClient(broker.listeners[0].port)

    def close(self) -> None:
        self._client.close()

    def _ask(self, api: str, version: int, **fields: Any) -> Any:
        return render(self._client.ask(api, version, **fields))

    def fill(self) -> None:
        """Records, an idempotent producer, a committed offset, a transactional id."""
        records = batch(b"x", timestamp=NOW_MS, producer_id=7, producer_epoch=0, base_sequence=0)
        data = [{"name": "t", "partition_data": [{"index": 0, "records": records}]}]
        told = self._ask("produce", 9, acks=1, timeout=9000, topic_data=data)["responses"]
        assert told[0]["partition_responses"][0]["error_code"] == "none"
        for key, kind in (("g", 0), ("x", 1)):
            self._ask("find_coordinator", 3, key=key, key_type=kind)
        wait_until(lambda: self._commit() == "none", "the coordinator of the group")
        asked = {
            "transactional_id": "x",
            "transaction_timeout": 60_000,
            "producer_id": -1,
            "producer_epoch": -1,
        }
        wait_until(
            lambda: self._ask("init_producer_id", 4, **asked)["error_code"] == "none",
            "the coordinator of the transactional id",
        )

    def _commit(self) -> str:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        told = self._ask(
            "offset_commit",
            8,
            group_id="g",
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            topics=[{"name": "t", "partitions": [partition]}],
        )
        return str(told["topics"][0]["partitions"][0]["error_code"])

    def found(self) -> dict[str, int]:
        log = self._broker.partitions.get("t", 0).log
        topics = [{"name": "t", "partition_indexes": [0]}]
        offsets = self._ask("offset_fetch", 7, group_id="g", topics=topics)["topics"]
        states = self._ask("list_transactions", 1, state_filters=[], producer_id_filters=[])
        return {
            "records": log.log_end_offset - log.log_start_offset,
            "producers": len(list(log.producer_state.freeze().entries())),
            "offsets": sum(each["committed_offset"] >= 0 for each in offsets[0]["partitions"]),
            "ids": len(states["transaction_states"]),
        }


async def expire(broker: Broker) -> None:
    """All that a broker does now and then about what has become old."""
    await chores._retain(broker)
    expiration_ms = broker.config.producer_id_expiration_ms
    await broker.logs.expire_producers(expiration_ms)
    await broker.groups._removals.expire()
    await broker.transactions.expire()


@pytest.fixture
def frequent_looks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(chores, "_SECOND_MS", 20)
    yield


ALL = {"records": 1, "producers": 1, "offsets": 1, "ids": 1}
NOTHING = dict.fromkeys(ALL, 0)


def test_nothing_is_old_because_the_clock_was_set(tmp_path: Path, clock: JumpingClock) -> None:
    async def run() -> None:
        async with running(
            tmp_path, clock=clock, transaction_state_log_num_partitions="1"
        ) as broker:
            await broker.metadata.create_topic("t", [[1]], {"retention.ms": str(7 * DAY_MS)})
            with closing(Kept(broker)) as kept:
                await asyncio.to_thread(kept.fill)
                assert broker.partitions.get(TRANSACTION_STATE, 0).log_end_offset
                for jump_ms, hours in ((400 * DAY_MS, 0), (0, 0.9), (400 * DAY_MS, 0.9)):
                    clock.jump_ms(jump_ms)
                    clock.advance_ms(int(hours * 3_600_000))
                    await expire(broker)
                    assert await asyncio.to_thread(kept.found) == ALL
                clock.advance_ms(3_600_000)  # it has stood for an hour
                await expire(broker)
                assert await asyncio.to_thread(kept.found) == NOTHING

    asyncio.run(run())


@pytest.mark.usefixtures("frequent_looks")
def test_an_operator_is_told_and_says_that_it_is_right(
    tmp_path: Path,
    clock: JumpingClock,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def said(command: str) -> str:
        assert app.main(["clock", command, "--data", str(tmp_path)]) == 0
        return capsys.readouterr().out.rstrip("\n").split("\t")[-1]

    async def doubted_s(broker: Broker) -> float:
        measures = {
            each.name: each
            for each in await broker.endpoints.look_at_measures(lambda all_of: list(all_of()))
        }
        return measures["drumlin_clock_doubted_seconds"].samples[0].value

    async def run() -> None:
        async with running(tmp_path, clock=clock) as broker:
            await broker.metadata.create_topic("t", [[1]], {"retention.ms": str(7 * DAY_MS)})
            with closing(Kept(broker)) as kept:
                await asyncio.to_thread(kept.fill)
                assert await asyncio.to_thread(said, "status") == "counts"
                assert await doubted_s(broker) == 0
                clock.jump_ms(400 * DAY_MS)
                await eventually(lambda: "has jumped ahead" in caplog.text)
                state = f"{400 * DAY_MS // 1000} s ahead, counts in 3600 s"
                assert await asyncio.to_thread(said, "status") == state
                assert await doubted_s(broker) == 400 * DAY_MS // 1000
                assert await asyncio.to_thread(said, "trust") == "counts"
                await expire(broker)
                assert await asyncio.to_thread(kept.found) == NOTHING

    asyncio.run(run())


def test_without_a_broker_there_is_no_clock_to_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(["clock", "trust", "--data", str(tmp_path)]) == 1
    assert f"no broker runs on {tmp_path}" in capsys.readouterr().err
