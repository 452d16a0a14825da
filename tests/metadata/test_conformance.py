"""What every metadata store promises: durable, atomic, one mutation of a thing at a time."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from drumlin.metadata.image import BrokerState, PartitionId, PartitionState, Resource, ResourceType
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.store.changes import (
    Change,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.metadata import ZooKeeperMetadata
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.stores import Stores

ONE_REPLICA = [1]
BROKER_DEFAULTS = Resource(ResourceType.BROKER, "")


def setting(**changes: str | None) -> Callable[[Mapping[str, str]], dict[str, str | None]]:
    return lambda current: {key.replace("_", "."): value for key, value in changes.items()}


def test_everything_is_there_after_reopening(stores: Stores) -> None:
    seen: dict[str, Any] = {}

    async def fill(store: MetadataStore) -> None:
        topic = await store.create_topic("events", [[1], [1, 2]], {"retention.ms": "5"})
        await store.add_partitions("events", 2, [[2, 1]])
        await store.create_topic("gone", [ONE_REPLICA], {"retention.ms": "7"})
        await store.delete_topic(store.image.topics["gone"].topic_id)
        await store.alter_configs(BROKER_DEFAULTS, setting(log_retention_ms="9"))
        seen.update(topic_id=topic.topic_id, cluster_id=store.image.cluster_id)

    async def check(store: MetadataStore) -> None:
        image = store.image
        assert image.cluster_id == seen["cluster_id"]
        assert len(image.cluster_id) == 22
        assert list(image.topics) == ["events"]
        topic = image.topics_by_id[seen["topic_id"]]
        assert topic.partitions == (
            PartitionState(0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,)),
            PartitionState(1, leader=1, leader_epoch=0, replicas=(1, 2), isr=(1,)),
            PartitionState(2, leader=1, leader_epoch=0, replicas=(2, 1), isr=(1,)),
        )
        assert image.topic_configs("events") == {"retention.ms": "5"}
        assert image.topic_configs("gone") == {}
        assert image.configs(BROKER_DEFAULTS) == {"log.retention.ms": "9"}

    stores.run(fill)
    stores.run(check, is_registered=False)


def test_a_deletion_is_known_to_one_more_process_than_has_folders_of_the_topic(
    stores: Stores,
) -> None:
    seen: dict[str, uuid.UUID] = {}

    async def delete(store: MetadataStore) -> None:
        topic_id = seen["id"] = (await store.create_topic("t", [ONE_REPLICA], {})).topic_id
        assert not store.was_deleted(topic_id)
        assert not store.was_any_deleted()
        await store.delete_topic(topic_id)
        assert store.was_deleted(topic_id)
        assert store.was_any_deleted()

    async def remove_folders(store: MetadataStore) -> None:
        assert store.deleted_topics == {seen["id"]: None}
        await store.note_folders_left({seen["id"]: []})
        assert store.deleted_topics == {}
        assert store.was_deleted(seen["id"])

    async def still_know(store: MetadataStore) -> None:
        assert store.deleted_topics == {}
        assert store.was_deleted(seen["id"])

    async def forget(store: MetadataStore) -> None:
        if not isinstance(store, ZooKeeperMetadata):  # which remembers it for some time
            assert not store.was_deleted(seen["id"])

    for scenario in (delete, remove_folders, still_know, forget):
        stores.run(scenario)


def test_how_many_partitions_there_are_is_told_as_it_is_stored(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        assert await store.partition_count("t") == 0
        topic = await store.create_topic("t", [ONE_REPLICA] * 2, {})
        assert await store.partition_count("t") == 2
        await store.delete_topic(topic.topic_id)
        assert await store.partition_count("t") == 0

    stores.run(scenario)


def test_changes_are_reported_once_the_image_shows_them(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        changes: list[Change] = []
        shown: list[bool] = []

        def listener(change: Change) -> None:
            changes.append(change)
            shown.append("events" in store.image.topics)

        store.on_change(listener)
        await store.create_topic("events", [ONE_REPLICA], {"retention.ms": "5"})
        await store.add_partitions("events", 1, [ONE_REPLICA])
        resource = Resource(ResourceType.TOPIC, "events")
        await store.alter_configs(resource, setting(retention_ms=None, segment_ms="8"))
        topic = store.image.topics["events"]
        await store.delete_topic(topic.topic_id)
        created, added, configured, deleted = changes
        assert isinstance(created, TopicCreated)
        assert created.configs == {"retention.ms": "5"}
        assert isinstance(added, PartitionsAdded)
        assert [each.index for each in added.partitions] == [1]
        assert configured == ConfigsChanged(resource, {"segment.ms": "8"})
        assert deleted == TopicDeleted(topic)
        assert shown == [True, True, True, False]

    stores.run(scenario)


def test_of_concurrent_creations_one_wins(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        results = await asyncio.gather(
            *(store.create_topic("events", [ONE_REPLICA], {}) for _ in range(5)),
            return_exceptions=True,
        )
        errors = [each for each in results if isinstance(each, KafkaError)]
        assert len(errors) == 4
        assert {error.code for error in errors} == {ErrorCode.topic_already_exists}
        assert errors[0].message == "there is a topic events already"

    stores.run(scenario)


def test_a_cancelled_caller_leaves_image_and_file_alike(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        caller = asyncio.create_task(_create(store))
        await asyncio.sleep(0)
        caller.cancel()
        await asyncio.gather(caller, return_exceptions=True)
        with pytest.raises(KafkaError, match="there is a topic events already"):
            await store.create_topic("events", [ONE_REPLICA], {})
        assert "events" in store.image.topics

    async def _create(store: MetadataStore) -> None:
        await store.create_topic("events", [ONE_REPLICA], {})

    stores.run(scenario)


def test_quotas_are_kept(stores: Stores) -> None:
    names = [
        "users/a%2Fb",
        "users/a%2Fb/clients/<default>",
        "clients/app",
        "users/<default>/clients/x",
    ]
    resources = [Resource(ResourceType.QUOTA, name) for name in (*names, "ips/<default>")]

    async def fill(store: MetadataStore) -> None:
        for number, resource in enumerate(resources):
            await store.alter_configs(resource, setting(rate=str(number), other="1"))
            await store.alter_configs(resource, setting(other=None))

    async def check(store: MetadataStore) -> None:
        kept = {each: store.image.configs(each) for each in resources}
        assert kept == {each: {"rate": str(number)} for number, each in enumerate(resources)}

    stores.run(fill)
    stores.run(check)


def test_alterations_see_each_other(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        def append(entry: str) -> Callable[[Mapping[str, str]], dict[str, str | None]]:
            return lambda now: {"list": ",".join(filter(None, [now.get("list"), entry]))}

        await asyncio.gather(
            *(store.alter_configs(BROKER_DEFAULTS, append(entry)) for entry in "abc")
        )
        assert store.image.configs(BROKER_DEFAULTS) == {"list": "a,b,c"}

    stores.run(scenario)


def test_a_refused_alteration_changes_nothing(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        def refuse(_: Mapping[str, str]) -> dict[str, str | None]:
            raise KafkaError(ErrorCode.invalid_config, "no")

        with pytest.raises(KafkaError, match="no"):
            await store.alter_configs(BROKER_DEFAULTS, refuse)
        assert store.image.configs(BROKER_DEFAULTS) == {}

    stores.run(scenario)


def test_partitions_are_added_to_the_expected_number_only(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.create_topic("events", [ONE_REPLICA], {})
        with pytest.raises(KafkaError) as caught:
            await store.add_partitions("events", 5, [ONE_REPLICA])
        assert caught.value.code is ErrorCode.invalid_partitions
        with pytest.raises(KafkaError) as caught:
            await store.add_partitions("nowhere", 1, [ONE_REPLICA])
        assert caught.value.code is ErrorCode.unknown_topic_or_partition
        with pytest.raises(KafkaError) as caught:
            await store.delete_topic(uuid.uuid4())
        assert caught.value.code is ErrorCode.unknown_topic_id

    stores.run(scenario)


def test_producer_ids_are_never_given_twice(stores: Stores) -> None:
    blocks = []

    async def take(store: MetadataStore) -> None:
        blocks.extend(await asyncio.gather(*(store.next_producer_id_block() for _ in range(3))))

    stores.run(take)
    stores.run(take)
    assert [block.first for block in blocks] == [0, 1000, 2000, 3000, 4000, 5000]


def test_leader_epochs_advance_together(stores: Stores) -> None:
    async def fill(store: MetadataStore) -> None:
        await store.create_topic("adopted", [ONE_REPLICA], {}, first_leader_epoch=41)
        await store.create_topic("events", [ONE_REPLICA, ONE_REPLICA], {})
        await store.advance_leader_epochs()
        assert _epochs(store) == [42, 1, 1]

    async def check(store: MetadataStore) -> None:
        assert sorted(_epochs(store)) == [1, 1, 42]

    def _epochs(store: MetadataStore) -> list[int]:
        topics = store.image.topics.values()
        return [each.leader_epoch for topic in topics for each in topic.partitions]

    stores.run(fill)
    stores.run(check)


def test_leader_epochs_of_some_partitions_advance(stores: Stores) -> None:
    def epochs(store: MetadataStore) -> list[int]:
        return [each.leader_epoch for each in store.image.topics["events"].partitions]

    async def fill(store: MetadataStore) -> None:
        topic = await store.create_topic("events", [ONE_REPLICA] * 3, {})
        gone = PartitionId(uuid.uuid4(), 0)
        some = {PartitionId(topic.topic_id, 0), PartitionId(topic.topic_id, 2), gone}
        await asyncio.gather(
            store.add_partitions("events", 3, [ONE_REPLICA]), store.advance_leader_epochs(some)
        )
        await store.advance_leader_epochs({PartitionId(topic.topic_id, 3)})
        assert epochs(store) == [1, 0, 1, 1]

    async def check(store: MetadataStore) -> None:
        assert epochs(store) == [1, 0, 1, 1]

    stores.run(fill)
    stores.run(check)


def test_the_broker_of_this_process_leads(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        await store.register_broker(BrokerState(1, "rack", ()))
        assert store.image.controller_id == 1
        assert list(store.image.brokers) == [1]

    stores.run(scenario)


def test_only_partitions_that_are_led_here_begin_a_new_epoch(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        topic = await store.create_topic("t", [ONE_REPLICA] * 2, {})
        await store.advance_leader_epochs([PartitionId(topic.topic_id, 1)])
        states = store.image.topics["t"].partitions
        assert [each.leader_epoch for each in states] == [0, 1]
        assert [each.partition_epoch for each in states] == [0, 1]

    stores.run(scenario)


def test_isrs_that_cannot_be(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        changes: list[Change] = []
        store.on_change(changes.append)
        epoch = store.image.brokers[1].epoch
        topic = await store.create_topic("t", [[1, 2]], {})
        partition = PartitionId(topic.topic_id, 0)
        nowhere = [PartitionId(topic.topic_id, 1), PartitionId(uuid.uuid4(), 0)]
        same = IsrRequest(0, 0, ((1, epoch),))
        unchanged = await store.alter_isrs(dict.fromkeys([partition, *nowhere], same))
        assert unchanged.pop(partition) == topic.partitions[0]
        assert set(unchanged) == set(nowhere)
        for each in unchanged.values():
            assert isinstance(each, KafkaError)
            assert each.code is ErrorCode.unknown_topic_id
        for wish, code in {
            IsrRequest(1, 0, ((1, epoch),)): ErrorCode.fenced_leader_epoch,
            IsrRequest(0, 1, ((1, epoch),)): ErrorCode.invalid_update_version,
            IsrRequest(0, 0, ((1, epoch), (2, 0))): ErrorCode.ineligible_replica,
            IsrRequest(0, 0, ((2, 0),)): ErrorCode.invalid_request,
        }.items():
            (refused,) = (await store.alter_isrs({partition: wish})).values()
            assert isinstance(refused, KafkaError)
            assert refused.code is code
        assert store.image.topics["t"] == topic
        assert [type(each) for each in changes] == [TopicCreated]

    stores.run(scenario)


def test_who_is_alone_hands_nothing_over(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        topic = await store.create_topic("t", [[1], [1, 2]], {})
        await store.hand_over()
        assert store.image.topics["t"] == topic

    stores.run(scenario)


def test_preferred_leaders_are_there_already_or_not_at_all(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        topic = await store.create_topic("t", [[1], [2, 1]], {})
        asked = [PartitionId(topic.topic_id, index) for index in range(3)]
        outcomes = await store.elect_leaders(asked, is_unclean=False)
        codes = [each.code for each in outcomes.values() if isinstance(each, KafkaError)]
        assert list(outcomes) == asked
        assert codes == [
            ErrorCode.election_not_needed,
            ErrorCode.preferred_leader_not_available,
            ErrorCode.unknown_topic_id,
        ]

    stores.run(scenario)


def test_changes_are_told_of_in_their_order(stores: Stores) -> None:
    """Though a listener takes its time."""

    async def scenario(store: MetadataStore) -> None:
        seen: list[str] = []

        async def slowly(change: Change) -> None:
            for _ in range(20):
                await asyncio.sleep(0)
            assert isinstance(change, TopicCreated | TopicDeleted)
            seen.append(f"{type(change).__name__} {change.topic.name}")

        store.on_change(slowly)
        names = [f"t{number}" for number in range(5)]
        topics = await asyncio.gather(
            *(store.create_topic(name, [ONE_REPLICA], {}) for name in names)
        )
        await asyncio.gather(*(store.delete_topic(each.topic_id) for each in topics))
        created, deleted = seen[:5], seen[5:]
        assert sorted(created) == [f"TopicCreated {name}" for name in names]
        assert sorted(deleted) == [f"TopicDeleted {name}" for name in names]

    stores.run(scenario)


def test_a_cancelled_caller_holds_up_nobody(stores: Stores) -> None:
    async def scenario(store: MetadataStore) -> None:
        topic = await store.create_topic("t", [ONE_REPLICA], {})
        await store.delete_topic(topic.topic_id)
        noting = asyncio.ensure_future(store.note_folders_left({topic.topic_id: ["/a"]}))
        for _ in range(9):
            await asyncio.sleep(0)
        noting.cancel()
        await asyncio.gather(noting, return_exceptions=True)
        await store.create_topic("u", [ONE_REPLICA], {})

    stores.run(scenario)
