"""The follower's side of an incremental fetch session (KIP-227): what the leader knows of it.

The leader remembers the partitions of a session and where each stands, so a request names only
those that are new in it, or have moved. Pure bookkeeping: it must neither ask a log nor send.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from drumlin.peer.follower_fetch import Key, Position

_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
#: More are named by later requests: encoding these takes about a millisecond.
_NAMED_MAX: Final = 1000


class Request(NamedTuple):
    """What the next request of a session says."""

    session_id: int
    epoch: int
    wanted: Sequence[tuple[Key, Position]]
    forgotten: Sequence[Key]
    is_complete: bool  # whether the leader knows of all partitions then


class FollowerSession:
    """The partitions that are fetched from one leader. One request at a time."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._positions: dict[Key, Position] = {}
        #: Those that the leader does not know, or knows elsewhere; in the order of requests.
        self._unsaid: dict[Key, None] = {}
        self._known: set[Key] = set()  # to the leader
        self._forgotten: dict[Key, None] = {}
        self._named: tuple[Key, ...] = ()  # by a request that begins a session

    def __len__(self) -> int:
        return len(self._positions)

    def asked(self, key: Key) -> Position | None:
        """Where the partition is fetched from, if it is."""
        return self._positions.get(key)

    def want(self, key: Key, position: Position) -> None:
        """Fetch a partition from here on."""
        if self._positions.get(key) != position:
            self._positions[key] = position
            self._unsaid[key] = None
        self._forgotten.pop(key, None)

    def drop(self, key: Key) -> None:
        """Fetch a partition no more."""
        if self._positions.pop(key, None) is None:
            return
        self._unsaid.pop(key, None)
        if key in self._known:
            self._forgotten[key] = None
        if not self._positions:
            self.restart()  # the leader ends a session without partitions

    def next(self) -> Request:
        """The next request. To be followed by `answered` or `restart`."""
        named = tuple(islice(self._unsaid, _NAMED_MAX))
        for key in named:
            del self._unsaid[key]
        forgotten = tuple(self._forgotten)
        self._forgotten.clear()
        self._known.difference_update(forgotten)
        self._known.update(named)
        self._named = named if self._epoch == _INITIAL_EPOCH else ()
        wanted = [(key, self._positions[key]) for key in named]
        return Request(self._id, self._epoch, wanted, forgotten, not self._unsaid)

    def answered(self, session_id: int) -> None:
        """The leader has answered the request, without an error for all of it."""
        if self._epoch != _INITIAL_EPOCH:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
            return
        self._id = session_id
        if session_id != _NO_SESSION:
            self._epoch = 1
            return
        self._known.clear()  # it keeps no session for us: each request names what it wants
        for key in self._named:
            if key in self._positions:
                self._unsaid.setdefault(key)

    def restart(self) -> None:
        """Begin a new session with the next request, in place of the old one if there still is."""
        self._epoch = _INITIAL_EPOCH
        self._known.clear()
        self._forgotten.clear()
        self._named = ()
        self._unsaid = dict.fromkeys(self._positions)
