"""The driver's requests to the cluster: which partitions exist, and where they start and end.

The driver must never join a group or commit: so it can neither hang in a rebalance nor disturb
other consumers. Every request has a timeout.
"""

from __future__ import annotations

import functools
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from drumlin.spark.connection import client_of
from drumlin.spark.options.offsets import EARLIEST, LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.known_logs import LogIdentity, LogView
from drumlin.spark.planning.seen_ends import SIDES, SeenEnds, Side

if TYPE_CHECKING:  # pulls in pyarrow, too costly for a session that only looks for data sources
    from drumlin import TopicDescription
    from drumlin.client.places import OffsetSpec
    from drumlin.peer.options import Isolation
    from drumlin.spark.options.ranges import PlannedRange
    from drumlin.spark.planning.density import Density
    from drumlin.spark.planning.log_densities import LogDensities
    from drumlin.wire.error_codes import ErrorCode

_logger = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")

_NAMES: Final[dict[int, OffsetSpec]] = {EARLIEST: "earliest", LATEST: "latest"}
#: Brokers may keep disagreeing about a topic's id: the limit of attempts.
_CONFIRMATIONS_MAX: Final = 5


def looks(options: SourceOptions) -> Iterator[None]:
    """Yield once for each attempt that `fetchOffset.*` allows, and sleep in between.

    For answers that may be stale: the caller leaves the loop once it trusts one.
    """
    for number in range(max(1, options.offset_fetch_attempts)):
        if number:
            _pause(options)
        yield


def _pause(options: SourceOptions) -> None:
    time.sleep(options.offset_fetch_interval_ms / 1000)


class Cluster:
    """The partitions of one query's topics."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._assigned = frozenset(options.subscription.partitions)
        self._log_densities: LogDensities | None = None
        self._seen_ends = SeenEnds()

    def __reduce__(self) -> tuple[Any, ...]:
        # Readers are sent to tasks. Densities, which serve for planning only, stay on the driver.
        return Cluster, (self._options,)

    def partitions(self) -> dict[TopicPartition, LogIdentity]:
        """The partitions of a query that starts: those that its options name must exist."""
        return self._retrying(lambda: self._find(set(), must_exist=True))

    def logs(
        self, *, expected: Collection[TopicPartition], may_be_missing: bool = False
    ) -> dict[TopicPartition, LogView]:
        """The partitions of a running query, as the cluster shows them now.

        `expected` are the partitions that the query reads already. If one of them is missing, it
        is left out of the result, and the caller decides what that means. A partition that only
        the options name must exist, unless `failOnDataLoss` is false
        or `may_be_missing` is set.
        """
        must_exist = self._options.fail_on_data_loss and not may_be_missing

        def find() -> dict[TopicPartition, LogIdentity]:
            return self._find(set(expected), must_exist=must_exist)

        def look() -> dict[TopicPartition, LogView]:
            # All steps are repeated together, as a topic may be deleted between them. ListOffsets
            # names topics by name only: a topic that was recreated meanwhile would answer for its
            # predecessor. So the topic ids must be the same before and after.
            again = find()
            for _ in range(_CONFIRMATIONS_MAX):
                found, ends = again, self._list((key, "latest") for key in again)
                again = find()
                if _topic_ids(again) == _topic_ids(found):
                    break
            return {
                key: LogView(identity.topic_id, identity.leader_epoch, ends[key])
                for key, identity in found.items()
            }

        return self._retrying(look)

    def high_watermarks(self, at_least: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """The high watermarks, whatever the query's isolation level is.

        The high watermark of a leader that was just elected may lag: while one is below
        `at_least`, the brokers are asked again (SPARK-26267).
        """
        for _ in looks(self._options):
            ends = self._retrying(
                lambda: self._list(((key, "latest") for key in at_least), "read_uncommitted")
            )
            if all(ends[key] >= offset for key, offset in at_least.items()):
                break
        return ends

    def reads(self, key: TopicPartition) -> bool:
        """Whether the query's options name this partition."""
        subscription = self._options.subscription
        if self._assigned:
            return key in self._assigned
        if subscription.pattern is not None:
            return re.fullmatch(subscription.pattern, key.topic) is not None
        return key.topic in subscription.topics

    def is_deleted(self, topic_id: str) -> bool:
        """Whether the cluster says that it no longer knows a topic with this id."""
        from drumlin import lowlevel

        client = client_of(self._options)
        return self._retrying(lambda: lowlevel.is_topic_id_unknown(client, topic_id))

    def missing(
        self, requested: Collection[TopicPartition], topic_ids: Mapping[str, str | None]
    ) -> set[TopicPartition]:
        """The partitions of a batch that are still missing after a wait.

        The wait ends early if the topic ids prove that all these partitions were deleted.
        """
        ends_at = time.monotonic() + self._patience_s
        while True:
            there = self._retrying(lambda: self._find(set(requested), must_exist=False))
            missing = set(requested) - there.keys()
            ids = [topic_ids.get(topic) for topic in sorted({key.topic for key in missing})]
            if time.monotonic() >= ends_at or all(each and self.is_deleted(each) for each in ids):
                return missing
            _pause(self._options)

    def earliest(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The log start offsets."""
        keys = list(partitions)
        return self._retrying(lambda: self._list((key, "earliest") for key in keys))

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """A group's offsets, without those of transactions that are still open."""
        client = client_of(self._options)
        found = self._retrying(lambda: client.committed_offsets(group, require_stable=True))
        return {key: each.offset for key, each in found.items()}

    def since(
        self, time_ms: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The first offsets at or after a timestamp; -1 if there is no such record."""
        times = dict.fromkeys(partitions, time_ms)
        return self._retrying(lambda: self._at(times))

    def ends_at(
        self, time_ms: int, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The offset of the first later record (never a control record); else the end offset."""
        from drumlin import lowlevel

        keys = list(partitions)

        def ask() -> dict[TopicPartition, int]:
            ends = self._list((key, "latest") for key in keys)
            isolation = self._options.isolation_level
            return lowlevel.ends_at(client_of(self._options), ends, time_ms, isolation=isolation)

        return self._retrying(ask)

    def resolve(
        self,
        limit: OffsetLimit,
        side: Literal["starting", "ending"],
        partitions: Collection[TopicPartition],
        *,
        no_match_is_latest: bool | None = None,
    ) -> dict[TopicPartition, int]:
        """The offsets that `limit` stands for in these partitions.

        Args:
            no_match_is_latest: whether to start at the end if no record is at or after a starting
                timestamp; by default as the options say. A read always ends there.

        Raises:
            OptionError: `limit` names other partitions, or no record is at or after a starting
                timestamp.
        """
        requested = limit.for_partitions(partitions)
        if requested is None:
            raise OptionError(
                f"{side} offsets must be given for all topic-partitions that are read; given: "
                f"{', '.join(limit.names()) or 'none'}; read: {_names(partitions)}"
            )
        if limit.is_timestamp:
            if no_match_is_latest is None:
                no_match_is_latest = self._options.no_match_is_latest
            may_miss = side == "ending" or no_match_is_latest
            return self._offsets_at(requested, may_miss=may_miss)
        named = [(key, _NAMES[offset]) for key, offset in requested.items() if offset in _NAMES]
        return requested | self._retrying(lambda: self._list(named))

    def density(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """The mean bytes per offset of each partition, as far as the brokers report it.

        The figures only help to size tasks. So the query does not fail if a broker does not know
        the request or the user lacks the right to it. Answers are remembered for some minutes.
        """
        return self._known_densities().means(partitions)

    def densities(self, ranges: Sequence[PlannedRange]) -> dict[TopicPartition, Density]:
        """The bytes per offset along these ranges, as far as the brokers report them."""
        return self._known_densities().about([each for each in ranges if each.size > 0])

    def densities_now(self, ranges: Sequence[PlannedRange]) -> dict[TopicPartition, Density]:
        """`densities`, but always sampled: a topic that has long been steady may have changed."""
        return self._known_densities().of([each for each in ranges if each.size > 0])

    def _known_densities(self) -> LogDensities:
        if self._log_densities is None:
            from drumlin import lowlevel
            from drumlin.spark.planning.log_densities import LogDensities

            look = functools.partial(lowlevel.sample_logs, client_of(self._options))
            self._log_densities = LogDensities(look, self._mean_densities)
        return self._log_densities

    def _mean_densities(
        self, partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, float]:
        from drumlin import lowlevel

        sizes = lowlevel.partition_sizes(client_of(self._options), partitions)
        start = self._seen_ends.find(partitions, "earliest", self._ends)
        end = self._seen_ends.find(partitions, "latest", self._ends)
        return {
            key: sizes[key] / (end[key] - start[key])
            for key in partitions
            if sizes.get(key, -1) >= 0 and end[key] > start[key]
        }

    def _ends(
        self, partitions: Iterable[TopicPartition], side: Side
    ) -> Mapping[TopicPartition, int]:
        return self._list((key, side) for key in partitions)

    def _find(
        self, expected: set[TopicPartition], *, must_exist: bool
    ) -> dict[TopicPartition, LogIdentity]:
        """The partitions that the query reads, as metadata shows them.

        With `must_exist`, all that the options name must exist, except for those in `expected`.
        """
        from drumlin.client.errors import as_client_error
        from drumlin.peer.rights import refusal
        from drumlin.wire.error_codes import ErrorCode, KafkaError

        found, refused = self._look_up({key.topic for key in expected if self.reads(key)})
        subscription = self._options.subscription
        may_be_missing = {key.topic for key in expected} if must_exist else refused.keys()
        for topic, code in refused.items():
            unknown = code is ErrorCode.unknown_topic_or_partition
            if not unknown or (topic not in may_be_missing and subscription.pattern is None):
                raise as_client_error(refusal("metadata", code, f"topic {topic!r}"))
        shown = {
            TopicPartition(topic, each.index): LogIdentity(description.topic_id, each.leader_epoch)
            for topic, description in found.items()
            for each in description.partitions
        }
        if self._assigned:
            shown = {key: shown[key] for key in subscription.partitions if key in shown}
            absent = self._assigned - shown.keys() - expected
            if absent and must_exist:
                code = ErrorCode.unknown_topic_or_partition
                raise as_client_error(KafkaError(code, f"assigned: {_names(absent)}"))
        return shown

    def _look_up(
        self, expected_topics: set[str]
    ) -> tuple[dict[str, TopicDescription], Mapping[str, ErrorCode]]:
        """The topics that the query reads, looked up by name; for a pattern, all are listed.

        A list of all topics leaves out the ones that the broker does not know or the user may not
        see. An expected topic that the list lacks is looked up by name, to tell these cases apart.
        """
        from drumlin import lowlevel

        client = client_of(self._options)
        subscription = self._options.subscription
        if subscription.pattern is None:
            names = subscription.topics or {key.topic for key in subscription.partitions}
            return lowlevel.look_up_topics(client, list(dict.fromkeys(names)))
        everything = lowlevel.look_up_topics(client)
        matches = re.compile(subscription.pattern).fullmatch
        found = {
            name: each
            for name, each in everything.found.items()
            if matches(name) and not each.is_internal
        }
        unclear = expected_topics | {name for name in everything.refused if matches(name)}
        unclear -= found.keys()
        if not unclear:
            return found, {}
        by_name = lowlevel.look_up_topics(client, sorted(unclear))
        return found | by_name.found, by_name.refused

    def _offsets_at(
        self, times: Mapping[TopicPartition, int], *, may_miss: bool
    ) -> dict[TopicPartition, int]:
        found = self._retrying(lambda: self._at(times))
        missing = [key for key, offset in found.items() if offset < 0]
        if missing and not may_miss:
            raise OptionError(
                f"no record is at or after the starting timestamp in {_names(missing)}; "
                "startingOffsetsByTimestampStrategy=latest would start at the end there"
            )
        # A record that arrives meanwhile is at or after the end that was asked for, or is found.
        ends = self._retrying(lambda: self._list((key, "latest") for key in missing))
        again = self._retrying(lambda: self._at({key: times[key] for key in missing}))
        return found | {key: again[key] if again[key] >= 0 else ends[key] for key in missing}

    def _at(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        from drumlin.client.places import Milliseconds

        return self._list((key, Milliseconds(each)) for key, each in times_ms.items())

    def _list(
        self,
        requested: Iterable[tuple[TopicPartition, OffsetSpec]],
        isolation: Isolation | None = None,
    ) -> dict[TopicPartition, int]:
        asked = dict(requested)
        if not asked:
            return {}
        level = isolation or self._options.isolation_level
        found = client_of(self._options).list_offsets(asked, isolation=level)
        offsets = {key: place.offset for key, place in found.items()}
        for side in SIDES:
            self._seen_ends.note(
                side, {key: offset for key, offset in offsets.items() if asked[key] == side}
            )
        return offsets

    def _retrying(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask again after an error, as often as `fetchOffset.*` says.

        Unanswered requests and transient errors, such as a partition without a leader, are raised
        at once: the client has retried them already, for as long as its timeouts allow. So is a
        refused login: it would be refused again, and could get the user locked out.
        """
        from drumlin.client.errors import (
            AuthenticationFailed,
            BrokerUnreachable,
            ClientError,
            RequestTimedOut,
            UnknownTopic,
        )

        for _ in range(self._options.offset_fetch_attempts - 1):
            asked_at = time.monotonic()
            try:
                return ask()
            except (AuthenticationFailed, BrokerUnreachable, RequestTimedOut):
                raise
            except ClientError as error:
                was_waited_for = time.monotonic() - asked_at >= self._patience_s
                if was_waited_for and not isinstance(error, UnknownTopic):
                    raise
                _logger.warning("asking the cluster again after: %s", error)
                _pause(self._options)
        return ask()

    @property
    def _patience_s(self) -> float:
        return client_of(self._options).options.patience_ms / 1000


def _topic_ids(found: Mapping[TopicPartition, LogIdentity]) -> dict[str, str | None]:
    return {key.topic: identity.topic_id for key, identity in found.items()}


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(key) for key in sorted(partitions)) or "none"
