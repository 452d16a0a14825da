"""Limits of the batches that are written to `__consumer_offsets`. Writes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from drumlin.coordination.log_errors import as_told
from drumlin.wire.errors import ErrorCode, KafkaError

#: Of a batch: for its header, and for what compression adds where it does not help.
_SPARE_PART: Final = 64


def room(limit_bytes: int) -> int:
    """How many bytes of records go into a batch of at most `limit_bytes`."""
    return limit_bytes - limit_bytes // _SPARE_PART


def check_sizes(batches: Sequence[bytearray], limit_bytes: int) -> None:
    """
    Raises:
        KafkaError: one of several is larger than the topic allows; a single one it will refuse.
    """
    if len(batches) > 1 and max(map(len, batches)) > limit_bytes:
        raise as_told(KafkaError(ErrorCode.message_too_large))
