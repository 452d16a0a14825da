"""Members of several kinds, each on a thread of its own, and what all of them have read."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import confluent_kafka
import kafka
import pyarrow as pa

from drumlin.client.client import Client
from drumlin.client.consumer import Consumer
from rig.jvm.jars import java
from rig.servers.apache_kafka import kafka_classpath
from rig.waiting import wait_until

Partitions = frozenset[tuple[str, int]]


class Reader(Protocol):
    def poll(self) -> list[tuple[int, int]]:
        """Partition and offset of what came."""

    def assignment(self) -> set[int]: ...

    def close(self) -> None: ...


class Ours:
    def __init__(self, client: Client, topic: str, group: str, **options: Any) -> None:
        self.assigned: list[Partitions] = []
        self.revoked: list[Partitions] = []
        self.lost: list[Partitions] = []
        self.consumer: Consumer = client.consumer(
            topic,
            group=group,
            on_assigned=self.assigned.append,
            on_revoked=self.revoked.append,
            on_lost=self.lost.append,
            heartbeat_interval_ms=200,
            **options,
        )

    def poll(self) -> list[tuple[int, int]]:
        batch = self.consumer.poll(50)
        if batch is None:
            return []
        columns = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
        return list(zip(*columns, strict=True))

    def assignment(self) -> set[int]:
        return {partition for _, partition in self.consumer.assignment}

    def close(self) -> None:
        self.consumer.close()


class Confluent:
    def __init__(self, address: str, topic: str, group: str, assignor: str) -> None:
        self.consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": assignor,
                "heartbeat.interval.ms": 200,
            }
        )
        self.consumer.subscribe([topic])

    def poll(self) -> list[tuple[int, int]]:
        messages = self.consumer.consume(100, 0.05)
        assert all(each.error() is None for each in messages)
        return [(each.partition(), each.offset()) for each in messages]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


class KafkaPython:
    def __init__(self, address: str, topic: str, group: str, assignor: str) -> None:
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        known = (RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor)
        self.consumer = kafka.KafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=200,
            metadata_max_age_ms=500,
            partition_assignment_strategy=[each for each in known if each.name == assignor],
        )
        # As a leader it would assign nothing of a topic that it does not know yet.
        wait_until(lambda: self.consumer.partitions_for_topic(topic), "the topic to be known")
        self.consumer.subscribe([topic])

    def poll(self) -> list[tuple[int, int]]:
        # Its commit before a rebalance has no more time than this.
        found = self.consumer.poll(timeout_ms=500)
        return [(each.partition, each.offset) for some in found.values() for each in some]

    def assignment(self) -> set[int]:
        return {each.partition for each in self.consumer.assignment()}

    def close(self) -> None:
        self.consumer.close()


class Java:
    """Kafka's console consumer, which prints what it gets."""

    def __init__(self, address: str, topic: str, group: str) -> None:
        properties = {
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": "200",
            "partition.assignment.strategy": (
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            ),
        }
        command = [java(), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", kafka_classpath()]
        command += ["org.apache.kafka.tools.consumer.ConsoleConsumer"]
        command += ["--bootstrap-server", address, "--topic", topic, "--group", group]
        for name in ("partition", "offset"):
            command += ["--formatter-property", f"print.{name}=true"]
        for name, value in properties.items():
            command += ["--command-property", f"{name}={value}"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.seen: Counter[tuple[int, int]] = Counter()
        self.failure: BaseException | None = None
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            fields = dict(each.split(":") for each in line.strip().split("\t") if ":" in each)
            self.seen[int(fields["Partition"]), int(fields["Offset"])] += 1

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self._reading.join(30)


class Running:
    """A reader on a thread of its own. `seen` counts what it was given."""

    def __init__(self, make: Callable[[], Reader]) -> None:
        self.seen: Counter[tuple[int, int]] = Counter()
        self.assignment: set[int] = set()
        self.failure: BaseException | None = None
        self.reader: Reader | None = None
        self._make = make
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.reader = self._make()
            while not self._ends.is_set():
                self.seen.update(self.reader.poll())
                self.assignment = self.reader.assignment()
            self.reader.close()
        except BaseException as error:
            self.failure = error

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self.failure is not None:
            raise self.failure


class Feeder:
    """Appends to all partitions in turn; knows what must have been read in the end."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic

    def feed(self, count: int = 200) -> None:
        table = pa.table({"value": [b"x"] * count})
        by_row = lambda data, partitions: pa.array(  # noqa: E731
            [each % partitions for each in range(data.num_rows)]
        )
        self._client.append(table, self._topic, partition=by_row)

    def all(self) -> set[tuple[int, int]]:
        ends = self._client.offsets(self._topic)
        return {(partition, each) for partition, end in ends.items() for each in range(end)}


def all_seen(readers: list[Any], feeder: Feeder) -> Counter[tuple[int, int]]:
    """What they have read together, once that is everything."""

    def seen() -> Counter[tuple[int, int]]:
        for each in readers:
            if each.failure is not None:
                raise each.failure
        copies = [dict(each.seen) for each in readers]  # at once: their threads add to them
        return sum(map(Counter, copies), Counter())

    expected = feeder.all()
    wait_until(lambda: seen().keys() >= expected, "everything to be read")
    return seen()


def shared(readers: list[Running], partitions: int = 4) -> bool:
    """Whether each has something, and all of them everything once."""
    parts = [set(each.assignment) for each in readers]
    return all(parts) and sorted(e for part in parts for e in part) == list(range(partitions))
