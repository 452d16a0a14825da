"""What a store must be able to do that a topic is kept in. One file for each kind of store.

The store decides. A partition belongs to who has claimed it last: each claim gets a higher term,
and whatever is written under a lower one is refused in the same atomic write. So a process that was
paused while another one took over changes nothing when it wakes up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from drumlin.client.errors import ClientError

#: A key or a value, as the store is to have it.
Cell = bytes | str


class Fenced(ClientError):
    """Another process has claimed the partition since; nothing was written."""


class TargetRefused(ClientError):
    """The store has something else in the table's place."""


class Position(NamedTuple):
    """Up to where a partition is in the store, and of which topic."""

    topic_id: str | None
    #: Of the next record.
    offset: int
    leader_epoch: int
    #: By the wall clock: when the log was last known to end at `offset` or before.
    ended_ms: int


class Claim(NamedTuple):
    """`position` is None where the store has nothing of the partition."""

    term: int
    position: Position | None


class Replacement(Protocol):
    """All rows of a partition anew; nobody sees them before `commit`."""

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        """Rows with new keys.

        Raises:
            Fenced: the partition was claimed again.
        """

    def commit(self, position: Position) -> None:
        """Show these rows in place of those that the partition has, and no other.

        Raises:
            Fenced: the partition was claimed again.
            EqualKeys: another partition has one of the keys.
        """


class Target(Protocol):
    """A table in a store. Used by one thread."""

    #: The most records whose changes are applied at once; None: as many as are fetched.
    rows_at_a_time: int | None

    def positions(self) -> dict[int, Position]:
        """Of all partitions of which the store has something, whoever keeps them."""

    def claim(self, partition: int) -> Claim:
        """Make the partition ours."""

    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        """In one atomic write: rows with these values, none where a value is None; the position.

        Raises:
            Fenced: the partition was claimed again.
            EqualKeys: another partition has one of the keys.
        """

    def replace(self, partition: int, term: int) -> Replacement:
        """Begin to put a partition's rows anew.

        Raises:
            Fenced: the partition was claimed again.
        """

    def close(self) -> None:
        """Let the store go; what was applied stays."""
