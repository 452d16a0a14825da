"""The marker that ends a transaction in its partitions: types only.

The transaction coordinator decides on markers; the broker passes it a function that writes markers
into logs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from drumlin.wire.error_codes import ErrorCode

#: A topic's name and the index of a partition.
TopicPartition = tuple[str, int]


class Marker(NamedTuple):
    """The COMMIT or ABORT of one producer's transaction, for all of its partitions."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The leader epoch of the transaction's partition of `__transaction_state`: an older
    coordinator's marker is refused."""
    is_commit: bool
    partitions: Sequence[TopicPartition]
    transaction_version: int
    """2: the epoch was raised for this marker (KIP-890); 0 or 1: the epoch is the producer's."""


#: Writes a marker to all of its partitions; returns a code for each, NONE if it is in the log.
MarkerWriter = Callable[[Marker], Awaitable[dict[TopicPartition, ErrorCode]]]
