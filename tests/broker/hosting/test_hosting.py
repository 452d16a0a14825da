"""Logs follow the metadata, whatever is slow or fails on the way."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.metadata.embedded.database import FILE_NAME, delete_topic
from drumlin.metadata.image import Resource, ResourceType, TopicState
from drumlin.metadata.names import GROUP_METADATA
from drumlin.metadata.store.changes import TopicDeleted
from drumlin.storage.files.files import Files
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets, fetch_offsets, position
from rig.time.stepped import Stepped
from rig.waiting import eventually
from storage.samples import prepared

pytestmark = pytest.mark.usefixtures("frequent_probes")

LIMIT_S = 20.0


async def create(broker: Broker, name: str, partitions: int = 1) -> TopicState:
    return await broker.metadata.create_topic(name, [[broker.node_id]] * partitions, {})


def code_of(broker: Broker, topic: str, partition: int) -> ErrorCode:
    try:
        broker.partitions.get(topic, partition)
    except KafkaError as error:
        return error.code
    return ErrorCode.none


class Gate:
    """Holds any call that makes a folder whose name contains a word, until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, word: str) -> None:
        self.reached = threading.Event()
        self.is_open = threading.Event()
        original = Files.make_directory

        def make_directory(files: Files, path: str) -> None:
            if word in path:
                self.reached.set()
                assert self.is_open.wait(LIMIT_S), "the gate was not opened"
            original(files, path)

        monkeypatch.setattr(Files, "make_directory", make_directory)


def test_a_slow_disk_holds_up_a_creation_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await create(broker, "before")
            gate = Gate(monkeypatch, "slow-")
            creating = asyncio.create_task(create(broker, "slow", 120))
            await eventually(gate.reached.is_set)
            assert code_of(broker, "before", 0) is ErrorCode.none  # the loop is free
            assert not creating.done()
            gate.is_open.set()
            await creating
            assert all(code_of(broker, "slow", each) is ErrorCode.none for each in range(120))

    asyncio.run(run())


def test_a_topic_deleted_and_made_again_while_it_is_being_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            gate = Gate(monkeypatch, "again-")
            creating = asyncio.create_task(create(broker, "again", 70))
            await eventually(gate.reached.is_set)
            first = broker.metadata.image.topics["again"]
            deleting = asyncio.ensure_future(broker.metadata.delete_topic(first.topic_id))
            making_anew = asyncio.create_task(create(broker, "again", 60))
            gate.is_open.set()
            await creating
            await deleting
            with suppress(KafkaError):  # it may have come before the deletion
                await making_anew
            if "again" not in broker.metadata.image.topics:
                await create(broker, "again", 60)
            second = broker.metadata.image.topics["again"]
            assert second.topic_id != first.topic_id
            served = [broker.partitions.find("again", index) for index in range(70)]
            assert {each.topic_id for each in served if each} == {second.topic_id}
            assert [each is not None for each in served] == [True] * 60 + [False] * 10

    asyncio.run(run())


def test_a_topic_made_while_there_is_no_room_comes_to_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_full = True
    original = Files.create

    def fail_when_full(files: Files, path: str) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(files, path)

    async def run() -> None:
        nonlocal is_full
        async with running(tmp_path) as broker:
            monkeypatch.setattr(Files, "create", fail_when_full)
            await create(broker, "events", 3)
            codes = {code_of(broker, "events", index) for index in range(3)}
            assert codes == {ErrorCode.kafka_storage_error}
            assert code_of(broker, "events", 3) is ErrorCode.unknown_topic_or_partition
            await create(broker, "gone")
            await broker.metadata.delete_topic(broker.metadata.image.topics["gone"].topic_id)
            assert code_of(broker, "gone", 0) is ErrorCode.unknown_topic_or_partition
            is_full = False
            await eventually(lambda: code_of(broker, "events", 2) is ErrorCode.none)
            assert not broker.partitions.has_offline

    asyncio.run(run())


def test_a_new_partition_goes_to_the_next_dir_when_one_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Files.create

    def fail_in_first(files: Files, path: str) -> None:
        if path.startswith(f"{tmp_path}/a/"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(files, path)

    async def run() -> None:
        async with running(tmp_path / "a", tmp_path / "b") as broker:
            monkeypatch.setattr(Files, "create", fail_in_first)
            await create(broker, "events", 3)
            assert {code_of(broker, "events", each) for each in range(3)} == {ErrorCode.none}

    asyncio.run(run())


async def commit(broker: Broker, group: str, offset: int) -> None:
    topic_id = broker.metadata.image.topics["t"].topic_id
    one = position("t", topic_id, 0, offset, -1, "")
    await commit_offsets(broker.groups, Commit(group, "", None, -1, None, [one]))


async def is_committed(broker: Broker, group: str, offset: int) -> bool:
    with suppress(KafkaError):
        ((_, ((_, found),)),) = await fetch_offsets(broker.groups, group, [("t", [0])])
        return found is not None and found.offset == offset
    return False


def test_groups_are_loaded_when_their_partition_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_broken = False
    original = Files.read_at

    def fail_when_broken(files: Files, descriptor: int, length: int, position: int) -> bytes:
        if is_broken and threading.current_thread().name.startswith("__consumer_offsets-loader"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return original(files, descriptor, length, position)

    async def run() -> None:
        nonlocal is_broken
        async with running(tmp_path) as broker:
            await broker.groups.find_partition("g")
            await create(broker, "t")
            await commit(broker, "g", 42)
        is_broken = True
        monkeypatch.setattr(Files, "read_at", fail_when_broken)
        async with running(tmp_path) as broker:
            await eventually(lambda: not all(each.is_online for each in broker.logs.directories))
            assert not await is_committed(broker, "g", 42)
            is_broken = False
            await eventually(lambda: is_committed(broker, "g", 42))

    asyncio.run(run())


def test_a_dir_that_comes_back_after_the_start_brings_its_partitions_and_groups(
    tmp_path: Path,
) -> None:
    dirs = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(*dirs) as broker:
            await create(broker, "t", 2)
            await broker.groups.find_partition("g")
            for group in ("g", "h", "i"):
                await commit(broker, group, 42)
        dirs[1].rename(tmp_path / "elsewhere")
        dirs[1].write_text("a broken disk")
        async with running(*dirs) as broker:
            codes = sorted(code_of(broker, "t", index).name for index in range(2))
            assert codes == ["kafka_storage_error", "none"]
            assert broker.partitions.has_offline
            dirs[1].unlink()
            (tmp_path / "elsewhere").rename(dirs[1])
            await eventually(lambda: not broker.partitions.has_offline)
            assert {code_of(broker, "t", index) for index in range(2)} == {ErrorCode.none}
            for group in ("g", "h", "i"):
                await eventually(lambda: is_committed(broker, group, 42))  # noqa: B023

    asyncio.run(run())


def test_what_a_topic_of_the_same_name_left_on_an_offline_dir_is_not_taken_for_the_new_one(
    tmp_path: Path,
) -> None:
    one, other = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(one, other) as broker:
            first = await create(broker, "t", 2)
        other.rename(tmp_path / "elsewhere")
        other.write_text("a broken disk")
        async with running(one, other) as broker:
            await broker.metadata.delete_topic(first.topic_id)
            second = await create(broker, "t", 2)
        other.unlink()
        (tmp_path / "elsewhere").rename(other)
        shutil.copy(one / FILE_NAME, other / FILE_NAME)
        for dirs in ((one, other), (other, one)):  # whichever is loaded first
            async with running(*dirs) as broker:
                served = [broker.partitions.get("t", index).log for index in range(2)]
                assert {each.topic_id for each in served} == {second.topic_id}
                assert {each.directory.parent for each in served} == {one}

    asyncio.run(run())


@pytest.mark.parametrize("is_new", [True, False])
def test_a_folder_that_was_put_back_is_kept_whoever_takes_its_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_new: bool
) -> None:
    """A topic was deleted by mistake, and its folder comes from a backup."""
    backup, folder = tmp_path / "backup", tmp_path / "data" / "t-0"

    async def run() -> None:
        async with running(folder.parent) as broker:
            first = await create(broker, "t")
            partition = broker.partitions.get("t", 0)
            partition.append_as_leader(prepared(value=b"precious"), 1, broker.clock.wall_ms())
        shutil.copytree(folder, backup)
        async with running(folder.parent) as broker:
            await broker.metadata.delete_topic(first.topic_id)
            if not is_new:
                await create(broker, "t")
        for path in folder.parent.glob("t-0*"):
            shutil.rmtree(path)
        shutil.copytree(backup, folder)
        async with running(folder.parent) as broker:
            if is_new:
                await create(broker, "t")
            assert broker.partitions.get("t", 0).log_end_offset == 0
            (kept,) = folder.parent.glob("t-0.*-stray")
            assert str(kept) in caplog.text
        async with running(folder.parent) as broker:
            broker.logs.remove_doomed()
            assert broker.partitions.get("t", 0).log.directory == folder
        assert b"precious" in (kept / ("0" * 20 + ".log")).read_bytes()

    asyncio.run(run())


def test_a_stored_configuration_that_cannot_be_applied_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    everyone = Resource(ResourceType.BROKER, "")

    async def run() -> None:
        async with running(tmp_path) as broker:
            await create(broker, "t")
            wrong: dict[str, str | None] = {"log.segment.bytes": "rubbish"}
            await broker.metadata.alter_configs(everyone, lambda _: wrong)
            right: dict[str, str | None] = {"log.segment.bytes": "2000000"}
            await broker.metadata.alter_configs(everyone, lambda _: right)
            assert broker.partitions.get("t", 0).log.config.segment_bytes == 2_000_000
            assert GROUP_METADATA not in broker.metadata.image.topics

    asyncio.run(run())
    assert "rubbish" in caplog.text


def folders(path: Path) -> list[str]:
    """The folders of topic t, without those that are to be removed."""
    return sorted(each.name for each in path.glob("t-*") if not each.name.endswith("-delete"))


@pytest.mark.parametrize("is_made_anew", [True, False])
def test_a_crash_in_a_deletion_leaves_no_folder_for_good(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_made_anew: bool
) -> None:
    """The topic is deleted in the metadata, and nothing else was done."""
    backup = tmp_path / "backup"

    async def run() -> None:
        async with running(tmp_path / "data") as broker:
            topic = await create(broker, "t", 2)
            shutil.copytree(tmp_path / "data" / "t-1", backup)
            await broker.metadata._store.commit(delete_topic(topic))
        async with running(tmp_path / "data") as broker:
            assert folders(tmp_path / "data") == []
            assert not broker.metadata.deleted_topics
            if is_made_anew:
                await create(broker, "t", 2)
        # From now on a folder of that topic is one that was put back.
        for path in (tmp_path / "data").glob("t-*"):
            shutil.rmtree(path)
        shutil.copytree(backup, tmp_path / "data" / "t-1")
        async with running(tmp_path / "data") as broker:
            kept = folders(tmp_path / "data")
            if is_made_anew:
                assert kept[:2] == ["t-0", "t-1"]
                assert kept[2].endswith("-stray")
            else:
                assert kept == ["t-1"]
                assert "left alone" in caplog.text

    asyncio.run(run())


def test_a_topic_deleted_while_a_dir_is_offline_is_deleted_there_later(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(one, other) as broker:
            topic = await create(broker, "t", 2)
            assert folders(other) == ["t-1"]
        backup = shutil.copytree(one / "t-0", tmp_path / "backup")
        other.rename(tmp_path / "elsewhere")
        other.write_text("a broken disk")
        async with running(one, other) as broker:
            await broker.metadata.delete_topic(topic.topic_id)
            assert broker.metadata.deleted_topics == {topic.topic_id: (str(other),)}
        shutil.copytree(backup, one / "t-0")  # an operator puts back what is left
        async with running(one, other) as broker:
            assert folders(one) == ["t-0"]
            assert broker.metadata.deleted_topics == {topic.topic_id: (str(other),)}
            other.unlink()
            (tmp_path / "elsewhere").rename(other)
            await eventually(lambda: not broker.metadata.deleted_topics)
            assert folders(one) == ["t-0"]
            assert folders(other) == []

    asyncio.run(run())


def test_a_topic_made_anew_does_not_keep_the_folders_of_the_deleted_one(tmp_path: Path) -> None:
    one, other = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(one, other) as broker:
            topic = await create(broker, "t", 2)
            assert folders(other) == ["t-1"]
        other.rename(tmp_path / "elsewhere")
        other.write_text("a broken disk")
        async with running(one, other) as broker:
            await broker.metadata.delete_topic(topic.topic_id)
            anew = await create(broker, "t", 2)
            assert folders(one) == ["t-0", "t-1"]
            other.unlink()
            (tmp_path / "elsewhere").rename(other)
            await eventually(lambda: not broker.metadata.deleted_topics)
            assert folders(one) == ["t-0", "t-1"]
            assert folders(other) == []
            log = broker.partitions.get("t", 1).log
            assert (log.topic_id, log.path) == (anew.topic_id, str(one / "t-1"))

    asyncio.run(run())


def test_a_topic_whose_name_another_has_taken_keeps_its_records(tmp_path: Path) -> None:
    """Nobody remembers that it was deleted, so they are kept under another name."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            topic = await create(broker, "t", 2)
            broker.metadata.image.remove_topic(topic)
            await broker.hosting.on_change(TopicDeleted(topic, keeps_records=True))
            assert code_of(broker, "t", 0) is ErrorCode.unknown_topic_or_partition
            kept = folders(tmp_path)
            assert [each.endswith("-stray") for each in kept] == [True, True]

    asyncio.run(run())


def test_with_a_topic_only_its_own_folders_go(tmp_path: Path) -> None:
    """Those of another topic that had the name may have been put back."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            topic = await create(broker, "t", 2)
            other = replace(topic, topic_id=uuid4())
            await broker.hosting.on_change(TopicDeleted(other))
            assert folders(tmp_path) == ["t-0", "t-1"]

    asyncio.run(run())


def test_the_log_dir_asked_for_is_not_that_of_a_later_topic(tmp_path: Path) -> None:
    """It was asked for before this broker had a replica, and the topic is deleted first."""
    one, other = tmp_path / "one", tmp_path / "other"

    async def run() -> None:
        async with running(one, other) as broker:
            topic = await create(broker, "t")
            broker.logs.wanted_places["t", 0] = broker.logs.directories[1]
            await broker.metadata.delete_topic(topic.topic_id)
            await create(broker, "t")
            assert folders(other) == []

    asyncio.run(run())


def test_what_is_of_no_known_topic_does_not_grow_too_old(tmp_path: Path) -> None:
    """The metadata was lost: nobody knows for how long its records are to be kept."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            topic = await create(broker, "t")
            partition = broker.partitions.get("t", 0)
            for _ in range(2):
                partition.append_as_leader(prepared(value=b"precious"), 1, 1000)
                partition.log.roll(broker.clock.wall_ms())
            lost = [("DELETE FROM topics WHERE topic_id = ?", (topic.topic_id.bytes,))]
            await broker.metadata._store.commit(lost)
        async with running(tmp_path, log_retention_ms="1") as broker:
            log = broker.logs.get("t", 0)
            assert log is not None
            assert log.high_watermark == 2
            broker.logs.prepare_retention()
            for _ in Stepped(broker.logs.delete_old_segments()):
                pass
            assert log.log_start_offset == 0

    asyncio.run(run())
