"""Metadata in a real ZooKeeper: what others write there, and what must not be lost."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from drumlin.clock import ManualClock, SystemClock
from drumlin.metadata.image import PartitionState, Resource, ResourceType
from drumlin.metadata.store.changes import (
    Change,
    ConfigsChanged,
    PartitionsAdded,
    TopicCreated,
    TopicDeleted,
)
from drumlin.metadata.store.store import MetadataStore, UnusableMetadata
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.stores import Stores, stores_at
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = pytest.mark.zookeeper

DEFAULTS = Resource(ResourceType.BROKER, "")
ADDRESS_OF_NOTHING = "127.0.0.1:1"


# -- what others write -------------------------------------------------------------------------


def test_a_topic_that_another_creates_is_led(run: Callable[..., None], operator: Operator) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        operator.put("/config/topics/theirs", layout.encode_configs({"retention.ms": "5"}))
        topic_id = operator.put_topic("theirs", (1, 2), (2,))
        await eventually(lambda: changes)
        topic = store.image.topics["theirs"]
        assert topic.topic_id == topic_id
        assert topic.partitions[0] == PartitionState(0, 1, 0, (1, 2), (1,))
        assert topic.partitions[1].leader == -1
        assert changes == [TopicCreated(topic, {"retention.ms": "5"})]
        state = operator.get(layout.state_path("theirs", 0))
        assert state == b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
        assert not operator.has(layout.state_path("theirs", 1))
        with pytest.raises(KafkaError) as caught:
            await store.create_topic("theirs", [[1]], {})
        assert caught.value.code is ErrorCode.topic_already_exists

    run(scenario)


def test_a_topic_without_an_id_gets_one(run: Callable[..., None], operator: Operator) -> None:
    operator.put(layout.topic_path("old"), b'{"version":1,"partitions":{"0":[1]}}')

    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        await eventually(lambda: "old" in store.image.topics)
        operator.put(layout.topic_path("older"), b'{"version":2,"partitions":{"0":[1]}}')
        await eventually(lambda: "older" in store.image.topics)
        for name in ("old", "older"):
            node = layout.decode_topic("", operator.get(layout.topic_path(name)))
            assert node.topic_id == store.image.topics[name].topic_id
            assert store.image.topics[name].partitions[0].leader == 1

    run(scenario)


def test_partitions_that_another_adds(run: Callable[..., None], operator: Operator) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        topic = await store.create_topic("t", [[1]], {})
        wider = layout.encode_topic(topic.topic_id, [(1,), (1,), (1,)])
        operator.put(layout.topic_path("t"), wider)
        await eventually(lambda: len(changes) == 2)
        added = changes[1]
        assert isinstance(added, PartitionsAdded)
        assert [(each.index, each.leader) for each in added.partitions] == [(1, 1), (2, 1)]
        assert operator.has(layout.state_path("t", 2))
        await store.add_partitions("t", 3, [[1]])
        node = layout.decode_topic("", operator.get(layout.topic_path("t")))
        assert len(node.replicas) == 4

    run(scenario)


def test_configurations_that_another_changes(run: Callable[..., None], operator: Operator) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        await store.create_topic("t", [[1]], {"segment.ms": "7"})
        topic = Resource(ResourceType.TOPIC, "t")
        operator.put_configs(topic, {"retention.ms": "5"})
        operator.put_configs(DEFAULTS, {"log.retention.ms": "6"})
        await eventually(lambda: len(changes) == 3)
        assert changes[1:] == [
            ConfigsChanged(topic, {"retention.ms": "5"}),
            ConfigsChanged(DEFAULTS, {"log.retention.ms": "6"}),
        ]
        await store.alter_configs(topic, lambda current: {"segment.ms": "8"})
        stored = layout.decode_configs("", operator.get("/config/topics/t"))
        assert stored == {"retention.ms": "5", "segment.ms": "8"}
        told = operator.get(f"{layout.CONFIG_CHANGE_PREFIX}{2:010d}")
        assert told == b'{"version":2,"entity_path":"topics/t"}'

    run(scenario)


def test_a_topic_that_a_tool_wants_to_be_deleted(
    run: Callable[..., None], operator: Operator
) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        topic = await store.create_topic("t", [[1]], {})
        operator.put(layout.deletion_path("t"), b"")
        operator.put(layout.deletion_path("nothing"), b"")
        await eventually(lambda: TopicDeleted(topic) in changes)
        await eventually(lambda: not operator.client.get_children(layout.TO_DELETE))
        assert store.was_deleted(topic.topic_id)
        assert not operator.has(layout.topic_path("t"))
        assert not operator.has("/config/topics/t")
        assert operator.has(layout.deleted_path(topic.topic_id))

    run(scenario)


def test_news_of_configurations_is_removed_after_some_time(chroot: str, operator: Operator) -> None:
    later = ManualClock(SystemClock().wall_ms() + 16 * 60 * 1000)

    async def scenario(store: MetadataStore) -> None:
        operator.put_configs(DEFAULTS, {"log.retention.ms": "7"})
        await eventually(lambda: not operator.client.get_children(layout.CONFIG_CHANGES))
        await eventually(lambda: store.image.broker_configs("") == {"log.retention.ms": "7"})

    stores_at(chroot, clock=later).run(scenario)


def test_a_tool_cannot_delete_where_nobody_may(chroot: str, operator: Operator) -> None:
    async def scenario(store: MetadataStore) -> None:
        topic = await store.create_topic("t", [[1]], {})
        operator.put(layout.deletion_path("t"), b"")
        await eventually(lambda: not operator.client.get_children(layout.TO_DELETE))
        assert store.image.topics == {"t": topic}
        assert operator.has(layout.topic_path("t"))

    stores_at(chroot, delete_topic_enable="false").run(scenario)


# -- what must not be lost ---------------------------------------------------------------------


def test_a_topic_whose_node_vanishes_was_not_deleted(
    run: Callable[..., None],
    operator: Operator,
    in_zookeeper: Stores,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        topic = await store.create_topic("t", [[1]], {})
        operator.client.delete(layout.topic_path("t"), recursive=True)
        await eventually(lambda: "was not deleted" in caplog.text)
        await store.create_topic("other", [[1]], {})
        operator.put_topic("third", (1,))
        await eventually(lambda: "third" in store.image.topics)
        assert store.image.topics["t"] == topic
        assert not any(isinstance(each, TopicDeleted) for each in changes)
        assert not store.was_deleted(topic.topic_id)

    run(scenario)

    async def later(store: MetadataStore) -> None:
        assert sorted(store.image.topics) == ["other", "third"]
        assert not store.was_any_deleted()

    in_zookeeper.run(later)


def test_a_node_with_another_id_is_another_topic(
    run: Callable[..., None], operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    """Though nobody remembers that the one before was deleted: its records stay for that."""

    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        topic = await store.create_topic("t", [[1]], {"retention.ms": "5"})
        operator.put("/config/topics/t", layout.encode_configs({"retention.ms": "6"}))
        another = operator.put_topic("t", (1,), (1,))
        await eventually(lambda: another in store.image.topics_by_id)
        await eventually(lambda: TopicDeleted(topic, keeps_records=True) in changes)
        assert topic.topic_id not in store.image.topics_by_id
        assert len(store.image.topics["t"].partitions) == 2
        assert store.image.topic_configs("t") == {"retention.ms": "6"}
        assert not store.was_deleted(topic.topic_id)
        assert "is of another topic now" in caplog.text
        # One without an id may be the same topic, as an old tool has written it.
        operator.put("/brokers/topics/t", b'{"version":1,"partitions":{"0":[1]}}')
        await eventually(lambda: "was not deleted" in caplog.text)
        assert another in store.image.topics_by_id

    run(scenario)


def test_a_deletion_that_broke_off_is_finished(in_zookeeper: Stores, operator: Operator) -> None:
    ids: list[UUID] = []

    async def create(store: MetadataStore) -> None:
        ids.append((await store.create_topic("t", [[1], [1]], {})).topic_id)

    async def look(store: MetadataStore) -> None:
        assert store.was_deleted(ids[0])
        assert store.deleted_topics == {ids[0]: None}
        assert "t" not in store.image.topics
        assert not operator.has(layout.topic_path("t"))
        assert not operator.client.get_children(layout.TO_DELETE)
        assert (await store.create_topic("t", [[1]], {})).topic_id != ids[0]

    in_zookeeper.run(create)
    operator.put(layout.deleted_path(ids[0]), layout.encode_folders({1: None}))
    operator.put(layout.deletion_path("t"), b"")
    operator.client.delete(layout.state_path("t", 1))
    in_zookeeper.run(look)


@pytest.mark.deep
def test_a_topic_of_very_many_partitions(in_zookeeper: Stores, operator: Operator) -> None:
    """It takes several transactions to create and to delete it."""

    async def create(store: MetadataStore) -> None:
        await store.create_topic("wide", [[1]] * 6000, {})
        await store.add_partitions("wide", 6000, [[1]] * 10)

    async def delete(store: MetadataStore) -> None:
        topic = store.image.topics["wide"]
        assert [each.leader for each in topic.partitions] == [1] * 6010
        await store.delete_topic(topic.topic_id)
        assert not operator.has(layout.topic_path("wide"))
        assert not operator.client.get_children(layout.TO_DELETE)
        with pytest.raises(KafkaError, match="more than ZooKeeper accepts"):
            await store.create_topic("wider", [[1]] * 80_000, {})
        assert "wider" not in store.image.topics

    in_zookeeper.run(create)
    in_zookeeper.run(delete)


# -- garbage -----------------------------------------------------------------------------------


def test_garbage_in_a_topic_is_told_of_and_harms_no_other(
    run: Callable[..., None], operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    operator.put(layout.topic_path("broken"), b"\xff")
    operator.put(layout.topic_path("no topic's name"), b"")
    operator.put_topic("halved", (1,))
    operator.put(layout.state_path("halved", 0), b"{")
    operator.put_topic("whole", (1,))

    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        assert list(store.image.topics) == ["whole"]
        for path in ("broken", "no topic's name", "halved/partitions/0/state"):
            assert f"ZooKeeper's /brokers/topics/{path} cannot be used" in caplog.text
        operator.put_topic("broken", (1,))  # mended
        await eventually(lambda: "broken" in store.image.topics)
        whole = store.image.topics["whole"]
        operator.put(layout.topic_path("whole"), b"[]")
        await eventually(lambda: "/brokers/topics/whole cannot be used" in caplog.text)
        assert store.image.topics["whole"] == whole
        with pytest.raises(KafkaError, match="/brokers/topics/whole cannot be used"):
            await store.add_partitions("whole", 1, [[1]])
        with pytest.raises(KafkaError, match="/brokers/topics/whole cannot be used"):
            await store.delete_topic(whole.topic_id)
        operator.put(layout.deletion_path("broken"), b"")
        operator.put(layout.topic_path("broken"), b"again")
        operator.put(layout.deletion_path("no-such"), b"")
        await eventually(lambda: not operator.has(layout.deletion_path("no-such")))
        assert not store.was_any_deleted()

    run(scenario)


def test_a_topic_without_a_readable_configuration_is_not_served(
    run: Callable[..., None], operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    """By defaults records might be removed that it says to keep."""
    operator.put_topic("t", (1,))
    operator.put("/config/topics/t", b'{"version":1,"config":{"retention.ms":-1}}')

    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        assert store.image.topics == {}
        assert "ZooKeeper's /config/topics/t cannot be used" in caplog.text
        resource = Resource(ResourceType.TOPIC, "t")
        operator.put_configs(resource, {"retention.ms": "-1"})
        await eventually(lambda: "t" in store.image.topics)
        assert store.image.topic_configs("t") == {"retention.ms": "-1"}
        operator.put("/config/topics/t", b"{}")
        operator.put(f"{layout.CONFIG_CHANGE_PREFIX}0000000077", b"garbage")
        operator.client.create(
            layout.CONFIG_CHANGE_PREFIX, layout.encode_config_change(resource), sequence=True
        )
        await eventually(lambda: "/config/topics/t cannot be used: its version" in caplog.text)
        await eventually(lambda: "config_change_0000000077 cannot be used" in caplog.text)
        assert store.image.topic_configs("t") == {"retention.ms": "-1"}

    run(scenario)


def test_a_topic_whose_configuration_does_not_parse_is_not_served(
    run: Callable[..., None], operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    operator.put_topic("t", (1,))
    resource = Resource(ResourceType.TOPIC, "t")
    operator.put("/config/topics/t", layout.encode_configs({"retention.ms": "abc"}))

    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        assert store.image.topics == {}
        assert "ZooKeeper's /config/topics/t cannot be used: retention.ms" in caplog.text
        operator.put_configs(resource, {"retention.ms": "-1"})
        await eventually(lambda: "t" in store.image.topics)
        operator.put_configs(resource, {"retention.ms": "abd"})
        await eventually(lambda: "abd" in caplog.text)
        assert store.image.topic_configs("t") == {"retention.ms": "-1"}

    run(scenario)


def test_two_topics_with_one_id_are_not_served_together(
    run: Callable[..., None], operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    """The records of both would go with the deletion of either."""

    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        topic_id = operator.put_topic("first", (1,))
        await eventually(lambda: "first" in store.image.topics)
        operator.put(layout.topic_path("second"), layout.encode_topic(topic_id, [(1,)]))
        await eventually(lambda: "/second has the id of topic first" in caplog.text)
        assert list(store.image.topics) == ["first"]

    run(scenario)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("/config/brokers/<default>", b"x"),
        ("/controller_epoch", b"x"),
        ("/cluster/id", b'{"version":"1"}'),
    ],
)
def test_what_a_broker_cannot_do_without(
    path: str, data: bytes, in_zookeeper: Stores, operator: Operator
) -> None:
    operator.put(path, data)

    async def scenario(store: MetadataStore) -> None:
        pytest.fail("it has started")

    with pytest.raises(UnusableMetadata, match=f"ZooKeeper's {path} cannot be used"):
        in_zookeeper.run(scenario)


def test_garbage_where_producer_ids_are(run: Callable[..., None], operator: Operator) -> None:
    async def scenario(store: MetadataStore, changes: list[Change]) -> None:
        operator.put(layout.PRODUCER_IDS, b"x")
        with pytest.raises(KafkaError, match="/latest_producer_id_block cannot be used") as caught:
            await store.next_producer_id_block()
        assert caught.value.code is ErrorCode.kafka_storage_error

    run(scenario)
