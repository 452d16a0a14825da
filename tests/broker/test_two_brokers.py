"""Real clients and a cluster of two brokers: what one of them coordinates, the other one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.cluster_clients import PARTITIONS, commit_and_abort, deliver, join_one_by_one, read
from broker.many_brokers import addresses, cluster, key_of, port
from drumlin.broker.start.broker import Broker
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import eventually


def on_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, test: Callable[[list[Broker]], Any]
) -> None:
    """With a topic on both brokers, and the coordinators' topics on both."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch) as brokers:
            either = [[1 + index % 2] for index in range(PARTITIONS)]
            for name in ("t", GROUP_METADATA, TRANSACTION_STATE):
                await brokers[0].metadata.create_topic(name, either, {})
            await test(brokers)

    asyncio.run(main())


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_transaction_across_both_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: int
) -> None:
    """Whoever coordinates it, or the group whose offsets are part of it."""

    async def test(brokers: list[Broker]) -> None:
        name = key_of(brokers[0], TRANSACTION_STATE, coordinator, "id")
        group = key_of(brokers[0], GROUP_METADATA, 3 - coordinator, "g")
        await asyncio.to_thread(commit_and_abort, addresses(brokers), name, group)

    on_two(tmp_path, monkeypatch, test)


@pytest.mark.parametrize("version", [11, 12])
@pytest.mark.parametrize("coordinator", [1, 2])
def test_partitions_join_where_their_leader_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: int, version: int
) -> None:
    """Both generations of transactions."""

    async def test(brokers: list[Broker]) -> None:
        name = key_of(brokers[0], TRANSACTION_STATE, coordinator, "id")
        ports = [port(each) for each in brokers]
        await asyncio.to_thread(join_one_by_one, ports, coordinator - 1, name, version)
        assert len(await asyncio.to_thread(read, addresses(brokers), 4)) == 4
        for broker in brokers:
            for partition in broker.partitions:
                await eventually(lambda it=partition: it.last_stable_offset == it.high_watermark)

    on_two(tmp_path, monkeypatch, test)


@pytest.mark.parametrize("coordinator", [1, 2])
def test_a_share_group_across_both_brokers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, coordinator: int
) -> None:
    """The states of half of its partitions are on either broker."""
    count = 5

    async def test(brokers: list[Broker]) -> None:
        metadata = brokers[0].metadata
        await metadata.create_topic(SHARE_GROUP_STATE, [[1], [2], [1], [2]], {})
        group = key_of(brokers[0], GROUP_METADATA, coordinator, "g")
        earliest = {"share.auto.offset.reset": "earliest"}
        await metadata.alter_configs(Resource(ResourceType.GROUP, group), lambda _: earliest)
        await asyncio.to_thread(deliver, addresses(brokers), group, count)

        def describe() -> list[tuple[int, int, str]]:
            with RawClient(port(brokers[coordinator - 1])) as client:
                asked = [{"group_id": group, "topics": None}]
                answer = render(client.ask("describe_share_group_offsets", 1, groups=asked))
            ((topic,),) = (each["topics"] for each in answer["groups"])
            return sorted(
                (it["partition_index"], it["lag"], it["error_code"]) for it in topic["partitions"]
            )

        expected = [(index, 0, "none") for index in range(PARTITIONS)]
        assert await asyncio.to_thread(describe) == expected

    on_two(tmp_path, monkeypatch, test)


def test_a_topic_of_coordinators_is_made_by_whoever_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also by both at once; then they say the same."""

    async def main() -> None:
        async with cluster(tmp_path, monkeypatch, offsets_topic_num_partitions="4") as brokers:

            def find(broker: Broker) -> list[dict[str, Any]]:
                keys = [f"g-{each}" for each in range(20)]
                with RawClient(port(broker)) as client:
                    answer = client.ask("find_coordinator", 4, key_type=0, coordinator_keys=keys)
                return list(render(answer)["coordinators"])

            found = await asyncio.gather(*(asyncio.to_thread(find, each) for each in brokers))
            again = await asyncio.gather(*(asyncio.to_thread(find, each) for each in brokers))
            assert again[0] == again[1]
            assert {each["node_id"] for each in again[0]} == {1, 2}
            for each in found:
                assert {it["error_code"] for it in each} <= {"none", "coordinator_not_available"}

    asyncio.run(main())


def test_a_topic_of_coordinators_needs_all_of_its_replicas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        settings = {"transaction_state_log_replication_factor": "3"}
        async with cluster(tmp_path, monkeypatch, **settings) as brokers:

            def find() -> Any:
                with RawClient(port(brokers[1])) as client:
                    asked = {"key_type": 1, "coordinator_keys": ["id"]}
                    return render(client.ask("find_coordinator", 4, **asked))["coordinators"]

            (found,) = await asyncio.to_thread(find)
            assert found["error_code"] == "coordinator_not_available"
            assert TRANSACTION_STATE not in brokers[0].metadata.image.topics

    asyncio.run(main())
