"""The stored state of a share group in one partition. Plain values; pure.

    start_offset            records before it are done: they are not delivered again
    batches                 records that were delivered, from `start_offset` on, and their state;
                            records between batches, and after the last one, are available
    delivery_complete_count the number of records from `start_offset` on that are done already

A state epoch begins when the state is initialized or reset; writes with an older state epoch are
fenced. The leader epoch is the partition's: only its leader delivers records and writes the state.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.storage.directory.partition_metadata import decode_uuid, encode_uuid
from drumlin.wire.schema.types import Int8, Int16, Int32, Int64

#: No start offset yet: the leader chooses one according to the group's share.auto.offset.reset.
UNINITIALIZED_OFFSET: Final = -1
#: The number of completed deliveries is unknown, as older brokers do not send it.
UNKNOWN_COUNT: Final = -1
#: No epoch: a request with this value is not fenced.
NO_EPOCH: Final = -1


class StoredRecordState(IntEnum):
    """The state of a record; the numbers are the protocol's."""

    AVAILABLE = 0
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class StateBatch(NamedTuple):
    """Consecutive records in the same state."""

    first_offset: Int64
    last_offset: Int64
    delivery_state: Int8
    delivery_count: Int16


class ShareState(NamedTuple):
    """The state of one partition of one share group."""

    state_epoch: int = 0
    leader_epoch: int = NO_EPOCH
    start_offset: int = UNINITIALIZED_OFFSET
    delivery_complete_count: int = UNKNOWN_COUNT
    batches: tuple[StateBatch, ...] = ()


class SharePartitionKey(NamedTuple):
    """The group and the partition of a state."""

    group_id: str
    topic_id: UUID
    partition: Int32

    @property
    def coordinator_key(self) -> str:
        """The key in FindCoordinator, which also determines the partition of the state topic."""
        return f"{self.group_id}:{encode_uuid(self.topic_id)}:{self.partition}"


def is_coordinator_key(text: str) -> bool:
    """Whether a text is a valid key for FindCoordinator: "group:topic id:partition"."""
    parts = text.rsplit(":", 2)
    if len(parts) < 3 or not all(parts):
        return False
    try:
        decode_uuid(parts[1])
        int(parts[2])
    except ValueError:
        return False
    return True
