"""Reads the files next to a partition's segments: aborted transactions, producer snapshots and
leader epochs."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from drumlin.cli.dump.findings import Item, Problem, mapped
from drumlin.storage.producers.producer_snapshot import CorruptSnapshot, decode_snapshot

EPOCHS_FILE: Final = "leader-epoch-checkpoint"

_NUMBER: Final = re.compile(r"[0-9]{1,19}")
_ABORTED: Final = struct.Struct(">hqqqq")


def read_aborted_transactions(path: Path, *, deep: bool) -> Iterator[Item]:
    """Entries of a `.txnindex` file."""
    del deep  # entries have no records inside
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
            message = f"{len(buffer) - whole} bytes after the last entry of {_ABORTED.size} bytes"
            yield Problem(path, whole, message)


def read_producer_snapshot(path: Path, *, deep: bool) -> Iterator[Item]:
    """Producers in a `.snapshot` file."""
    del deep  # entries have no records inside
    try:
        producers = decode_snapshot(path.read_bytes())
    except CorruptSnapshot as error:
        yield Problem(path, 0, str(error))
        return
    for producer in producers:
        yield {
            "kind": "producer",
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
            "last_sequence": producer.last_sequence,
            "last_offset": producer.batches[-1].last_offset if producer.batches else None,
            "timestamp": producer.last_timestamp,
            "coordinator_epoch": producer.coordinator_epoch,
            "transaction_first_offset": producer.transaction_first_offset,
        }


def read_leader_epochs(path: Path, *, deep: bool) -> Iterator[Item]:
    """Lines of a `leader-epoch-checkpoint`: a version, a count, then epochs and start offsets."""
    del deep  # entries have no records inside
    lines = path.read_text(errors="replace").splitlines(keepends=True)
    if len(lines) < 2 or lines[0].strip() != "0" or lines[1].strip() != str(len(lines) - 2):
        yield Problem(path, 0, "does not begin with version 0 and the number of entries")
    position, previous = sum(map(len, lines[:2])), (-1, -1)
    for line in lines[2:]:
        fields = line.split()
        if len(fields) == 2 and all(map(_NUMBER.fullmatch, fields)):
            epoch, start_offset = int(fields[0]), int(fields[1])
            yield {"kind": "leader-epoch", "epoch": epoch, "start_offset": start_offset}
            if epoch <= previous[0] or start_offset < previous[1]:
                yield Problem(path, position, f"epoch {epoch} or its offset runs backwards")
            previous = (epoch, start_offset)
        else:
            yield Problem(path, position, f"{line.strip()!r} is no epoch and offset")
        position += len(line)
