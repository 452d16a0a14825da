"""A topic that is kept in a store: its current id and configuration, and loading its state."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from drumlin.client.admin.committed_offsets import NO_EPOCH
from drumlin.client.arguments import Decode
from drumlin.client.errors import translated
from drumlin.client.table.loading import Loader
from drumlin.client.tables import decoded
from drumlin.serving.moments import Moment
from drumlin.serving.owned import Owned
from drumlin.serving.target import Collecting, Position
from drumlin.serving.targets import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.client import Client

#: Positions are requested for at least this many partitions at a time, until none has any.
_PARTITIONS_AT_A_TIME: Final = 16


class KeptTopic:
    """A topic and its target. `describe` updates `topic_id` and `delete_retention_ms`."""

    def __init__(
        self,
        client: Client,
        name: str,
        store: Store,
        decode: Decode | None,
        memory_bytes: int,
    ) -> None:
        """
        Raises:
            UnknownTopic: there is no such topic.
            TargetRefused, OSError: as from `Store.target`.
        """
        self.name = name
        self.topic_id: str | None = None
        self.delete_retention_ms = 0
        #: The time of the last check of the topic, by the monotonic clock.
        self.looked_s = time.monotonic()
        self._client = client
        self._decode: Decode | None = decode
        self._memory_bytes = memory_bytes
        self._loader = Loader(client._thread, client._connections, name)
        self.describe()
        self.target = store.target(name)
        #: The target, if it does not store everything at once.
        self.collecting = self.target if isinstance(self.target, Collecting) else None

    def describe(self) -> None:
        """Update the topic's id and configuration.

        Raises:
            UnknownTopic: the topic was deleted.
        """
        configs = self._client.topic_configs(self.name)
        self.delete_retention_ms = int(configs["delete.retention.ms"].value or 0)
        with translated():
            self.topic_id, self._partition_count = self._loader.describe()

    def ends(self) -> dict[int, int]:
        """The current end offsets of the partitions, for readers of committed records."""
        return self._client.offsets(self.name, isolation="read_committed")

    def has(self, ends: dict[int, int]) -> bool:
        """Whether the store has all records before these end offsets."""
        found = self.target.positions(ends.keys())
        return all(
            each in found and found[each].topic_id == self.topic_id and found[each].offset >= end
            for each, end in ends.items()
        )

    def load(self, owned: Owned, read: Callable[[int], None]) -> None:
        """Replace the partition's rows with the log's current state.

        Args:
            owned: the partition; its position is updated.
            read: called after each write with the number of rows written, and with 0 while the log
                is read; an exception from it ends the load.
        """
        self.describe()
        self._forget_former(owned.partition)
        since = Moment.now()
        replacement = self.target.replace(owned.partition, owned.term)

        def take(batch: pa.RecordBatch) -> None:
            readable = decoded(batch, self._decode, self.name)
            keys, values = (readable.column(name).to_pylist() for name in ("key", "value"))
            replacement.add(zip(keys, values, strict=True))
            read(batch.num_rows)

        with translated():
            states = self._loader.load([owned.partition], self._memory_bytes, take, lambda: read(0))
        (state,) = states.values()
        epoch = state.claim.leader_epoch
        position = Position(self.topic_id, state.position, epoch, str(since))
        replacement.commit(position)
        owned.position = position

    def _forget_former(self, but: int) -> None:
        """Delete the rows of an earlier topic of this name in partitions other than `but`.

        Their keys may be in other partitions of this topic, and some partitions may no longer
        exist. The partitions then have the state of this topic at its first offset: no rows.
        """
        begin, size = 0, max(self._partition_count, _PARTITIONS_AT_A_TIME)
        while found := self.target.positions(range(begin, begin + size)):
            for partition, position in found.items():
                if partition != but and self._is_former(position):
                    claim = self.target.claim(partition)
                    if self._is_former(claim.position):
                        replacement = self.target.replace(partition, claim.term)
                        replacement.commit(Position(self.topic_id, 0, NO_EPOCH, ""))
            begin += size

    def _is_former(self, position: Position | None) -> bool:
        return position is not None and position.topic_id != self.topic_id
