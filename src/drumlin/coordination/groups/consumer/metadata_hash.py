"""A hash of the topics that a group reads, kept in the log to notice changes.

Apache Kafka uses another hash. A group that moves between the two gets one more epoch; nothing else
depends on the hash.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from operator import attrgetter
from typing import Final

from drumlin.coordination.groups.every_kind.group_context import Topic

_INT64: Final = struct.Struct(">q")
_COUNT: Final = struct.Struct(">i")
#: Sort key: integers compare faster than UUIDs, in the same order.
_order_of: Final = attrgetter("topic_id.int")


def hash_of(topics: Iterable[Topic]) -> int:
    """A signed hash of 64 bits, 0 if there are no topics. The order of topics makes no
    difference.
    """
    digest = blake2b(digest_size=_INT64.size)
    is_empty = True
    for topic in sorted(topics, key=_order_of):
        is_empty = False
        digest.update(topic.topic_id.bytes + _COUNT.pack(topic.partition_count))
    return 0 if is_empty else int(_INT64.unpack(digest.digest())[0])
