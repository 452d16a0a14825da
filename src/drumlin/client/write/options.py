"""The options of `append` and of writers, and their checks. Loads no Arrow.

Their defaults and meanings are in `WritesRecords`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drumlin.client import arguments
from drumlin.client.arguments import Acks, Encode
from drumlin.client.write.open_batch import Delivered

if TYPE_CHECKING:
    from drumlin.client.write.partitioner import TablePartitioner

#: A function from a key and the number of partitions to a partition.
Partitioner = Callable[[bytes | None, int], int]
#: Called for each record with (place, None) or (None, error).
OnDelivery = Callable[[Delivered | None, BaseException | None], object]


class IfThere(str):
    """The name of an optional column, which is used if the data has it."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendOptions:
    """The columns of the records, and the options of delivery.

    Raises:
        TypeError, ValueError: an option is invalid.
    """

    key: str | None
    value: str | None
    headers: str | None
    timestamp: str | None
    encode: Encode | None
    partition: str | TablePartitioner | None
    compression: str
    acks: Acks
    batch_bytes: int
    buffer_bytes: int
    delivery_timeout_ms: float
    retries: int | None

    def __post_init__(self) -> None:
        for role in ("key", "headers", "timestamp", "value"):
            name = getattr(self, role)
            if name is not None and not isinstance(name, str):
                raise TypeError(f"{role} {arguments.shown(name)}: expected the name of a column")
        arguments.encoding(self.encode)
        chosen = self.partition
        if chosen is not None and not isinstance(chosen, str) and not callable(chosen):
            expected = "expected the name of a column of partition numbers, or a function"
            raise TypeError(f"partition {arguments.shown(chosen)}: {expected}")
        arguments.acks_number(self.acks)
        arguments.compression_name(self.compression)
        arguments.batch_bytes(self.batch_bytes)
        arguments.numbers_at_least({"buffer_bytes": self.buffer_bytes}, 1)
        arguments.numbers_at_least({"delivery_timeout_ms": self.delivery_timeout_ms}, 0)
        arguments.retries(self.retries)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """The limits of a writer, and its callbacks.

    Raises:
        TypeError, ValueError: an option is invalid.
    """

    batch_bytes: int
    linger_ms: float
    max_records: int | None
    buffer_bytes: int
    max_block_ms: float
    delivery_timeout_ms: float
    metadata_refresh_ms: float
    retries: int | None
    compression: str
    acks: Acks
    partitioner: Partitioner | None
    on_delivery: OnDelivery | None

    def __post_init__(self) -> None:
        arguments.batch_bytes(self.batch_bytes)
        arguments.numbers_at_least(
            {"max_records": self.max_records, "buffer_bytes": self.buffer_bytes}, 1
        )
        for name in ("linger_ms", "max_block_ms", "delivery_timeout_ms", "metadata_refresh_ms"):
            arguments.numbers_at_least({name: getattr(self, name)}, 0)
        arguments.retries(self.retries)
        arguments.compression_name(self.compression)
        arguments.acks_number(self.acks)
        arguments.callable_or_none("partitioner", self.partitioner)
        arguments.callable_or_none("on_delivery", self.on_delivery)
