"""What clients have used that the other brokers of the machine do not know yet. Pure.

The brokers of a machine are one server, so what clients use at one counts at all of them: each
tells the others the sums of what was used since it last did, by those who share a limit. So no
limit is divided, and who is at one broker alone has all of it.

Until a sum is told, clients may use at the others what was used up here. Rates make up for that:
who has used too much waits longer.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from drumlin.broker.quotas.limits import Owner
from drumlin.broker.quotas.usages import shortened

#: Sums beyond so many are not told: they count at this broker alone.
_KEPT_MAX: Final = 20_000

#: Takes what was used: by whom, how much, and their limit.
Tell: TypeAlias = Callable[[Owner, float, float], None]


class Used(NamedTuple):
    """What those who share a limit have used."""

    #: Of the quota.
    key: str
    owner: Owner
    amount: float
    bound: float


class Untold:
    """Sums of what was used, until they are told.

    Args:
        when_any: called when there is something to tell, after there was nothing.
    """

    def __init__(self, when_any: Callable[[], None]) -> None:
        self._when_any = when_any
        self._sums: dict[tuple[str, Owner], Used] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, key: str, owner: Owner, amount: float, bound: float) -> None:
        """Note what was used."""
        sums, place = self._sums, (key, shortened(owner))
        before = sums.get(place)
        if before is not None:
            sums[place] = Used(*place, before.amount + amount, bound)
        elif len(sums) < _KEPT_MAX:
            sums[place] = Used(*place, amount, bound)
            if len(sums) == 1:
                self._when_any()

    def take(self, most: int) -> list[Used]:
        """Take the first sums, to tell them."""
        taken = [self._sums[each] for each in islice(self._sums, most)]
        for each in taken:
            del self._sums[each.key, each.owner]
        return taken
