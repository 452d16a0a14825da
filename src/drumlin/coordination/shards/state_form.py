"""The functions that load, encode and change a coordinator's shards, and the limits.

Plain values, which each coordinator passes to the base class.
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
    """The functions that create, fill, change and free a shard.

    new_shard(partition): creates an empty shard for that partition.
    load(buffers): reads the state of a partition; called in a thread.
    take_over(shard, loaded): fills the shard; see `StatePartitions`.
    unload(shard): frees a shard that gets no more requests.
    encode(record): returns the record's key and value.
    apply(shard, records, first_offset): applies records that are in the log from `first_offset` on.
    """

    new_shard: Callable[[int], Shard]
    load: Callable[[Iterable[Buffer]], Loaded]
    take_over: Callable[[Shard, Loaded], Coroutine[Any, Any, None]]
    unload: Callable[[Shard], Coroutine[Any, Any, None]]
    encode: Encode[StateRecord]
    apply: Callable[[Shard, Sequence[StateRecord], int], None]


@dataclass(frozen=True, slots=True)
class StateLimits:
    """The configuration that all coordinators need, read again on every use.

    first_partition_count(): the partition count of the topic when it is created.
    timeout_ms(): the time within which all in-sync replicas must have a record.
    codec(): the compression of batches, as a number of `CODECS`.
    """

    first_partition_count: Callable[[], int]
    timeout_ms: Callable[[], int]
    codec: Callable[[], int]
