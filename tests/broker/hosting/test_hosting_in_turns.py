"""Logs follow changes of topics of many partitions in several turns of the loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.config.topic import LogConfig
from drumlin.metadata.image import Resource, ResourceType
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.replication.waiting_room import WaitingRoom
from drumlin.storage.all_logs.log_directories import LogDirectories
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.turns import TURN_S
from rig.time.stepped import Stepped
from rig.time.turn_lengths import single_steps

_PARTITIONS = 60


def test_a_new_configuration_reaches_many_logs_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = 60

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]] * partitions, {})
            configured = 0
            setter = PartitionLog.config.fset
            assert setter is not None

            def configuring(log: PartitionLog, config: LogConfig) -> None:
                nonlocal configured
                setter(log, config)
                configured += 1
                ends_at = time.monotonic() + TURN_S / 10
                while time.monotonic() < ends_at:
                    pass

            replaced = property(PartitionLog.config.fget, configuring)
            monkeypatch.setattr(PartitionLog, "config", replaced)
            resource = Resource(ResourceType.TOPIC, "t")
            altering = asyncio.ensure_future(
                broker.metadata.alter_configs(resource, lambda _: {"segment.bytes": "2000000"})
            )
            before = 0
            while not altering.done():
                await asyncio.sleep(0)
                assert configured - before <= 11
                before = configured
            await altering
            assert configured == partitions
            assert broker.partitions.get("t", partitions - 1).log.config.segment_bytes == 2_000_000

    asyncio.run(scenario())


def test_a_topic_of_many_partitions_goes_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partitions = 40

    def slow(function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any) -> Any:
            nonlocal done
            done += 1
            time.sleep(TURN_S / 10)
            return function(*arguments)

        return counted

    async def scenario() -> None:
        nonlocal most
        async with running(tmp_path) as broker:
            topic = await broker.metadata.create_topic("t", [[broker.node_id]] * partitions, {})
            for where, name in ((PartitionRegistry, "remove"), (LogDirectories, "delete")):
                monkeypatch.setattr(where, name, slow(getattr(where, name)))
            deleting = asyncio.ensure_future(broker.metadata.delete_topic(topic.topic_id))
            before = 0
            while not deleting.done():
                await asyncio.sleep(0)
                most, before = max(most, done - before), done
            await deleting
            monkeypatch.undo()

    done = most = 0
    asyncio.run(scenario())
    assert done == 2 * partitions
    assert most <= 12


def test_a_stop_lets_go_of_many_partitions_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None of them is found from the first turn on; waiting fetches are answered in turn."""

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            state = await broker.metadata.create_topic("t", [[broker.node_id]] * _PARTITIONS, {})
            partitions = list(broker.partitions)
            offline = broker.partitions.is_offline("t", 0)
            disturbed = 0

            def disturb(_: WaitingRoom) -> None:
                nonlocal disturbed
                disturbed += 1

            monkeypatch.setattr(WaitingRoom, "disturb", disturb)
            clearing = Stepped(broker.partitions.clear())
            for count in range(1, len(partitions) + 1):
                next(clearing)
                assert disturbed == 2 * count  # consumers, and followers
                assert not len(broker.partitions)
                assert not broker.partitions.of_name(b"t")
                assert not broker.partitions.of_id(state.topic_id.bytes)
            with pytest.raises(StopIteration):
                next(clearing)
            assert broker.partitions.is_offline("t", 0) is offline
            for each in partitions:
                broker.partitions.add(each)
            monkeypatch.undo()

    asyncio.run(scenario())


def test_what_is_done_now_and_then_is_a_step_for_each_partition(tmp_path: Path) -> None:
    """Also where there is nothing to do for most of them."""

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[broker.node_id]] * _PARTITIONS, {})
            assert Stepped(broker.logs.delete_held_segments()).count() >= _PARTITIONS

    asyncio.run(scenario())


def test_partitions_that_begin_an_epoch_are_served_in_several_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an unclean stop, or when a log dir is back."""

    async def scenario() -> None:
        async with running(tmp_path) as broker:
            topic = await broker.metadata.create_topic("t", [[broker.node_id]] * _PARTITIONS, {})
            logs = {}
            for index in range(_PARTITIONS):
                logs[index] = broker.partitions.get("t", index).log
                logs[index].epoch_due_at = 0
                broker.partitions.remove("t", index)
            single_steps(monkeypatch)
            serving = asyncio.ensure_future(broker.hosting._serve_in_new_epochs(topic, logs))
            most = lossy = 0
            while not serving.done():
                before = len(broker.partitions), lossy
                await asyncio.sleep(0)
                lossy = sum(log.epoch_due_at is not None for log in logs.values())
                most = max(most, len(broker.partitions) - before[0], before[1] - lossy)
            await serving
            monkeypatch.undo()
            assert most == 1
            assert {each.leader_epoch for each in broker.partitions} == {1}

    asyncio.run(scenario())
