"""The result of appending a batch to a log."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from drumlin.storage.producers.producer_entry import SequenceRange
from drumlin.tuples import from_tuple


class AppendResult(NamedTuple):
    """The offsets of a batch in the log; for a duplicate, those of the first append."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    is_duplicate: bool = False

    @classmethod
    def of_duplicate(cls, batch: SequenceRange, log_start_offset: int) -> Self:
        """The result of the first append of this batch."""
        first_offset, last_offset = batch.first_offset, batch.last_offset
        return cls(first_offset, last_offset, batch.timestamp, log_start_offset, is_duplicate=True)


result_of: Final = from_tuple(AppendResult)
