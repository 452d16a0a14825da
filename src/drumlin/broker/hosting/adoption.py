"""Adoption of logs of an Apache Kafka broker, found in the log dirs of a new metadata store.

For log dirs without Kafka's metadata log (`metadata.kraft` reads that log): topics, epochs and
producer ids are taken from the logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from drumlin.broker.parts.parts import BrokerData
from drumlin.coordination.transactions.log import load
from drumlin.metadata.names import (
    CLUSTER_METADATA,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from drumlin.metadata.store.store import PRODUCER_ID_BLOCK_SIZE, Adoption
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.storage.log.log_batches import batches_of
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)

_KEPT_FOR_EVER: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
_COMPACTED: Final = {"cleanup.policy": "compact"}
#: The share coordinator deletes the records of its topic by itself.
_COMPACTED_TOPICS: Final = INTERNAL_TOPICS - {SHARE_GROUP_STATE}


async def adopt_logs(broker: BrokerData, adoption: Adoption) -> None:
    """Create topics for the logs in the log dirs of a new metadata store.

    The logs are those of an Apache Kafka broker whose metadata is missing: topics keep their names,
    ids and records, but not their configuration. So that no record is lost, they are created
    without retention limits. Producer ids that occur in the logs are not allocated again.
    """
    found: dict[str, list[PartitionLog]] = {}
    for log in broker.logs:
        if log.topic != CLUSTER_METADATA:
            found.setdefault(log.topic, []).append(log)
    for name, logs in found.items():
        topic_ids = {log.topic_id for log in logs if log.topic_id.int}
        if len(topic_ids) > 1:
            _log.error("the logs of %s belong to different topics, and are ignored", name)
            continue
        count = max(log.partition for log in logs) + 1
        epochs = [entry.epoch for log in logs for entry in log.leader_epochs.entries]
        await broker.metadata.create_topic(
            name,
            [[broker.node_id]] * count,
            _COMPACTED if name in _COMPACTED_TOPICS else _KEPT_FOR_EVER,
            topic_id=next(iter(topic_ids), None),
            first_leader_epoch=max(epochs, default=-1) + 1,
        )
        _log.info("took over topic %s with %d partitions", name, count)
    first_free = await broker.threads.administering(_first_free_producer_id, list(broker.logs))
    await adoption.note_adopted(first_free)


def _first_free_producer_id(logs: Iterable[PartitionLog]) -> int:
    """A producer id above all that occur in the logs. Blocks: reads the whole of
    `__transaction_state`.

    The ids allocated last may not be in any log. Brokers allocate ids in blocks, so another block
    is skipped.
    """
    highest = max((each for log in logs for each in _producer_ids_in(log)), default=None)
    if highest is None:
        return 0
    return (highest // PRODUCER_ID_BLOCK_SIZE + 2) * PRODUCER_ID_BLOCK_SIZE


def _producer_ids_in(log: PartitionLog) -> Iterator[int]:
    for producer in log.producer_state.freeze().entries():
        yield producer.producer_id
    if log.topic == TRANSACTION_STATE:
        try:
            states = load(batches_of(log))
        except (CorruptRecord, KafkaError, ValueError):
            _log.exception("the producer ids in %s are not known", log.path)
            return
        for metadata in states.values():
            yield metadata.producer_id
            yield metadata.next_producer_id
