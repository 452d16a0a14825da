"""The client that commits or fetches offsets, and what the group answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode

#: For a topic id and a partition: NONE if an offset of it may be committed.
OffsetCheck = Callable[[UUID | None, int], ErrorCode]


class Committer(NamedTuple):
    """The client that commits or fetches offsets: a member, or one that is no member."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    """The generation of a classic group, else the member's epoch. Negative: no member."""
    is_transactional: bool = False
    version: int = 10
    """The version of the OffsetCommit; for a TxnOffsetCommit it does not matter."""
