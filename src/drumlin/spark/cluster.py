"""What the driver asks of the cluster: which partitions there are, and where they begin and end.

Only metadata and ListOffsets requests, each bounded in time: no group is joined and nothing is
committed, so a driver can neither hang in a rebalance nor disturb other consumers.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from drumlin.spark.offsets import EARLIEST, LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options import OptionError, SourceOptions

if TYPE_CHECKING:  # pulls in pyarrow, which a session that only looks for sources must not pay
    from drumlin.client.client import Client
    from drumlin.client.offsets import OffsetSpec

_logger = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

_NAMES: Final[dict[int, OffsetSpec]] = {EARLIEST: "earliest", LATEST: "latest"}


def client_of(options: SourceOptions) -> Client:
    """This process's client for a query's cluster.

    Spark reuses its Python workers, so the connections of one task serve the next; they end with
    the process.
    """
    return _connect(options.bootstrap_servers, options.client_options)


@functools.cache
def _connect(bootstrap: str, client_options: tuple[tuple[str, Any], ...]) -> Client:
    from drumlin.client.client import connect

    return connect(bootstrap, **dict(client_options))


class Cluster:
    """The partitions of one query's topics."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def partitions(self, *, expected: Iterable[TopicPartition] = ()) -> set[TopicPartition]:
        """The topic-partitions that the query reads, as they are now.

        A topic that was subscribed to by name must exist. But one that went while the query was
        running, as `expected` shows, is left out: whether that ends the query is not said here.
        """
        known_topics = {key.topic for key in expected}
        return self._retrying(lambda: self._find_partitions(known_topics))

    def current_ends(self, *, expected: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where each partition ends: the high watermark, or the last stable offset.

        For a query that is running, and may go on without its topics if it need not fail then.
        """
        known_topics = {key.topic for key in expected}
        if not self._options.fail_on_data_loss:
            known_topics.update(self._options.subscription.topics)
        # Both steps are repeated together, as a topic may go between them.
        return self._retrying(
            lambda: self._list((key, "latest") for key in self._find_partitions(known_topics))
        )

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offsets."""
        keys = list(partitions)
        return self._retrying(lambda: self._list((key, "earliest") for key in keys))

    def resolve(
        self,
        limit: OffsetLimit,
        side: Literal["starting", "ending"],
        partitions: set[TopicPartition],
    ) -> dict[TopicPartition, int]:
        """The offsets at which the partitions start or end, if they do so at `limit`.

        Raises:
            OptionError: `limit` names other partitions, or no record is as young as a starting
                timestamp asks.
        """
        if isinstance(limit.value, int):
            wanted = dict.fromkeys(partitions, limit.value)
        elif limit.value.keys() == partitions:
            wanted = dict(limit.value)
        else:
            raise OptionError(
                f"{side} offsets must be given for all topic-partitions that are read; given: "
                f"{_names(limit.value)}; read: {_names(partitions)}"
            )
        if limit.is_timestamp:
            wanted = self._offsets_at(wanted, side)
        named = [(key, _NAMES[offset]) for key, offset in wanted.items() if offset in _NAMES]
        return wanted | self._retrying(lambda: self._list(named))

    def density(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, float]:
        """Bytes per offset of each partition, as far as the brokers tell.

        It only serves to make tasks of a good size, so a broker that does not know the request,
        or a user who may not ask it, is no reason to fail.
        """
        from drumlin.client.errors import ClientError

        try:
            sizes = client_of(self._options).partition_sizes(partitions)
            start = self._list((key, "earliest") for key in partitions)
            end = self._list((key, "latest") for key in partitions)
        except ClientError as error:
            _logger.info("the sizes of partitions are not known: %s", error)
            return {}
        return {
            key: sizes[key] / (end[key] - start[key])
            for key in partitions
            if key in sizes and end[key] > start[key]
        }

    def _find_partitions(self, known_topics: set[str]) -> set[TopicPartition]:
        subscription = self._options.subscription
        if subscription.partitions:
            return set(subscription.partitions)
        client = client_of(self._options)
        if subscription.pattern is not None:
            topics = client.list_topics(subscription.pattern)
        elif known_topics:
            gone = known_topics.difference(client.list_topics(internal=True))
            topics = [topic for topic in subscription.topics if topic not in gone]
        else:
            topics = list(subscription.topics)
        if not topics:
            return set()
        return {
            TopicPartition(topic, partition.index)
            for topic, description in client.topics(topics).items()
            for partition in description.partitions
        }

    def _offsets_at(
        self, times: Mapping[TopicPartition, int], side: Literal["starting", "ending"]
    ) -> dict[TopicPartition, int]:
        found = self._retrying(lambda: self._list(times.items()))
        missing = [key for key, offset in found.items() if offset < 0]
        if missing and side == "starting" and not self._options.no_match_is_latest:
            raise OptionError(
                f"no record is as young as the starting timestamp in {_names(missing)}; "
                "startingOffsetsByTimestampStrategy=latest would start at the end there"
            )
        return found | dict.fromkeys(missing, LATEST)

    def _list(
        self, wanted: Iterable[tuple[TopicPartition, OffsetSpec]]
    ) -> dict[TopicPartition, int]:
        asked: dict[tuple[str, int], OffsetSpec] = dict(wanted)
        if not asked:
            return {}
        isolation = self._options.isolation_level
        found = client_of(self._options).list_offsets(asked, isolation=isolation)
        return {TopicPartition(*key): place.offset for key, place in found.items()}

    def _retrying(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask again after an error, as `fetchOffset.*` says, for what the client did not repeat."""
        from drumlin.client.errors import ClientError

        for _ in range(self._options.offset_fetch_attempts - 1):
            try:
                return ask()
            except ClientError as error:
                _logger.warning("asking the cluster again after: %s", error)
                time.sleep(self._options.offset_fetch_interval_ms / 1000)
        return ask()


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(key) for key in sorted(partitions)) or "none"
