"""The requests to the coordinator of a transaction, and the checks of their responses.

Sends nothing, and does not react to a refusal. The versions end before transactions v2 (KIP-890),
where EndTxn returns a new epoch, to one process only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, Final, NamedTuple

from drumlin.client.admin.committed_offsets import GroupMetadata, OffsetAndMetadata, offset_topics
from drumlin.client.read.offsets import by_topic
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.rights import refusal
from drumlin.wire.error_codes import ErrorCode, error_of
from drumlin.wire.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest
from drumlin.wire.protocol.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from drumlin.wire.protocol.end_txn import EndTxnRequest
from drumlin.wire.protocol.init_producer_id import InitProducerIdRequest
from drumlin.wire.protocol.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from drumlin.wire.schema.declaration import Message

INIT_VERSION_MAX: Final = 4
ADD_PARTITIONS_VERSION_MAX: Final = 3
ADD_OFFSETS_VERSION_MAX: Final = 3
COMMIT_OFFSETS_VERSION_MAX: Final = 4
END_VERSION_MAX: Final = 4


class OpenTransaction(NamedTuple):
    """The identity of an open transaction, with which any process can end it. Can be pickled."""

    transactional_id: str
    producer_id: int
    epoch: int


def init_request(transactional_id: str, timeout_ms: int) -> Message:
    """InitProducerId: a new epoch, which fences the id's producer and aborts its transaction."""
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=timedelta(milliseconds=timeout_ms),
    )


def begun(response: Any, transactional_id: str) -> OpenTransaction:
    """The producer id and epoch in the response to InitProducerId.

    Raises:
        KafkaError: the request was refused.
    """
    what = f"init_producer_id of {transactional_id!r}"
    check("init_producer_id", response.error_code, what)
    return OpenTransaction(transactional_id, response.producer_id, response.producer_epoch)


def add_partitions_request(
    identity: OpenTransaction, places: Collection[TopicPartition]
) -> Message:
    """AddPartitionsToTxn: these partitions get a marker when the transaction ends."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=identity.transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=tuple(
            AddPartitionsToTxnTopic(name=topic, partitions=tuple(partitions))
            for topic, partitions in by_topic(places).items()
        ),
    )


def check_added(response: Any, transactional_id: str) -> None:
    """
    Raises:
        KafkaError: a partition was refused, so none was added.
    """
    for topic in response.results_by_topic_v3_and_below:
        for each in topic.results_by_partition:
            # The errors of the other partitions say only that they were not attempted.
            if each.partition_error_code is not ErrorCode.operation_not_attempted:
                where = f"topic {topic.name!r} partition {each.partition_index}"
                what = f"{where} in transaction {transactional_id!r}"
                check("add_partitions_to_txn", each.partition_error_code, what)


def add_offsets_request(identity: OpenTransaction, group_id: str) -> Message:
    """AddOffsetsToTxn: the offsets of this group become part of the transaction."""
    return AddOffsetsToTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )


def commit_offsets_request(
    identity: OpenTransaction,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
) -> Message:
    """TxnOffsetCommit: these offsets of the group are committed with the transaction."""
    return TxnOffsetCommitRequest(
        transactional_id=identity.transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=offset_topics(TxnOffsetCommitRequestTopic, TxnOffsetCommitRequestPartition, offsets),
    )


def check_committed(response: Any, group_id: str) -> None:
    """
    Raises:
        KafkaError: offsets of a partition were refused.
    """
    for topic in response.topics:
        for each in topic.partitions:
            where = f"topic {topic.name!r} partition {each.partition_index}"
            what = f"txn_offset_commit of group {group_id!r}, {where}"
            check("txn_offset_commit", each.error_code, what)


def end_request(identity: OpenTransaction, *, commit: bool) -> Message:
    """EndTxn. It is safe to retry."""
    return EndTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=commit,
    )


def check(api_name: str, code: ErrorCode | int, what: str) -> None:
    """
    Raises:
        KafkaError: unless `code` is none.
    """
    if code != ErrorCode.none:
        raise refusal(api_name, error_of(code), what)
