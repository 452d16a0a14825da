"""Loads a topic's state into rows. Only following the log afterwards shows when they are exact."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.client.admin.admin import describe_topics
from drumlin.client.errors import (
    BrokerUnreachable,
    ClientError,
    OffsetOutOfRange,
    RequestTimedOut,
    StateNotExact,
)
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.read.offsets import list_offsets
from drumlin.client.state.exact_reading import ExactReader
from drumlin.client.state.exact_states import claim_states, log_facts
from drumlin.client.state.snapshot_ranges import ranges_until
from drumlin.client.state.snapshots import SnapshotOptions, StateReader, schema_of
from drumlin.client.state.state_claims import LogFacts
from drumlin.client.table.exactness import Exactness
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation

if TYPE_CHECKING:
    import pyarrow as pa

ISOLATION: Final[Isolation] = "read_committed"
#: Errors of an unreachable broker; the request is retried after a pause.
PASSES: Final = (BrokerUnreachable, RequestTimedOut)
#: Errors of a log that has changed while it was read.
OVERTAKEN: Final = (OffsetOutOfRange, StateNotExact)
PAUSE_S: Final = 0.5
_OVERTAKEN_MAX: Final = 5


class TopicNow(NamedTuple):
    """A topic's id and partition count, to detect that it was recreated or has more partitions."""

    topic_id: str | None
    partition_count: int


class Looks(NamedTuple):
    """Facts about the logs of some partitions, and their end offsets."""

    facts: dict[TopicPartition, LogFacts]
    ends: dict[TopicPartition, int]


class LoadsInVain:
    """Counts consecutive loads that failed because the log has changed. Too many are an error."""

    def __init__(self) -> None:
        self._count = 0

    def check(self, error: ClientError) -> None:
        """Count a load's error; returns normally if the load should be retried.

        Raises:
            OffsetOutOfRange, StateNotExact: `error` itself, after too many failures.
        """
        if isinstance(error, OVERTAKEN):
            self._count += 1
            if self._count >= _OVERTAKEN_MAX:
                raise error

    def end(self) -> None:
        """Reset the count: a load was successful."""
        self._count = 0


class Loader:
    """Sends requests in a client's thread, and decodes responses in the caller's."""

    def __init__(self, thread: CoreLoop, connections: BrokerConnections, topic: str) -> None:
        self._thread = thread
        self._connections = connections
        self._topic = topic

    def describe(self) -> TopicNow:
        """The topic's current id and partition count.

        Raises:
            KafkaError: there is no such topic.
        """
        found = self._thread.run(describe_topics(self._connections, [self._topic]))[self._topic]
        return TopicNow(found.topic_id, len(found.partitions))

    def look(self, states: Iterable[Exactness]) -> Looks:
        """The facts for judging a gap, all requested after the gap was met."""
        # An epoch that no broker reports, so that the topic's configuration is requested, too.
        claims = {each.place: each.claim._replace(deletion_drops=-1) for each in states}

        async def ask() -> Looks:
            facts = await log_facts(self._connections, claims.keys(), claims)
            found = await list_offsets(
                self._connections, dict.fromkeys(claims, "latest"), ISOLATION
            )
            return Looks(facts, {place: each.offset for place, each in found.items()})

        return self._thread.run(ask())

    def load(
        self,
        partitions: Sequence[int] | None,
        memory_bytes: int,
        take: Callable[[pa.RecordBatch], None],
        on_read: Callable[[], object] | None = None,
    ) -> dict[TopicPartition, Exactness]:
        """Pass the rows of the state at the log's end to `take`.

        `on_read` is called after each batch of records that was read; an exception from it ends
        the load.

        Returns:
            The exactness of each partition, read up to the log's end.

        Raises:
            StateNotExact: a deletion may have been missed.
            OffsetOutOfRange: the log start offset has moved past records that were not yet read.
        """
        since_ms = monotonic_ms()
        ranges = ranges_until(
            self._thread, self._connections, self._topic, partitions, None, ISOLATION
        )
        ends = {each.place: each.end_offset for each in ranges}
        claims = self._thread.run(
            claim_states(self._connections, ends, is_now=True, allow_inexact=True)
        )
        states = {
            place: Exactness(place, claim._replace(basis="inexact", since_ms=since_ms))
            for place, claim in claims.items()
        }
        reader = ExactReader(
            self._thread, self._connections, {each: states[each].claim for each in states}
        )
        columns = schema_of(("key", "value", "partition"), headers=False)
        options = SnapshotOptions(columns, ISOLATION, memory_bytes)
        for wanted in ranges:
            for batch in StateReader(reader, options, on_read).read(wanted):
                take(batch)
        looks = self.look(states.values())
        now_ms = monotonic_ms()
        for place, state in states.items():
            facts = looks.facts[place]
            state.met_gap(facts, looks.ends[place], state.claim.leader_epoch, now_ms)
        return states


def monotonic_ms() -> int:
    """The monotonic clock of event loops, in milliseconds."""
    return int(time.monotonic() * 1000)
