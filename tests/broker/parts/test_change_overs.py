"""While a log changes its log dir its requests wait: none is refused, and none passes another."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.parts import change_overs
from drumlin.broker.start.broker import Broker
from drumlin.storage.log.partition_log import PartitionLog
from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient

Requests = list[tuple[str, int, dict[str, Any]]]


def records(value: bytes, acks: int) -> tuple[str, int, dict[str, Any]]:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": batch(value)}]}]
    return "produce", 9, {"acks": acks, "timeout": 9000, "topic_data": data}


def commit(offset: int) -> tuple[str, int, dict[str, Any]]:
    partition = {"partition_index": 0, "committed_offset": offset, "committed_metadata": ""}
    topics = [{"name": "t", "partitions": [partition]}]
    empty = {"generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
    return "offset_commit", 8, {"group_id": "g", "topics": topics, **empty}


class Paused:
    """A broker with two connections, and what becomes of requests sent while a log is paused."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        port = broker.listeners[0].port
        self.client, self.other = RawClient(port), RawClient(port)

    def log(self, topic: str, index: int = 0) -> PartitionLog:
        log = self.broker.logs.get(topic, index)
        assert log is not None
        return log

    async def ask(self, requests: Requests) -> list[Any]:
        return [
            render(await asyncio.to_thread(self.client.ask, api, version, **fields))
            for api, version, fields in requests
        ]

    async def log_of_the_group(self) -> PartitionLog:
        """The one that has its offsets, once its coordinator serves it."""
        await self.ask([("find_coordinator", 3, {"key": "g", "key_type": 0})])
        while committed((await self.ask([commit(1)]))[0]) != "none":
            continue
        logs = [self.log("__consumer_offsets", index) for index in (0, 1)]
        (log,) = [each for each in logs if each.log_end_offset]
        return log

    async def sent_during(self, log: PartitionLog, requests: Requests) -> list[Any]:
        """The answers to requests all of which have come before the log takes batches again."""
        end_offset = log.log_end_offset
        with self.broker.change_overs.pausing(log):
            for api, version, fields in requests:
                self.client.send(api, version, **fields)
            # The loop has seen them: what was sent later on another connection is answered.
            for _ in range(3):
                await asyncio.to_thread(self.other.ask, "api_versions", 0)
            assert log.log_end_offset == end_offset
        return [
            render(await asyncio.to_thread(self.client.receive, api, version))
            for api, version, fields in requests
            if fields.get("acks") != 0
        ]


def with_paused(tmp_path: Path, script: Callable[[Paused], Any]) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            paused = Paused(broker)
            with paused.client, paused.other:
                await script(paused)

    asyncio.run(run())


def produced(answer: Any) -> tuple[str, int]:
    (told,) = answer["responses"][0]["partition_responses"]
    return told["error_code"], told["base_offset"]


def committed(answer: Any) -> str:
    return str(answer["topics"][0]["partitions"][0]["error_code"])


def test_batches_on_their_way_are_appended_in_their_order(tmp_path: Path) -> None:
    async def script(paused: Paused) -> None:
        requests = [records(b"%d" % number, acks) for number, acks in enumerate((1, 0, -1, 0, 1))]
        answers = await paused.sent_during(paused.log("t"), requests)
        assert [produced(each) for each in answers] == [("none", 0), ("none", 2), ("none", 4)]
        wanted = [{"topic": "t", "partitions": [{"partition": 0, "partition_max_bytes": 10_000}]}]
        (found,) = await paused.ask([("fetch", 11, {"max_bytes": 10_000, "topics": wanted})])
        (told,) = found["responses"][0]["partitions"]
        values = [told["records"].find(batch(b"%d" % number)[21:]) for number in range(5)]
        assert values == sorted(values)
        assert -1 not in values

    with_paused(tmp_path, script)


def test_a_log_that_is_paused_for_too_long_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_overs, "_PATIENCE_S", 0.0)

    async def script(paused: Paused) -> None:
        log = await paused.log_of_the_group()
        with paused.broker.change_overs.pausing(paused.log("t")):
            (answer,) = await paused.ask([records(b"x", 1)])
            assert produced(answer) == ("not_leader_or_follower", -1)
        with paused.broker.change_overs.pausing(log):
            (answer,) = await paused.ask([commit(2)])
            assert committed(answer) == "not_coordinator"
        answers = await paused.ask([records(b"x", 1), commit(2)])
        assert (produced(answers[0]), committed(answers[1])) == (("none", 0), "none")

    with_paused(tmp_path, script)


def test_requests_to_a_coordinator_wait_for_its_log(tmp_path: Path) -> None:
    async def script(paused: Paused) -> None:
        log = await paused.log_of_the_group()
        answers = await paused.sent_during(log, [commit(2), commit(3), records(b"x", 1)])
        assert [committed(each) for each in answers[:2]] == ["none", "none"]
        assert produced(answers[2]) == ("none", 0)
        topics = [{"name": "t", "partition_indexes": [0]}]
        (found,) = await paused.ask([("offset_fetch", 7, {"group_id": "g", "topics": topics})])
        assert found["topics"][0]["partitions"][0]["committed_offset"] == 3

    with_paused(tmp_path, script)


def test_markers_wait(tmp_path: Path) -> None:
    async def script(paused: Paused) -> None:
        topics = [{"name": "t", "partition_indexes": [0]}]
        marker = {"producer_id": 7, "producer_epoch": 0, "transaction_result": False}
        marker |= {"coordinator_epoch": 0, "topics": topics}
        (answer,) = await paused.sent_during(
            paused.log("t"), [("write_txn_markers", 1, {"markers": [marker]})]
        )
        (told,) = answer["markers"][0]["topics"][0]["partitions"]
        assert told["error_code"] == "none"
        assert paused.log("t").log_end_offset == 1

    with_paused(tmp_path, script)
