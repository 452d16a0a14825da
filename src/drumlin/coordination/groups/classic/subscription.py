"""The topics that a consumer's metadata names; all that the broker looks at inside it.

Protocol type "consumer" starts its metadata with a version, an array of topics and user data;
later versions only add fields behind them.
"""

from __future__ import annotations

import struct
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def subscribed_topics(metadata: bytes) -> frozenset[str]:
    """
    Raises:
        ValueError: the bytes are no consumer's subscription.
    """
    try:
        (version,) = _INT16.unpack_from(metadata, 0)
        (count,) = _INT32.unpack_from(metadata, 2)
        position = 6
        topics = []
        for _ in range(count):
            (length,) = _INT16.unpack_from(metadata, position)
            position += 2 + length
            if length < 0 or position > len(metadata):
                raise ValueError(f"a topic name of {length} bytes")
            topics.append(metadata[position - length : position].decode())
    except struct.error:
        raise ValueError("the subscription is cut off") from None
    if version < 0 or count < 0:
        raise ValueError(f"version {version}, {count} topics")
    return frozenset(topics)
