"""Reads logs so that what was read tells a state exactly, or fails.

Only leaders are read: the claims (`state_claims.py`) are about what they hold.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumlin.client.errors import RecordsMissing
from drumlin.client.loop_thread import LoopThread
from drumlin.client.read import reader
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.state.exact_states import confirm_states, exact_from
from drumlin.client.state.state_claims import Claims, incomplete
from drumlin.peer.broker_connections import BrokerConnections

if TYPE_CHECKING:
    import pyarrow as pa


class ExactReader:
    """Reads what was claimed, in a client's thread and the caller's."""

    def __init__(self, thread: LoopThread, connections: BrokerConnections, claims: Claims) -> None:
        """`claims`: why the states are exact, for each partition that will be read."""
        self._thread = thread
        self._connections = connections
        self._claims = claims

    def read(self, wanted: OffsetRange, options: reader.ReadOptions) -> Iterator[pa.RecordBatch]:
        """The records of a range.

        Raises:
            StateNotExact: records are missing.
        """
        place = wanted.place
        claimed = self._claims[place]
        options = dataclasses.replace(options, without_gaps=claimed.needs_all)
        try:
            yield from reader.read_ranges(
                self._thread, self._connections, [wanted], options, leaders_only=True
            )
        except RecordsMissing as missing:
            told = self._thread.run(exact_from(self._connections, [place]))
            known = told[place].exact_from if place in told else None
            raise incomplete(claimed, known, missing) from missing

    def confirm(self, wanted: OffsetRange) -> None:
        """To be called when a range was read, before anything is made of it.

        Raises:
            StateNotExact: what was read may not tell the state.
        """
        place = wanted.place
        self._thread.run(confirm_states(self._connections, {place: self._claims[place]}))
