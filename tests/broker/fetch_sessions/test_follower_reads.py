"""What a follower's fetch finds out about a partition, it finds out once in a turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.fetch_sessions.test_offsets_of_later_leaders import led
from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.replication.replica import Replica
from drumlin.storage.log.partition_log import PartitionLog
from storage.samples import append, create, open_logs

_FOLLOWER = 2


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    logs = open_logs(tmp_path)
    made = create(logs)
    append(made, 10)
    yield made
    logs.abandon()


def _read() -> PartitionRead:
    return PartitionRead(1 << 20, 0, _FOLLOWER, 0, None)


def test_its_epochs_are_compared_once(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    partition, asked = led(log, 1, _FOLLOWER, is_certain=True), Counter[str]()

    def counted(name: str) -> None:
        real = getattr(Replica, name)

        def noting(*args: Any) -> Any:
            asked[name] += 1
            return real(*args)

        monkeypatch.setattr(Replica, name, noting)

    for name in ("check_leader_epoch", "end_offset_for_epoch"):
        counted(name)
    reading, wanted = _read(), (0, 0, 3, 0, 0, 1 << 20)
    assert reading.follow(partition, wanted) is None
    answer = reading.look(partition, wanted, may_block=False)
    assert answer[5].size
    answer[5].release()
    assert asked == {"check_leader_epoch": 1, "end_offset_for_epoch": 1}


def test_where_the_logs_part_is_told_at_once(log: PartitionLog) -> None:
    """It is ahead of all that the leader has of that epoch."""
    partition = led(log, 1, _FOLLOWER, is_certain=True)
    answer = _read().follow(partition, (0, 0, 11, 0, 0, 1 << 20))
    assert answer is not None
    error, high_watermark, _, log_start_offset, _, _, parting = answer
    assert (error, log_start_offset, parting) == (0, 0, (0, 10))
    assert high_watermark == partition.high_watermark
