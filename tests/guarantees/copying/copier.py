"""A program that copies a topic in transactions, offsets included, until it is killed.

It takes every record that it reads into an output record of the same partition, with ` copied`
after its value. It stops at nothing that can be tried again, and ends with an error at all else:
its caller starts it again.
"""

from __future__ import annotations

import argparse
import random
import sys
from typing import NoReturn

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from guarantees.clients import is_passing, make_consumer, membership

SUFFIX = b" copied"
_CALL_S = 10.0


class Copier:
    """Reads a batch, writes it, commits both: one transaction after the other."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._target = arguments.target
        self._size = arguments.transaction_size
        self._random = random.Random(arguments.transactional_id)
        self._batch: list[Message] = []
        self._producer = Producer(
            {
                "bootstrap.servers": arguments.bootstrap,
                "transactional.id": arguments.transactional_id,
                "transaction.timeout.ms": 10_000,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )
        self._producer.init_transactions(60)
        self._consumer = make_consumer(
            arguments.bootstrap,
            arguments.group,
            auto_offset_reset="earliest",
            **membership(arguments.protocol),
        )
        rebalanced = {"on_assign": self._rebalanced, "on_revoke": self._rebalanced}
        self._consumer.subscribe([arguments.source], **rebalanced)

    def run(self) -> NoReturn:
        while True:
            self._fill()
            if self._batch:
                self._copy()

    def _rebalanced(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        """What was read belongs to the copier that is given the partitions now."""
        self._batch = []

    def _fill(self) -> None:
        """Read up to a whole transaction; less when nothing more comes."""
        while len(self._batch) < self._size:
            message = self._consumer.poll(0.3)
            if message is None:
                return
            error = message.error()
            if error is None:
                self._batch.append(message)
            elif not is_passing(error):
                raise KafkaException(error)

    def _copy(self) -> None:
        batch, self._batch = self._batch, []
        self._producer.begin_transaction()
        try:
            for message in batch:
                self._produce(message)
            metadata = self._consumer.consumer_group_metadata()
            self._producer.send_offsets_to_transaction(_ends(batch), metadata, _CALL_S)
            if self._random.random() < 0.1 and self._producer.flush(_CALL_S) == 0:
                self._abort()
            else:
                self._commit()
        except KafkaException as failure:
            error: KafkaError = failure.args[0]
            if error.fatal() or not (error.txn_requires_abort() or error.retriable()):
                raise
            if len(self._producer) > 0:
                raise  # see `Writer._abort` of the torture: it must not continue with this producer
            self._abort()

    def _produce(self, message: Message) -> None:
        value = (message.value() or b"") + SUFFIX
        while True:
            try:
                self._producer.produce(
                    self._target, value, message.key(), partition=message.partition() or 0
                )
            except BufferError:
                self._producer.poll(0.1)
            else:
                self._producer.poll(0)
                return

    def _commit(self) -> None:
        while True:
            try:
                self._producer.commit_transaction(_CALL_S)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
            else:
                return

    def _abort(self) -> None:
        """Nothing has happened: go back to where the last commit left off."""
        self._producer.abort_transaction(_CALL_S)
        assigned = self._consumer.assignment()
        if assigned:
            for each in self._consumer.committed(assigned, _CALL_S):
                if each.error is not None:
                    raise KafkaException(each.error)
                self._consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))


def _ends(batch: list[Message]) -> list[TopicPartition]:
    ends = {(each.topic(), each.partition()): (each.offset() or 0) + 1 for each in batch}
    return [TopicPartition(topic, partition, end) for (topic, partition), end in ends.items()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "group", "source", "target", "transactional-id"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--protocol", default="range")
    parser.add_argument("--transaction-size", type=int, required=True)
    try:
        Copier(parser.parse_args()).run()
    except KafkaException as failure:
        sys.exit(f"started again after {failure}")


if __name__ == "__main__":
    main()
