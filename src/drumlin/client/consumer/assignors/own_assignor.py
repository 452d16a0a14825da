"""The interface of a custom assignor, which a program supplies.

Each member sends user data to the group's leader when it joins, and the leader's assignor returns
user data to each member. A custom assignor is cooperative: it must not assign a partition to one
member while another still owns it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from drumlin.client.consumer.assignors.members import Assignment, Member


class OwnAssignor(ABC):
    """A custom assignor. Its methods run in the client's loop, and must not block."""

    #: The name of the assignor in the members' subscriptions.
    name: str

    @abstractmethod
    def user_data(self) -> bytes:
        """The user data that this member sends to the group's leader when it joins."""

    @abstractmethod
    def assign(
        self, partition_counts: Mapping[str, int], members: list[Member]
    ) -> tuple[Assignment, Mapping[str, bytes]]:
        """As the leader: the assignment, and the user data for each member, by its id."""

    @abstractmethod
    def told(self, user_data: bytes) -> None:
        """Receive the user data from the leader's assignor, in each new generation."""
