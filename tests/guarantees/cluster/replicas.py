"""Compares the replicas of a partition: byte for byte, or record by record where a cleaner runs.

Pure but for reading files. What is looked at ends below the high watermark, where nothing changes
but by cleaners.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from rig.data.batches import describe_batches

_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_ABORT = 0


class Batch(NamedTuple):
    """One batch of a log, as its bytes."""

    base_offset: int
    last_offset: int
    data: bytes


class Record(NamedTuple):
    """One record of a log."""

    offset: int
    key: bytes | None
    value: bytes | None


class Replica(NamedTuple):
    """What a broker has of a partition."""

    node_id: int
    batches: list[Batch]

    @classmethod
    def read(cls, node_id: int, folder: Path, high_watermark: int) -> Replica:
        return cls(
            node_id, [each for each in _batches(folder) if each.last_offset < high_watermark]
        )


def differences(replicas: list[Replica], *, is_compacted: bool) -> Iterator[str]:
    """In what the others differ from the first."""
    first = replicas[0]
    for other in replicas[1:]:
        names = f"brokers {first.node_id} and {other.node_id}"
        found = _records_differ(first, other) if is_compacted else _bytes_differ(first, other)
        if found:
            yield f"{names}: {found}"


def _bytes_differ(one: Replica, other: Replica) -> str | None:
    """Where they are not the same bytes; a log may begin later, as records are deleted."""
    if not one.batches or not other.batches:
        if len(one.batches) == len(other.batches):
            return None
        return f"{len(one.batches)} and {len(other.batches)} batches"
    start = max(one.batches[0].base_offset, other.batches[0].base_offset)
    rest = [[b for b in each.batches if b.base_offset >= start] for each in (one, other)]
    for mine, its in zip(*rest, strict=False):
        if mine != its:
            return f"{_told(mine)}, and {_told(its)}"
    if len(rest[0]) != len(rest[1]):
        ends = [each[-1].last_offset if each else start for each in rest]
        return f"they end at {ends[0]} and {ends[1]}"
    return None


def _records_differ(one: Replica, other: Replica) -> str | None:
    """Where a key has another last value, or an offset another record."""
    mine, its = _committed(one), _committed(other)
    for offset in mine.keys() & its.keys():
        if mine[offset] != its[offset]:
            return f"{mine[offset]}, and {its[offset]}"
    last, its_last = _last_values(mine), _last_values(its)
    for key in last.keys() | its_last.keys():
        if last.get(key) != its_last.get(key):
            return f"the last of {key!r} is {last.get(key)}, and {its_last.get(key)}"
    return None


def _last_values(records: Mapping[int, Record]) -> dict[bytes | None, Record]:
    """Of each key that has not been deleted."""
    found = {records[offset].key: records[offset] for offset in sorted(records)}
    return {key: record for key, record in found.items() if record.value is not None}


def _committed(replica: Replica) -> dict[int, Record]:
    """Records by offset, without those that were aborted; whose end is missing count as well.

    A cleaner removes the end of a transaction only once the records are gone or committed.
    """
    found: dict[int, Record] = {}
    undecided: dict[int, list[Record]] = defaultdict(list)
    for batch in replica.batches:
        (described,) = describe_batches(batch.data)
        producer, attributes = described["producer_id"], described["attributes"]
        records = [
            Record(described["base_offset"] + each["offset_delta"], each["key"], each["value"])
            for each in described["records"]
        ]
        if attributes & _CONTROL:
            decided = undecided.pop(producer, [])
            is_abort = records and int.from_bytes((records[0].key or b"")[2:4], "big") == _ABORT
            found |= {} if is_abort else {each.offset: each for each in decided}
        elif attributes & _TRANSACTIONAL:
            undecided[producer] += records
        else:
            found |= {each.offset: each for each in records}
    for decided in undecided.values():
        found |= {each.offset: each for each in decided}
    return found


def _batches(folder: Path) -> Iterator[Batch]:
    for path in sorted(folder.glob("*.log")):
        data, position = path.read_bytes(), 0
        while len(data) - position >= 61:
            size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
            base_offset = int.from_bytes(data[position : position + 8], "big")
            last_delta = int.from_bytes(data[position + 23 : position + 27], "big")
            if size < 61 or position + size > len(data):
                return
            yield Batch(base_offset, base_offset + last_delta, data[position : position + size])
            position += size


def _told(batch: Batch) -> str:
    digest = sha256(batch.data).hexdigest()[:8]
    epoch = int.from_bytes(batch.data[12:16], "big")
    return f"{batch.base_offset} to {batch.last_offset} of epoch {epoch} ({digest})"
