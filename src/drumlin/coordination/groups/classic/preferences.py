"""The protocols that the members of a group name: which ones all support, and which one they elect.

Members name one of a few lists, as they are configured alike. So only these lists are looked at,
not all members: there may be as many as can be looked at in a turn of the loop, and no more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drumlin.coordination.counts import add
from drumlin.coordination.groups.every_kind.messages import Protocols

#: In all different lists together: a millisecond's worth.
NAMES_MAX: Final = 20_000


class Preferences:
    """Counts of the lists that members name; not which member named what."""

    def __init__(self) -> None:
        self._lists: dict[tuple[str, ...], int] = {}
        """How many members name just these protocols, in this order."""
        self._supporters: dict[str, int] = {}
        self._names = 0

    def count(self, protocols: Protocols, difference: int) -> None:
        """Count one member with these protocols more, or less."""
        names = _names(protocols)
        before = len(self._lists)
        add(self._lists, names, difference)
        self._names += (len(self._lists) - before) * len(names)
        for name in set(names):
            add(self._supporters, name, difference)

    def have_room_for(self, protocols: Protocols) -> bool:
        """Whether a member may name these: as others do, or one more list that is not too long."""
        names = _names(protocols)
        return names in self._lists or self._names + len(names) <= NAMES_MAX

    def common(self, names: Iterable[str], members: int) -> set[str]:
        """The protocols that all members support; `members` is their number."""
        return {name for name in names if self._supporters.get(name, 0) == members}

    def elect(self, members: int) -> str:
        """Each member votes for its favourite among those that all support; most votes win."""
        common = self.common(next(iter(self._lists)), members)
        if len(common) == 1:
            return common.pop()
        votes: dict[str, int] = {}
        for names, count in self._lists.items():
            add(votes, next(filter(common.__contains__, names)), count)
        return max(votes, key=votes.__getitem__)


def _names(protocols: Protocols) -> tuple[str, ...]:
    return tuple([name for name, _ in protocols])
