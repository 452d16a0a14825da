"""The client that commits or fetches offsets, and the check of its commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple
from uuid import UUID

from drumlin.wire.error_codes import ErrorCode

#: Topic id and partition -> NONE if the partition's offset may be committed, or else an error code.
OffsetCheck = Callable[[UUID | None, int], ErrorCode]


class Committer(NamedTuple):
    """The client that commits or fetches offsets, which may be a member of the group or not."""

    member_id: str
    group_instance_id: str | None
    generation_id: int
    """The generation of a classic group, or else the member's epoch. Negative if there is no
    member.
    """
    is_transactional: bool = False
    version: int = 10
    """The version of the OffsetCommit request; for TxnOffsetCommit it does not matter."""
