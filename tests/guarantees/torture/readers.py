"""Consumers: assigned and subscribed, of committed data and of all, and a last one."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from guarantees.clients import is_passing, make_consumer, membership
from guarantees.histories.history import Read, Recorder
from guarantees.torture.records import decode, partition_name


class WrongPosition(Exception):
    """Offsets that were committed in a transaction are not what they must be."""


class _Reader(threading.Thread):
    """Reads until it is stopped; what it cannot explain is its failure."""

    def __init__(self, name: str, recorder: Recorder, seed: str) -> None:
        super().__init__(daemon=True, name=name)
        self.failure: BaseException | None = None
        self._recorder = recorder
        self._random = random.Random(f"{seed} {name}")
        self._stopping = threading.Event()
        self._pending: list[Read] = []

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._read()
        except BaseException as failure:
            self.failure = failure

    def _read(self) -> None:
        raise NotImplementedError

    def _poll(self, consumer: Consumer) -> int:
        """One poll of several records, noted; how many they were."""
        count = 0
        for number in range(self._random.randint(1, 100)):
            message = consumer.poll(0.1 if number == 0 else 0)
            if message is None:
                break
            error = message.error()
            if error is None:
                self._pending.append(decode(message))
                count += 1
            elif not is_passing(error):
                raise KafkaException(error)
        self._note_pending()
        return count

    def _note_pending(self) -> None:
        if self._pending:
            self._recorder.poll(self.name, None, self._pending)
            self._pending = []


class AssignedReader(_Reader):
    """Reads all partitions by itself, and now and then goes back, or is made again."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        partitions: list[tuple[str, int]],
        recorder: Recorder,
        seed: str,
        isolation: str = "read_committed",
        **settings: str,
    ) -> None:
        """More settings are those of the consumer, with underscores for dots."""
        super().__init__(name, recorder, seed)
        self._address = bootstrap
        self._settings = {"isolation_level": isolation, **settings}
        self._positions = dict.fromkeys(partitions, 0)
        if isolation == "read_uncommitted":
            recorder.uncommitted(name)

    def _read(self) -> None:
        consumer = make_consumer(self._address, self.name, **self._settings)
        try:
            self._go_to(consumer, self._positions)
            for _ in range(self._random.randint(50, 200)):
                if self._stopping.is_set():
                    break
                self._poll(consumer)
                if self._random.random() < 0.01:
                    self._go_to(consumer, self._earlier())
            for each in consumer.position([TopicPartition(*at) for at in self._positions]):
                if each.offset >= 0:
                    self._positions[each.topic, each.partition] = each.offset
        finally:
            consumer.close()

    def _earlier(self) -> dict[tuple[str, int], int]:
        """Where to go back to."""
        return dict.fromkeys(self._positions, 0)

    def _go_to(self, consumer: Consumer, positions: dict[tuple[str, int], int]) -> None:
        named = {partition_name(*at): offset for at, offset in positions.items()}
        self._recorder.jump(self.name, named)
        consumer.assign([TopicPartition(*at, offset) for at, offset in positions.items()])


class SubscribedReader(_Reader):
    """A member of a group, which comes and goes and commits its offsets."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        topics: list[str],
        recorder: Recorder,
        seed: str,
        protocol: str,
        group: str = "readers",
    ) -> None:
        super().__init__(name, recorder, seed)
        self._address = bootstrap
        self._topics = topics
        self._protocol = protocol
        self._group = group

    def _read(self) -> None:
        consumer = make_consumer(
            self._address,
            self._group,
            auto_offset_reset="earliest",
            **membership(self._protocol),
        )
        try:
            consumer.subscribe(self._topics, on_assign=self._assigned)
            for _ in range(self._random.randint(50, 300)):
                if self._stopping.is_set():
                    break
                if self._poll(consumer) and self._random.random() < 0.3:
                    self._commit(consumer)
        finally:
            consumer.close()

    def _assigned(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._note_pending()
        named = {partition_name(each.topic, each.partition): None for each in partitions}
        self._recorder.jump(self.name, named)

    def _commit(self, consumer: Consumer) -> None:
        try:
            consumer.commit(asynchronous=True)
        except KafkaException as failure:
            if not is_passing(failure.args[0]):
                raise


class Mover:
    """The consumer of a writer that commits its offsets in transactions."""

    def __init__(
        self, name: str, bootstrap: str, partitions: list[tuple[str, int]], recorder: Recorder
    ) -> None:
        self.name = name
        self._recorder = recorder
        self._partitions = partitions
        self._consumer = make_consumer(bootstrap, name)
        self._is_at_its_place = False
        #: What the group's offsets must be; None while a commit has an unknown outcome.
        self._expected: dict[tuple[str, int], int] | None = dict.fromkeys(partitions, -1001)
        self._before = dict.fromkeys(partitions, -1001)

    def close(self) -> None:
        self._consumer.close()

    def metadata(self) -> Any:
        return self._consumer.consumer_group_metadata()

    def expect(self, moved: list[TopicPartition]) -> None:
        """These offsets are committed for certain, and the others as they were."""
        self._expected = self._before | {
            (each.topic, each.partition): each.offset for each in moved
        }

    def expect_unknown(self) -> None:
        """A commit is asked for: until it is answered, the offsets may be these or those."""
        if self._expected is not None:
            self._before = self._expected
        self._expected = None

    def rewind(self) -> None:
        """Go to what is committed, with the next poll."""
        self._is_at_its_place = False

    def poll(self, number: int) -> list[TopicPartition]:
        """Read a little within a transaction; the offsets to be committed with it."""
        if not self._is_at_its_place and not self._go_to_committed():
            return []
        reads = []
        for message in self._consumer.consume(20, 0.1):
            error = message.error()
            if error is None:
                reads.append(decode(message))
            elif not is_passing(error):
                raise KafkaException(error)
        if not reads:
            return []
        self._recorder.poll(self.name, number, reads)
        ends = {read.partition: read.offset + 1 for read in reads}
        return [
            TopicPartition(topic, partition, ends[partition_name(topic, partition)])
            for topic, partition in self._partitions
            if partition_name(topic, partition) in ends
        ]

    def _go_to_committed(self) -> bool:
        asked = [TopicPartition(*at) for at in self._partitions]
        try:
            committed = self._consumer.committed(asked, 5)
        except KafkaException as failure:
            if is_passing(failure.args[0]):
                return False
            raise
        found = {(each.topic, each.partition): each.offset for each in committed}
        if any(each.error is not None for each in committed):
            return False
        if self._expected is not None and found != self._expected:
            raise WrongPosition(f"{self.name}: {found} is committed, and not {self._expected}")
        self._expected = found
        positions = {at: max(offset, 0) for at, offset in found.items()}
        named = {partition_name(*at): offset for at, offset in positions.items()}
        self._recorder.jump(self.name, named)
        self._consumer.assign([TopicPartition(*at, offset) for at, offset in positions.items()])
        self._is_at_its_place = True
        return True


def read_to_the_end(
    name: str,
    bootstrap: str,
    partitions: list[tuple[str, int]],
    recorder: Recorder,
    timeout_s: float,
) -> str | None:
    """Read everything there is; what hinders it, if something does.

    No writer may be at work. What is still open must be ended by its timeout: a last stable offset
    that never reaches the high watermark is a transaction that hangs.
    """
    consumer = make_consumer(bootstrap, name, enable_partition_eof=True)
    everything = make_consumer(bootstrap, name, isolation_level="read_uncommitted")
    deadline = time.monotonic() + timeout_s
    ends: dict[tuple[str, int], int] = {}
    try:
        for at in partitions:
            while True:
                stable = consumer.get_watermark_offsets(TopicPartition(*at), 10)[1]
                ends[at] = everything.get_watermark_offsets(TopicPartition(*at), 10)[1]
                if stable == ends[at]:
                    break
                if time.monotonic() > deadline:
                    return f"a transaction hangs in {partition_name(*at)}: {stable} of {ends[at]}"
                time.sleep(0.2)
        recorder.jump(name, {partition_name(*at): 0 for at in partitions})
        consumer.assign([TopicPartition(*at, 0) for at in partitions])
        missing = {at for at in partitions if ends[at] > 0}
        while missing:
            if time.monotonic() > deadline:
                return f"the end of {sorted(missing)} cannot be reached, {ends}"
            missing -= _read_more(name, consumer, recorder, ends)
        recorder.complete(name)
    finally:
        consumer.close()
        everything.close()
    return None


def _read_more(
    name: str, consumer: Consumer, recorder: Recorder, ends: dict[tuple[str, int], int]
) -> set[tuple[str, int]]:
    """One poll of the last reader; the partitions whose end it has come to."""
    reads, ended = [], set()
    for message in consumer.consume(1000, 0.5):
        error = message.error()
        if error is None:
            reads.append(decode(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            at = (str(message.topic()), int(message.partition() or 0))
            if int(message.offset() or 0) >= ends[at]:
                ended.add(at)
        elif not is_passing(error):
            raise KafkaException(error)
    if reads:
        recorder.poll(name, None, reads)
    return ended
