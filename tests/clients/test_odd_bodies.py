"""Each body that Produce takes, however odd, is one that librdkafka reads."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from records.validation.test_odd_bodies import READ_BY_ALL, VALUES, batch_of
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.data.messages import Shape

pytestmark = pytest.mark.clients


def test_librdkafka_reads_what_produce_takes() -> None:
    batches = [
        batch_of(name, body, len(VALUES) * index)
        for index, (name, body) in enumerate(READ_BY_ALL.items())
    ]
    end_offset = len(VALUES) * len(batches)

    def fetch(shape: Shape, request: Any) -> Any:
        offset = request.topics[0].partitions[0].fetch_offset
        partition = shape(
            "PartitionData",
            partition_index=0,
            error_code=ErrorCode.none,
            high_watermark=end_offset,
            last_stable_offset=end_offset,
            log_start_offset=0,
            aborted_transactions=None,
            records=b"".join(batches[offset // len(VALUES) :]),
        )
        topic = shape("FetchableTopicResponse", topic="t", partitions=(partition,))
        return shape(
            "FetchResponse", throttle_time=ZERO, error_code=ErrorCode.none, responses=(topic,)
        )

    read: list[bytes | None] = []
    with ScriptedBroker({"t": 1}) as broker:
        broker.versions["fetch"] = (4, 11)
        broker.script("fetch", fetch)
        broker.script("find_coordinator", lambda *_: Silence())
        consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "g",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.assign([TopicPartition("t", 0, 0)])
            while len(read) < end_offset:
                message = consumer.poll(60)
                assert message is not None
                assert message.error() is None, f"{message.error()} after {len(read)} records"
                read.append(message.value())
        finally:
            consumer.close()
    assert read == VALUES * len(batches)
