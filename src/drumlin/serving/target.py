"""The interface of stores that keep topics. Each kind of store has its own file.

The store fences writers. A partition belongs to the latest claim: each claim gets a higher term,
and each atomic write includes a check of the term, so writes with a lower term are refused. So a
process that was paused while another one took over changes nothing when it wakes up.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple, Protocol, runtime_checkable

from drumlin.client.errors import ClientError

#: Precedes the format in the description of a table.
FORMAT: Final = " as "
#: A key or a value in the store.
Cell = bytes | str


class Fenced(ClientError):
    """Another process has claimed the partition meanwhile; nothing was written."""


class ReplacementLost(ClientError):
    """The store has lost the collected rows of a replacement; the old rows are still there."""


class TargetRefused(ClientError):
    """The table in the store does not belong to this group and topic."""


def check_kept(where: str, found: str, kept: str) -> None:
    """Compare the store's description of a table with this process's topic, group and format.

    Raises:
        TargetRefused: the table has another topic, group or format.
    """
    if found != kept:
        raise TargetRefused(f"{where} has {found}, not {kept}")


def check_owner(where: str, found: str, kept: str) -> None:
    """Check topic and group only: a status command need not name the format.

    Raises:
        TargetRefused: the table has another topic or group.
    """
    if not found.startswith(f"{kept}{FORMAT}"):
        check_kept(where, found, kept)


class Position(NamedTuple):
    """The store's position in a partition, and the topic it belongs to."""

    topic_id: str | None
    #: The offset of the next record.
    offset: int
    leader_epoch: int
    #: A `Moment` as text: the last one at which the log was known to end at or before `offset`.
    at_end: str


class Claim(NamedTuple):
    """A claimed partition. `position` is None if the store has no position for it."""

    term: int
    position: Position | None


class Replacement(Protocol):
    """A new set of all rows of a partition; `commit` replaces the old rows with it."""

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        """Add rows, whose keys were not added before.

        Raises:
            Fenced: the partition was claimed again.
            ReplacementLost: the rows must be added again to a new replacement.
        """

    def commit(self, position: Position) -> None:
        """Replace all rows of the partition with these.

        Raises:
            Fenced: the partition was claimed again.
            EqualKeys: another partition has one of the keys.
            ReplacementLost: begin again.
        """


class Target(Protocol):
    """A table in a store. Used by one thread."""

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        """The stored positions of these partitions, whoever has claimed them.

        Raises:
            TargetRefused: they are of another topic or group.
        """

    def claim(self, partition: int) -> Claim:
        """Claim the partition under a new term."""

    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        """Write rows and the position atomically; a value of None deletes the key's row.

        Raises:
            Fenced: the partition was claimed again.
            EqualKeys: another partition has one of the keys.
        """

    def replace(self, partition: int, term: int) -> Replacement:
        """Begin to replace a partition's rows.

        Raises:
            Fenced: the partition was claimed again.
        """

    def close(self) -> None:
        """Close the store; everything applied stays."""


@runtime_checkable
class Collecting(Protocol):
    """A target that collects the changes of `apply`. After a crash they are read again."""

    def flush(self, partition: int, term: int, *, now: bool) -> None:
        """Store the collected changes: at once, or with `now` False only if it is time.

        Raises:
            Fenced: the partition was claimed again.
        """
