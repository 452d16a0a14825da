"""Metadata logs as Apache Kafka writes them: some that it has written, and a writer of others."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from drumlin.metadata.kraft import messages
from drumlin.metadata.kraft.log import FOLDER
from drumlin.metadata.kraft.messages import Message
from drumlin.metadata.kraft.state import KafkaMetadata
from drumlin.records.plain.record import Record, encode_batch
from drumlin.storage.directory.meta_properties import MetaProperties, encode_meta_properties
from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.wire.schema.encoder import encode
from drumlin.wire.uvarint import uvarint

#: What Kafka 4.3 has written. In `snapshot` most is in a checkpoint; `version-3.3` has the records
#: of that version; in `own-voters` the log says who votes.
REAL = Path(__file__).with_name("kafka_logs")
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
#: Of the log dirs that the partitions lie in.
_DIRECTORY_IDS = {
    "snapshot": UUID("c0b614f5-030a-d6e4-710d-85e20e8a044e"),
    "own-voters": UUID("80ce8bff-74aa-4c65-b9b9-dfd813cb095f"),
    "version-3.3": UUID(int=1 << 70),  # which does not say it
}

_KINDS: dict[type[Any], tuple[int, int]] = {
    messages.Topic: (2, 0),
    messages.Partition: (3, 2),
    messages.Config: (4, 0),
    messages.PartitionChange: (5, 2),
    messages.RemoveTopic: (9, 0),
    messages.ProducerIds: (15, 0),
    messages.BeginTransaction: (23, 0),
    messages.EndTransaction: (24, 0),
    messages.AbortTransaction: (25, 0),
    messages.ClearEligible: (28, 0),
}


def value(message: Message) -> bytes:
    """A record's value."""
    kind, version = _KINDS[type(message)]
    return framed(kind, version, encode(message, version, flexible=True))


def framed(kind: int, version: int, body: bytes) -> bytes:
    return uvarint(1) + uvarint(kind) + uvarint(version) + body


def topic(name: str, topic_id: UUID) -> Message:
    return messages.Topic(name=name, topic_id=topic_id)


def partition(topic_id: UUID, index: int, replicas: Sequence[int], **more: Any) -> Message:
    fields = {
        "replicas": tuple(replicas),
        "isr": tuple(replicas),
        "removing": (),
        "adding": (),
        "leader": replicas[0],
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": (),
        **more,
    }
    return messages.Partition(partition=index, topic_id=topic_id, **fields)


def config(kind: int, name: str, key: str, text: str | None) -> Message:
    return messages.Config(resource_type=kind, resource_name=name, key=key, value=text)


def batch(values: Sequence[bytes], base_offset: int, epoch: int = 1) -> bytes:
    records = [Record(base_offset + at, 0, None, each) for at, each in enumerate(values)]
    return bytes(encode_batch(records, leader_epoch=epoch))


def _control(kind: int, offset: int) -> bytes:
    record = Record(offset, 0, kind.to_bytes(4, "big"), bytes(3))
    return bytes(encode_batch([record], is_control=True, leader_epoch=1))


def write_segment(folder: Path, batches: Sequence[Sequence[bytes]], base_offset: int = 0) -> int:
    """A segment of these batches; returns where it ends."""
    data, offset = b"", base_offset
    for each in batches:
        data += batch(each, offset)
        offset += len(each)
    folder.mkdir(exist_ok=True)
    (folder / f"{base_offset:020d}.log").write_bytes(data)
    return offset


def write_snapshot(folder: Path, end_offset: int, values: Sequence[bytes]) -> None:
    data = _control(3, 0)
    if values:
        data += batch(values, 1)
    folder.mkdir(exist_ok=True)
    path = folder / f"{end_offset:020d}-{1:010d}.checkpoint"
    path.write_bytes(data + _control(4, 1 + len(values)))


def as_snapshot(metadata: KafkaMetadata) -> Iterable[Message]:
    """The records that come to this state."""
    for topic in metadata.topics.values():
        yield messages.Topic(name=topic.name, topic_id=topic.topic_id)
        for index, each in topic.partitions.items():
            yield partition(
                topic.topic_id,
                index,
                each.replicas,
                isr=each.isr,
                leader=each.leader,
                leader_epoch=each.leader_epoch,
                adding=each.adding,
                removing=each.removing,
                directories=each.directories,
                eligible=each.eligible,
                last_known=each.last_known,
            )
    for (kind, name), configs in metadata.configs.items():
        for key, text in configs.items():
            yield config(kind, name, key, text)
    yield messages.ProducerIds(
        broker_id=-1, broker_epoch=-1, next_producer_id=metadata.next_producer_id
    )


def log_dir_of(directory: Path, name: str = "snapshot", node_id: int = 1) -> Path:
    """A log dir of a stopped Kafka that has one of the real logs."""
    directory.mkdir()
    shutil.copytree(REAL / name, directory / FOLDER)
    meta = MetaProperties(CLUSTER_ID, node_id, encode_uuid(_DIRECTORY_IDS[name]))
    (directory / "meta.properties").write_bytes(encode_meta_properties(meta))
    return directory
