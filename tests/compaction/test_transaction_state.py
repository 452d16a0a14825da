"""A cleaned `__transaction_state` says what it said before."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from compaction.promises import CONFIG, RETENTION_MS, clean
from compaction.random_logs import RandomLog
from drumlin.broker.state_topics import batches_of
from drumlin.clock import ManualClock
from drumlin.coordination.state_batches import pack
from drumlin.coordination.transactions.log import load
from drumlin.coordination.transactions.participants import Participants
from drumlin.coordination.transactions.records import TransactionMetadata, encode_record
from drumlin.coordination.transactions.states import TransactionState
from drumlin.storage.partition_log import PartitionLog
from storage.samples import IN_MEMORY, NOW_MS, create, open_logs

IDS = [f"id-{number}" for number in range(5)]


def write(log: PartitionLog, chance: random.Random, now_ms: int) -> None:
    """A state of some ids in one batch; now and then an id has expired."""
    records = []
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
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as folder:
        clock = ManualClock(NOW_MS)
        logs = open_logs(Path(folder), config=CONFIG, clock=clock)
        world = RandomLog(logs, create(logs, CONFIG), seed)
        log, removed = world.log, 0
        for number in range(300):
            write(log, chance, NOW_MS + number)
            if chance.random() < 0.05:
                log.roll(NOW_MS)
                before, size = load(batches_of(log)), log.size_bytes
                clean(world)
                assert load(batches_of(log)) == before
                assert before
                removed += size > log.size_bytes
                clock.advance_ms(chance.choice([0, RETENTION_MS + 1]))
        assert removed > 3
        logs.abandon()
