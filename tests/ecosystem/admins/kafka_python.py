"""kafka-python's KafkaAdminClient: the one that asks for the most APIs."""

from __future__ import annotations

import inspect
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition, TopicPartitionReplica
from kafka.admin import (
    ACL,
    AbortTransactionSpec,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    MemberToRemove,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UpdateFeatureType,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.structs import OffsetAndMetadata

from ecosystem.admins.steps import Steps

_PREFERRED = 0
_UPGRADE, _DOWNGRADE = UpdateFeatureType.UPGRADE, UpdateFeatureType.SAFE_DOWNGRADE


def run(address: str, topic: str, group: str) -> dict[str, str]:
    """What came of each step."""
    admin = KafkaAdminClient(bootstrap_servers=address, request_timeout_ms=60_000)
    step = Steps(lambda error: type(error).__name__)
    _cluster(admin, step)
    _topics(admin, step, topic)
    consumer = _fill_and_read(address, topic, group)
    _groups(admin, step, topic, group, consumer)
    _logs(admin, step, topic)
    _transactions(admin, step, topic, address)
    _security(admin, step, topic)
    step("delete_topics", lambda: admin.delete_topics([topic]))
    admin.close()
    methods = {name for name, _ in inspect.getmembers(KafkaAdminClient, inspect.isfunction)}
    untried = {each for each in methods if not each.startswith("_")} - step.tried
    assert untried == {"close"}, "not tried"
    return step.outcomes


def _cluster(admin: KafkaAdminClient, step: Steps) -> None:
    step("api_versions", admin.api_versions)
    step("describe_features", admin.describe_features)
    step("get_broker_version_data", lambda: admin.get_broker_version_data(1))
    step("describe_cluster", admin.describe_cluster)
    step("list_config_resources", admin.list_config_resources)
    step(
        "describe_metadata_quorum",
        admin.describe_metadata_quorum,
        lambda said: said["topics"][0]["partitions"][0]["leader_id"] == 1,
    )
    for what, update in {
        "": {"no.such.feature": (_UPGRADE, 1)},
        ", as it is": {"group.version": (_UPGRADE, 1)},
        ", too high": {"group.version": (_UPGRADE, 77)},
        ", not said to be lower": {"transaction.version": (_UPGRADE, 1)},
    }.items():
        step(
            f"update_features{what}",
            lambda update=update: admin.update_features(update, validate_only=True),
        )


def _topics(admin: KafkaAdminClient, step: Steps, topic: str) -> None:
    of_topic = ConfigResource(ConfigResourceType.TOPIC, topic)
    of_broker = ConfigResource(ConfigResourceType.BROKER, "1")

    def altered(value: str | None) -> list[ConfigResource]:
        return [ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": value})]

    compacted = NewTopic(topic, 3, 1, topic_configs={"cleanup.policy": "compact,delete"})
    step("create_topics", lambda: admin.create_topics([compacted], wait_for_metadata=True))
    step("wait_for_topics", lambda: admin.wait_for_topics([topic]))
    step("create_partitions", lambda: admin.create_partitions({topic: NewPartitions(4)}))
    step("list_topics", admin.list_topics, lambda said: topic in str(said))
    step("describe_topics", lambda: admin.describe_topics([topic]))
    step("describe_topic_partitions", lambda: admin.describe_topic_partitions([topic]))
    step(
        "describe_configs",
        lambda: admin.describe_configs([of_topic]),
        lambda said: "compact" in str(said),
    )
    step(
        "describe_configs, broker",
        lambda: admin.describe_configs([of_broker], config_filter="all", include_synonyms=True),
    )
    step("alter_configs", lambda: admin.alter_configs(altered("123456")))
    step(
        "describe_configs, altered",
        lambda: admin.describe_configs([of_topic]),
        lambda said: "123456" in str(said),
    )
    step("reset_configs", lambda: admin.reset_configs(altered(None)))
    step(
        "describe_configs, reset",
        lambda: admin.describe_configs([of_topic]),
        lambda said: "123456" not in str(said),
    )


def _fill_and_read(address: str, topic: str, group: str) -> KafkaConsumer:
    producer = KafkaProducer(bootstrap_servers=address, request_timeout_ms=60_000)
    for number in range(100):
        key = b"%d" % number
        producer.send(topic, key=key, value=key, partition=number % 4)
    producer.flush(60)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=address,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=60_000,
    )
    for _ in range(100):
        next(consumer)
    consumer.commit()
    return consumer


def _groups(
    admin: KafkaAdminClient, step: Steps, topic: str, group: str, consumer: KafkaConsumer
) -> None:
    first, second, third, _ = (TopicPartition(topic, each) for each in range(4))

    def has_group(said: Any) -> bool:
        return group in str(said)

    step("list_groups", admin.list_groups, has_group)
    step(
        "list_groups, some",
        lambda: admin.list_groups(states_filter=["Stable"], types_filter=["classic"]),
        has_group,
    )
    step(
        "describe_groups",
        lambda: admin.describe_groups([group], include_authorized_operations=True),
        lambda said: "Stable" in str(said),
    )
    step(
        "list_group_offsets",
        lambda: admin.list_group_offsets({group: None}),
        lambda said: [each.offset for each in said[group].values()] == [25] * 4,
    )
    member = admin.describe_groups([group])[group]["members"][0]["member_id"]
    step(
        "remove_group_members",
        lambda: admin.remove_group_members(group, [MemberToRemove(member_id=member)]),
    )
    consumer.close()
    moved = {first: OffsetAndMetadata(5, "", -1)}
    step("alter_group_offsets", lambda: admin.alter_group_offsets(group, moved))
    step(
        "list_group_offsets, moved",
        lambda: admin.list_group_offsets({group: [first]}),
        lambda said: said[group][first].offset == 5,
    )
    step(
        "reset_group_offsets",
        lambda: admin.reset_group_offsets(group, {first: OffsetSpec.EARLIEST}),
    )
    step("delete_group_offsets", lambda: admin.delete_group_offsets(group, [second]))
    specs = {first: OffsetSpec.LATEST, second: OffsetSpec.EARLIEST, third: OffsetSpec.MAX_TIMESTAMP}
    step(
        "list_partition_offsets",
        lambda: admin.list_partition_offsets(specs),
        lambda said: said[first].offset == 25 and said[second].offset == 0,
    )
    step("delete_records", lambda: admin.delete_records({first: 10}))
    step("delete_groups", lambda: admin.delete_groups([group]))


def _logs(admin: KafkaAdminClient, step: Steps, topic: str) -> None:
    first = TopicPartition(topic, 0)
    step("describe_log_dirs", admin.describe_log_dirs, lambda said: topic in str(said))
    step("describe_log_dirs, one", lambda: admin.describe_log_dirs([first]))
    step(
        "alter_replica_log_dirs",
        lambda: admin.alter_replica_log_dirs(
            {TopicPartitionReplica(topic, 0, 1): "/no/such/folder"}
        ),
    )
    step(
        "elect_leaders",
        lambda: admin.elect_leaders(_PREFERRED, {topic: [0]}, raise_errors=False),
    )
    step("elect_leaders, all", lambda: admin.elect_leaders(_PREFERRED, raise_errors=False))
    step(
        "alter_partition_reassignments",
        lambda: admin.alter_partition_reassignments({first: [1]}),
    )
    step("list_partition_reassignments", admin.list_partition_reassignments)


def _transactions(admin: KafkaAdminClient, step: Steps, topic: str, address: str) -> None:
    second = TopicPartition(topic, 1)
    step("list_transactions", admin.list_transactions)
    step(
        "list_transactions, some",
        lambda: admin.list_transactions(transactional_id_pattern=f"{topic}.*"),
    )
    producer = KafkaProducer(
        bootstrap_servers=address, transactional_id=topic, request_timeout_ms=60_000
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"value", key=b"key", partition=1).get(60)
    step(
        "describe_transactions",
        lambda: admin.describe_transactions([topic]),
        lambda said: "Ongoing" in str(said),
    )
    step("find_hanging_transactions", admin.find_hanging_transactions)
    step("describe_producers", lambda: admin.describe_producers([second]))
    producer.commit_transaction()
    producer.close()
    nobody = AbortTransactionSpec(
        topic_partition=second, producer_id=999, producer_epoch=0, coordinator_epoch=0
    )
    step("abort_transaction", lambda: admin.abort_transaction(nobody))


def _security(admin: KafkaAdminClient, step: Steps, topic: str) -> None:
    pattern = ResourcePatternFilter(ResourceType.TOPIC, topic, ACLResourcePatternType.ANY)
    wanted = ACLFilter("User:a", "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    resource = ResourcePattern(ResourceType.TOPIC, topic)
    allowed = ACL("User:a", "*", ACLOperation.READ, ACLPermissionType.ALLOW, resource)
    step("create_acls", lambda: admin.create_acls([allowed]))
    step("describe_acls", lambda: admin.describe_acls(wanted))
    step("delete_acls", lambda: admin.delete_acls([wanted]))
    step("describe_user_scram_credentials", admin.describe_user_scram_credentials)
    step(
        "describe_user_scram_credentials, one",
        lambda: admin.describe_user_scram_credentials(["nobody"]),
    )
    sha_256 = ScramMechanism.SCRAM_SHA_256
    deletion = UserScramCredentialDeletion("nobody", sha_256)
    upsertion = UserScramCredentialUpsertion("somebody", sha_256, b"password", iterations=4096)
    for what, alteration in ((", set", upsertion), (", delete", deletion)):
        step(
            f"alter_user_scram_credentials{what}",
            lambda alteration=alteration: admin.alter_user_scram_credentials([alteration]),
        )
