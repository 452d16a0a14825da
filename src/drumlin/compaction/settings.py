"""The settings of the cleaner, from `log.cleaner.*`."""

from __future__ import annotations

from typing import NamedTuple


class CleanerSettings(NamedTuple):
    """Named like Kafka's keys after `log.cleaner.`, with Kafka's defaults."""

    threads: int = 1
    dedupe_buffer_size: int = 128 << 20
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000
    #: Of this machine, each of which has such settings: they share its cores.
    brokers: int = 1

    @property
    def map_bytes(self) -> int:
        """Memory for the offset map of one thread."""
        return self.dedupe_buffer_size // max(1, self.threads)
