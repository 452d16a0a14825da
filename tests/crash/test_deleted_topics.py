"""Offsets of a topic that is gone count for no group, whatever kept them from being removed."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from crash.conftest import MakeServer
from crash.requests import await_coordinator, commit, committed, create_topic
from drumlin.metadata.embedded.database import FILE_NAME
from drumlin.metadata.embedded.sqlite import SqliteMetadata
from drumlin.wire.error_codes import ErrorCode
from rig.data.raw import RawClient
from rig.waiting import wait_until

_NONE = -1
_ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


def test_a_kill_between_the_deletion_and_the_tombstones(make_server: MakeServer) -> None:
    server = make_server(_ONE_PARTITION)
    with server.connect() as client:
        create_topic(client, "t")
        create_topic(client, "kept")
        await_coordinator(client, "g")
        commit(client, "g", "t", 7)
        commit(client, "g", "kept", 3)
    server.kill()
    asyncio.run(_delete_topic(server.data, "t"))
    server.start()
    with server.connect() as client:
        await_coordinator(client, "g")
        create_topic(client, "t")
        assert committed(client, "g", "t") == _NONE
        assert committed(client, "g", "kept") == 3
    wait_until(lambda: "deleted topics" in server.said(), "the tombstones")
    server.kill()
    server.start()
    with server.connect() as client:
        await_coordinator(client, "g")
        assert committed(client, "g", "t") == _NONE
        assert committed(client, "g", "kept") == 3


async def _delete_topic(data: Path, name: str) -> None:
    """All that a deletion has done when the broker dies with its commit."""
    metadata = SqliteMetadata.open(data)
    await metadata.delete_topic(metadata.image.topics[name].topic_id)
    await metadata.close()


def test_offsets_of_a_topic_that_only_the_metadata_lacks_stay(
    tmp_path: Path, make_server: MakeServer
) -> None:
    """An older copy of the metadata does not know a topic that was never deleted."""
    server = make_server(_ONE_PARTITION)
    with server.connect() as client:
        await_coordinator(client, "g")
    server.stop()
    older = _copy_metadata(server.data, tmp_path / "older")
    server.start()
    with server.connect() as client:
        create_topic(client, "t")
        commit(client, "g", "t", 7)
    server.stop()
    newer = _copy_metadata(server.data, tmp_path / "newer")
    for metadata in (older, newer):
        _copy_metadata(metadata, server.data)
        server.start()
        with server.connect() as client:
            await_coordinator(client, "g")
            if metadata is newer:
                assert committed(client, "g", "t") == 7
        server.stop()


def _copy_metadata(source: Path, target: Path) -> Path:
    """The file as a clean stop leaves it."""
    target.mkdir(exist_ok=True)
    shutil.copy(source / FILE_NAME, target)
    return target


def test_a_deletion_while_the_offsets_cannot_be_written(
    small_disk: Path, tmp_path: Path, make_server: MakeServer
) -> None:
    directories = [tmp_path / "other", small_disk / "data"]
    settings = {"log.dirs": ",".join(map(str, directories))} | _ONE_PARTITION
    server = make_server(settings | {"offsets.retention.check.interval.ms": "100"})
    with server.connect() as client:
        create_topic(client, "t")
        await_coordinator(client, "g")
        assert (directories[1] / "__consumer_offsets-0").is_dir(), "each directory gets one"
        commit(client, "g", "t", 7)
        ballast = small_disk / "ballast"
        _fill(ballast)
        wait_until(lambda: not _can_commit(client, "t"), "the disk to be full")
        answer = client.ask("delete_topics", 6, topics=[{"name": "t"}], timeout=10_000)
        assert answer.responses[0].error_code == ErrorCode.none, answer
        create_topic(client, "t")
        assert committed(client, "g", "t") == _NONE
        wait_until(lambda: "not removed" in server.said(), "the tombstones to be refused")
        ballast.unlink()
        wait_until(lambda: "removed: offsets" in server.said(), "the tombstones")
    server.kill()
    server.start()
    with server.connect() as client:
        await_coordinator(client, "g")
        assert committed(client, "g", "t") == _NONE


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def _can_commit(client: RawClient, topic: str) -> bool:
    try:
        commit(client, "g", topic, 7)
    except AssertionError:
        return False
    return True
