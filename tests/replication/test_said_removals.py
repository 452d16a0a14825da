"""What a follower removes is said, and loudly where it may have been acknowledged."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.replication.followed_partition import FollowedPartition
from drumlin.storage.all_logs.log_directories import LogDirectories
from replication.leader import Led
from replication.test_followed_partition import LEADER, create, fetch, led, logs, partition
from storage.samples import append, open_logs

__all__ = ["led", "logs", "partition"]


def test_below_the_high_watermark_it_warns(
    partition: FollowedPartition, led: Led, caplog: pytest.LogCaptureFixture
) -> None:
    """After an unclean election committed records are lost."""
    append(led.log, 5)
    append(partition.log, 5)
    append(partition.log, 5)
    partition.log.high_watermark = 10
    fetch(partition, led)
    assert (partition.high_watermark, partition.log.log_end_offset) == (5, 5)
    assert [each.levelname for each in caplog.records] == ["WARNING"]


def test_after_a_crash_it_warns_whatever_the_high_watermark_was(
    logs: LogDirectories, led: Led, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """It was noted some time before, or never: what goes may have been acknowledged."""
    append(led.log, 5)
    log = create(logs, "crashed")
    append(log, 5)
    append(log, 10)
    logs.abandon()
    again = open_logs(tmp_path)
    log = again.get("crashed", 0)
    assert log is not None
    partition = FollowedPartition(log, LEADER, 0)
    assert partition.high_watermark == 0
    caplog.clear()
    fetch(partition, led)
    assert partition.log.log_end_offset == 5
    (said,) = caplog.records
    assert said.levelname == "WARNING"
    assert "removes 10 offsets" in said.message
    again.abandon()


def test_what_the_leader_has_confirmed_since_is_known(
    logs: LogDirectories, led: Led, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level("INFO")
    log = create(logs, "crashed")
    for each in (led.log, log):
        append(each, 5)
    logs.abandon()
    again = open_logs(tmp_path)
    log = again.get("crashed", 0)
    assert log is not None
    partition = FollowedPartition(log, LEADER, 0)
    fetch(partition, led)
    assert partition.high_watermark == 5
    append(log, 5)
    caplog.clear()
    fetch(partition, led)
    assert [each.levelname for each in caplog.records] == ["INFO"]
    again.abandon()
