"""Transactions of one producer, one after the other: begin, some records, commit.

librdkafka by its Python binding, in the protocol that it speaks, and a bare client that sends what
one of transactions v2 (KIP-890) sends: Produce adds the partition, EndTxn ends it.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable

from confluent_kafka import Producer

from bench.brokers import Broker, brokers, require_no_error
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.offset_commits import find_coordinator
from drumlin.records.record import Record, encode_batch
from rig.raw import RawClient
from rig.waiting import wait_until

_RECORD_BYTES = 100
_COUNTS = (1, 100)
_TIMEOUT_MS = 60_000
_INIT_PRODUCER_ID, _PRODUCE, _END_TXN, _FIND_COORDINATOR = 5, 12, 5, 4
_COORDINATOR_OF_TRANSACTIONS = 1
_AGAIN = ("coordinator_load_in_progress", "not_coordinator", "concurrent_transactions")
_NOT_LED_YET = ("not_leader_or_follower", "unknown_topic_or_partition")
_numbers = itertools.count()


def run(options: Options) -> list[Comparison]:
    """Both clients, both sizes, both brokers."""
    results = []
    metrics = (
        Metric("rate", "transactions/s", target=1.0),
        Metric("cpu", "broker CPU ms/transaction", higher_is_better=False),
    )
    with brokers(options) as (ours, theirs):
        for client, measure in (("librdkafka", _librdkafka), ("v2", _version_2)):
            for count in _COUNTS:
                sides = {each.name: measure(each, count, options) for each in (ours, theirs)}
                name = f"{client}, {count} record{'s' * (count > 1)} each"
                results += compare("transactions", name, metrics, sides, options)
    return results


def _measured(broker: Broker, seconds: float, transaction: Callable[[], None]) -> Metrics:
    transaction()  # connections are made and the producer is known by then
    count = 0
    with Stopwatch(broker.pid) as watch:
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline:
            transaction()
            count += 1
    return {"rate": count / watch.seconds, "cpu": 1000 * watch.cpu_seconds / count}


# -- librdkafka --------------------------------------------------------------------------------


def _librdkafka(broker: Broker, records: int, options: Options) -> Callable[[], Metrics]:
    value = b"v" * _RECORD_BYTES

    def measure() -> Metrics:
        with broker.topic() as topic:
            producer = Producer(
                {
                    "bootstrap.servers": broker.address,
                    "transactional.id": f"bench-{next(_numbers)}",
                    "linger.ms": 0,
                }
            )
            producer.init_transactions(60)

            def transaction() -> None:
                producer.begin_transaction()
                for _ in range(records):
                    producer.produce(topic, value, partition=0)
                producer.commit_transaction(60)

            return _measured(broker, options.seconds, transaction)

    return measure


# -- a bare client ---------------------------------------------------------------------------------


class _Client:
    """What a client of transactions v2 does, without waiting between its steps."""

    def __init__(self, broker: Broker, raw: RawClient, topic: str) -> None:
        self._raw = raw
        self._topic = topic
        self._id = f"bench-{next(_numbers)}"
        self._await_coordinator(broker)
        self._producer_id, self._epoch = self._begin()
        self._sequence = 0

    def _await_coordinator(self, broker: Broker) -> None:
        def is_found() -> bool:
            answer = self._raw.ask(
                "find_coordinator",
                _FIND_COORDINATOR,
                key_type=_COORDINATOR_OF_TRANSACTIONS,
                coordinator_keys=[self._id],
            )
            return bool(answer.coordinators[0].error_code == 0)

        wait_until(is_found, f"{broker.name} to coordinate transactions", 60)

    def _begin(self) -> tuple[int, int]:
        while True:
            answer = self._raw.ask(
                "init_producer_id",
                _INIT_PRODUCER_ID,
                transactional_id=self._id,
                transaction_timeout=_TIMEOUT_MS,
                producer_id=-1,
                producer_epoch=-1,
            )
            if answer.error_code.name not in _AGAIN:
                require_no_error(answer)
                return answer.producer_id, answer.producer_epoch

    def transaction(self, records: int) -> None:
        now_ms = time.time_ns() // 1_000_000
        batch = encode_batch(
            [Record(n, now_ms, None, b"v" * _RECORD_BYTES) for n in range(records)],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        self._sequence += records
        while True:
            answer = self._raw.ask(
                "produce",
                _PRODUCE,
                transactional_id=self._id,
                acks=-1,
                timeout=_TIMEOUT_MS,
                topic_data=[
                    {
                        "name": self._topic,
                        "partition_data": [{"index": 0, "records": bytes(batch)}],
                    }
                ],
            )
            partition = answer.responses[0].partition_responses[0]
            if partition.error_code.name not in (*_AGAIN, *_NOT_LED_YET):
                break
        require_no_error(partition)
        self._end()

    def _end(self) -> None:
        while True:
            answer = self._raw.ask(
                "end_txn",
                _END_TXN,
                transactional_id=self._id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                committed=True,
            )
            if answer.error_code.name not in _AGAIN:
                break
        require_no_error(answer)
        if (answer.producer_id, answer.producer_epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequence = 0


def _version_2(broker: Broker, records: int, options: Options) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        find_coordinator(broker, "bench")
        with (
            broker.topic() as topic,
            contextlib.closing(RawClient(broker.port, "bench", timeout_s=60)) as raw,
        ):
            client = _Client(broker, raw, topic)
            return _measured(broker, options.seconds, lambda: client.transaction(records))

    return measure
