"""A new store begins with Kafka's metadata, or the start fails and has changed nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import FILE_NAME, Database
from drumlin.metadata.image import Resource, ResourceType
from drumlin.metadata.kraft import messages
from drumlin.metadata.kraft.log import FOLDER
from drumlin.metadata.opening import open_embedded
from drumlin.metadata.store.store import UnusableMetadata
from drumlin.records.batch.varint import INT64_MAX
from drumlin.storage.directory.directory_lock import DirectoryLock
from drumlin.storage.directory.meta_properties import MetaProperties, encode_meta_properties
from metadata.kraft.kafka_log import (
    CLUSTER_ID,
    config,
    framed,
    log_dir_of,
    partition,
    topic,
    value,
    write_segment,
)

ID = UUID(int=1 << 70)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return log_dir_of(tmp_path / "data")


def begin(*log_dirs: Path, **more: str) -> dict[str, Any]:
    """Open the store as a broker does, and say what is in it."""
    settings = {"log.dirs": ",".join(map(str, log_dirs)), **more}
    store = open_embedded(BrokerConfig(settings))

    async def look() -> dict[str, Any]:
        block = await store.next_producer_id_block()
        image = store.image
        found = {
            "topics": {name: len(each.partitions) for name, each in image.topics.items()},
            "ids": {name: each.topic_id for name, each in image.topics.items()},
            "states": [each for one in image.topics.values() for each in one.partitions],
            "configs": {each: dict(image.configs(each)) for each in image.all_configured()},
            "producer id": block.first,
            "cluster": image.cluster_id,
            "is new": store.adoption is not None,
            "deleted": dict(store.deleted_topics),
        }
        await store.close()
        return found

    return asyncio.run(look())


def refused(*log_dirs: Path, **more: str) -> str:
    """Why it does not begin; nothing is left of the attempt."""
    before = _there(log_dirs[0])
    with pytest.raises(UnusableMetadata) as failure:
        begin(*log_dirs, **more)
    assert _there(log_dirs[0]) == before
    return str(failure.value)


def _there(path: Path) -> set[str]:
    return {each.name for each in path.iterdir()} - {".lock"}


def written(log_dir: Path, *said: bytes) -> Path:
    """A log dir whose metadata log says this instead, and nothing of where partitions lie."""
    shutil.rmtree(log_dir / FOLDER)
    write_segment(log_dir / FOLDER, [said])
    return log_dir


def test_it_begins_with_all_of_it_once(log_dir: Path) -> None:
    found = begin(log_dir)
    assert found["topics"] == {
        "kept": 4,
        "plain": 2,
        "again": 1,
        "__consumer_offsets": 3,
        "__transaction_state": 3,
    }
    assert found["ids"]["kept"] == UUID("9a1aeae3-e1e0-4b9a-a7f8-dc7c8263dc13")
    for state in found["states"]:
        assert (state.leader, state.replicas, state.isr, state.leader_epoch) == (1, (1,), (1,), 2)
    assert found["configs"][Resource(ResourceType.TOPIC, "again")] == {
        "max.message.bytes": "2000000"
    }
    assert found["configs"][Resource(ResourceType.GROUP, "readers")] == {
        "consumer.session.timeout.ms": "50000"
    }
    assert found["cluster"] == CLUSTER_ID
    assert not found["is new"]  # no topics are made of folders
    assert found["producer id"] >= 1000
    shutil.rmtree(log_dir / FOLDER)  # it is not needed any more
    again = begin(log_dir)
    assert again["producer id"] > found["producer id"]
    assert again["topics"] == found["topics"]


def test_deleted_topics_are_known(tmp_path: Path) -> None:
    """So that folders that a crash has left of them are removed, as by Kafka."""
    found = begin(log_dir_of(tmp_path / "data", "own-voters"))
    assert len(found["deleted"]) == 2
    several = log_dir_of(tmp_path / "several", "version-3.3")
    state = several / FOLDER / "quorum-state"
    state.write_text('{"currentVoters":[{"voterId":1},{"voterId":2}]}')
    assert begin(several)["deleted"] == {}  # others may not have agreed


def test_a_start_that_died_at_once_is_made_up_for(log_dir: Path) -> None:
    Database(log_dir / FILE_NAME).close()
    assert begin(log_dir)["topics"]["kept"] == 4


def test_a_store_that_is_there_counts(log_dir: Path) -> None:
    opened = Database(log_dir / FILE_NAME)
    opened.execute_durably([database.put_value(database.CLUSTER_ID, CLUSTER_ID)])
    opened.close()
    assert begin(log_dir)["topics"] == {}


def test_the_metadata_log_may_lie_elsewhere(tmp_path: Path, log_dir: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(log_dir / FOLDER, elsewhere / FOLDER)
    shutil.copy(log_dir / "meta.properties", elsewhere)
    second = tmp_path / "second"  # which is new
    found = begin(log_dir, second, **{"metadata.log.dir": str(elsewhere)})
    assert found["topics"]["kept"] == 4


def test_whoever_uses_it_is_not_disturbed(tmp_path: Path, log_dir: Path) -> None:
    lock = DirectoryLock(str(log_dir))
    assert lock.acquire()
    assert "in use by another server" in refused(log_dir)
    lock.release()
    begin(log_dir)


def _of_another_broker(log_dir: Path) -> None:
    meta = MetaProperties(CLUSTER_ID, 2, None)
    (log_dir / "meta.properties").write_bytes(encode_meta_properties(meta))


def _in_a_lost_log_dir(log_dir: Path) -> None:
    meta = MetaProperties(CLUSTER_ID, 1, "AAAAAAAAAAAAAAAAAAAB_w")
    (log_dir / "meta.properties").write_bytes(encode_meta_properties(meta))


def _damaged(log_dir: Path) -> None:
    path = log_dir / FOLDER / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    data[-30] ^= 1
    path.write_bytes(data)


def _in_sync_elsewhere(log_dir: Path) -> None:
    written(log_dir, value(topic("t", ID)), value(partition(ID, 0, (1, 2))))


def _lagging(log_dir: Path) -> None:
    written(log_dir, value(topic("t", ID)), value(partition(ID, 0, (1, 2), isr=(2,))))


def _elsewhere(log_dir: Path) -> None:
    written(log_dir, value(topic("t", ID)), value(partition(ID, 0, (2,))))


def _with_garbage(log_dir: Path) -> None:
    said = [topic("t", ID), partition(ID, 0, (1,)), config(2, "t", "retention.ms", "soon")]
    written(log_dir, *map(value, said))


def _in_remote_storage(log_dir: Path) -> None:
    said = [topic("t", ID), partition(ID, 0, (1,)), config(2, "t", "remote.storage.enable", "true")]
    written(log_dir, *map(value, said))


def _with_half_a_topic(log_dir: Path) -> None:
    written(log_dir, value(topic("t", ID)), value(partition(ID, 1, (1,))))


def _of_a_later_kafka(log_dir: Path) -> None:
    written(log_dir, framed(99, 0, b""))


def _lost(log_dir: Path) -> None:
    shutil.rmtree(log_dir / FOLDER)
    (log_dir / FOLDER).mkdir()
    (log_dir / "t-0").mkdir()


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_of_another_broker, "belongs to broker 2, not 1"),
        (_in_a_lost_log_dir, "lies in a log dir that is not given"),
        (_damaged, "0.log is damaged at position "),
        (_in_sync_elsewhere, "t-0 is in sync on brokers [1, 2] of [1, 2], and not on broker 1"),
        (_lagging, "t-0 is in sync on brokers [2] of [1, 2]"),
        (_elsewhere, "t-0 is in sync on brokers [2] of [2]"),
        (_with_garbage, "topic t: retention.ms"),
        (_in_remote_storage, "topic t has records in remote storage"),
        (_with_half_a_topic, "topic t has partitions [1] only"),
        (_of_a_later_kafka, "type 99, version 0, is not known"),
        (_lost, "is empty, but there are logs of topics"),
    ],
)
def test_what_cannot_be_had_stops_the_start(
    log_dir: Path, spoil: Callable[[Path], None], why: str
) -> None:
    spoil(log_dir)
    assert why in refused(log_dir)


def test_who_was_in_sync_alone_has_everything(log_dir: Path) -> None:
    state = partition(ID, 0, (2, 1, 3), isr=(), leader=-1, eligible=(1,), leader_epoch=7)
    written(log_dir, value(topic("t", ID)), value(state))
    (found,) = begin(log_dir)["states"]
    assert (found.replicas, found.isr, found.leader, found.leader_epoch) == ((1,), (1,), 1, 8)


def test_a_kafka_that_was_never_started(tmp_path: Path) -> None:
    log_dir = log_dir_of(tmp_path / "data", "own-voters")
    (log_dir / FOLDER / f"{0:020d}.log").unlink()
    found = begin(log_dir)
    assert found["topics"] == {}
    assert found["is new"]


def test_what_nobody_enforces_is_said(log_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    acl = framed(18, 0, b"whatever")
    written(log_dir, acl, value(topic("t", ID)), value(partition(ID, 0, (1,))))
    begin(log_dir)
    assert "Kafka's metadata has ACLs, which are not taken over nor enforced" in caplog.text


@pytest.mark.parametrize("name", ["../../elsewhere", "", "a/b", "x" * 250])
def test_a_name_that_no_topic_has_would_be_a_folder_elsewhere(log_dir: Path, name: str) -> None:
    said = [value(topic(name, ID)), value(partition(ID, 0, (1,)))]
    assert f"topic {name!r}" in refused(written(log_dir, *said))


def test_numbers_that_have_no_next_one(log_dir: Path) -> None:
    said = [value(topic("t", ID)), value(partition(ID, 0, (1,), leader_epoch=2**31 - 1))]
    assert "t-0 has no leader epoch after 2147483647" in refused(written(log_dir, *said))
    ids = messages.ProducerIds(broker_id=1, broker_epoch=1, next_producer_id=INT64_MAX)
    said = [value(topic("t", ID)), value(partition(ID, 0, (1,))), value(ids)]
    assert f"no producer ids after {INT64_MAX}" in refused(written(log_dir, *said))


def test_log_dirs_that_are_not_said_of_all_replicas(log_dir: Path) -> None:
    there = partition(ID, 0, (2, 1), isr=(1,), leader=1, directories=(UUID(int=1 << 90),))
    said = [value(topic("t", ID)), value(there)]
    assert "t-0 has 2 replicas, in 1 log dirs" in refused(written(log_dir, *said))
