"""Topics for tests, filled by an unmodified client, and what Spark should read from them."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import DataFrame

Headers = list[tuple[str, bytes | None]]
#: partition, key, value, timestamp, headers
Produced = tuple[int, bytes | None, bytes | None, int, Headers | None]


@dataclass
class Topic:
    """One topic of one broker, and all that was written to it."""

    address: str
    partitions: int = 2
    name: str = field(default_factory=lambda: f"spark-{uuid.uuid4().hex[:12]}")
    replicas: int = 1
    produced: list[Produced] = field(default_factory=list)
    _numbers: Any = field(default_factory=itertools.count)

    def create(self) -> Topic:
        # The records are of years ago: with the default retention they would soon be gone.
        topic = NewTopic(self.name, self.partitions, self.replicas, config={"retention.ms": "-1"})
        self._admin(lambda admin: admin.create_topics([topic]))
        return self

    def delete(self) -> None:
        self._admin(lambda admin: admin.delete_topics([self.name]))

    def add_partitions(self, count: int) -> None:
        new = NewPartitions(self.name, count)
        self._admin(lambda admin: admin.create_partitions([new]))
        self.partitions = count

    def delete_records_before(self, partition: int, offset: int) -> None:
        place = TopicPartition(self.name, partition, offset)
        self._admin(lambda admin: admin.delete_records([place]))

    def fill(self, count: int) -> None:
        """Write `count` more records, in turn to every partition."""
        numbers = itertools.islice(self._numbers, count)
        self.write(
            (
                number % self.partitions,
                None if number % 7 == 0 else b"key-%d" % (number % 10),
                b"value-%d" % number,
                1_700_000_000_000 + number,
                None,
            )
            for number in numbers
        )

    def write(
        self,
        records: Iterable[Produced],
        producer: Producer | None = None,
        timeout_s: float = 30,
    ) -> None:
        """Write these records in their order, and wait until all are acknowledged."""
        # Idempotent: a batch that is refused, as the topic is new, must not come after the next.
        options = {"bootstrap.servers": self.address, "linger.ms": 5, "enable.idempotence": True}
        producer = producer or Producer(options)
        failed: list[Any] = []
        for record in records:
            partition, key, value, timestamp, headers = record
            producer.produce(
                self.name,
                partition=partition,
                key=key,
                value=value,
                timestamp=timestamp,
                headers=headers,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
            self.produced.append(record)
        assert producer.flush(timeout_s) == 0
        assert failed == []

    def options(self, **more: object) -> dict[str, str]:
        """Options of a query over this topic."""
        plain = {"kafka.bootstrap.servers": self.address, "subscribe": self.name}
        return plain | {name.replace("__", "."): str(value) for name, value in more.items()}

    def expected(self) -> list[tuple[Any, ...]]:
        """What `rows` of all records are."""
        offsets = [itertools.count() for _ in range(self.partitions)]
        return sorted(
            (partition, next(offsets[partition]), key, value, timestamp)
            for partition, key, value, timestamp, _ in self.produced
        )

    def _admin(self, call: Any) -> None:
        admin = AdminClient({"bootstrap.servers": self.address})
        for answer in call(admin).values():
            answer.result(30)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Partition, offset, key, value and timestamp of every row, sorted."""
    columns = "partition, offset, key, value, unix_millis(timestamp) AS milliseconds"
    collected = frame.selectExpr(*columns.split(", ")).collect()
    return sorted(
        (
            row.partition,
            row.offset,
            None if row.key is None else bytes(row.key),
            None if row.value is None else bytes(row.value),
            row.milliseconds,
        )
        for row in collected
    )
