"""The follower's side of an incremental fetch session (KIP-227): what the leader knows of it.

The leader remembers the partitions of a session and where each stands, so a request names only
those that are new in it, or have moved. Requests may follow each other before they are answered.
Pure bookkeeping: it must neither ask a log nor send.
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
    """What a request of a session says."""

    number: int  # later ones have larger ones, in other sessions too
    session_id: int
    epoch: int
    wanted: Sequence[tuple[Key, Position]]
    forgotten: Sequence[Key]
    is_complete: bool  # whether the leader knows of all partitions then


class FollowerSession:
    """The partitions that are fetched from one leader."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._number = 0
        self._first_number = 1  # of this session's requests
        self._positions: dict[Key, Position] = {}
        #: Those whose position the leader does not know; in the order of requests.
        self._unsaid: dict[Key, None] = {}
        self._said_in: dict[Key, int] = {}  # the number of the request that told the position
        self._known: set[Key] = set()  # to the leader, there or elsewhere
        self._forgotten: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._positions)

    def want(self, key: Key, position: Position) -> None:
        """Fetch a partition from here on."""
        if self._positions.get(key) != position:
            self._positions[key] = position
            self._unsaid[key] = None
            self._said_in.pop(key, None)
        self._forgotten.pop(key, None)

    def say_again(self, key: Key) -> None:
        """Name a partition, if it is fetched, though the leader knows where it stands."""
        if key in self._positions:
            self._unsaid[key] = None
            self._said_in.pop(key, None)

    def drop(self, key: Key) -> None:
        """Fetch a partition no more."""
        if self._positions.pop(key, None) is None:
            return
        self._unsaid.pop(key, None)
        self._said_in.pop(key, None)
        if key in self._known:
            self._forgotten[key] = None
        if not self._positions:
            self.restart()  # the leader ends a session without partitions

    # -- requests ----------------------------------------------------------------------

    @property
    def has_news(self) -> bool:
        """Whether a request would tell the leader of partitions or positions."""
        return bool(self._unsaid)

    @property
    def is_beginning(self) -> bool:
        """Whether the leader has still to answer the first request: no other may come meanwhile."""
        return self._epoch == _INITIAL_EPOCH

    def next(self) -> Request:
        """The next request. To be followed by `answered` or `restart`."""
        named = tuple(islice(self._unsaid, _NAMED_MAX))
        self._number += 1
        for key in named:
            del self._unsaid[key]
            self._said_in[key] = self._number
        forgotten = tuple(self._forgotten)
        self._forgotten.clear()
        self._known.difference_update(forgotten)
        self._known.update(named)
        wanted = [(key, self._positions[key]) for key in named]
        epoch = self._epoch
        if epoch != _INITIAL_EPOCH:
            self._epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return Request(self._number, self._id, epoch, wanted, forgotten, not self._unsaid)

    def is_current(self, request: Request) -> bool:
        """Whether it is one of this session, rather than of one that was given up."""
        return request.number >= self._first_number

    def answered(self, request: Request, session_id: int) -> None:
        """The leader has answered a request of this session, without an error for all of it."""
        if request.epoch != _INITIAL_EPOCH:
            return
        self._id = session_id
        if session_id != _NO_SESSION:
            self._epoch = 1
            return
        self._known.clear()  # it keeps no session for us: each request names what it wants
        for key, position in request.wanted:
            if self._positions.get(key) == position:
                self._unsaid.setdefault(key)

    def asked(self, key: Key, request: Request) -> Position | None:
        """Where an answer to `request` begins; None if the partition has moved otherwise since."""
        said_in = self._said_in.get(key)
        if said_in is None or said_in > request.number:
            return None
        return self._positions[key]

    def restart(self) -> None:
        """Begin a new session with the next request, in place of the old one if there still is."""
        self._epoch = _INITIAL_EPOCH
        self._first_number = self._number + 1
        self._known.clear()
        self._said_in.clear()
        self._forgotten.clear()
        self._unsaid = dict.fromkeys(self._positions)
