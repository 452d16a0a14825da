"""Statistics of one cleaning, kept by the pool and shown by metrics and the command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from drumlin.storage.log.cleaning_view import NO_HORIZON

_SUMMED: Final = (
    "map_bytes_read",
    "map_seconds",
    "bytes_read",
    "bytes_written",
    "records_read",
    "records_written",
    "superseded",
    "expired_tombstones",
    "without_key",
    "aborted",
    "markers_removed",
    "tombstones_kept",
    "segments_before",
    "segments_after",
    "rewrite_seconds",
    "seconds",
)


@dataclass(slots=True)
class CleaningStatistics:
    """The statistics, filled in by the cleaner as it proceeds, in one thread at a time."""

    topic: str
    partition: int
    started_ms: int
    ended_ms: int = 0
    first_dirty_offset: int = 0
    #: The end of the round, exclusive; the next cleaning begins at this offset.
    round_end_offset: int = 0
    map_capacity: int = 0
    map_count: int = 0
    map_bytes_read: int = 0
    map_seconds: float = 0.0
    bytes_read: int = 0
    bytes_written: int = 0
    records_read: int = 0
    records_written: int = 0
    superseded: int = 0
    expired_tombstones: int = 0
    without_key: int = 0
    aborted: int = 0
    markers_removed: int = 0
    tombstones_kept: int = 0
    #: The earliest delete horizon of the tombstones and markers that were kept; `NO_HORIZON` if
    #: there are none, or this round has seen none.
    delete_horizon_ms: int = NO_HORIZON
    segments_before: int = 0
    segments_after: int = 0
    rewrite_seconds: float = 0.0
    seconds: float = 0.0  # in total, including the sync of new segments

    def after(self, earlier: CleaningStatistics) -> CleaningStatistics:
        """The statistics of a whole round, including the `earlier` part, which was interrupted."""
        summed = {name: getattr(self, name) + getattr(earlier, name) for name in _SUMMED}
        horizon_ms = min(self.delete_horizon_ms, earlier.delete_horizon_ms)
        return replace(self, started_ms=earlier.started_ms, delete_horizon_ms=horizon_ms, **summed)

    @property
    def bytes_freed(self) -> int:
        return self.bytes_read - self.bytes_written

    @property
    def map_utilisation(self) -> float:
        """The used part of the offset map; near 1, another cleaning has to do the rest."""
        return self.map_count / self.map_capacity if self.map_capacity else 0.0

    @property
    def bytes_per_second(self) -> float:
        """The bytes of the log that were read per second, as Kafka's cleaner counts them."""
        return self.bytes_read / self.seconds if self.seconds else 0.0
