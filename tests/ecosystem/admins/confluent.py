"""confluent-kafka's AdminClient: librdkafka's view of a broker."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    ElectionType,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from ecosystem.admins.steps import Steps

_TIMEOUT_S = 60
#: They ask no broker for anything, or are the same by another name.
_NOT_ASKED = {"cluster_id", "poll", "set_sasl_credentials"}


def _result(said: Any) -> Any:
    if isinstance(said, Future):
        return said.result(_TIMEOUT_S)
    if isinstance(said, Mapping):
        return {key: _result(value) for key, value in said.items()}
    return said


def _name(error: Exception) -> str:
    return str(error.args[0].name()) if isinstance(error, KafkaException) else repr(error)


def run(address: str, topic: str, group: str) -> dict[str, str]:
    """What came of each step."""
    admin = AdminClient({"bootstrap.servers": address})
    steps = Steps(_name)

    def step(name: str, act: Any, check: Any = None) -> None:
        steps(name, lambda: _result(act()), check)

    _topics(admin, step, topic)
    consumer = _fill_and_read(address, topic, group)
    _groups(admin, step, topic, group, consumer)
    _security(admin, step, topic)
    step("delete_topics", lambda: admin.delete_topics([topic], operation_timeout=30))
    methods = {name for name, _ in inspect.getmembers(AdminClient) if not name.startswith("_")}
    assert methods - steps.tried - _NOT_ASKED == set(), "not tried"
    return steps.outcomes


def _topics(admin: AdminClient, step: Any, topic: str) -> None:
    of_topic = ConfigResource(ConfigResource.Type.TOPIC, topic)

    def configs() -> Any:
        return admin.describe_configs([of_topic])[of_topic]

    compacted = {"cleanup.policy": "compact"}
    step("create_topics", lambda: admin.create_topics([NewTopic(topic, 3, 1, config=compacted)]))
    step("create_topics, again", lambda: admin.create_topics([NewTopic(topic, 3, 1)]))
    step("create_partitions", lambda: admin.create_partitions([NewPartitions(topic, 4)]))
    step(
        "list_topics",
        lambda: admin.list_topics(timeout=30),
        lambda said: len(said.topics[topic].partitions) == 4,
    )
    step(
        "describe_topics",
        lambda: admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True),
        lambda said: (
            len(said[topic].partitions) == 4 and len(said[topic].authorized_operations) == 8
        ),
    )
    step(
        "describe_cluster",
        lambda: admin.describe_cluster(include_authorized_operations=True),
        lambda said: said.controller.id == 1 and len(said.nodes) == 1,
    )
    step("describe_configs", configs, lambda said: said["cleanup.policy"].value == "compact")
    of_broker = ConfigResource(ConfigResource.Type.BROKER, "1")
    step("describe_configs, broker", lambda: admin.describe_configs([of_broker])[of_broker])
    replaced = ConfigResource(ConfigResource.Type.TOPIC, topic, {"retention.ms": "100000"})
    step("alter_configs", lambda: admin.alter_configs([replaced]))
    entry = ConfigEntry("retention.bytes", "1234", incremental_operation=AlterConfigOpType.SET)
    added = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    step("incremental_alter_configs", lambda: admin.incremental_alter_configs([added]))
    step(
        "describe_configs, altered",
        configs,
        lambda said: (
            (said["retention.bytes"].value, said["retention.ms"].value) == ("1234", "100000")
        ),
    )


def _fill_and_read(address: str, topic: str, group: str) -> Consumer:
    producer = Producer({"bootstrap.servers": address})
    for number in range(100):
        producer.produce(topic, key=str(number), value=str(number), partition=number % 4)
    assert producer.flush(_TIMEOUT_S) == 0
    earliest = {"group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer({"bootstrap.servers": address, **earliest})
    consumer.subscribe([topic])
    left = 100
    while left:
        said = consumer.poll(_TIMEOUT_S)
        assert said is not None, f"{left} records do not come"
        left -= said.error() is None
    consumer.commit(asynchronous=False)
    return consumer


def _groups(admin: AdminClient, step: Any, topic: str, group: str, consumer: Consumer) -> None:
    first, *_ = partitions = [TopicPartition(topic, each) for each in range(4)]
    specs = [
        OffsetSpec.latest(),
        OffsetSpec.earliest(),
        OffsetSpec.max_timestamp(),
        OffsetSpec.for_timestamp(0),
    ]
    step(
        "list_offsets",
        lambda: admin.list_offsets(
            dict(zip(partitions, specs, strict=True)),
            isolation_level=IsolationLevel.READ_COMMITTED,
        ),
        lambda said: said[first].offset == 25,
    )
    step("list_groups", lambda: admin.list_groups(timeout=30), lambda said: group in _ids(said))
    step(
        "list_consumer_groups",
        lambda: admin.list_consumer_groups(
            states={ConsumerGroupState.STABLE}, types={ConsumerGroupType.CLASSIC}
        ),
        lambda said: group in [each.group_id for each in said.valid],
    )
    step(
        "describe_consumer_groups",
        lambda: admin.describe_consumer_groups([group], include_authorized_operations=True),
        lambda said: len(said[group].members) == 1,
    )
    step(
        "list_consumer_group_offsets",
        lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]),
        lambda said: sum(each.offset for each in said[group].topic_partitions) == 100,
    )
    consumer.close()
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 5)])
    step("alter_consumer_group_offsets", lambda: admin.alter_consumer_group_offsets([moved]))
    step(
        "list_consumer_group_offsets, moved",
        lambda: admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, [first])]),
        lambda said: said[group].topic_partitions[0].offset == 5,
    )
    step("delete_records", lambda: admin.delete_records([TopicPartition(topic, 0, 10)]))
    step("elect_leaders", lambda: admin.elect_leaders(ElectionType.PREFERRED, [first]))
    step("elect_leaders, all", lambda: admin.elect_leaders(ElectionType.PREFERRED, None))
    step("delete_consumer_groups", lambda: admin.delete_consumer_groups([group]))


def _ids(groups: Any) -> list[str]:
    return [each.id for each in groups]


def _security(admin: AdminClient, step: Any, topic: str) -> None:
    everyone = ("User:a", "*")
    binding = AclBinding(
        *(ResourceType.TOPIC, topic, ResourcePatternType.LITERAL),
        *everyone,
        *(AclOperation.READ, AclPermissionType.ALLOW),
    )
    any_of_them = AclBindingFilter(
        *(ResourceType.ANY, None, ResourcePatternType.ANY),
        *(None, None),
        *(AclOperation.ANY, AclPermissionType.ANY),
    )
    step("create_acls", lambda: admin.create_acls([binding]))
    step("describe_acls", lambda: admin.describe_acls(any_of_them))
    step("delete_acls", lambda: admin.delete_acls([any_of_them]))
    step("describe_user_scram_credentials", admin.describe_user_scram_credentials)
    step(
        "describe_user_scram_credentials, one",
        lambda: admin.describe_user_scram_credentials(["nobody"]),
    )
    sha_256 = ScramMechanism.SCRAM_SHA_256
    upsertion = UserScramCredentialUpsertion(
        *("somebody", ScramCredentialInfo(sha_256, 4096)), *(b"password", b"salt")
    )
    deletion = UserScramCredentialDeletion("nobody", sha_256)
    for what, alteration in ((", set", upsertion), (", delete", deletion)):
        step(
            f"alter_user_scram_credentials{what}",
            lambda alteration=alteration: admin.alter_user_scram_credentials([alteration]),
        )
