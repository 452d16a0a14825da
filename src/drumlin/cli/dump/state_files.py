"""Reads what a partition keeps beside its batches: aborted transactions, producer snapshots and
leader epochs."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crc32c import crc32c

from drumlin.cli.dump.findings import Item, Problem, mapped

EPOCHS_FILE: Final = "leader-epoch-checkpoint"

_ABORTED: Final = struct.Struct(">hqqqq")
_SNAPSHOT_HEADER: Final = struct.Struct(">hIi")  # version, CRC of all behind it, entries
_SNAPSHOT_CRC_START: Final = 6
_PRODUCER: Final = struct.Struct(">qhiqiqiq")


def read_aborted_transactions(path: Path, *, deep: bool) -> Iterator[Item]:
    """Entries of a `.txnindex` file."""
    del deep  # an entry has nothing below it
    with mapped(path) as buffer:
        whole = len(buffer) - len(buffer) % _ABORTED.size
        previous = -1
        for position in range(0, whole, _ABORTED.size):
            version, producer_id, first, last, stable = _ABORTED.unpack_from(buffer, position)
            yield {
                "kind": "aborted",
                "producer_id": producer_id,
                "first_offset": first,
                "last_offset": last,
                "last_stable_offset": stable,
            }
            if version != 0:
                yield Problem(path, position, f"version {version} is unknown")
            if last < first or last <= previous:
                yield Problem(path, position, f"offsets {first} to {last} are out of order")
            previous = last
        if whole < len(buffer):
            message = f"{len(buffer) - whole} bytes behind the last entry of {_ABORTED.size} bytes"
            yield Problem(path, whole, message)


def read_producer_snapshot(path: Path, *, deep: bool) -> Iterator[Item]:
    """Producers in a `.snapshot` file."""
    del deep  # an entry has nothing below it
    with mapped(path) as buffer:
        if len(buffer) < _SNAPSHOT_HEADER.size:
            yield Problem(path, 0, f"{len(buffer)} bytes are too few for a snapshot")
            return
        version, crc, count = _SNAPSHOT_HEADER.unpack_from(buffer)
        if version != 1:
            yield Problem(path, 0, f"version {version} is unknown")
            return
        if crc32c(memoryview(buffer)[_SNAPSHOT_CRC_START:]) != crc:
            yield Problem(path, 2, "the CRC does not match the bytes behind it")
        expected_size = _SNAPSHOT_HEADER.size + count * _PRODUCER.size
        if count < 0 or expected_size != len(buffer):
            message = f"{count} producers need {expected_size} bytes, there are {len(buffer)}"
            yield Problem(path, _SNAPSHOT_CRC_START, message)
            return
        for fields in _PRODUCER.iter_unpack(buffer[_SNAPSHOT_HEADER.size :]):
            yield {
                "kind": "producer",
                "producer_id": fields[0],
                "producer_epoch": fields[1],
                "last_sequence": fields[2],
                "last_offset": fields[3],
                "offset_delta": fields[4],
                "timestamp": fields[5],
                "coordinator_epoch": fields[6],
                "transaction_first_offset": fields[7] if fields[7] >= 0 else None,
            }


def read_leader_epochs(path: Path, *, deep: bool) -> Iterator[Item]:
    """Lines of a `leader-epoch-checkpoint`: a version, a count, then epochs and start offsets."""
    del deep  # an entry has nothing below it
    lines = path.read_text(errors="replace").splitlines(keepends=True)
    if len(lines) < 2 or lines[0].strip() != "0" or lines[1].strip() != str(len(lines) - 2):
        yield Problem(path, 0, "does not begin with version 0 and the number of entries")
    position, previous = sum(map(len, lines[:2])), (-1, -1)
    for line in lines[2:]:
        fields = line.split()
        if len(fields) == 2 and all(field.isdigit() for field in fields):
            epoch, start_offset = int(fields[0]), int(fields[1])
            yield {"kind": "leader-epoch", "epoch": epoch, "start_offset": start_offset}
            if epoch <= previous[0] or start_offset < previous[1]:
                yield Problem(path, position, f"epoch {epoch} or its offset runs backwards")
            previous = (epoch, start_offset)
        else:
            yield Problem(path, position, f"{line.strip()!r} is no epoch and offset")
        position += len(line)
