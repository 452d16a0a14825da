"""A bare client of transactions v2 (KIP-890): Produce adds the partitions, EndTxn ends it.

It does what a client does, without waiting between its steps.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from bench.brokers import Broker, require_no_error
from drumlin.records.plain.record import Record, encode_batch
from rig.data.raw import RawClient
from rig.waiting import wait_until

_TIMEOUT_MS = 60_000
_RECORD_BYTES = 100
_INIT_PRODUCER_ID, _PRODUCE, _END_TXN, _FIND_COORDINATOR = 5, 12, 5, 4
_COORDINATOR_OF_TRANSACTIONS = 1
_AGAIN = ("coordinator_load_in_progress", "not_coordinator", "concurrent_transactions")
_NOT_LED_YET = ("not_leader_or_follower", "unknown_topic_or_partition")
_numbers = itertools.count()


class TransactionalClient:
    """One producer with an id of its own, over a connection that it is given."""

    def __init__(self, broker: Broker, raw: RawClient) -> None:
        self._raw = raw
        self._id = f"bench-{next(_numbers)}"
        self._await_coordinator(broker)
        self._producer_id, self._epoch = self._begin()
        self._sequences: dict[tuple[str, int], int] = {}

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

    def transaction(
        self,
        topic: str,
        partitions: Sequence[int] = (0,),
        records: int = 1,
        *,
        at_once: int = 100,
        commits: bool = True,
        timestamp_ms: int | None = None,
    ) -> None:
        """So many records to each partition, `at_once` partitions a request, and the end."""
        for first in range(0, len(partitions), at_once):
            self._write(topic, partitions[first : first + at_once], records, timestamp_ms)
        self._end(commits)

    def _write(
        self, topic: str, partitions: Sequence[int], records: int, timestamp_ms: int | None
    ) -> None:
        waiting = {each: self._batch(topic, each, records, timestamp_ms) for each in partitions}
        while waiting:
            data = [{"index": each, "records": batch} for each, batch in waiting.items()]
            answer = self._raw.ask(
                "produce",
                _PRODUCE,
                transactional_id=self._id,
                acks=-1,
                timeout=_TIMEOUT_MS,
                topic_data=[{"name": topic, "partition_data": data}],
            )
            for each in answer.responses[0].partition_responses:
                if each.error_code.name not in (*_AGAIN, *_NOT_LED_YET):
                    require_no_error(each)
                    del waiting[each.index]

    def _batch(self, topic: str, partition: int, records: int, timestamp_ms: int | None) -> bytes:
        at_ms = time.time_ns() // 1_000_000 if timestamp_ms is None else timestamp_ms
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + records
        return bytes(
            encode_batch(
                [Record(n, at_ms, None, b"v" * _RECORD_BYTES) for n in range(records)],
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
        )

    def _end(self, commits: bool) -> None:
        answer: Any
        while True:
            answer = self._raw.ask(
                "end_txn",
                _END_TXN,
                transactional_id=self._id,
                producer_id=self._producer_id,
                producer_epoch=self._epoch,
                committed=commits,
            )
            if answer.error_code.name not in _AGAIN:
                break
        require_no_error(answer)
        if (answer.producer_id, answer.producer_epoch) != (self._producer_id, self._epoch):
            self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch
            self._sequences.clear()
