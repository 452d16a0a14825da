"""The usage of quotas at this broker that it has not yet sent to the machine's others. Pure.

The brokers of a machine are one server, so usage at one broker counts at all of them. Each sends
the others the sums since its last message, one sum for all clients that share a limit. So no limit
is divided, and clients that use one broker only have all of it.

Until a sum is sent, clients may use the same share at other brokers, too. Rates make up for that:
a client that has used too much waits longer.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, NamedTuple, TypeAlias

from drumlin.broker.quotas.limits import Owner, shortened

#: A sum of at least what the limit allows in this time is sent soon.
_MUCH_S: Final = 0.1
#: The maximum number of sums. Usage beyond them counts at this broker only.
_KEPT_MAX: Final = 20_000

#: Called with usage: its owner, the amount, and the owner's limit.
Tell: TypeAlias = Callable[[Owner, float, float], None]


class Used(NamedTuple):
    """The usage of the clients that share a limit."""

    #: The key of the quota.
    key: str
    owner: Owner
    amount: float
    bound: float


class Untold:
    """Sums of usage, until they are sent.

    Args:
        when_any: called when the first sum is added.
        when_much: called when a sum is, or becomes, so large that it should be sent soon.
    """

    def __init__(self, when_any: Callable[[], None], when_much: Callable[[], None]) -> None:
        self._when_any, self._when_much = when_any, when_much
        self._sums: dict[tuple[str, Owner], Used] = {}

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, key: str, owner: Owner, amount: float, bound: float) -> None:
        """Add usage to its sum."""
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
        """Remove and return the first sums, to send them."""
        taken = [self._sums[each] for each in islice(self._sums, most)]
        for each in taken:
            del self._sums[each.key, each.owner]
        return taken
