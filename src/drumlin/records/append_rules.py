"""What a topic's configuration says about the batches that are appended to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_DECOMPRESSED_BYTES_MIN: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class AppendRules:
    """Named and valued like the keys of the configuration; the defaults are Kafka's."""

    max_message_bytes: int = 1048588
    compression_type: str = "producer"  # or the name of a codec, or "uncompressed"
    compression_level: int | None = None
    timestamp_type: str = "CreateTime"  # or "LogAppendTime"
    timestamp_before_max_ms: int = 2**63 - 1
    timestamp_after_max_ms: int = 3_600_000
    is_compacted: bool = False

    @property
    def decompressed_bytes_max(self) -> int:
        """How far one batch may unfold while it is checked."""
        return max(_DECOMPRESSED_BYTES_MIN, 8 * self.max_message_bytes)
