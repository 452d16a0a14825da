"""Reads the topics in a consumer's metadata; the broker ignores the rest of the metadata.

Protocol type "consumer" starts its metadata with a version, an array of topics and user data;
later versions only add fields after them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

CONSUMER_PROTOCOL_TYPE: Final = "consumer"

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")

#: The names read in one step.
_READ_AT_ONCE: Final = 64


def add_topics(metadata: bytes, topics: set[str]) -> Iterator[None]:
    """Add the topics in the metadata to `topics`. Yields if there are very many.

    Raises:
        ValueError: the bytes are not a consumer's subscription.
    """
    try:
        (version,) = _INT16.unpack_from(metadata, 0)
        (count,) = _INT32.unpack_from(metadata, 2)
        position = 6
        for number in range(count):
            if number % _READ_AT_ONCE == _READ_AT_ONCE - 1:
                yield
            (length,) = _INT16.unpack_from(metadata, position)
            position += 2 + length
            if length < 0 or position > len(metadata):
                raise ValueError(f"a topic name of {length} bytes")
            topics.add(metadata[position - length : position].decode())
    except struct.error:
        raise ValueError("the subscription is cut off") from None
    if version < 0 or count < 0:
        raise ValueError(f"version {version}, {count} topics")
