"""A log that is fetched anew is fetched beside the old one, which is there until that is in sync.

Real logs, cleaners, leaders and followers, without a network.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from compaction.readers import read_uncommitted
from drumlin.replication import followed_partition
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.isr import InSyncReplicas
from drumlin.storage.files.files import Files
from drumlin.storage.replacement.log_copy import FreshLog, LogCopy
from drumlin.wire.error_codes import ErrorCode, KafkaError
from replication.replicas.failing_disks import fail_and_return, happens_to_disks
from replication.replicas.real_replicas import NODES, Replicas
from rig.depth import seeds
from storage.samples import IN_MEMORY

MANY = 12


@pytest.fixture
def replicas(tmp_path: Path) -> Replicas:
    """Broker 3 lacks one record, and maybe deletions that its leader has dropped."""
    replicas = Replicas(tmp_path, Random(1))
    for number in range(MANY):
        replicas.put(b"key-%d" % number, b"value" + bytes(100))
    replicas.catch_up()
    replicas.leave(3)
    replicas.put(b"one more", b"value")
    replicas.catch_up()
    replicas.log(1).note_deletions_dropped(replicas.log(1).log_end_offset)
    replicas.come_back(3)
    return replicas


def keys(replicas: Replicas, node: int) -> set[bytes | None]:
    return {each.key for each in read_uncommitted(replicas.log(node))}


def fetch_some(replicas: Replicas) -> None:
    """Not all, and not without anything."""
    for _ in range(4):
        replicas.fetch(3, 300)
    offset = replicas.followed[3].position.offset
    assert 0 < offset < MANY


def folders(replicas: Replicas, node: int) -> list[str]:
    log = replicas.log(node)
    replicas.dirs[node].remove_doomed()
    return sorted(each.name for each in log.directory.parent.iterdir() if each.is_dir())


def test_the_old_log_is_there_until_the_new_one_is_complete(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    old = keys(replicas, 3)
    fetch_some(replicas)
    assert keys(replicas, 3) == old
    assert replicas.log(3).log_end_offset == MANY
    assert len(folders(replicas, 3)) == 2
    assert "is fetched anew from 0, beside the old log: broker 1, whose log starts" in caplog.text
    while replicas.log(3).log_end_offset == MANY:
        assert 3 not in replicas.state.isr
        assert keys(replicas, 3) == old
        replicas.fetch(3, 300)
    assert replicas.log(3).log_end_offset == MANY + 1
    assert replicas.log(3).high_watermark == MANY + 1
    replicas.catch_up()
    assert 3 in replicas.state.isr
    assert folders(replicas, 3) == ["t-0"]
    assert "WARNING" not in [each.levelname for each in caplog.records]


def test_the_leaders_disk_fails_for_good_meanwhile(replicas: Replicas) -> None:
    """The other replica too: what is left is the old log, and all that was in it."""
    old = keys(replicas, 3)
    fetch_some(replicas)
    replicas.followed[3].close()
    assert keys(replicas, 3) == old
    assert len(old) == MANY
    assert folders(replicas, 3) == ["t-0"]


def test_a_leader_whose_disk_comes_back_has_nobody_fetch_all_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was cleaned there, and it has not forgotten that."""
    caplog.set_level("INFO")
    replicas = Replicas(tmp_path, Random(1))
    for number in range(MANY):
        replicas.put(b"key-%d" % number, b"value")
    replicas.catch_up()
    replicas.leave(3)
    replicas.put(b"one more", b"value")
    replicas.catch_up()
    replicas.come_back(3)
    fail_and_return(replicas, 1)
    assert replicas.log(1).deletions_kept_from == 0
    replicas.catch_up()
    assert 3 in replicas.state.isr
    assert "anew" not in caplog.text


@pytest.mark.parametrize("what", ["disk", "crash", "leader", "role", "role, and a tail"])
def test_what_ends_the_copy_has_all_fetched_anew(replicas: Replicas, what: str) -> None:
    """And the old log is not taken for one that has followed so far."""
    fetch_some(replicas)
    if what == "disk":
        fail_and_return(replicas, 3)
    elif what == "crash":
        replicas.leave(3)
        replicas.restart(3, is_clean=False)
        replicas.come_back(3)
    elif what == "leader":
        replicas.lead(1)
    else:  # it follows again in the same process, in the same leader epoch
        replicas.leave(3)
        replicas.log(3).epoch_due_at = MANY if what == "role" else MANY - 1
        replicas.come_back(3)
    assert replicas.log(3).log_end_offset == (MANY - 1 if "tail" in what else MANY)
    replicas.fetch(3, 300)
    assert 3 not in replicas.state.isr
    assert replicas.followed[3].position.offset < MANY
    replicas.catch_up()
    assert keys(replicas, 3) == keys(replicas, 1)
    assert replicas.log(3).deletions_kept_from == 0
    assert folders(replicas, 3) == ["t-0"]


@pytest.mark.parametrize("is_found_at_once", [True, False])
def test_without_room_for_two_the_old_log_stays(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch, is_found_at_once: bool
) -> None:
    """The log dir stays online; it goes on when there is room."""
    with monkeypatch.context() as full:
        if is_found_at_once:
            full.setattr(Files, "room", lambda *_: (0, 1_000_000))
        else:
            failure = OSError(errno.ENOSPC, "No space left on device")

            def append_next(self: FreshLog, *_: Any) -> int:
                raise self._failed(failure, "append to")

            full.setattr(FreshLog, "append_next", append_next)
        with pytest.raises(KafkaError) as refused:
            for _ in range(3):
                replicas.fetch(3, 300)
        assert refused.value.code is ErrorCode.kafka_storage_error
        assert "room" in str(refused.value)
    assert replicas.log(3).log_directory.is_online
    assert replicas.log(3).log_end_offset == MANY
    assert folders(replicas, 3) == ["t-0"]
    replicas.catch_up()
    assert keys(replicas, 3) == keys(replicas, 1)


def test_where_the_leader_has_deleted_it_all_the_old_log_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    replicas = Replicas(tmp_path, Random(1))
    for number in range(MANY):
        replicas.put(b"key-%d" % number, b"value")
    replicas.catch_up()
    replicas.leave(3)
    replicas.put(b"one more", b"value")
    replicas.put(b"two more", b"value")
    replicas.catch_up()
    replicas.partition.delete_records_before(MANY + 1)
    replicas.come_back(3)
    monkeypatch.setattr(Files, "room", lambda *_: (0, 1_000_000))
    replicas.fetch(3, 300)
    assert replicas.log(3).log_end_offset == MANY + 1
    assert "no room for two logs" in caplog.text
    (said,) = [each for each in caplog.records if "starts anew" in each.message]
    assert said.levelname == "WARNING"
    replicas.catch_up()


def test_producers_go_on_meanwhile(replicas: Replicas) -> None:
    """It is complete when it has what was committed by then, too."""
    while 3 not in replicas.state.isr:
        replicas.put(b"key-%d" % replicas.log(1).log_end_offset, b"value")
        replicas.commit()
        replicas.fetch(3, 500)
    assert replicas.log(3).log_end_offset >= replicas.followed[3].high_watermark
    replicas.catch_up()


# -- any history -------------------------------------------------------------------------------


def history(seed: int) -> None:
    """Whatever happens: what a replica has and its leader, too, is given up for nothing."""
    source = Random(f"disks {seed}")
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        replicas = Replicas(Path(path), source)
        try:
            for _ in range(source.choice((60, 120))):
                happens_to_disks(replicas, source)
            for each in sorted(replicas.away):
                replicas.come_back(each)
            while replicas.open:
                replicas.end_transaction()
            replicas.catch_up()
            for each in NODES:
                replicas.check(each)
                assert folders(replicas, each) == ["t-0"]
        finally:
            for dirs in replicas.dirs.values():
                dirs.abandon()


@pytest.mark.parametrize("seed", seeds(8, 400))
def test_disks_fail_return_and_fail_again(seed: int) -> None:
    history(seed)


_has_followed, _anew = InSyncReplicas.has_followed, FollowedPartition._fetch_anew


def _any_process_has_followed(
    self: InSyncReplicas, replica_id: int, _: int, *arguments: Any
) -> bool:
    return _has_followed(self, replica_id, -1, *arguments)


def _fetch_anew_once(self: FollowedPartition, *arguments: Any) -> Any:
    """Forget why, as soon as it has begun: what ends the copy has it go back to the old log."""
    change = _anew(self, *arguments)
    self.log.refetch = None
    return change


class _CompleteAtOnce(LogCopy):
    def __init__(self, log: Any, begins_at: int, goal: int) -> None:
        super().__init__(log, begins_at, 0)


@pytest.mark.parametrize(
    ("target", "rule", "instead", "what"),
    [
        (InSyncReplicas, "has_followed", _any_process_has_followed, "crash"),
        (FollowedPartition, "_fetch_anew", _fetch_anew_once, "disk"),
        (FollowedPartition, "_fetch_anew", _fetch_anew_once, "role"),
    ],
    ids=["any process has followed", "it forgets why", "whoever follows next is not told"],
)
def test_a_mistake_in_this_is_found(
    replicas: Replicas,
    monkeypatch: pytest.MonkeyPatch,
    target: type,
    rule: str,
    instead: Callable[..., object],
    what: str,
) -> None:
    """The old log would count, as the leader has seen it follow further than that."""
    monkeypatch.setattr(target, rule, instead)
    with pytest.raises(AssertionError):
        test_what_ends_the_copy_has_all_fetched_anew(replicas, what)


def test_a_copy_that_counts_too_early_is_found(
    replicas: Replicas, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was just elected does not know yet how much is committed."""
    monkeypatch.setattr(followed_partition, "LogCopy", _CompleteAtOnce)
    replicas.lead(1)
    monkeypatch.setattr(replicas.partition, "offsets", lambda: (0, 0, 0))
    with pytest.raises(AssertionError, match="given up"):
        fetch_some(replicas)
