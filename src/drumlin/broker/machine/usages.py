"""The usage of quotas, sent from each broker of a machine to the others.

The messages go through the process that has started the brokers. Owns when a message is sent, and
how large it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from drumlin.broker.machine.greeting import USED
from drumlin.broker.quotas.client_quotas import ClientQuotas
from drumlin.broker.quotas.limits import Other
from drumlin.broker.quotas.untold import Untold, Used
from drumlin.metadata.shared.channel import Channel, encode_notification

if TYPE_CHECKING:
    from drumlin.broker.machine.workers import Worker

#: The delay before usage is sent, and the pause between two messages. Until then, a client may use
#: the same share at each broker.
_PAUSE_S: Final = 0.05
#: The delay if the usage is large.
_SOON_S: Final = 0.002
#: The maximum number of sums in a message, which the receiver counts in one turn.
_SUMS_MAX: Final = 500
#: Nothing is sent to a broker that has left more than this unread.
_WAITING_BYTES_MAX: Final = 1 << 20


def exchange_usages(quotas: ClientQuotas, channel: Channel) -> None:
    """Send usage at this broker to the others, and count usage that they send."""

    def hear(sums: list[Used]) -> None:
        for each in sums:
            quotas.hear(each)

    channel.take(USED, hear, _read)
    quotas.share(_Telling(channel).untold)


class _Telling:
    """The messages of this broker."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.untold = Untold(partial(self._tell_in, _PAUSE_S), partial(self._tell_in, _SOON_S))
        self._next: asyncio.TimerHandle | None = None

    def _tell_in(self, pause_s: float) -> None:
        """Tell after this time, unless it is to be told before."""
        loop = asyncio.get_running_loop()
        due_s = loop.time() + pause_s
        if self._next is not None:
            if self._next.when() <= due_s:
                return
            self._next.cancel()
        self._next = loop.call_at(due_s, self._tell)

    def _tell(self) -> None:
        self._next = None
        if not self._channel.waiting_bytes:  # else it is told later, with what comes meanwhile
            self._channel.tell(USED, _written(self.untold.take(_SUMS_MAX)))
        if self.untold:
            self._tell_in(_PAUSE_S)


def relay(workers: Mapping[int, Worker], teller: int, sums: Any) -> None:
    """Tell all brokers but one what clients have used at that one."""
    frame = encode_notification(USED, sums)
    for node_id, worker in workers.items():
        channel = worker.channel
        if node_id != teller and channel and channel.waiting_bytes < _WAITING_BYTES_MAX:
            channel.send(frame)


def _written(sums: list[Used]) -> list[list[Any]]:
    def name(of: str | Other) -> str | None:
        return None if isinstance(of, Other) else of

    return [[key, *map(name, owner), amount, bound] for key, owner, amount, bound in sums]


def _read(sums: list[list[Any]]) -> list[Used]:
    def name(written: str | None) -> str | Other:
        return Other.NONE if written is None else written

    return [
        Used(key, (name(user), name(client_id)), amount, bound)
        for key, user, client_id, amount, bound in sums
    ]
