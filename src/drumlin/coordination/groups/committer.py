"""Who commits or fetches offsets, and what the group says to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from drumlin.wire.errors import ErrorCode

#: For a topic id and a partition: NONE if an offset of it may be committed.
OffsetCheck = Callable[[UUID | None, int], ErrorCode]


class Committer(NamedTuple):
    """Who commits offsets, or fetches them: a member, or a client that is not one."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    """Of a classic group; in other groups it is the member's epoch. Negative: no member."""
    is_transactional: bool = False
    version: int = 10
    """Of the OffsetCommit; of TxnOffsetCommit it does not matter."""
