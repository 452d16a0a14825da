"""The replica to read from: the leader, or a nearer one that the leader names (KIP-392).

Traffic between zones costs money, so a broker with a replica selector sends a client to a
follower in the rack that the client names. Plain state without I/O.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

#: How long to read from the leader after a follower failed, as it would name the same follower.
_AFTER_FAILURE_S: Final = 30.0
#: How long until the leader is asked again for a nearer follower.
_FOLLOWED_S: Final = 300.0


class NearestReplica:
    """The nearest replica of one partition. Without a rack, only the leader is read."""

    def __init__(self, rack: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._rack = rack
        self._clock = clock
        self._node_id: int | None = None
        self._until = 0.0  # the end of reading from the follower, or else from the leader

    @property
    def node_id(self) -> int | None:
        """The follower to read from; None: the leader."""
        if self._node_id is not None and self._clock() >= self._until:
            self._node_id = None
        return self._node_id

    @property
    def rack(self) -> str:
        """The rack to send to a broker; empty if the leader itself must answer."""
        return self._rack if self._node_id is not None or self._clock() >= self._until else ""

    def follow(self, preferred: int) -> None:
        """Note the replica that the leader has named; below 0: the leader itself."""
        if preferred >= 0:
            self._node_id, self._until = preferred, self._clock() + _FOLLOWED_S

    def give_up(self) -> None:
        """Note that the follower has failed."""
        self._node_id, self._until = None, self._clock() + _AFTER_FAILURE_S
