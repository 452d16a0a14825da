"""The follower's side of an incremental fetch session (KIP-227): the state known to the leader.

The leader remembers the partitions of a session and the position of each, so a request names only
partitions that are new in the session or whose position has changed. Requests may be sent before
earlier ones are answered. Pure bookkeeping: no log is read, and no request sent here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from drumlin.peer.follower_fetch import Key, Position

_NO_SESSION: Final = 0
_INITIAL_EPOCH: Final = 0
_EPOCH_MAX: Final = 2**31 - 1
#: The partitions that one request names, which takes about a millisecond to encode; later requests
#: name the others.
_NAMED_MAX: Final = 1000


class Request(NamedTuple):
    """The contents of one fetch request."""

    number: int  # ascending across sessions
    session_id: int
    epoch: int
    wanted: Sequence[tuple[Key, Position]]
    forgotten: Sequence[Key]
    is_complete: bool  # whether the leader knows all partitions after this request


class FollowerSession:
    """The partitions that are fetched from one leader, and the positions sent to it."""

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _INITIAL_EPOCH
        self._number = 0
        self._first_number = 1  # the number of this session's first request
        self._positions: dict[Key, Position] = {}
        #: Partitions whose position has to be sent, in the order of sending.
        self._unsent: dict[Key, None] = {}
        #: Partition -> the number of the request that sent its current position.
        self._sent_in: dict[Key, int] = {}
        #: Partitions in the leader's session, which has this position or an older one.
        self._known: set[Key] = set()
        self._forgotten: dict[Key, None] = {}

    def __len__(self) -> int:
        return len(self._positions)

    def want(self, key: Key, position: Position) -> None:
        """Fetch a partition from this position on."""
        if self._positions.get(key) != position:
            self._positions[key] = position
            self._unsent[key] = None
            self._sent_in.pop(key, None)
        self._forgotten.pop(key, None)

    def report_again(self, key: Key) -> None:
        """Send the position of a partition, if it is fetched, although the leader knows it."""
        if key in self._positions:
            self._unsent[key] = None
            self._sent_in.pop(key, None)

    def drop(self, key: Key) -> None:
        """Stop fetching a partition."""
        if self._positions.pop(key, None) is None:
            return
        self._unsent.pop(key, None)
        self._sent_in.pop(key, None)
        if key in self._known:
            self._forgotten[key] = None
        if not self._positions:
            self.restart()  # a leader closes a session without partitions

    # -- requests ----------------------------------------------------------------------

    @property
    def has_updates(self) -> bool:
        """Whether the next request has partitions or positions to send."""
        return bool(self._unsent)

    @property
    def is_starting(self) -> bool:
        """Whether the first request is not answered yet; no other may be sent until then."""
        return self._epoch == _INITIAL_EPOCH

    def next(self) -> Request:
        """Build the next request. Call `answered` or `restart` afterwards."""
        named = tuple(islice(self._unsent, _NAMED_MAX))
        self._number += 1
        for key in named:
            del self._unsent[key]
            self._sent_in[key] = self._number
        forgotten = tuple(self._forgotten)
        self._forgotten.clear()
        self._known.difference_update(forgotten)
        self._known.update(named)
        wanted = [(key, self._positions[key]) for key in named]
        epoch = self._epoch
        if epoch != _INITIAL_EPOCH:
            self._epoch = 1 if epoch == _EPOCH_MAX else epoch + 1
        return Request(self._number, self._id, epoch, wanted, forgotten, not self._unsent)

    def is_current(self, request: Request) -> bool:
        """Whether `request` belongs to this session, not to one before a restart."""
        return request.number >= self._first_number

    def answered(self, request: Request, session_id: int) -> None:
        """Note a response to a request of this session, without a top-level error."""
        if request.epoch != _INITIAL_EPOCH:
            return
        self._id = session_id
        if session_id != _NO_SESSION:
            self._epoch = 1
            return
        self._known.clear()  # the leader keeps no session, so each request names all partitions
        for key, position in request.wanted:
            if self._positions.get(key) == position:
                self._unsent.setdefault(key)

    def asked(self, key: Key, request: Request) -> Position | None:
        """The position that `request` has asked for; None if it has changed since."""
        sent_in = self._sent_in.get(key)
        if sent_in is None or sent_in > request.number:
            return None
        return self._positions[key]

    def restart(self) -> None:
        """Start a new session with the next request, in place of the leader's old one."""
        self._epoch = _INITIAL_EPOCH
        self._first_number = self._number + 1
        self._known.clear()
        self._sent_in.clear()
        self._forgotten.clear()
        self._unsent = dict.fromkeys(self._positions)
