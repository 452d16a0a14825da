"""The topics that members of a share group subscribe to, as they are now. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

from drumlin.coordination.groups.surroundings import Topic, Topics

_HASH_BYTES: Final = 8


def subscribed_topics(topics: Topics, names: Iterable[str]) -> list[Topic]:
    """Those that are there, by name."""
    found = (topics.by_name(name) for name in sorted(names))
    return [topic for topic in found if topic is not None]


def metadata_hash(topics: Sequence[Topic]) -> int:
    """A signed 64-bit number that differs when a topic comes, goes or grows; 0 for none.

    It is compared with what this broker has written itself. Another broker's differs, and then
    there is one assignment more.
    """
    if not topics:
        return 0
    said = repr([(topic.name, topic.topic_id.hex, topic.partition_count) for topic in topics])
    digest = hashlib.blake2b(said.encode(), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big", signed=True)
