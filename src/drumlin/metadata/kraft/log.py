"""Reading the metadata log of a stopped Apache Kafka: the latest snapshot and the records after it.

    <metadata.log.dir>/__cluster_metadata-0/
        <end offset>-<epoch>.checkpoint   a snapshot: header, state up to that offset, footer
        <base offset>.log                 the log; the part covered by snapshots is deleted later
        quorum-state                      the voters, if no record names them

All records of the log count. With one voter all of them are committed. With several voters the last
records may be uncommitted: they count as if this node became the next controller. Kafka elects the
node with the longest log of the last epoch.

No file is ever changed. Damage is detected by the checksums of batches and by gaps in the offsets.
A truncated last batch was never acknowledged, and is ignored, as in Kafka.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from drumlin.metadata.kraft.messages import UnknownRecord, Voters
from drumlin.metadata.kraft.state import KafkaMetadata
from drumlin.metadata.names import CLUSTER_METADATA
from drumlin.records.batch.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_POSITION,
    BatchHeader,
    compute_crc,
    crc_matches,
    parse_header,
)
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.plain.record import Record, decode_batch
from drumlin.wire.error_codes import MalformedMessage
from drumlin.wire.schema.decoder import decode

_log = logging.getLogger(__name__)

FOLDER: Final = f"{CLUSTER_METADATA}-0"
_SNAPSHOT: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_SEGMENT: Final = re.compile(r"(\d{20})\.log")
_SNAPSHOT_FOOTER, _VOTERS = 4, 6  # types of control records
_QUORUM_STATE: Final = "quorum-state"


class UnreadableLog(Exception):
    """The metadata log is damaged or comes from a later Kafka; the message names file and
    position.
    """


@dataclass(slots=True)
class MetadataLog:
    """The contents of a metadata log.

    end_offset, epoch: the end of the log, by which the logs of nodes are compared.
    voters: the nodes of the quorum; empty if unknown.
    """

    metadata: KafkaMetadata = field(default_factory=KafkaMetadata)
    end_offset: int = 0
    epoch: int = 0
    voters: tuple[int, ...] = ()


class _Batch(NamedTuple):
    position: int
    header: BatchHeader
    data: bytes


def read_metadata_log(folder: Path) -> MetadataLog:
    """The contents of the log in a folder.

    Raises:
        UnreadableLog: the log is damaged, or comes from a later Kafka.
        OSError: a file cannot be read.
    """
    found = MetadataLog(voters=_voters_of(folder / _QUORUM_STATE))
    names = sorted(each.name for each in folder.iterdir())
    snapshots = [each for each in names if _SNAPSHOT.fullmatch(each)]
    if snapshots:
        _read_snapshot(folder / snapshots[-1], found)
    segments = [folder / each for each in names if _SEGMENT.fullmatch(each)]
    bases = [int(each.stem) for each in segments]
    # Segments that end before the snapshot are not needed, and Kafka may have deleted some.
    first = sum(base <= found.end_offset for base in bases[1:])
    expected = found.end_offset
    for at in range(first, len(segments)):
        is_first, is_last = at == first, at == len(segments) - 1
        if bases[at] > expected or (not is_first and bases[at] != expected):
            raise UnreadableLog(f"{segments[at]} begins at {bases[at]}: {expected} is missing")
        expected = _read_segment(segments[at], bases[at], found, may_be_cut=is_last)
    return found


def _read_snapshot(path: Path, found: MetadataLog) -> None:
    is_complete = False
    expected = 0
    for batch in _batches_in(path, may_be_cut=False):
        _check_offset(path, batch, expected)
        expected = batch.header.end_offset
        if is_complete:
            raise UnreadableLog(f"{path} goes on after its end, at position {batch.position}")
        for record in _records_of(path, batch):
            if batch.header.is_control:
                is_complete = _follow_control(path, record, found) == _SNAPSHOT_FOOTER
            else:
                _apply(path, record, found)
    if not is_complete:
        raise UnreadableLog(f"{path} has no end: it is damaged")
    end_offset, epoch = path.stem.split("-")
    found.end_offset, found.epoch = int(end_offset), int(epoch)


def _read_segment(path: Path, base_offset: int, found: MetadataLog, *, may_be_cut: bool) -> int:
    """Apply the records after the known end; returns the segment's end offset."""
    start, expected, epoch = found.end_offset, base_offset, 0
    for batch in _batches_in(path, may_be_cut=may_be_cut):
        header = batch.header
        _check_offset(path, batch, expected)
        if header.leader_epoch < epoch:
            where = f"position {batch.position}"
            raise UnreadableLog(f"{path}: epoch {header.leader_epoch} after {epoch}, at {where}")
        expected, epoch = header.end_offset, header.leader_epoch
        if expected <= start:
            continue
        for record in _records_of(path, batch):
            if record.offset < start:
                continue
            if header.is_control:
                _follow_control(path, record, found)
            else:
                _apply(path, record, found)
        found.end_offset, found.epoch = expected, epoch
    return expected


def _check_offset(path: Path, batch: _Batch, expected: int) -> None:
    found = batch.header.base_offset
    if found != expected:
        where = f"position {batch.position}"
        raise UnreadableLog(f"{path}: offset {found} where {expected} should be, at {where}")


def _records_of(path: Path, batch: _Batch) -> list[Record]:
    try:
        records = decode_batch(batch.data)
    except CorruptRecord as error:
        offset = batch.header.base_offset
        raise UnreadableLog(f"{path}: the batch of offset {offset}: {error}") from error
    return records


def _apply(path: Path, record: Record, found: MetadataLog) -> None:
    try:
        found.metadata.apply(record.value or b"")
    except UnknownRecord as error:
        raise UnreadableLog(f"{path}: offset {record.offset}: {error}") from error


def _follow_control(path: Path, record: Record, found: MetadataLog) -> int:
    """Apply a control record, which may name the voters; returns its type."""
    kind = int.from_bytes((record.key or b"")[2:4], "big")
    if kind == _VOTERS:
        try:
            said = decode(Voters, 0, record.value or b"", flexible=True)
        except MalformedMessage as error:
            raise UnreadableLog(f"{path}: offset {record.offset}: {error}") from error
        found.voters = tuple(each.voter_id for each in said.voters)
    return kind


# -- batches -----------------------------------------------------------------------------


def _batches_in(path: Path, *, may_be_cut: bool) -> Iterator[_Batch]:
    """The batches of a file.

    Raises:
        UnreadableLog: a batch is damaged.
    """
    with path.open("rb") as file:
        size, position = path.stat().st_size, 0
        while position < size:
            head = file.read(HEADER_SIZE)
            header = parse_header(head) if len(head) == HEADER_SIZE else None
            if header is not None and not (header.magic == MAGIC and header.size >= HEADER_SIZE):
                raise _damaged(path, position)
            if header is None or position + header.size > size:
                if may_be_cut and not _has_batch(head + file.read(), header):
                    left = size - position
                    _log.warning("%s: its last %d bytes are no whole batch", path, left)
                    return
                raise _damaged(path, position)
            data = head + file.read(header.size - HEADER_SIZE)
            if not crc_matches(data, 0, header):
                raise _damaged(path, position)
            yield _Batch(position, header, data)
            position += header.size


def _has_batch(rest: bytes, header: BatchHeader | None) -> bool:
    """Whether the last batch of a file is complete, and only its length is damaged.

    The batch is complete if it ends with the file, or if another batch follows.
    """
    if header is None:
        return False
    if _is_whole(rest, 0, len(rest)):
        return True
    at = rest.find(bytes((MAGIC,)), HEADER_SIZE + MAGIC_POSITION)
    while at != -1:
        start = at - MAGIC_POSITION
        if len(rest) - start >= HEADER_SIZE:
            size = parse_header(rest, start).size
            if HEADER_SIZE <= size <= len(rest) - start and _is_whole(rest, start, size):
                return True
        at = rest.find(bytes((MAGIC,)), at + 1)
    return False


def _is_whole(data: bytes, start: int, size: int) -> bool:
    return compute_crc(data, start, size) == parse_header(data, start).crc


def _damaged(path: Path, position: int) -> UnreadableLog:
    return UnreadableLog(
        f"{path} is damaged at position {position}: what comes after it is not known. If Kafka did "
        "not stop cleanly, start and stop it once more, which repairs what can be"
    )


def _voters_of(path: Path) -> tuple[int, ...]:
    """The voters, if the file names them; newer versions of Kafka have them in the log."""
    try:
        said = json.loads(path.read_bytes())
        return tuple(int(each["voterId"]) for each in said.get("currentVoters") or ())
    except FileNotFoundError:
        return ()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UnreadableLog(f"{path} cannot be read: {error!r}") from error
