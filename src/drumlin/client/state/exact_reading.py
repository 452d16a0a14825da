"""Reads logs so that their records give the exact state, or fails.

Only leaders are read, as the claims (`state_claims.py`) are about their logs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING

from drumlin.client.errors import RecordsMissing
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.read import reader
from drumlin.client.read.range_stream import OffsetRange
from drumlin.client.state.exact_states import confirm_states, exact_from
from drumlin.client.state.state_claims import Claims, incomplete
from drumlin.peer.broker_connections import BrokerConnections

if TYPE_CHECKING:
    import pyarrow as pa


class ExactReader:
    """Reads the logs of claimed states, in a client's thread and the caller's."""

    def __init__(self, thread: CoreLoop, connections: BrokerConnections, claims: Claims) -> None:
        """`claims`: the reason for exactness, for each partition that will be read."""
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
            reported = self._thread.run(exact_from(self._connections, [place]))
            known = reported[place].exact_from if place in reported else None
            raise incomplete(claimed, known, missing) from missing

    def confirm(self, wanted: OffsetRange) -> None:
        """Check a range after reading it, before its records are used.

        Raises:
            StateNotExact: the records may not give the exact state.
        """
        place = wanted.place
        self._thread.run(confirm_states(self._connections, {place: self._claims[place]}))
