"""The protocols that members of a group support, and the election among those that all support.

Members of a group are configured alike, so they name only a few different lists of protocols. This
code examines the different lists, not the members. The size of the lists is limited, so that one
turn of the loop is enough.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drumlin.coordination.counts import add
from drumlin.coordination.groups.every_kind.messages import Protocols

#: The maximum number of names in all different lists; examining them takes a millisecond.
NAMES_MAX: Final = 20_000


class Preferences:
    """The lists of protocols that members name, with the number of members for each."""

    def __init__(self) -> None:
        self._lists: dict[tuple[str, ...], int] = {}
        """List of protocols, in a member's order -> the number of members that name this list."""
        self._supporters: dict[str, int] = {}
        self._names = 0

    def count(self, protocols: Protocols, difference: int) -> None:
        """Add to the number of members with these protocols, or subtract from it."""
        names = _names(protocols)
        before = len(self._lists)
        add(self._lists, names, difference)
        self._names += (len(self._lists) - before) * len(names)
        for name in set(names):
            add(self._supporters, name, difference)

    def have_room_for(self, protocols: Protocols) -> bool:
        """Whether a member may name this list: it is known already, or it fits within the limit."""
        names = _names(protocols)
        return names in self._lists or self._names + len(names) <= NAMES_MAX

    def common(self, names: Iterable[str], members: int) -> set[str]:
        """The protocols that all members support; `members` is their number."""
        return {name for name in names if self._supporters.get(name, 0) == members}

    def elect(self, members: int) -> str:
        """The protocol with the most votes: each member votes for its first protocol that all
        members support.
        """
        common = self.common(next(iter(self._lists)), members)
        if len(common) == 1:
            return common.pop()
        votes: dict[str, int] = {}
        for names, count in self._lists.items():
            add(votes, next(filter(common.__contains__, names)), count)
        return max(votes, key=votes.__getitem__)


def _names(protocols: Protocols) -> tuple[str, ...]:
    return tuple([name for name, _ in protocols])
