"""The initial contents of a new metadata store that takes over those of another one.

Plain values; other code decides what may be taken over, and from where.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from uuid import UUID

    from drumlin.metadata.image import Resource, TopicState


@dataclass(frozen=True, slots=True)
class FirstContents:
    """The metadata of a new store.

    deleted: deleted topics that may have folders left.
    """

    topics: tuple[TopicState, ...]
    configs: Mapping[Resource, Mapping[str, str]]
    next_producer_id: int
    deleted: frozenset[UUID] = frozenset()
