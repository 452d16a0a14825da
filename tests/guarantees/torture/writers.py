"""Transactional producers: they commit, abort, vanish and come back, and some are zombies.

A writer's name is its transactional id. Each of its *incarnations* is a producer of its own; the
next one fences the one before. Every transaction of the next has a higher number than all of the
one before, which is what the checker needs to know about their order.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections import deque

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from guarantees.histories.history import Outcome, Recorder
from guarantees.torture.readers import Mover
from guarantees.torture.records import encode, next_value, partition_name

TRANSACTION_TIMEOUT_MS = 10_000
_CALL_S = 5.0
_GIVEN_UP_MAX = 8
_END_WELL_S = 40.0


class Stuck(Exception):
    """A transactional id that is of no use any more."""


class Gone(Exception):
    """This incarnation has failed for good."""


class Writer(threading.Thread):
    """Transactions, one after the other, until it is told to stop."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        partitions: list[tuple[str, int]],
        recorder: Recorder,
        seed: str,
        commit_asked: threading.Event,
        mover: Mover | None = None,
    ) -> None:
        super().__init__(daemon=True, name=name)
        self.failure: BaseException | None = None
        self._address = bootstrap
        self._partitions = partitions
        self._recorder = recorder
        self._random = random.Random(f"{seed} {name}")
        self._commit_asked = commit_asked
        self._mover = mover
        self._stopping = threading.Event()
        self._number = 0
        self._zombie: Producer | None = None
        #: Incarnations before, which are not closed but given up: they keep trying.
        self._given_up: deque[Producer] = deque(maxlen=_GIVEN_UP_MAX)

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._live()
            self._end_well()
            if self._mover is not None:
                self._mover.close()
        except BaseException as failure:
            self.failure = failure

    # -- incarnations --------------------------------------------------------------------------

    def _live(self) -> None:
        producer = self._make_producer()
        self._given_up.append(producer)
        try:
            self._initialise(producer)
            self._wake_zombie()
            if self._mover is not None:
                self._mover.rewind()
            for _ in range(self._random.randint(5, 40)):
                if self._stopping.is_set():
                    return
                self._transact(producer)
                producer.poll(0)
            self._leave_open(producer)
        except Gone:
            pass

    def _end_well(self) -> None:
        """When all faults are over, a transaction must go through: nothing may be stuck."""
        deadline = time.monotonic() + _END_WELL_S
        while time.monotonic() < deadline:
            producer = self._make_producer()
            self._given_up.append(producer)
            with contextlib.suppress(KafkaException):
                producer.init_transactions(_END_WELL_S / 2)
                self._begin(producer)
                self._send_some(producer)
                self._recorder.commit(self.name, self._number)
                producer.commit_transaction(_END_WELL_S / 2)
                self._recorder.end(self.name, self._number, Outcome.COMMITTED)
                return
        raise Stuck(f"{self.name} cannot commit, though all faults are over")

    def _make_producer(self) -> Producer:
        return Producer(
            {
                "bootstrap.servers": self._address,
                "transactional.id": self.name,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "socket.timeout.ms": self._random.choice((1000, 1000, 10_000)),
                "linger.ms": self._random.choice((0, 5, 50)),
                "reconnect.backoff.max.ms": 500,
                "batch.num.messages": self._random.choice((3, 10_000)),
                "compression.type": self._random.choice(("none", "lz4")),
                "log_level": 0,
            }
        )

    def _initialise(self, producer: Producer) -> None:
        while True:
            try:
                producer.init_transactions(_CALL_S)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.fatal() or not error.retriable():
                    raise Gone from failure
                if self._stopping.is_set():
                    raise Gone from failure
            else:
                return

    def _leave_open(self, producer: Producer) -> None:
        """Vanish in the midst of a transaction; sometimes only seemingly."""
        self._begin(producer)
        self._send_some(producer)
        if self._random.random() < 0.7:
            self._zombie = producer

    def _wake_zombie(self) -> None:
        """The incarnation before continues its transaction, and must not get through."""
        zombie, self._zombie = self._zombie, None
        if zombie is None:
            return
        try:
            self._send_some(zombie)
            self._recorder.commit(self.name, self._number)
            zombie.commit_transaction(_CALL_S)
        except (KafkaException, BufferError):
            self._recorder.end(self.name, self._number, Outcome.ABORTED)
        else:
            self._recorder.end(self.name, self._number, Outcome.COMMITTED)

    # -- transactions --------------------------------------------------------------------------

    def _transact(self, producer: Producer) -> None:
        self._begin(producer)
        try:
            moved = self._mover.poll(self._number) if self._mover is not None else []
            for _ in range(self._random.randint(1, 3)):
                self._send_some(producer)
                self._stopping.wait(self._random.choice((0, 0, 0.01, 0.1)))
            self._send_offsets(producer, moved)
        except KafkaException as failure:
            self._recover(producer, failure)
            return
        if self._random.random() < 0.15:
            self._abort(producer)
        else:
            self._commit(producer, moved)

    def _send_offsets(self, producer: Producer, moved: list[TopicPartition]) -> None:
        """librdkafka sometimes never returns from this, with Apache Kafka too: then it is dead."""
        if self._mover is None or not moved:
            return
        failures: list[KafkaException] = []
        metadata = self._mover.metadata()

        def call() -> None:
            try:
                producer.send_offsets_to_transaction(moved, metadata, _CALL_S / 2)
            except KafkaException as failure:
                failures.append(failure)

        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(_CALL_S)
        if thread.is_alive():
            raise Gone
        for failure in failures:
            raise failure

    def _begin(self, producer: Producer) -> None:
        self._number += 1
        self._recorder.begin(self.name, self._number)
        producer.begin_transaction()

    def _send_some(self, producer: Producer) -> None:
        for _ in range(self._random.randint(1, 8)):
            topic, partition = self._random.choice(self._partitions)
            value = next_value()
            where = partition_name(topic, partition)
            self._recorder.write(self.name, self._number, where, value)

            def delivered(error: KafkaError | None, message: Message, value: int = value) -> None:
                # Without an offset it follows from the ack of what was sent after it.
                if error is None and (offset := message.offset()) is not None:
                    self._recorder.ack(self.name, value, offset)

            content = encode(value, self._random)
            key = str(value)
            producer.produce(topic, content, key, partition=partition, on_delivery=delivered)
            producer.poll(0)

    def _commit(self, producer: Producer, moved: list[TopicPartition]) -> None:
        self._recorder.commit(self.name, self._number)
        if self._mover is not None:
            self._mover.expect_unknown()
        self._commit_asked.set()
        while True:
            try:
                producer.commit_transaction(_CALL_S)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.retriable() and not error.fatal():
                    continue
                self._recover(producer, failure)
                return
            break
        self._recorder.end(self.name, self._number, Outcome.COMMITTED)
        if self._mover is not None:
            self._mover.expect(moved)

    def _recover(self, producer: Producer, failure: KafkaException) -> None:
        """What has to be done after a failure, as the documentation of transactions has it."""
        error: KafkaError = failure.args[0]
        if error.fatal() or not (error.txn_requires_abort() or error.retriable()):
            raise Gone from failure
        self._abort(producer)

    def _abort(self, producer: Producer) -> None:
        """Abort; the producer continues only if all that it sent was acknowledged.

        librdkafka (2.16) gives the sequence numbers of records that it has to send again, and that
        an abort throws away, to the records of the next transaction. If the broker has had the
        former all the same, it takes the latter for duplicates, and they are lost: with Apache
        Kafka too.
        """
        if self._random.random() < 0.7:
            producer.flush(1)
        is_of_use = len(producer) == 0
        while True:
            try:
                producer.abort_transaction(_CALL_S)
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.retriable() and not error.fatal():
                    continue
                raise Gone from failure
            break
        self._recorder.end(self.name, self._number, Outcome.ABORTED)
        if not is_of_use:
            raise Gone
        if self._mover is not None:
            self._mover.rewind()
