"""Tombstones and markers go from a leader's log while a follower is away: nothing comes back.

Real logs, cleaners, leaders and followers, without a network; whoever was in sync may lead next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from compaction.readers import read_committed
from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.replication.isr import InSyncReplicas
from drumlin.replication.partition import Partition
from drumlin.storage.log.log_state import LogState
from drumlin.wire.error_codes import ErrorCode
from replication.replicas.real_replicas import NODES, RETENTION_MS, Replicas
from replication.replicas.replica_histories import happens
from rig.depth import seeds
from storage.samples import IN_MEMORY


@pytest.fixture
def replicas(tmp_path: Path) -> Replicas:
    return Replicas(tmp_path, Random(1))


def drop_all_deletions(replicas: Replicas, node: int) -> None:
    """In three rounds: seen for the first time, gone, and what was kept empty till then."""
    for _ in range(3):
        replicas.put(b"other", b"value")
        replicas.commit()
        replicas.clean(node)
        replicas.clock.advance_ms(RETENTION_MS + 1)


def test_a_key_that_was_deleted_meanwhile_stays_deleted(replicas: Replicas) -> None:
    replicas.put(b"k", b"old")
    replicas.catch_up()
    replicas.leave(3)
    replicas.put(b"k", None)
    replicas.put(b"other", b"value")
    replicas.catch_up()
    drop_all_deletions(replicas, 1)
    assert b"k" not in [each.key for each in read_committed(replicas.log(1))]
    replicas.come_back(3)
    replicas.catch_up()
    replicas.lead(3)


def test_the_leader_has_dropped_it_while_it_followed(replicas: Replicas) -> None:
    """Each replica cleans for itself, and any of them may lead next."""
    replicas.put(b"k", b"old")
    replicas.catch_up()
    replicas.leave(3)
    replicas.put(b"k", None)
    replicas.catch_up()
    drop_all_deletions(replicas, 2)
    replicas.lead(2)
    replicas.come_back(3)
    replicas.catch_up()
    replicas.lead(3)


def test_a_leader_that_never_had_it(replicas: Replicas) -> None:
    """It has got the log when the tombstone was gone already."""
    replicas.put(b"k", b"old")
    replicas.catch_up()
    replicas.leave(3)
    replicas.leave(2)
    replicas.put(b"k", None)
    replicas.empty(2)
    drop_all_deletions(replicas, 1)
    replicas.put(b"other", b"value")
    replicas.come_back(2)
    replicas.catch_up()
    replicas.lead(2)
    replicas.come_back(3)
    replicas.catch_up()
    replicas.lead(3)


@pytest.mark.parametrize("is_clean", [False, True])
def test_the_leader_has_restarted_since(replicas: Replicas, is_clean: bool) -> None:
    replicas.put(b"k", b"old")
    replicas.catch_up()
    replicas.leave(3)
    replicas.put(b"k", None)
    replicas.catch_up()
    drop_all_deletions(replicas, 1)
    replicas.catch_up()
    kept_from = replicas.log(1).deletions_kept_from
    assert 0 < kept_from < replicas.log(1).log_end_offset
    replicas.lead(2)
    replicas.leave(1)
    replicas.restart(1, is_clean=is_clean)
    assert replicas.log(1).deletions_kept_from == kept_from
    replicas.come_back(1)
    replicas.catch_up()
    replicas.lead(1)
    replicas.come_back(3)
    replicas.catch_up()
    replicas.lead(3)


def test_deletions_go_while_a_follower_catches_up(replicas: Replicas) -> None:
    replicas.put(b"k", b"old" + bytes(200))
    for number in range(4):
        replicas.put(b"key-%d" % number, bytes(200))
    replicas.put(b"k", None)
    replicas.leave(3)
    replicas.catch_up()
    replicas.come_back(3)
    replicas.fetch(3, 300)
    assert replicas.log(3).log_end_offset == 1
    drop_all_deletions(replicas, 1)
    replicas.catch_up()
    replicas.lead(3)


def test_deletions_stay_until_whoever_catches_up_has_them(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    """Else the cleaner could have it begin anew for ever."""
    caplog.set_level("INFO")
    replicas.leave(3)
    for number in range(8):
        replicas.put(b"key-%d" % number, bytes(200))
        replicas.put(b"key-%d" % number, None)
    replicas.catch_up()
    replicas.come_back(3)
    while replicas.log(3).log_end_offset < 12:
        replicas.fetch(3, 100)
        drop_all_deletions(replicas, 1)
    assert replicas.log(1).deletions_kept_from == 0
    replicas.catch_up()
    assert 3 in replicas.state.isr
    drop_all_deletions(replicas, 1)
    assert replicas.log(1).deletions_kept_from > 0
    replicas.catch_up()
    assert "starts anew" not in caplog.text


def test_deletions_go_while_a_thread_reads_for_a_follower(replicas: Replicas) -> None:
    """It reads what was cleaned after it was looked how far the follower has come."""
    replicas.put(b"k", b"old")
    replicas.catch_up()
    replicas.leave(3)
    replicas.put(b"k", None)
    replicas.put(b"other", b"value")
    replicas.catch_up()
    replicas.come_back(3)
    replicas.fetch(3, 1 << 20, lambda: drop_all_deletions(replicas, 1))
    replicas.catch_up()
    replicas.lead(3)


def test_a_cleaning_that_began_before_the_follower_came_waits_for_nobody(
    replicas: Replicas,
) -> None:
    """It is looked again what the thread may have read."""
    replicas.log(1).forget_followers()
    test_deletions_go_while_a_thread_reads_for_a_follower(replicas)


def test_a_follower_that_had_got_a_deletion_has_lost_it_again(replicas: Replicas) -> None:
    """Its power has failed; the same leader remembers that it had followed so far."""
    replicas.put(b"k", b"old")
    replicas.put(b"k", None)
    replicas.catch_up()
    drop_all_deletions(replicas, 1)
    replicas.catch_up()
    assert replicas.log(1).deletions_kept_from > 2
    replicas.leave(3)
    replicas.lose_tail(3, 1)
    replicas.come_back(3)
    replicas.catch_up()
    replicas.lead(3)


def test_who_has_followed_all_along_does_not_begin_anew(
    replicas: Replicas, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for _ in range(5):
        replicas.put(b"k", b"old")
        replicas.put(b"k", None)
        replicas.catch_up()
        drop_all_deletions(replicas, 1)
    assert replicas.log(1).deletions_kept_from > 0
    assert "starts anew" not in caplog.text


def test_a_member_of_the_isr_is_never_told_to_begin_anew(replicas: Replicas) -> None:
    """Its records are what was acknowledged; should it lack some, it is a member no longer."""
    replicas.put(b"k", b"old")
    replicas.catch_up()
    replicas.put(b"k", None)
    replicas.log(1).note_deletions_dropped(2)
    replicas.lead(1)
    asked = replicas.followed[2].position
    read = PartitionRead(1000, 0, 2, 1, None)
    answer = read.follow(replicas.partition, (0, *asked, 1000))
    assert answer is not None
    assert answer[0] == ErrorCode.not_leader_or_follower


@pytest.mark.parametrize(
    ("target", "rule", "instead"),
    [
        (Partition, "may_miss_deletions", lambda *_: False),
        (InSyncReplicas, "has_followed", lambda *_: True),
        (LogState, "note_deletions_dropped", lambda *_: None),
        (PartitionRead, "_looked_again", lambda *arguments: arguments[-1]),
    ],
    ids=["nobody misses any", "all have followed", "nothing is noted", "it is not looked again"],
)
def test_a_mistake_in_this_brings_a_key_back(
    replicas: Replicas,
    monkeypatch: pytest.MonkeyPatch,
    target: type,
    rule: str,
    instead: Callable[..., object],
) -> None:
    monkeypatch.setattr(target, rule, instead)
    replicas.log(1).forget_followers()  # else they would stay, and nothing could go wrong
    with pytest.raises(AssertionError):
        test_deletions_go_while_a_thread_reads_for_a_follower(replicas)


@pytest.mark.parametrize("seed", seeds(12, 400))
def test_whoever_was_away_cleaned_or_led(seed: int) -> None:
    source = Random(seed)
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        replicas = Replicas(Path(path), source)
        for _ in range(source.choice((60, 120))):
            happens(replicas, source)
        for each in sorted(replicas.away):
            replicas.come_back(each)
        while replicas.open:
            replicas.end_transaction()
        replicas.catch_up()
        for each in NODES:
            replicas.check(each)
        for dirs in replicas.dirs.values():
            dirs.abandon()
