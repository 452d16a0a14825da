"""The form of a coordinator's shards: how they are loaded, encoded and changed, and their limits.

Plain values: each coordinator hands them to what all coordinators build on.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from drumlin.coordination.shards.state_batches import Encode
from drumlin.records.batch.batch import Buffer


class _Shard(Protocol):
    @property
    def partition(self) -> int: ...


Shard = TypeVar("Shard", bound=_Shard)
Loaded = TypeVar("Loaded")
StateRecord = TypeVar("StateRecord")


@dataclass(frozen=True, slots=True)
class StateForm(Generic[Shard, Loaded, StateRecord]):
    """The functions that make, fill, change and free a shard.

    new_shard(partition): an empty shard; its `partition` says which it is.
    load(buffers): what a partition says; called in a thread.
    take_over(shard, loaded): fills the shard; see `StatePartitions`.
    unload(shard): frees a shard that cannot be found any more.
    encode(record): its key and value.
    apply(shard, records, first_offset): takes over records that are in the log, from
        `first_offset` on.
    """

    new_shard: Callable[[int], Shard]
    load: Callable[[Iterable[Buffer]], Loaded]
    take_over: Callable[[Shard, Loaded], Coroutine[Any, Any, None]]
    unload: Callable[[Shard], Coroutine[Any, Any, None]]
    encode: Encode[StateRecord]
    apply: Callable[[Shard, Sequence[StateRecord], int], None]


@dataclass(frozen=True, slots=True)
class StateLimits:
    """The part of the configuration that all coordinators have, read again each time.

    first_partition_count(): how many partitions the topic will have, before it exists.
    timeout_ms(): how long replicas may take to have a record.
    codec(): how batches are compressed, a number of `CODECS`.
    """

    first_partition_count: Callable[[], int]
    timeout_ms: Callable[[], int]
    codec: Callable[[], int]
