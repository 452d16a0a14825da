"""The settings of the cleaner, from `log.cleaner.*`."""

from __future__ import annotations

from typing import NamedTuple


class CleanerSettings(NamedTuple):
    """The settings, named like Kafka's keys after `log.cleaner.`, with Kafka's defaults."""

    threads: int = 1
    dedupe_buffer_size: int = 128 << 20
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = 1.7976931348623157e308
    backoff_ms: int = 15_000
    #: The number of brokers on this machine, which share its cores.
    brokers: int = 1

    @property
    def map_bytes(self) -> int:
        """The memory for one thread's offset map."""
        return self.dedupe_buffer_size // max(1, self.threads)
