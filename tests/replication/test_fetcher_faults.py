"""What breaks between a follower and its leader, or on the follower's disk, is got over."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import LogConfig
from drumlin.peer.connection import BrokerConnection
from drumlin.peer.peer_error import ConnectionLost
from drumlin.replication.fetchers import Fetchers
from drumlin.replication.followed_partition import FollowedPartition
from replication.cluster import LEADER, Cluster, are_equal
from rig.brokers.scripted_broker import CloseConnection, Silence
from rig.waiting import eventually
from storage.doors import FailingFiles
from storage.samples import append, open_logs, revive

# -- what can go wrong on the way --------------------------------------------------------------


def torn(shape: Any, request: Any) -> Any:
    return CloseConnection((10_000).to_bytes(4, "big") + bytes(500))


def garbage(shape: Any, request: Any) -> Any:
    return (30).to_bytes(4, "big") + b"\xff" * 30


def nothing(shape: Any, request: Any) -> Any:
    return CloseConnection()


@pytest.mark.parametrize("fault", [torn, garbage, nothing])
def test_after_a_broken_answer_it_connects_again(cluster: Cluster, fault: Any) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    append(led.log, 2)
    answer = cluster.leader.fetch
    cluster.broker.script("fetch", fault, answer, fault, answer, answer, fault, answer)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        for _ in range(4):
            append(led.log, 2)
            await eventually(lambda: are_equal(led.log, partition.log))
        await eventually(lambda: cluster.broker.connection_count == 4)
        append(led.log, 2)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


def test_a_leader_that_does_not_answer_is_given_up(cluster: Cluster) -> None:
    cluster.config = BrokerConfig.load({"replica.socket.timeout.ms": "1000"})
    led = cluster.create("t")
    partition = cluster.follow(led)
    append(led.log, 2)
    cluster.broker.script("fetch", lambda *_: Silence(), cluster.leader.fetch)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


def test_a_leader_that_comes_later_is_found(tmp_path: Path, cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    append(led.log, 2)
    refusals = [ConnectionLost("refused")] * 3
    open_connection = cluster.connect

    async def connect(node_id: int) -> BrokerConnection:
        if refusals:
            raise refusals.pop()
        return await open_connection(node_id)

    cluster.connect = connect  # type: ignore[method-assign]

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


def test_a_leader_that_is_too_old_is_asked_again(cluster: Cluster) -> None:
    led = cluster.create("t")
    partition = cluster.follow(led)
    append(led.log, 2)
    cluster.broker.versions["fetch"] = (4, 14)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: cluster.broker.connection_count > 2)
        assert not cluster.broker.asked("fetch")
        cluster.broker.versions["fetch"] = (4, 17)
        await eventually(lambda: are_equal(led.log, partition.log))

    cluster.run(use)


def test_damaged_records_are_fetched_again(cluster: Cluster) -> None:
    bad, good = cluster.create("bad"), cluster.create("good")
    followers = [cluster.follow(bad), cluster.follow(good)]
    damaged = 3

    def damage(records: bytes) -> bytes:
        nonlocal damaged
        damaged -= 1
        return records if damaged < 0 else records[:-1] + b"\xff"

    bad.change = damage
    for led in (bad, good):
        for _ in range(3):
            append(led.log, 2)

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        await eventually(lambda: are_equal(good.log, followers[1].log))
        await eventually(lambda: are_equal(bad.log, followers[0].log))

    cluster.run(use)
    assert cluster.broker.connection_count == 1


# -- disks -------------------------------------------------------------------------------------


def test_a_failed_log_dir_stops_its_partitions_only(tmp_path: Path, cluster: Cluster) -> None:
    files = FailingFiles()
    failing = open_logs(tmp_path / "failing", files=files)
    bad, good = cluster.create("bad"), cluster.create("good")
    other = FollowedPartition(failing.create("bad", 0, bad.log.topic_id, LogConfig()), LEADER, 0)
    followers = [other, cluster.follow(good)]

    async def use(fetchers: Fetchers) -> None:
        for each in followers:
            fetchers.follow(each)
        files.fail("write_at")
        append(bad.log, 2)
        await eventually(lambda: not other.log.log_directory.is_online)
        append(good.log, 2)
        await eventually(lambda: are_equal(good.log, followers[1].log))
        files.heal()
        assert revive(failing, other.log.log_directory)
        await eventually(lambda: are_equal(bad.log, other.log))

    cluster.run(use)
    failing.abandon()


def test_a_truncation_that_fails_is_tried_again(tmp_path: Path, cluster: Cluster) -> None:
    files = FailingFiles()
    failing = open_logs(tmp_path / "failing", files=files)
    led = cluster.create("t")
    log = failing.create("t", 0, led.log.topic_id, LogConfig())
    append(led.log, 5)
    append(log, 5)
    append(log, 5)
    log.flush()
    failing.write_checkpoints()
    partition = FollowedPartition(log, LEADER, 0)
    files.fail("create", "write_at", code=errno.ENOSPC)

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await eventually(lambda: files.failures > 0)
        files.heal()
        revive(failing, log.log_directory)
        await eventually(lambda: are_equal(led.log, log))

    cluster.run(use)
    failing.abandon()


@pytest.mark.parametrize("step", ["prepare", "rebuild"])
def test_a_partition_that_is_forgotten_while_it_is_truncated(cluster: Cluster, step: str) -> None:
    """It may lead at once: nothing of the truncation comes later, or holds up a flush."""
    led = cluster.create("t")
    partition = cluster.follow(led)
    log = partition.log
    append(led.log, 5)
    append(log, 5)
    append(log, 5, leader_epoch=1)
    led.epoch = 2
    partition.follow(LEADER, 2)
    led.log.start_leader_epoch(2)
    is_there, may_go = asyncio.Event(), asyncio.Event()

    async def slowly(function: Callable[[], object]) -> None:
        if function.__name__ == step:
            is_there.set()
            await may_go.wait()
        await asyncio.to_thread(function)

    cluster.blocking = slowly

    async def use(fetchers: Fetchers) -> None:
        fetchers.follow(partition)
        await is_there.wait()
        fetchers.forget("t", 0)
        end = 10 if step == "prepare" else 5
        assert (log.log_end_offset, log.is_being_cut) == (end, False)
        append(log, 3, leader_epoch=3)
        may_go.set()
        await eventually(lambda: not fetchers._closing)
        assert log.log_end_offset == end + 3
        log.flush()
        assert log.recovery_point == end + 3

    cluster.run(use)
