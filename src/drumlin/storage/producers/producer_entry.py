"""The entry of a producer in one log: its epoch, last batches, and open transaction.

There may be millions (each start of a client creates one in every partition that it writes to), so
an entry is stored as bytes, which the garbage collector ignores. Entries are immutable. What a
producer may do is decided elsewhere.

    47  epoch; sequence, offset and delta of the last batch; the last timestamp, coordinator epoch,
        first offset of the open transaction; timestamp of the last batch (a marker has one too);
        whether the older batches are stored in full
        up to four older batches, the latest first, 12 bytes each: offset delta, and the distance of
        offset and timestamp to those of the next newer batch. Its sequences end where those of the
        newer batch begin. If not, or if a distance does not fit, all are stored in full, 24 bytes
        each.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from drumlin.records.batch.batch import NO_SEQUENCE, SEQUENCE_MODULO

#: A client has at most five requests in flight, so no older batch is sent again.
BATCHES_REMEMBERED: Final = 5
NO_COORDINATOR_EPOCH: Final = -1
NO_OFFSET: Final = -1
_NO_TIMESTAMP: Final = -1

_HEAD: Final = struct.Struct("=hiqiqiqq?")
_OLDER: Final = struct.Struct("=iIi")
_HEAD_AND_OLDER: Final = struct.Struct("=hiqiqiqq?iIi")
_IN_FULL: Final = struct.Struct("=iqiq")
_LAST_SEQUENCE: Final = struct.Struct("=hi")
_LAST_TIMESTAMP: Final = struct.Struct("=18xq4xq")
_unpack_head: Final = _HEAD.unpack_from
_pack_with_older: Final = _HEAD_AND_OLDER.pack
_HEAD_BYTES: Final = _HEAD.size
_OLDER_KEPT: Final = BATCHES_REMEMBERED - 2  # besides the last one, when a batch is added
_OLDER_END: Final = _HEAD.size + _OLDER_KEPT * _OLDER.size

#: Producer epoch and last sequence.
last_sequence_of = _LAST_SEQUENCE.unpack_from
#: Last timestamp, and the first offset of the open transaction or `NO_OFFSET`.
times_of = _LAST_TIMESTAMP.unpack_from


class SequenceRange(NamedTuple):
    """The facts about a batch that are needed to detect and answer a duplicate of it."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        return (self.last_sequence - self.offset_delta) % SEQUENCE_MODULO

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry(NamedTuple):
    """An unpacked entry."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = NO_COORDINATOR_EPOCH
    last_timestamp: int = _NO_TIMESTAMP
    transaction_first_offset: int | None = None
    #: The last batches of this epoch, oldest first.
    batches: tuple[SequenceRange, ...] = ()

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


def add_batch(
    packed: bytes | None,
    producer_epoch: int,
    sequence: int,
    offset: int,
    delta: int,
    timestamp: int,
    first_offset: int,
) -> bytes:
    """The entry after another batch, which is given by its last sequence, last offset and delta.

    `first_offset` is the first offset of the open transaction, or `NO_OFFSET`. Batches of another
    epoch are dropped, since later batches can't be duplicates of them.
    """
    coordinator_epoch = NO_COORDINATOR_EPOCH
    if packed is not None:
        epoch, before, at, size, _, coordinator_epoch, _, time, in_full = _unpack_head(packed)
        if epoch == producer_epoch and at != NO_OFFSET:
            if not in_full and before == (sequence - delta - 1) % SEQUENCE_MODULO:
                try:
                    return (
                        _pack_with_older(
                            epoch, sequence, offset, delta, timestamp, coordinator_epoch,
                            first_offset, timestamp, False, size, offset - at, timestamp - time,
                        )
                        + packed[_HEAD_BYTES:_OLDER_END]
                    )  # fmt: skip
                except struct.error:
                    pass  # too far apart
            last = SequenceRange(sequence, offset, delta, timestamp)
            batches = (*_batches(packed)[-_OLDER_KEPT - 1 :], last)
            return _pack(epoch, timestamp, coordinator_epoch, first_offset, batches)
    return _HEAD.pack(
        producer_epoch, sequence, offset, delta, timestamp, coordinator_epoch, first_offset,
        timestamp, False,
    )  # fmt: skip


def with_head(
    packed: bytes | None,
    producer_epoch: int,
    *,
    last_timestamp: int,
    coordinator_epoch: int | None = None,
) -> bytes:
    """The entry after a control batch, without an open transaction."""
    if packed is None:
        packed = _HEAD.pack(
            producer_epoch, NO_SEQUENCE, NO_OFFSET, 0, _NO_TIMESTAMP, NO_COORDINATOR_EPOCH,
            NO_OFFSET, _NO_TIMESTAMP, False,
        )  # fmt: skip
    epoch, sequence, offset, delta, _, known_epoch, _, time, in_full = _unpack_head(packed)
    older = packed[_HEAD_BYTES:]
    if producer_epoch != epoch:
        sequence, offset, delta, time, in_full, older = NO_SEQUENCE, NO_OFFSET, 0, -1, False, b""
    if coordinator_epoch is None:
        coordinator_epoch = known_epoch
    head = _HEAD.pack(
        producer_epoch, sequence, offset, delta, last_timestamp, coordinator_epoch, NO_OFFSET,
        time, in_full,
    )  # fmt: skip
    return head + older


def pack(entry: ProducerEntry) -> bytes:
    first_offset = entry.transaction_first_offset
    return _pack(
        entry.producer_epoch,
        entry.last_timestamp,
        entry.coordinator_epoch,
        NO_OFFSET if first_offset is None else first_offset,
        entry.batches[-BATCHES_REMEMBERED:],
    )


def _pack(
    producer_epoch: int,
    last_timestamp: int,
    coordinator_epoch: int,
    first_offset: int,
    batches: tuple[SequenceRange, ...],
) -> bytes:
    last = batches[-1] if batches else SequenceRange(NO_SEQUENCE, NO_OFFSET, 0, _NO_TIMESTAMP)
    older = batches[-2::-1]
    head = _HEAD.pack(
        producer_epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        last_timestamp,
        coordinator_epoch,
        first_offset,
        last.timestamp,
        bool(older),
    )
    return head + b"".join(_IN_FULL.pack(*each) for each in older)


def unpack(producer_id: int, packed: bytes) -> ProducerEntry:
    epoch, *_, last_timestamp, coordinator_epoch, first_offset, _, _ = _unpack_head(packed)
    return ProducerEntry(
        producer_id,
        epoch,
        coordinator_epoch,
        last_timestamp,
        None if first_offset == NO_OFFSET else first_offset,
        _batches(packed),
    )


def snapshot_row(packed: bytes) -> tuple[int, ...]:
    """The fields of a snapshot entry after the producer id, with only the last batch."""
    row: tuple[int, ...] = _unpack_head(packed)[:-2]
    return row


def last_batch_offset_of(packed: bytes) -> int:
    """The last offset of the last data batch; `NO_OFFSET` without one."""
    offset: int = _unpack_head(packed)[2]
    return offset


def _batches(packed: bytes) -> tuple[SequenceRange, ...]:
    """The batches, oldest first."""
    _, sequence, offset, delta, _, _, _, timestamp, in_full = _unpack_head(packed)
    if offset == NO_OFFSET:
        return ()
    batch = SequenceRange(sequence, offset, delta, timestamp)
    found = [batch]
    if in_full:
        found += [SequenceRange(*each) for each in _IN_FULL.iter_unpack(packed[_HEAD_BYTES:])]
    else:
        for delta, back, time_back in _OLDER.iter_unpack(packed[_HEAD_BYTES:]):
            batch = SequenceRange(
                (batch.first_sequence - 1) % SEQUENCE_MODULO,
                batch.last_offset - back,
                delta,
                batch.timestamp - time_back,
            )
            found.append(batch)
    return tuple(reversed(found))
