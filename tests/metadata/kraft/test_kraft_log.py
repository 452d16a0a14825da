"""What Kafka's metadata log says, however it is spread over files, and however it is damaged."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from drumlin.metadata.kraft import messages
from drumlin.metadata.kraft.log import MetadataLog, UnreadableLog, read_metadata_log
from drumlin.metadata.kraft.messages import Message, UnknownRecord
from drumlin.metadata.kraft.state import KafkaMetadata, KafkaPartition, led_by
from metadata.kraft.kafka_log import (
    REAL,
    as_snapshot,
    batch,
    config,
    framed,
    partition,
    value,
    write_segment,
    write_snapshot,
)
from metadata.kraft.kafka_log import topic as topic_record
from rig.depth import seeds, so_many

ID, OTHER_ID = UUID(int=1 << 70), UUID(int=2 << 70)
_REAL = sorted(each.name for each in REAL.iterdir())
_CONFIGS = {
    (2, "kept"): {
        "retention.ms": "86400000",
        "cleanup.policy": "compact",
        "min.insync.replicas": "1",
    },
    (2, "again"): {"max.message.bytes": "2000000"},
    (4, "1"): {"log.cleaner.backoff.ms": "14000"},
    (32, "readers"): {"consumer.session.timeout.ms": "50000"},
}
_COUNTS = {"kept": 4, "plain": 2, "again": 1, "__consumer_offsets": 3, "__transaction_state": 3}


def after(*said: Message) -> KafkaMetadata:
    metadata = KafkaMetadata()
    for each in said:
        metadata.apply(value(each))
    return metadata


def topic(name: str = "t", topic_id: UUID = ID) -> Message:
    return topic_record(name, topic_id)


def change(**fields: object) -> Message:
    return messages.PartitionChange(partition=0, topic_id=ID, **fields)  # type: ignore[arg-type]


# -- what Kafka itself has written -------------------------------------------------------------


@pytest.mark.parametrize("name", _REAL)
def test_what_kafka_has_written(name: str) -> None:
    log = read_metadata_log(REAL / name)
    metadata = log.metadata
    assert {each.name: len(each.partitions) for each in metadata.topics.values()} == _COUNTS
    for owner, configs in _CONFIGS.items():
        assert metadata.configs[owner] == configs
    assert metadata.configs[4, ""]["log.retention.ms"] == "123456789"
    assert (2, "gone") not in metadata.configs
    assert metadata.next_producer_id == 1000
    assert log.voters == (1,)
    for each in metadata.topics.values():
        for state in each.partitions.values():
            assert state.complete == state.replicas == (1,)
            assert (led_by(state), state.leader, state.leader_epoch) == (1, -1, 1)
    # A snapshot does not say what was deleted before it.
    assert len(metadata.deleted) == (0 if name == "snapshot" else 2)


# -- what records come to ------------------------------------------------------------------------


def test_changes_of_a_partition() -> None:
    places = (UUID(int=1 << 80), UUID(int=2 << 80))
    said = [topic(), partition(ID, 0, (1, 2), directories=places)]
    assert after(*said).topics[ID].partitions[0].directories == places
    said.append(change(isr=(2,), leader=2))
    assert after(*said).topics[ID].partitions[0] == KafkaPartition(
        (1, 2), (2,), 2, 1, (), (), places
    )
    said.append(change(leader=2))  # the same one, in the next epoch
    assert after(*said).topics[ID].partitions[0].leader_epoch == 2
    said.append(change(replicas=(3, 1, 2), adding=(3,), removing=(1,)))
    moving = after(*said).topics[ID].partitions[0]
    assert (moving.replicas, moving.adding, moving.removing) == ((3, 1, 2), (3,), (1,))
    assert (moving.isr, moving.leader_epoch) == ((2,), 2)
    assert moving.directories == (UUID(int=0), *places)
    said.append(change(isr=(), leader=-1, eligible=(2, 3), last_known=(2,)))
    resting = after(*said).topics[ID].partitions[0]
    assert (resting.complete, led_by(resting)) == ((2, 3), 3)
    said.append(messages.ClearEligible(topic=""))
    assert after(*said).topics[ID].partitions[0].complete == ()
    assert led_by(after(*said).topics[ID].partitions[0]) == -1


def test_a_topic_goes_with_its_configuration() -> None:
    said = [topic(), partition(ID, 0, (1,)), config(2, "t", "retention.ms", "1")]
    said += [messages.RemoveTopic(topic_id=ID), topic("t", OTHER_ID)]
    metadata = after(*said)
    assert metadata.topics.keys() == {OTHER_ID}
    assert metadata.configs == {}
    assert metadata.deleted == {ID}


def test_configurations_are_set_and_taken_back() -> None:
    said = [config(4, "", "a", "1"), config(4, "", "b", "2"), config(4, "", "a", None)]
    assert after(*said).configs == {(4, ""): {"b": "2"}}
    assert after(*said, config(4, "", "b", None)).configs == {}


def test_transactions_count_as_a_whole() -> None:
    begin, end = messages.BeginTransaction(), messages.EndTransaction()
    assert after(begin, topic()).topics == {}
    assert after(begin, topic(), end).topics.keys() == {ID}
    assert after(begin, topic(), messages.AbortTransaction(), topic("u")).topics[ID].name == "u"


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (framed(29, 0, b""), "type 29, version 0, is not known"),
        (framed(2, 1, b""), "type 2, version 1, is not known"),
        (b"\x02" + value(topic())[1:], "a frame of version 2"),
        (value(topic()) + b"\0", "1 bytes after"),
        (value(topic())[:-1], "cannot be read"),
        (b"", "cannot be read"),
        (value(partition(OTHER_ID, 0, (1,))), "which there is not"),
        (value(change(leader=1)), "has no partition 0"),
        (value(topic("t", OTHER_ID)), "there is a topic t"),
        (value(messages.EndTransaction()), "has not begun"),
    ],
)
def test_what_is_not_understood_is_an_error(tmp_path: Path, said: bytes, why: str) -> None:
    metadata = after(topic())
    with pytest.raises(UnknownRecord, match=why):
        metadata.apply(said)
    write_segment(tmp_path, [[value(topic())], [said]])
    with pytest.raises(UnreadableLog, match=f"{tmp_path}/0+.log: offset 1: .*{why}"):
        read_metadata_log(tmp_path)


def test_what_does_not_concern_topics_is_passed_over() -> None:
    metadata = KafkaMetadata()
    for kind in messages.PASSED_OVER:
        metadata.apply(framed(kind, 99, b"whatever"))
    assert (metadata.topics, metadata.configs, metadata.not_enforced) == ({}, {}, set())
    metadata.apply(framed(18, 0, b"whatever"))
    assert metadata.not_enforced == {"ACLs"}


# -- how it is spread over files -----------------------------------------------------------------


class History:
    """Records of a cluster that somebody uses, and what they come to."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.metadata = KafkaMetadata()
        self.values: list[bytes] = []
        self.snapshots: dict[int, list[bytes]] = {}
        for _ in range(self.random.randrange(1, 120)):
            self._say(self._next())
            if self.random.random() < 0.1:
                snapshot = [value(each) for each in as_snapshot(self.metadata)]
                self.snapshots[len(self.values)] = snapshot

    def _say(self, message: Message) -> None:
        self.values.append(value(message))
        self.metadata.apply(self.values[-1])

    def _next(self) -> Message:
        pick, topics = self.random, list(self.metadata.topics.values())
        replicas = tuple(pick.sample(range(1, 5), 3))
        if not topics or pick.random() < 0.2:
            number = len(self.values)
            return topic(f"t{number}", UUID(int=(number + 1) << 70))
        chosen = pick.choice(topics)
        match pick.randrange(6):
            case 0:
                return partition(chosen.topic_id, len(chosen.partitions), replicas)
            case 1:
                return messages.RemoveTopic(topic_id=chosen.topic_id)
            case 2:
                given = pick.choice([None, "1", "2"])
                return config(2, chosen.name, pick.choice(["a", "b"]), given)
            case 3:
                first = 1000 * len(self.values)
                return messages.ProducerIds(broker_id=1, broker_epoch=1, next_producer_id=first)
            case 4 if chosen.partitions:
                return messages.PartitionChange(
                    partition=pick.choice(list(chosen.partitions)),
                    topic_id=chosen.topic_id,
                    isr=pick.choice([None, (), replicas[:1]]),
                    leader=pick.choice([messages.SAME_LEADER, -1, replicas[0]]),
                    replicas=pick.choice([None, replicas]),
                    eligible=pick.choice([None, (), replicas[1:]]),
                )
        return config(4, "", pick.choice(["a", "b"]), pick.choice([None, "3"]))

    def write(self, folder: Path) -> None:
        """As segments of batches, from any place that the latest snapshot allows."""
        for end_offset, values in self.snapshots.items():
            write_snapshot(folder, end_offset, values)
        latest = max(self.snapshots, default=0)
        offset = self.random.randrange(latest + 1)
        while offset < len(self.values) or not self.snapshots:
            batches = []
            at = offset
            for _ in range(self.random.randrange(1, 4)):
                some = self.values[at : at + self.random.randrange(1, 9)]
                if some:
                    batches.append(some)
                    at += len(some)
            offset = write_segment(folder, batches, offset)
            if offset >= len(self.values):
                return


def said_by(log: MetadataLog) -> tuple[object, ...]:
    metadata = log.metadata
    configs = {each: dict(sorted(found.items())) for each, found in metadata.configs.items()}
    return metadata.topics, configs, metadata.next_producer_id


@pytest.mark.parametrize("seed", seeds(20, 500))
def test_snapshots_and_segments_come_to_the_same(tmp_path: Path, seed: int) -> None:
    history = History(seed)
    folder = tmp_path / "log"
    history.write(folder)
    log = read_metadata_log(folder)
    assert said_by(log) == said_by(MetadataLog(history.metadata))
    assert log.end_offset == len(history.values)


def test_a_gap_is_an_error(tmp_path: Path) -> None:
    values = [value(topic(f"t{each}", UUID(int=(each + 1) << 70))) for each in range(9)]
    for first, second in ((1, 4), (0, 5)):  # the beginning is missing; some in between
        shutil.rmtree(tmp_path)
        write_segment(tmp_path, [values[first:4]], first)
        write_segment(tmp_path, [values[second:]], second)
        with pytest.raises(UnreadableLog, match="is missing"):
            read_metadata_log(tmp_path)


def test_a_log_that_ends_before_the_snapshot(tmp_path: Path) -> None:
    """A node that was away has got a snapshot in place of its log."""
    write_segment(tmp_path, [[value(topic())]])
    write_snapshot(tmp_path, 9, [value(topic("u", OTHER_ID))])
    log = read_metadata_log(tmp_path)
    assert log.metadata.topics.keys() == {OTHER_ID}
    assert (log.end_offset, log.epoch) == (9, 1)


# -- damage --------------------------------------------------------------------------------------


@pytest.fixture(params=_REAL)
def real(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of a log that Kafka has written."""
    shutil.copytree(REAL / request.param, tmp_path / "log")
    return tmp_path / "log"


def _places(size: int) -> list[int]:
    """Some of the bytes of a file; in the end all."""
    wanted = so_many(250, 20_000)
    return sorted(random.Random(size).sample(range(size), min(size, wanted)))


def test_a_damaged_byte_is_found_or_means_nothing(real: Path) -> None:
    expected = read_metadata_log(real)
    pick = random.Random(1)
    found = 0
    for path in [*real.glob("*.log"), *real.glob("*.checkpoint")]:
        whole = path.read_bytes()
        for place in _places(len(whole)):
            damaged = bytearray(whole)
            damaged[place] ^= pick.randrange(1, 256)
            path.write_bytes(damaged)
            try:
                log = read_metadata_log(real)
            except UnreadableLog as error:
                assert str(path) in str(error)
                found += 1
            else:
                assert (log.metadata, log.end_offset) == (expected.metadata, expected.end_offset)
        path.write_bytes(whole)
    assert found


def test_a_log_that_is_cut_off_says_what_was_written_before(real: Path) -> None:
    (path,) = real.glob("*.log")
    whole, ends = path.read_bytes(), set()
    for size in _places(len(whole)):
        path.write_bytes(whole[:size])
        ends.add(read_metadata_log(real).end_offset)
    path.write_bytes(whole)
    assert max(ends) <= read_metadata_log(real).end_offset
    assert len(ends) > 3
    for snapshot in real.glob("*.checkpoint"):
        whole = snapshot.read_bytes()
        for size in _places(len(whole)):
            snapshot.write_bytes(whole[:size])
            with pytest.raises(UnreadableLog, match=r"no end|damaged"):
                read_metadata_log(real)


def test_a_damaged_length_is_no_cut(tmp_path: Path) -> None:
    """Neither of the last batch nor of one before it."""
    first, last = batch([value(topic())], 0), batch([value(partition(ID, 0, (1,)))], 1)
    for at in (0, len(first)):
        data = bytearray(first + last)
        data[at + 9] = 0x7F  # of the batch's length
        (tmp_path / f"{0:020d}.log").write_bytes(data)
        with pytest.raises(UnreadableLog, match=f"damaged at position {at}"):
            read_metadata_log(tmp_path)


def test_a_quorum_state_that_cannot_be_read(real: Path) -> None:
    for said in (b"", b"[]", b'{"currentVoters": [{}]}', b"\xff"):
        (real / "quorum-state").write_bytes(said)
        with pytest.raises(UnreadableLog, match="quorum-state"):
            read_metadata_log(real)
