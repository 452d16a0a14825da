"""Offsets that are committed and asked for without any members: they never go back.

Values rise. A commit without an answer is asked for again with the same value, and may come into
effect later by a request that was given up: such values are known, and pass.
"""

from __future__ import annotations

import random
import threading
import time

from confluent_kafka import Consumer, KafkaException, TopicPartition

from guarantees.clients import is_passing, make_consumer

_CALL_S = 5.0
_CLIENT_S = 4.0


class LostCommit(Exception):
    """What is committed is not what must be."""


class Ledger(threading.Thread):
    """One group, with one partition; it commits and asks until it is told to stop."""

    def __init__(self, name: str, bootstrap: str, partition: tuple[str, int], seed: str) -> None:
        super().__init__(daemon=True, name=name)
        self.failure: BaseException | None = None
        #: Commits that were acknowledged, and those found again as they were.
        self.committed = self.found = 0
        self._address = bootstrap
        self._partition = partition
        self._random = random.Random(f"{seed} {name}")
        self._stopping = threading.Event()
        self._value = 0
        self._last = -1
        self._unknown: set[int] = set()

    def stop(self) -> None:
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                consumer = make_consumer(self._address, self.name, socket_timeout_ms=3000)
                try:
                    self._work(consumer)
                finally:
                    consumer.close()
            self._end_well()
        except BaseException as failure:
            self.failure = failure

    def _work(self, consumer: Consumer) -> None:
        deadline = time.monotonic() + self._random.uniform(1, _CLIENT_S)
        while time.monotonic() < deadline and not self._stopping.is_set():
            if self._random.random() < 0.5:
                self._commit(consumer)
            else:
                self._ask(consumer)
            self._stopping.wait(0.02)

    def _commit(self, consumer: Consumer) -> bool:
        if self._value == self._last:
            self._value += 1
        try:
            (answer,) = consumer.commit(
                offsets=[TopicPartition(*self._partition, self._value)], asynchronous=False
            )
            if answer.error is not None:
                raise KafkaException(answer.error)
        except KafkaException as failure:
            if not is_passing(failure.args[0]):
                raise
            self._unknown.add(self._value)
            return False
        self._last = self._value
        self.committed += 1
        return True

    def _ask(self, consumer: Consumer) -> bool:
        try:
            (answer,) = consumer.committed([TopicPartition(*self._partition)], _CALL_S)
            if answer.error is not None:
                raise KafkaException(answer.error)
        except KafkaException as failure:
            if not is_passing(failure.args[0]):
                raise
            return False
        if answer.offset == self._last or (self._last < 0 and answer.offset < 0):
            self.found += 1
        elif answer.offset not in self._unknown:
            raise LostCommit(f"{answer.offset} is committed, and not {self._last}")
        return True

    def _end_well(self) -> None:
        """When all faults are over, both go through."""
        deadline = time.monotonic() + 60
        consumer = make_consumer(self._address, self.name)
        try:
            while not (self._commit(consumer) and self._ask(consumer)):
                if time.monotonic() > deadline:
                    raise TimeoutError("offsets cannot be committed, though all faults are over")
        finally:
            consumer.close()
