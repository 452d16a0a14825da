"""The client that commits or fetches offsets, and the group's check of its commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode

#: Returns NONE for a topic id and a partition if its offset may be committed.
OffsetCheck = Callable[[UUID | None, int], ErrorCode]


class Committer(NamedTuple):
    """The client that commits or fetches offsets: a member of the group or not."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    """The generation of a classic group, else the member's epoch. Negative: no member."""
    is_transactional: bool = False
    version: int = 10
    """The version of the OffsetCommit; for a TxnOffsetCommit it does not matter."""
