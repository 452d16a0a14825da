"""The interface of an assignor that a program brings along, with data of its own.

Members of a group tell its leader by their user data what the assignor needs to know, and the
leader's assignor tells each member something in return. It is cooperative: a partition that a
member still owns must not be assigned to another one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from drumlin.client.consumer.assignors.members import Assignment, Member


class OwnAssignor(ABC):
    """A rule of the program's own. All of it runs in the client's loop, and must not block."""

    #: The name by which members agree on it.
    name: str

    @abstractmethod
    def user_data(self) -> bytes:
        """What this member tells the group's leader when it joins."""

    @abstractmethod
    def assign(
        self, partition_counts: Mapping[str, int], members: list[Member]
    ) -> tuple[Assignment, Mapping[str, bytes]]:
        """As the leader: the assignment, and what to tell each member, by its id."""

    @abstractmethod
    def told(self, user_data: bytes) -> None:
        """What the leader's assignor tells this member in a new generation."""
