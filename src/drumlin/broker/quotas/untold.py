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

#: What a limit allows in this time is much, and is to be told soon.
_MUCH_S: Final = 0.1
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
        when_much: called when a sum is, or becomes, so large that others should know it soon.
    """

    def __init__(self, when_any: Callable[[], None], when_much: Callable[[], None]) -> None:
        self._when_any, self._when_much = when_any, when_much
        self._sums: dict[tuple[str, Owner], Used] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, key: str, owner: Owner, amount: float, bound: float) -> None:
        """Note what was used."""
        sums, place = self._sums, (key, shortened(owner))
        before = sums.get(place)
        if before is not None:
            amount += before.amount
        elif len(sums) >= _KEPT_MAX:
            return
        sums[place] = Used(*place, amount, bound)
        if amount >= bound * _MUCH_S:
            self._when_much()
        elif len(sums) == 1:
            self._when_any()

    def take(self, most: int) -> list[Used]:
        """Take the first sums, to tell them."""
        taken = [self._sums[each] for each in islice(self._sums, most)]
        for each in taken:
            del self._sums[each.key, each.owner]
        return taken
