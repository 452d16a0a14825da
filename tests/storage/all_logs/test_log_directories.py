"""The dirs as a whole: whose they are, what is in them, and what becomes of what is deleted."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from drumlin.clock import ManualClock
from drumlin.config.topic import LogConfig
from drumlin.storage.all_logs.log_directories import LogDirectories, UnusableLogDirectory
from drumlin.turns import to_end
from rig.time.stepped import Stepped
from storage.doors import FailingFiles, ForgetfulFiles
from storage.samples import NOW_MS, TOPIC_ID, append, create, offsets, open_logs, read_all, revive

_HOLD = """
import sys
from storage.samples import open_logs
from pathlib import Path
from rig.time.stepped import Stepped
logs = open_logs(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def disk_bytes(path: Path) -> int:
    return sum(each.lstat().st_blocks * 512 for each in [path, *path.rglob("*")])


# -- whose dir it is ---------------------------------------------------------------------------


def test_one_server_at_a_time(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    with pytest.raises(UnusableLogDirectory, match=f"log dir {tmp_path} is in use"):
        open_logs(tmp_path)
    logs.abandon()
    open_logs(tmp_path).abandon()


def test_a_server_in_another_process_counts_too(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(UnusableLogDirectory, match="in use"):
        open_logs(tmp_path)
    holder.communicate(timeout=20)
    open_logs(tmp_path).abandon()


def test_dirs_of_others_are_refused(tmp_path: Path) -> None:
    open_logs(tmp_path).close()
    with pytest.raises(UnusableLogDirectory, match="belongs to cluster cluster, not another"):
        open_logs(tmp_path, cluster_id="another")
    meta = tmp_path / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=1", "node.id=2"))
    with pytest.raises(UnusableLogDirectory, match="belongs to broker 2, not 1"):
        open_logs(tmp_path)
    meta.write_text("node.id=one\n")
    with pytest.raises(UnusableLogDirectory, match="can't be read"):
        open_logs(tmp_path)


def test_a_dir_of_the_zookeeper_days_is_taken_over(tmp_path: Path) -> None:
    meta = tmp_path / "meta.properties"
    meta.write_text("#\n#Sat Nov 21\nbroker.id=1\nversion=0\ncluster.id=cluster\n")
    open_logs(tmp_path).close()
    written = dict(line.split("=") for line in meta.read_text().splitlines() if "=" in line)
    assert written.keys() == {"cluster.id", "directory.id", "node.id", "version"}
    assert (written["node.id"], written["version"]) == ("1", "1")


def test_the_only_dir_must_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnusableLogDirectory, match="can't be used"):
        open_logs(tmp_path / "file" / "data")


def test_one_of_several_dirs_may_be_broken(tmp_path: Path) -> None:
    logs = open_logs(tmp_path / "a", tmp_path / "b")
    both = [create(logs, topic=topic) for topic in ("t", "u")]
    for log in both:
        append(log, 2)
    assert {log.log_directory.path for log in both} == {str(tmp_path / "a"), str(tmp_path / "b")}
    logs.close()
    (tmp_path / "b").rename(tmp_path / "moved")
    (tmp_path / "b").write_text("in the way")
    logs = open_logs(tmp_path / "a", tmp_path / "b")
    assert len(logs) == 1
    assert [each.is_online for each in logs.directories] == [True, False]
    assert not revive(logs, logs.directories[1])
    (tmp_path / "b").unlink()
    (tmp_path / "moved").rename(tmp_path / "b")
    assert revive(logs, logs.directories[1])
    assert sorted(log.topic for log in logs) == ["t", "u"]
    assert all(offsets(read_all(log)) == [0, 1] for log in logs)
    logs.close()


# -- creating and deleting ---------------------------------------------------------------------


def test_a_new_log_goes_to_the_dir_with_fewest(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "abc"]
    logs = open_logs(*paths)
    for number in range(8):
        create(logs, topic=f"t{number}")
    logs.delete("t0", 0)
    create(logs, topic="last")
    counts = sorted(len(logs.in_directory(each)) for each in logs.directories)
    assert counts == [2, 3, 3]
    logs.close()


def test_a_deleted_log_is_gone_at_once_and_removed_later(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    logs = open_logs(tmp_path, clock=clock)
    log = create(logs)
    append(log, 5)
    (part,) = log.read(0, 1000, 5, minimum_one_batch=True).slices
    logs.delete("t", 0)
    assert logs.get("t", 0) is None
    (folder,) = tmp_path.glob("t-0*")
    assert folder.name.startswith("t-0.")
    assert folder.name.endswith("-delete")
    logs.remove_doomed()
    assert folder.exists()
    clock.advance_ms(60_000)
    logs.remove_doomed()
    assert not folder.exists()
    assert len(part.read()) == part.size
    part.release()
    logs.abandon()


def test_removal_goes_on_after_a_restart(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    append(create(logs), 5)
    logs.delete("t", 0)
    logs.abandon()
    logs = open_logs(tmp_path)
    assert len(logs) == 0
    logs.remove_doomed()
    assert not list(tmp_path.glob("*-delete"))
    logs.abandon()


def test_a_topic_of_the_same_name_starts_anew(tmp_path: Path) -> None:
    """Not even a crash right afterwards brings offsets of the old one back."""
    logs = open_logs(tmp_path)
    log = create(logs, LogConfig(segment_bytes=200))
    for _ in range(20):
        append(log)
    log.delete_records_before(15)
    log.flush()
    logs.write_checkpoints()
    logs.delete("t", 0)
    other_id = UUID(int=7)
    log = logs.create("t", 0, other_id, LogConfig(segment_bytes=200))
    for _ in range(5):
        append(log)
    logs.abandon()
    logs = open_logs(tmp_path)
    (log,) = logs
    assert log.topic_id == other_id
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert log.recovery_point == 0
    logs.abandon()


def test_long_names_can_be_deleted(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    create(logs, topic="x" * 249)
    logs.delete("x" * 249, 0)
    assert list(tmp_path.glob("x*-delete"))
    logs.abandon()


def test_a_failed_creation_leaves_nothing(tmp_path: Path) -> None:
    files = FailingFiles()
    logs = open_logs(tmp_path, files=files)
    files.fail("create", code=errno.ENOSPC, after=1, only_once=True)
    with pytest.raises(Exception, match="kafka_storage_error"):
        create(logs)
    assert not (tmp_path / "t-0").exists()
    assert revive(logs, logs.directories[0])
    append(create(logs))
    logs.abandon()


def test_odd_folders_are_left_alone(tmp_path: Path) -> None:
    open_logs(tmp_path).close()
    for name in ("lost+found", "-0", "topic-", "a-b", "__cluster_metadata-0", "t-0x", "t-٣"):
        (tmp_path / name).mkdir()
    logs = open_logs(tmp_path)
    assert len(logs) == 0
    logs.close()
    assert len(list(tmp_path.iterdir())) >= 7


# -- stopping, and what is written for the next start ------------------------------------------


def test_a_clean_stop_is_known(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    assert logs.was_clean  # there was nothing to be unclean
    append(create(logs), 3)
    logs.close()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
    logs = open_logs(tmp_path)
    assert logs.was_clean
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    logs.abandon()
    logs = open_logs(tmp_path)
    assert not logs.was_clean
    logs.abandon()


def test_a_copy_of_a_clean_stop_is_told_from_the_last_one(tmp_path: Path) -> None:
    """By the broker epoch; a copy needs no recovery, as it is in order."""
    logs = open_logs(tmp_path, last_broker_epoch=None)
    append(create(logs), 3)
    for marked, last, is_current, is_copy in (
        (7, 7, True, False),
        (7, 9, False, True),
        (7, None, True, False),
        (-1, 9, False, False),  # of an earlier version
        (9, 7, False, False),  # the store is the older one
    ):
        logs.close(marked)
        assert f'"brokerEpoch":{marked}}}' in (tmp_path / ".kafka_cleanshutdown").read_text()
        logs = open_logs(tmp_path, last_broker_epoch=last)
        (directory,) = logs.directories
        assert (directory.is_current, directory.is_copy) == (is_current, is_copy)
        assert directory.was_clean
    logs.abandon()
    (directory,) = open_logs(tmp_path, last_broker_epoch=9).directories
    assert (directory.is_current, directory.is_copy, directory.was_clean) == (False, False, False)


def test_offsets_of_an_end_that_was_lost_are_not_given_again(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    append(create(logs), 3)
    logs.close()
    (tmp_path / ".kafka_cleanshutdown").unlink()
    path = tmp_path / "t-0" / ("0" * 20 + ".log")
    path.write_bytes(b"")
    for _ in range(2):
        logs = open_logs(tmp_path)
        log = logs.get("t", 0)
        assert log is not None
        assert (log.log_start_offset, log.log_end_offset) == (3, 3)
        assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n1\nt 0 3\n"
        logs.abandon()


def test_a_power_failure_leaves_old_checkpoints_or_new_ones(tmp_path: Path) -> None:
    files = ForgetfulFiles()
    logs = open_logs(tmp_path, files=files)
    log = create(logs, LogConfig(segment_bytes=300))
    for turn in range(1, 8):
        for _ in range(turn):
            append(log, 2)
        log.delete_records_before(turn)
        log.flush()
        logs.write_checkpoints()
        durable = log.recovery_point
        append(log, 2)
        logs.abandon()
        files.lose_unsynced()
        logs = open_logs(tmp_path, files=files, config=LogConfig(segment_bytes=300))
        (log,) = logs
        assert log.log_start_offset == turn
        assert log.topic_id == TOPIC_ID
        assert durable <= log.log_end_offset
        assert offsets(read_all(log)) == list(range(turn, log.log_end_offset))
    logs.abandon()


def test_what_the_background_owes_a_flush(tmp_path: Path) -> None:
    clock = ManualClock(NOW_MS)
    logs = open_logs(tmp_path, clock=clock)
    config = LogConfig(segment_bytes=300, flush_ms=1000, flush_messages=10)
    log, other = create(logs, config), create(logs, topic="other")
    append(log, 2)
    append(other, 2)
    assert to_end(logs.logs_to_flush()) == []
    assert not log.is_flush_due
    clock.advance_ms(1000)
    assert to_end(logs.logs_to_flush()) == [log]
    log.flush()
    assert to_end(logs.logs_to_flush()) == []
    append(log, 9)
    assert not log.is_flush_due
    append(log, 1)
    assert log.is_flush_due
    log.flush(log.log_end_offset)
    assert not log.is_flush_due
    other.roll(NOW_MS)
    assert to_end(logs.logs_to_flush()) == [other]
    other.flush()
    assert other.recovery_point == 2
    logs.close()


# -- what an idle partition costs --------------------------------------------------------------


def test_an_idle_partition_costs_little(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    append(log)
    log.flush()
    assert disk_bytes(log.directory) <= 16 * 1024
    logs.close()
    logs = open_logs(tmp_path)
    (log,) = logs
    logs.close()
    assert disk_bytes(log.directory) <= 16 * 1024


def test_blocks_set_aside_are_given_back(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    log = create(logs)
    for _ in range(20):
        append(log, value=bytes(100_000))
    slack = disk_bytes(log.directory) - log.size_bytes
    to_end(logs.release_idle())
    assert disk_bytes(log.directory) - log.size_bytes == slack
    to_end(logs.release_idle())  # nothing was appended since
    assert disk_bytes(log.directory) - log.size_bytes <= 6 * 4096
    append(log, value=bytes(100_000))
    assert offsets(read_all(log)) == list(range(21))
    logs.close()


def test_blocks_set_aside_are_given_back_where_there_is_no_room(tmp_path: Path) -> None:
    """They are the room that the indexes need."""

    class Full(FailingFiles):
        def truncate(self, descriptor: int, size: int) -> None:
            super().truncate(descriptor, size)
            self.heal()

    files = Full()
    logs = open_logs(tmp_path, files=files)
    log = create(logs)
    for _ in range(20):
        append(log, value=bytes(100_000))
    to_end(logs.release_idle())
    files.fail("write_at", code=errno.ENOSPC)
    to_end(logs.release_idle())  # nothing was appended since
    assert log.log_directory.is_online
    logs.close()
    (index,) = log.directory.glob("*.index")
    assert index.stat().st_size == 8 * log.segments.active.offset_index.count > 0


def open_count(logs: LogDirectories) -> int:
    return logs.directories[0].open_files.open_count


def test_loading_a_log_keeps_nothing_open_that_is_not_needed(tmp_path: Path) -> None:
    logs = open_logs(tmp_path)
    for number in range(5):
        append(create(logs, topic=f"t{number}"))
    logs.close()
    assert open_count(logs) == 0
    logs = open_logs(tmp_path)
    assert open_count(logs) == 0
    logs.abandon()


def test_whoever_looks_at_all_logs_gives_way_after_each(tmp_path: Path) -> None:
    """There may be thousands, and it is done every second."""
    logs = open_logs(tmp_path)
    for number in range(30):
        create(logs, LogConfig(), f"t{number}")
    assert Stepped(logs.roll_overdue()).count() == 30
    assert Stepped(logs.release_idle()).count() == 30
    assert Stepped(logs.logs_to_flush()).count() == 30
