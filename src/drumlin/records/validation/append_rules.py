"""The rules for appended batches in a topic's configuration."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any, Final

from drumlin.records.kernels.layout import (
    AFTER_MAX_MS,
    BEFORE_MAX_MS,
    KEYS_REQUIRED,
    LIMITS_WIDTH,
    MAX_BYTES,
)

_DECOMPRESSED_BYTES_MIN: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class AppendRules:
    """The rules, named like the configuration keys, with Kafka's defaults."""

    max_message_bytes: int = 1048588
    compression_type: str = "producer"  # or the name of a codec, or "uncompressed"
    compression_level: int | None = None
    timestamp_type: str = "CreateTime"  # or "LogAppendTime"
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False
    #: The limits for the kernel `inspect`; None if the broker has to change every batch.
    limits: Any = field(init=False, repr=False, compare=False, default=None)
    limits_address: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        keeps_codec = self.compression_type in ("producer", "uncompressed")
        if keeps_codec and self.timestamp_type == "CreateTime":
            limits = (ctypes.c_int64 * LIMITS_WIDTH)()
            limits[MAX_BYTES] = self.max_message_bytes
            limits[BEFORE_MAX_MS] = self.timestamp_before_max_ms
            limits[AFTER_MAX_MS] = self.timestamp_after_max_ms
            limits[KEYS_REQUIRED] = self.is_compacted
            object.__setattr__(self, "limits", limits)
            object.__setattr__(self, "limits_address", ctypes.addressof(limits))

    @property
    def decompressed_bytes_max(self) -> int:
        """The maximum size of a batch that is decompressed for validation."""
        return max(_DECOMPRESSED_BYTES_MIN, 8 * self.max_message_bytes)
