"""Followers fetch from a leader: logs become equal, whatever the leader answers meanwhile."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from uuid import UUID

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import LogConfig
from drumlin.replication.fetchers import Fetchers
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.replica import Replica
from drumlin.wire.error_codes import ErrorCode
from replication.cluster import BROKER_EPOCH, LEADER, SELF, Cluster, are_equal
from replication.leader import Leader
from rig.brokers.scripted_broker import ScriptedBroker
from rig.waiting import eventually
from storage.samples import append, open_logs, read_bytes


def test_a_log_is_copied_and_followed(cluster: Cluster) -> None:
    led = cluster.create("t")
    for _ in range(20):
        append(led.log, 3)
    partition = cluster.follow(led)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))
        append(led.log, 5)
        await eventually(lambda: are_equal(led.log, partition.log))
        assert partition.high_watermark == 65

    cluster.run(use)
    request = cluster.broker.asked("fetch")[0]
    state = request.replica_state
    assert (state.replica_id, state.replica_epoch) == (SELF, BROKER_EPOCH)


def test_in_a_new_broker_epoch_all_partitions_are_named(cluster: Cluster) -> None:
    """The leader has to know of each that it is the new one's, also where nothing is new."""
    quiet, busy = cluster.create("quiet"), cluster.create("busy")
    followers = [cluster.follow(quiet), cluster.follow(busy)]
    append(quiet.log, 3)

    def named(epoch: int) -> set[UUID]:
        return {
            topic.topic_id
            for request in cluster.broker.asked("fetch")
            if request.replica_state.replica_epoch == epoch
            for topic in request.topics
        }

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        await eventually(lambda: are_equal(quiet.log, followers[0].log))
        cluster.broker_epoch += 1
        append(busy.log, 3)
        await eventually(lambda: len(named(cluster.broker_epoch)) == 2)

    cluster.run(use)


def test_records_that_diverge_are_replaced(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    for log in (led.log, partition.log):
        append(log, 10, leader_epoch=0)
    append(partition.log, 5, leader_epoch=1, value=b"lost")
    append(led.log, 3, leader_epoch=2, value=b"kept")
    led.epoch = 2
    partition.follow(LEADER, 2)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


def test_the_leader_has_deleted_more_than_the_follower_has(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    for log in (led.log, partition.log):
        append(log, 10)
    for _ in range(5):
        append(led.log, 10)
    led.log.delete_records_before(35)  # in the midst of a batch

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: partition.log.log_end_offset == 60)
        assert partition.log.log_start_offset == 35
        assert read_bytes(partition.log, 35) == read_bytes(led.log, 35)

    cluster.run(use)


def test_a_leader_that_has_dropped_deletions_is_fetched_anew_beside_the_log(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answers are long, so that this takes some; the old log is there until the last."""
    monkeypatch.setattr(Replica, "may_miss_deletions", lambda *asked: asked[-1] == 10)
    sizes = dict.fromkeys(("replica.fetch.response.max.bytes", "replica.fetch.max.bytes"), "3000")
    cluster.config = BrokerConfig.load(sizes)
    led = cluster.create("t")
    partition = cluster.follow(led)
    append(partition.log, 10, value=b"old")
    for _ in range(100):
        append(led.log, 3, value=bytes(100))
    path, seen = partition.log.directory.parent, set()

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        while not are_equal(led.log, partition.log):
            seen.add((len([*path.glob("t-0*")]), partition.log.log_end_offset))
            await asyncio.sleep(0)

    cluster.run(use)
    assert (2, 10) in seen
    assert {end for _, end in seen} <= {10, 300}
    cluster.followers.remove_doomed()
    assert [each.name for each in path.glob("t-0*")] == ["t-0"]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_id,
    ],
)
def test_a_partition_with_an_error_holds_up_no_other(cluster: Cluster, code: ErrorCode) -> None:
    bad, good = cluster.create("bad"), cluster.create("good")
    followers = [cluster.follow(bad), cluster.follow(good)]
    append(bad.log, 3)
    bad.errors = [code] * 4

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        while bad.errors:
            before = len(bad.errors)
            append(good.log, 2)
            await eventually(lambda: are_equal(good.log, followers[1].log))
            await eventually(lambda before=before: len(bad.errors) < before)
        await eventually(lambda: are_equal(bad.log, followers[0].log))

    cluster.run(use)


@pytest.mark.parametrize("has_updates", [True, False])
def test_nothing_is_fetched_for_a_disk_that_is_full(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, *, has_updates: bool
) -> None:
    """Its leader would take it for a follower that has caught up. The log dir says it, and once."""
    led = cluster.create("t")
    partition = cluster.follow(led)
    directory = partition.log.log_directory

    def times_named() -> int:
        return sum(len(request.topics) for request in cluster.broker.asked("fetch"))

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: times_named() == 1)
        directory.fail(OSError(errno.ENOSPC, "no space left"), "append")
        if has_updates:
            append(led.log, 3)
        fetchers.pause_while_offline("t", 0)
        await asyncio.sleep(0.3)  # several of its pauses are over
        assert times_named() == 1
        directory.failure = None
        await eventually(lambda: times_named() > 1)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)
    said = [each for each in caplog.records if each.levelno >= logging.WARNING]
    assert [each.name for each in said] == ["drumlin.storage.directory.log_directory"]


# -- sessions ----------------------------------------------------------------------------------


def test_later_requests_name_only_what_has_moved(cluster: Cluster) -> None:
    many = [cluster.create(f"topic-{number}") for number in range(5)]
    followers = [cluster.follow(each) for each in many]

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        append(many[2].log, 3)
        await eventually(lambda: are_equal(many[2].log, followers[2].log))
        await eventually(lambda: not cluster.broker.asked("fetch")[-1].topics)

    cluster.run(use)
    first, *later = cluster.broker.asked("fetch")
    assert len(first.topics) == 5
    named = [topic.topic_id for request in later for topic in request.topics]
    assert set(named) == {many[2].log.topic_id}
    assert [request.session_epoch for request in later] == list(range(1, len(later) + 1))


@pytest.mark.parametrize(
    "code", [ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch]
)
def test_a_session_that_is_gone_is_begun_anew(cluster: Cluster, code: ErrorCode) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        for _ in range(3):
            append(led.log, 2)
            await eventually(lambda: are_equal(led.log, partition.log))
            cluster.leader.errors.append(code)
            await eventually(lambda: not cluster.leader.errors)

    cluster.run(use)
    assert cluster.broker.connection_count == 1
    assert len(cluster.leader.ended) >= 2


def test_a_partition_that_is_to_be_named_again(cluster: Cluster) -> None:
    many = [cluster.create(f"topic-{number}") for number in range(3)]
    followers = [cluster.follow(each) for each in many]

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        await eventually(lambda: len(cluster.broker.asked("fetch")) > 1)
        fetchers.report_again("topic-1", 0)
        await eventually(lambda: any(each.topics for each in cluster.broker.asked("fetch")[1:]))

    cluster.run(use)
    (named,) = [each.topics for each in cluster.broker.asked("fetch")[1:] if each.topics]
    assert [each.topic_id for each in named] == [many[1].log.topic_id]


def test_a_leader_without_sessions_is_followed(cluster: Cluster) -> None:
    cluster.leader.keeps_sessions = False
    many = [cluster.create(f"topic-{number}") for number in range(3)]
    followers = [cluster.follow(each) for each in many]

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        for _ in range(3):
            for led, partition in zip(many, followers, strict=True):
                append(led.log, 2)
                await eventually(lambda led=led, it=partition: are_equal(led.log, it.log))

    cluster.run(use)


def test_an_error_of_all_is_tried_again(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    append(led.log, 2)
    cluster.leader.errors = [ErrorCode.cluster_authorization_failed] * 2

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)
    assert not cluster.leader.errors


# -- while the leader holds a request ----------------------------------------------------------


@pytest.fixture
def patient(cluster: Cluster) -> Cluster:
    """Whose leader holds requests for longer than a test lasts."""
    properties = {"replica.fetch.wait.max.ms": "60000", "replica.fetch.backoff.ms": "200"}
    cluster.config = BrokerConfig.load(properties)
    return cluster


def test_a_new_partition_does_not_wait_for_the_others(patient: Cluster) -> None:
    many = [patient.create(f"topic-{number}") for number in range(4)]
    followers = [patient.follow(each) for each in many]

    async def use(fetchers: Fetchers) -> None:
        for led, partition in zip(many, followers, strict=True):
            fetchers.follow(partition)
            append(led.log, 2)
            await eventually(lambda led=led, it=partition: are_equal(led.log, it.log))
            await eventually(lambda: len(patient.leader.sessions) == 1)
        for led, partition in zip(many, followers, strict=True):
            append(led.log, 2)
            await eventually(lambda led=led, it=partition: are_equal(led.log, it.log))

    patient.run(use)


def test_a_pause_ends_in_time(patient: Cluster) -> None:
    calm, bad = patient.create("calm"), patient.create("bad")
    followers = [patient.follow(each) for each in (calm, bad)]
    bad.errors = [ErrorCode.not_leader_or_follower] * 2
    append(bad.log, 2)

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        await eventually(lambda: are_equal(bad.log, followers[1].log))

    patient.run(use)


def test_a_new_leader_epoch_is_told_at_once(patient: Cluster) -> None:
    led = patient.create("t")
    partition = patient.follow(led)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        append(led.log, 2)
        await eventually(lambda: are_equal(led.log, partition.log))
        led.epoch = 1
        partition.follow(LEADER, 1)
        fetchers.follow(partition)
        append(led.log, 2, leader_epoch=1)
        await eventually(lambda: are_equal(led.log, partition.log))

    patient.run(use)


# -- epochs ------------------------------------------------------------------------------------


def test_a_fenced_partition_waits_for_news(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    led.epoch = 2
    append(led.log, 2, leader_epoch=2)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: cluster.fenced)
        assert cluster.fenced[0] is partition
        assert partition.log.log_end_offset == 0
        partition.follow(LEADER, 2)
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


def test_a_follower_that_is_ahead_of_the_news_waits_for_the_leader(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    partition.follow(LEADER, 3)
    append(led.log, 2)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: cluster.leader.begun > 2)
        assert partition.log.log_end_offset == 0
        led.epoch = 3
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


# -- who follows what --------------------------------------------------------------------------


def test_a_partition_that_is_forgotten_changes_no_more(cluster: Cluster) -> None:
    gone, kept = cluster.create("gone"), cluster.create("kept")
    followers = [cluster.follow(gone), cluster.follow(kept)]

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        for led in (gone, kept):
            append(led.log, 2)
        await eventually(lambda: are_equal(gone.log, followers[0].log))
        fetchers.forget("gone", 0)
        fetchers.forget("gone", 0)
        append(gone.log, 2)
        append(kept.log, 2)
        await eventually(lambda: are_equal(kept.log, followers[1].log))
        assert followers[0].log.log_end_offset == 2
        fetchers.forget("kept", 0)
        await eventually(lambda: not fetchers._fetchers and not fetchers._closing)

    cluster.run(use)


def test_partitions_go_where_their_leaders_are(tmp_path: Path, cluster: Cluster) -> None:
    others = open_logs(tmp_path / "other")
    led = cluster.create("t")
    partition = cluster.follow(led)
    with ScriptedBroker(node_id=3) as broker:
        leader = Leader(broker)
        other = leader.lead(others.create("t", 0, led.log.topic_id, LogConfig()), 1)
        cluster.ports[3] = broker.port
        for each in (led, other):
            append(each.log, 2)
        append(led.log, 2)
        append(other.log, 4, leader_epoch=1)

        async def use(fetchers: Fetchers) -> None:
            fetchers.follow(partition)
            await eventually(lambda: are_equal(led.log, partition.log))
            again = FollowedPartition(partition.log, 3, 1)
            fetchers.follow(again)
            assert len(fetchers._fetchers) == 1
            await eventually(lambda: are_equal(other.log, again.log))
            again.follow(LEADER, 2)
            led.epoch = 2
            append(led.log, 1, leader_epoch=2)
            fetchers.follow(again)
            await eventually(lambda: are_equal(led.log, again.log))

        cluster.run(use)
    others.abandon()


def test_several_fetchers_share_the_partitions_of_a_leader(cluster: Cluster) -> None:
    many = [cluster.create("t", index) for index in range(12)]
    followers = [cluster.follow(each) for each in many]

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        assert len(fetchers._fetchers) == 1
        cluster.config.update_dynamic({"num.replica.fetchers": "3"}, {})
        fetchers.rearrange()
        assert len(fetchers._fetchers) == 3
        for led, partition in zip(many, followers, strict=True):
            append(led.log, 2)
            await eventually(lambda led=led, it=partition: are_equal(led.log, it.log))

    cluster.run(use)
    assert cluster.broker.connection_count >= 3


def test_others_have_their_turn_while_much_is_appended(cluster: Cluster) -> None:
    """An answer of many megabytes is taken over in pieces."""
    many = [cluster.create("t", index) for index in range(8)]
    for led in many:
        for _ in range(200):
            append(led.log, 1, value=bytes(5000))
    followers = [cluster.follow(each) for each in many]
    ends: set[int] = set()

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        while not all(each.log.log_end_offset == 200 for each in followers):
            ends.add(sum(each.log.log_end_offset for each in followers))
            await asyncio.sleep(0)
        for led, partition in zip(many, followers, strict=True):
            await eventually(lambda led=led, it=partition: are_equal(led.log, it.log))

    cluster.run(use)
    assert len(ends) > 8
