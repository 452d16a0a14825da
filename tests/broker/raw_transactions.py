"""A transactional producer that sends what it is told, when it is told."""

from __future__ import annotations

import time
from typing import Any

from rig.data.batches import batch
from rig.data.messages import render
from rig.data.raw import RawClient
from rig.waiting import wait_until

TRANSACTIONAL = 0x10
CONTROL = 0x20


class RawProducer:
    """One transactional id on one connection. `version` is of Produce; from 12 it is of v2."""

    def __init__(self, client: RawClient, transactional_id: str, version: int = 11) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = self.epoch = -1

    @property
    def is_v2(self) -> bool:
        return self.version >= 12

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        return render(self.client.ask(api, version, **fields))

    @property
    def _who(self) -> dict[str, Any]:
        return {
            "transactional_id": self.transactional_id,
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
        }

    def init(self) -> None:
        """InitProducerId, again while the transaction before is ending."""
        self.ask("find_coordinator", 4, key_type=1, coordinator_keys=[self.transactional_id])
        answer: dict[str, Any] = {}

        def is_answered() -> bool:
            answer.update(self.ask("init_producer_id", 4, **self._who, transaction_timeout=600_000))
            return str(answer["error_code"]) not in (
                "concurrent_transactions",
                "coordinator_load_in_progress",
                "not_coordinator",
                "coordinator_not_available",
            )

        self.producer_id = self.epoch = -1
        wait_until(is_answered, "a producer id")
        assert answer["error_code"] == "none", answer
        self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]

    def add(self, topic: str, *partitions: int) -> None:
        """AddPartitionsToTxn, as classic producers do."""
        topics = [{"name": topic, "partitions": list(partitions)}]
        who = {f"v3_and_below_{key}": value for key, value in self._who.items()}

        def is_added() -> bool:
            answer = self.ask("add_partitions_to_txn", 3, **who, v3_and_below_topics=topics)
            codes = {
                each["partition_error_code"]
                for topic in answer["results_by_topic_v3_and_below"]
                for each in topic["results_by_partition"]
            }
            assert codes <= {"none", "concurrent_transactions"}, codes
            return codes == {"none"}

        wait_until(is_added, "the partitions to be added")

    def request(
        self, topic: str, *sequences: int, partition: int = 0, acks: int = 1, **fields: Any
    ) -> dict[str, Any]:
        """The fields of a Produce with one batch, of a record for each of `sequences`."""
        producer = {
            "producer_id": self.producer_id,
            "producer_epoch": self.epoch,
            "base_sequence": sequences[0],
            "extra_attributes": TRANSACTIONAL,
            "timestamp": time.time_ns() // 1_000_000,  # or markers begin new segments
            **fields,
        }
        transactional_id = producer.pop("transactional_id", self.transactional_id)
        records = batch(*(b"%d" % each for each in sequences), **producer)
        parts = [{"index": partition, "records": records}]
        return {
            "acks": acks,
            "timeout": 10_000,
            "transactional_id": transactional_id,
            "topic_data": [{"name": topic, "partition_data": parts}],
        }

    def send(self, topic: str, *sequences: int, **fields: Any) -> dict[str, Any]:
        """Produce one batch; what its partition is answered."""
        answer = self.ask("produce", self.version, **self.request(topic, *sequences, **fields))
        (of_topic,) = answer["responses"]
        (of_partition,) = of_topic["partition_responses"]
        return dict(of_partition)

    def end(self, *, commit: bool = True) -> None:
        """EndTxn; in v2 the producer continues with the epoch that it is given."""
        version = 5 if self.is_v2 else 4
        answer = self.ask("end_txn", version, **self._who, committed=commit)
        assert answer["error_code"] == "none", answer
        if self.is_v2:
            self.producer_id, self.epoch = answer["producer_id"], answer["producer_epoch"]
