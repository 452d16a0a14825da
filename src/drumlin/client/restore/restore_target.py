"""The target topic of a restore: created like the source, or an existing topic without records.

Writes no records. The caller has begun a transaction with the restore's id, which fences all
earlier attempts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine, Mapping
from typing import Any, Final, TypeVar

from drumlin.client.admin import admin, group_admin
from drumlin.client.admin.admin import TopicDescription
from drumlin.client.errors import NotRestored, TopicExists, translated
from drumlin.client.loops.core_loop import CoreLoop
from drumlin.client.read import reader
from drumlin.client.read.offsets import offsets_of_topic
from drumlin.client.restore.restore_marker import Marker, RestoreRequest, marker_in, name_for
from drumlin.client.state.snapshot_ranges import whole_ranges
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.options import Isolation

T = TypeVar("T")

_ISOLATION: Final[Isolation] = "read_committed"
_TIMESTAMP_TYPE: Final = "message.timestamp.type"
_CREATE_TIME: Final = "CreateTime"
_LIMITS_OF_BATCHES: Final = ("max.message.bytes", "segment.bytes")
#: Set during reassignments: these configs name brokers and partitions of the source.
_NOT_TAKEN_OVER: Final = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)


class RestoreTarget:
    """The target of one restore, in a client's thread and the caller's."""

    def __init__(
        self, thread: CoreLoop, connections: BrokerConnections, source: str, name: str
    ) -> None:
        self._thread = thread
        self._connections = connections
        self._source = source
        self.name = name
        self.topic_id: str | None = None

    def make(self, configs: Mapping[str, str]) -> None:
        """Create the topic, unless it exists; `configs` take precedence over the source's.

        Raises:
            NotRestored: the target is the source, or has another number of partitions.
            KafkaError: the source does not exist.
        """
        if self._source == self.name:
            raise NotRestored(f"topic {self.name!r} cannot be restored into itself")
        described = self._ask(admin.describe_topics(self._connections, [self._source]))
        source = described[self._source]
        topic = self._described() or self._create(source, configs)
        if len(topic.partitions) != len(source.partitions):
            raise NotRestored(
                f"topic {self.name!r} has {len(topic.partitions)} partitions, "
                f"{self._source!r} has {len(source.partitions)}"
            )
        self.topic_id = topic.topic_id

    def marker_of(self, request: RestoreRequest) -> Marker | None:
        """The marker of an earlier restore with this request, complete or begun.

        Raises:
            NotRestored: the marker is of another request.
        """
        name = name_for(self.name)
        committed = self._ask(
            group_admin.fetch_committed(self._connections, name, require_stable=True)
        )
        marker = marker_in(committed, self.topic_id)
        if marker is not None and not marker.is_of(request):
            if marker.is_complete:
                raise NotRestored(f"topic {self.name!r} was restored already, from the {marker}")
            raise NotRestored(
                f"topic {self.name!r} is being restored from the {marker}: let Spark complete "
                "that, or delete the topic"
            )
        return marker

    def check_empty(self) -> None:
        """Check that the topic has no records.

        Raises:
            NotRestored: the topic has records, or another transaction is open in it.
        """
        connections, name = self._connections, self.name
        ends = self._ask(offsets_of_topic(connections, name, "latest", "read_uncommitted"))
        stable = self._ask(offsets_of_topic(connections, name, "latest", _ISOLATION))
        if any(stable[each] < ends[each] for each in ends):
            raise NotRestored(f"another transaction is open in topic {name!r}")
        ranges = self._ask(whole_ranges(connections, name, None, _ISOLATION))
        options = reader.ReadOptions(columns=["offset"], isolation=_ISOLATION)
        with translated():
            batches = reader.read_ranges(self._thread, connections, ranges, options)
            if any(batch.num_rows for batch in batches):
                raise NotRestored(f"topic {name!r} has records that no restore has written")

    def check_is_there(self) -> None:
        """Check, when all is written, that the topic was not deleted meanwhile.

        Raises:
            NotRestored: it was deleted, even if another topic of that name exists.
        """
        described = self._described()
        if described is None or described.topic_id != self.topic_id:
            raise NotRestored(f"topic {self.name!r} was deleted while it was restored")

    def batch_bytes(self, wanted: int) -> int:
        """The maximum size of a batch: `wanted`, or the topic's limit if that is lower."""
        configs = self._ask(admin.topic_configs(self._connections, self.name))
        limits = (configs[key].value for key in _LIMITS_OF_BATCHES if key in configs)
        return min([wanted, *(int(each) for each in limits if each is not None)])

    def _ask(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with translated():
            return self._thread.run(coroutine)

    def _described(self) -> TopicDescription | None:
        return self._ask(admin.look_up_topics(self._connections, [self.name])).found.get(self.name)

    def _create(self, source: TopicDescription, configs: Mapping[str, str]) -> TopicDescription:
        """Create a topic like the source, but with timestamps of type CreateTime, to keep them."""
        of_source = self._ask(admin.topic_configs(self._connections, source.name))
        taken_over = {
            key: entry.value
            for key, entry in of_source.items()
            if not entry.is_default and entry.value is not None and key not in _NOT_TAKEN_OVER
        }
        if _TIMESTAMP_TYPE in of_source and of_source[_TIMESTAMP_TYPE].value != _CREATE_TIME:
            taken_over[_TIMESTAMP_TYPE] = _CREATE_TIME
        wanted = admin.NewTopic(
            self.name,
            len(source.partitions),
            len(source.partitions[0].replicas),
            taken_over | dict(configs),
        )
        with contextlib.suppress(TopicExists):  # another restore has created it, and will be fenced
            self._ask(admin.create_topic(self._connections, wanted))
        return self._ask(admin.describe_topics(self._connections, [self.name]))[self.name]
