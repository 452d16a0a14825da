"""Which groups of a partition are being made groups of another kind, step by step.

The new group is made beside the old one, which serves its members meanwhile; if that changes, all
starts again. If this happens again and again, the old group is held: its members are told to retry
later, so that it ends. This owns which groups these are. How they are converted is not known here.
"""

from __future__ import annotations

from typing import Final

from drumlin.wire.error_codes import ErrorCode, KafkaError

#: How often a group is given the chance to stay as it is by itself.
_FREE_TRIES: Final = 2


class Conversions:
    """The groups that become groups of another kind; their deadlines wait.

    They are of one leadership: what a former one has begun holds up nothing.
    """

    def __init__(self) -> None:
        self._tries = dict[str, int]()
        self._held = set[str]()

    def begin(self, group_id: str) -> None:
        """A conversion begins; there is none of this group under way."""
        self._tries[group_id] = 0

    def begin_try(self, group_id: str) -> None:
        """All begins (anew); after some tries the group must stay as it is, whatever members want.

        It is so until `let_go` or `end`.
        """
        if self._tries[group_id] == _FREE_TRIES:
            self._held.add(group_id)
        self._tries[group_id] += 1

    def let_go(self, group_id: str) -> None:
        """The new group is there: it may change."""
        self._held.discard(group_id)

    def end(self, group_id: str) -> None:
        """The conversion is done, or given up."""
        self._tries.pop(group_id, None)
        self._held.discard(group_id)

    def is_under_way(self, group_id: str) -> bool:
        return group_id in self._tries

    def check_not_held(
        self, group_id: str, refusal: ErrorCode = ErrorCode.coordinator_load_in_progress
    ) -> None:
        """
        Raises:
            KafkaError: `refusal`, the group must stay as it is just now.
        """
        if group_id in self._held:
            raise KafkaError(refusal, f"group {group_id} becomes one of another kind")
