"""The text files beside the segments: leader epochs, checkpoints, names and ids."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.config.topic import LogConfig
from drumlin.storage.directory.checkpoints import Checkpoint, decode_checkpoint, encode_checkpoint
from drumlin.storage.directory.meta_properties import decode_meta_properties
from drumlin.storage.directory.partition_metadata import (
    decode_partition_metadata,
    encode_partition_metadata,
)
from drumlin.storage.files.files import Files
from drumlin.storage.files.partition_names import deleted_directory_name, parse_directory_name
from drumlin.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from storage.samples import append, create, open_logs

# -- leader epochs -----------------------------------------------------------------------------


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_epochs_in_kafkas_format() -> None:
    content = b"0\n2\n0 0\n3 17\n"
    assert LeaderEpochs.decode(content).entries == ((0, 0), (3, 17))
    assert epochs((0, 0), (3, 17)).encode() == content
    assert epochs().encode() == b"0\n0\n"
    for broken in (b"", b"1\n0\n", b"0\n2\n0 0\n", b"0\n1\n0\n", b"\xff"):
        with pytest.raises(ValueError):
            LeaderEpochs.decode(broken)


def test_where_an_epoch_ends() -> None:
    known = epochs((2, 10), (5, 20), (7, 30))
    assert known.end_offset_for(7, 44) == (7, 44)
    assert known.end_offset_for(5, 44) == (5, 30)
    assert known.end_offset_for(6, 44) == (5, 30)
    assert known.end_offset_for(2, 44) == (2, 20)
    assert known.end_offset_for(1, 44) == (1, 10)
    assert known.end_offset_for(8, 44) == (-1, -1)
    assert known.end_offset_for(-1, 44) == (-1, -1)
    assert epochs().end_offset_for(0, 0) == (-1, -1)


def test_where_an_epoch_ends_while_the_log_is_cut() -> None:
    class Cutting(tuple[EpochEntry, ...]):
        """Entries that are cut from the start while a reader goes through them."""

        __slots__ = ()

        def __iter__(self) -> Iterator[EpochEntry]:
            yield from super().__iter__()
            changing._entries = (EpochEntry(2, 90),)

    changing = LeaderEpochs()
    changing._entries = Cutting((EpochEntry(0, 0), EpochEntry(1, 10), EpochEntry(2, 20)))
    changing.latest_epoch = 2
    assert changing.end_offset_for(1, 100) == (1, 20)
    assert changing.end_offset_for(1, 100) == (1, 90)
    assert changing.end_offset_for(2, 100) == (2, 100)


def test_a_new_epoch_removes_what_contradicts_it() -> None:
    known = epochs((2, 10), (5, 20))
    known.assign(5, 25)
    assert known.entries == ((2, 10), (5, 20))
    known.assign(6, 20)
    assert known.entries == ((2, 10), (6, 20))
    known.assign(4, 15)
    assert known.entries == ((2, 10), (4, 15))
    known.assign(7, 4)
    assert known.entries == ((7, 4),)


def test_more_of_an_epoch_after_one_that_got_no_record() -> None:
    """A leader that was elected for nothing follows again, and gets more of an older epoch."""
    known = epochs((2, 10), (3, 15))
    known.assign(4, 35)
    known.assign(3, 35)
    assert known.entries == ((2, 10), (3, 15))


def test_cutting_epochs() -> None:
    known = epochs((2, 10), (5, 20), (7, 30))
    known.truncate_from_start(20)
    assert known.entries == ((5, 20), (7, 30))
    known = epochs((2, 10), (5, 20), (7, 30))
    known.truncate_from_start(25)
    assert known.entries == ((5, 25), (7, 30))
    known.truncate_from_end(30)
    assert known.entries == ((5, 25),)
    assert known.latest_epoch == 5
    known.truncate_from_end(0)
    assert known.latest_epoch == -1


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=30))
def test_epochs_of_offsets(steps: list[tuple[int, int]]) -> None:
    known, expected, epoch = LeaderEpochs(), [], 0
    for step, count in steps:
        epoch += step
        known.assign(epoch, len(expected))
        expected += [epoch] * count
    assert [known.epoch_for(offset) for offset in range(len(expected))] == expected
    for wanted in range(epoch + 1):
        if wanted <= known.latest_epoch:
            _, end_offset = known.end_offset_for(wanted, len(expected))
            assert end_offset == sum(each <= wanted for each in expected)
    assert LeaderEpochs.decode(known.encode()).entries == known.entries


# -- checkpoints -------------------------------------------------------------------------------

_topics = st.text("abc.-_09", min_size=1, max_size=8)


@settings(max_examples=50)
@given(st.dictionaries(st.tuples(_topics, st.integers(0, 99)), st.integers(0, 2**63 - 1)))
def test_checkpoints(offsets: dict[tuple[str, int], int]) -> None:
    content = encode_checkpoint(offsets)
    assert decode_checkpoint(content) == offsets
    assert decode_checkpoint(b"") == {}  # Kafka makes the file first
    if offsets:
        with pytest.raises(ValueError):
            decode_checkpoint(content.rstrip(b"\n").rpartition(b"\n")[0])


def test_what_is_noted_of_a_partition_that_is_gone(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path), "offsets", Files())
    checkpoint.set(("t", 0), 7, only_if=lambda: False)
    checkpoint.raise_to(("t", 1), 7, only_if=lambda: False)
    assert checkpoint.read() == {}
    checkpoint.set(("t", 0), 7, only_if=lambda: True)
    checkpoint.raise_to(("t", 1), 8, only_if=lambda: True)
    assert checkpoint.read() == {("t", 0): 7, ("t", 1): 8}


def test_a_checkpoint_can_be_lowered_before_records_go(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path), "offsets", Files())
    checkpoint.lower(("t", 0), 5)
    assert not (tmp_path / "offsets").exists()
    checkpoint.write(lambda: {("t", 0): 10, ("t", 1): 20, ("t", 2): 30})
    checkpoint.lower(("t", 0), 12)
    checkpoint.lower(("t", 1), 7)
    checkpoint.lower(("t", 2), 29)
    found = Checkpoint(str(tmp_path), "offsets", Files()).read()
    assert found == {("t", 0): 10, ("t", 1): 7, ("t", 2): 29}


# -- ids and names -----------------------------------------------------------------------------


def test_topic_ids_in_kafkas_format() -> None:
    topic_id = UUID("7ee9b73f-3d2a-4c0b-9050-17f2f20a6b45")
    content = b"version: 0\ntopic_id: fum3Pz0qTAuQUBfy8gprRQ"
    assert encode_partition_metadata(topic_id) == content
    assert decode_partition_metadata(content + b"\n") == topic_id
    for broken in (b"", b"version: 1\ntopic_id: x", b"version: 0\ntopic_id: x", b"\xff"):
        with pytest.raises(ValueError):
            decode_partition_metadata(broken)


def test_meta_properties_of_kafka() -> None:
    content = b"#\n#Sat Nov 21 01:12:58 UTC 2026\nnode.id=1\ndirectory.id=8-ZX\nversion=1\n"
    assert decode_meta_properties(content) == (None, 1, "8-ZX")
    assert decode_meta_properties(b"broker.id=3\ncluster.id=a\\=b\n") == ("a=b", 3, None)
    for version in (b"7", b"-1", b"x", b""):
        with pytest.raises(ValueError, match="version"):
            decode_meta_properties(b"node.id=1\ncluster.id=a\nversion=" + version)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("t-0", ("t", 0)),
        ("with-dash-12", ("with-dash", 12)),
        ("t", None),
        ("t-", None),
        ("-0", None),
        ("t-0.0123-delete", None),
        ("t-x", None),
    ],
)
def test_folder_names(name: str, expected: tuple[str, int] | None) -> None:
    assert parse_directory_name(name) == expected


def test_names_of_deleted_folders_differ() -> None:
    names = {deleted_directory_name("t", 0) for _ in range(10)}
    assert len(names) == 10
    assert all(parse_directory_name(name) is None for name in names)
    assert len(deleted_directory_name("x" * 249, 100)) == 255


@pytest.mark.parametrize("content", [None, b"garbage"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_leader_epochs_are_found_in_the_batches_where_their_file_is_missing(
    tmp_path: Path, content: bytes | None, is_clean: bool
) -> None:
    config = LogConfig(segment_bytes=300)
    logs = open_logs(tmp_path, config=config)
    log = create(logs, config)
    for epoch in (0, 0, 2, 5, 5):
        append(log, 2, leader_epoch=epoch)
    log.flush()
    entries = log.leader_epochs.entries
    logs.close() if is_clean else logs.abandon()
    path = tmp_path / "t-0" / "leader-epoch-checkpoint"
    path.unlink() if content is None else path.write_bytes(content)
    logs = open_logs(tmp_path, config=config)
    again = logs.get("t", 0)
    assert again is not None
    assert again.leader_epochs.entries == entries == ((0, 0), (2, 4), (5, 6))
    logs.abandon()
