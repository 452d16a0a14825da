"""A cleaned `__transaction_state` says what it said before."""

from __future__ import annotations

import random

import pytest

from compaction.state_logs import check_cleanings
from drumlin.coordination.shards.state_batches import pack
from drumlin.coordination.transactions.log import load
from drumlin.coordination.transactions.participants import Participants
from drumlin.coordination.transactions.records import TransactionMetadata, encode_record
from drumlin.coordination.transactions.states import TransactionState
from drumlin.storage.log.log_batches import batches_of
from drumlin.storage.log.partition_log import PartitionLog
from storage.samples import NOW_MS

IDS = [f"id-{number}" for number in range(5)]


def write(log: PartitionLog, chance: random.Random, number: int) -> None:
    """A state of some ids in one batch; now and then an id has expired."""
    records, now_ms = [], NOW_MS + number
    for transactional_id in chance.sample(IDS, chance.randint(1, 3)):
        state = TransactionMetadata(
            producer_id=chance.randrange(9),
            producer_epoch=chance.randrange(5),
            timeout_ms=60_000,
            state=chance.choice(list(TransactionState)),
            partitions=Participants(("t", index) for index in range(chance.randrange(4))),
            start_timestamp_ms=now_ms,
            last_update_timestamp_ms=now_ms,
        )
        records.append((transactional_id, None if chance.random() < 0.1 else state))
    for batch, _ in pack(records, encode_record, now_ms):
        log.append_internal(memoryview(batch), 0, now_ms)


@pytest.mark.parametrize("seed", range(4))
def test_transactions_survive_cleanings(seed: int) -> None:
    check_cleanings(seed, write, lambda log: load(batches_of(log)))
