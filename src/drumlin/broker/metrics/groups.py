"""Measures of groups and transactions that this broker coordinates."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from drumlin.broker.loop.measures import Kind, Measure, Sample, Source
from drumlin.broker.metrics.lag import Key, LagTimes
from drumlin.broker.parts.parts import Coordinators
from drumlin.coordination.groups.offsets.offset_records import decode_offset
from drumlin.coordination.groups.offsets.offsets import TopicOffsets
from drumlin.coordination.transactions.states import TransactionState
from drumlin.turns import give_way
from drumlin.wire.error_codes import KafkaError

_PREFIX: Final = "drumlin_"
_OF_GROUP: Final = ("group", "topic")
#: Group -> topic -> partition -> offset.
_Committed = Mapping[str, Mapping[str, TopicOffsets]]


class Ends(Protocol):
    """The high watermarks of partitions that other brokers lead."""

    async def high_watermarks(self, partitions: Iterable[Key]) -> dict[Key, int]: ...


class Coordinating(Coordinators, Protocol):
    """The parts of a broker that these measures are about."""

    @property
    def log_ends(self) -> Ends: ...


class Groups:
    """The source of a broker's measures of groups; it keeps what the lag in seconds needs."""

    def __init__(self, broker: Coordinating) -> None:
        self._broker = broker
        self._times = LagTimes()
        #: The offsets of groups that have metrics of their own.
        self._committed: _Committed = {}
        #: The ends of partitions that other brokers lead.
        self._elsewhere: dict[Key, int] = {}

    async def prepare(self) -> None:
        """Choose groups, and ask other brokers for the ends of their partitions."""
        broker, keys = self._broker, dict[Key, None]()
        self._elsewhere = {}
        try:
            committed = self._committed = await self._chosen()
        except KafkaError:  # they are being loaded
            return
        if len(broker.metadata.image.brokers) < 2:
            return
        for topics in committed.values():
            for topic, offsets in list(topics.items()):
                await give_way()
                for index in list(offsets):
                    if broker.partitions.find(topic, index) is None:
                        keys[topic, index] = None
        self._elsewhere = await broker.log_ends.high_watermarks(keys)

    def begin(self) -> Source:
        """Begin on the loop."""
        broker, elsewhere, committed = self._broker, self._elsewhere, self._committed
        try:
            groups = broker.groups.groups()
            transactions = broker.transactions.transactions()
        except KafkaError:  # they are being loaded
            return lambda: ()
        now_ms = broker.clock.wall_ms()

        def measure() -> Iterator[Measure]:
            states = Counter((each.kind.value, each.state_name) for each in groups)
            yield _gauge(
                "groups",
                "Groups that this broker coordinates.",
                ("protocol", "state"),
                {at: float(count) for at, count in states.items()},
            )
            yield from self._lags(committed, elsewhere)
            known = [each.metadata for each in transactions]
            counts = Counter((each.state.label,) for each in known)
            yield _gauge(
                "transactions",
                "Transactional ids that this broker coordinates.",
                ("state",),
                {at: float(count) for at, count in counts.items()},
            )
            begun = [
                each.start_timestamp_ms
                for each in known
                if each.state is TransactionState.ONGOING or each.state.is_prepared
            ]
            age_s = max((now_ms - each for each in begun), default=0) / 1000
            yield _gauge(
                "transactions_oldest_open_seconds",
                "Age of the oldest transaction that is open, or not ended everywhere.",
                (),
                {(): max(0.0, age_s)},
            )

        return measure

    async def _chosen(self) -> _Committed:
        """The offsets of the groups that have metrics of their own.

        Raises:
            KafkaError: they are being loaded.
        """
        config, found = self._broker.config, dict[str, Mapping[str, TopicOffsets]]()
        for group_id, topics in list(self._broker.groups.committed()):
            await give_way()
            if len(found) >= config.drumlin_metrics_groups_max:
                break
            if config.drumlin_metrics_groups.fullmatch(group_id):
                found[group_id] = topics
        return found

    def _lags(self, committed: _Committed, elsewhere: Mapping[Key, int]) -> Iterator[Measure]:
        now_s, times, traffic = time.monotonic(), self._times, self._broker.traffic
        ends: dict[Key, int | None] = {}
        records = defaultdict[tuple[str, ...], float](float)
        seconds = defaultdict[tuple[str, ...], float](float)
        reached = defaultdict[tuple[str, ...], float](float)
        for group_id, topics in committed.items():
            for topic, offsets in list(topics.items()):
                name = traffic.shown_name(topic)
                if name is None:
                    continue
                lag = lag_s = sum_of_offsets = 0.0
                for index, value in list(offsets.items()):
                    key = topic, index
                    if key not in ends:
                        end_offset = ends[key] = self._end_of(key, elsewhere)
                        if end_offset is not None:
                            times.note(key, end_offset, now_s)
                    end_offset = ends[key]
                    offset = decode_offset(value).offset
                    sum_of_offsets += offset
                    if end_offset is not None and offset < end_offset:
                        lag += end_offset - offset
                        lag_s = max(lag_s, times.lag_s(key, offset, now_s))
                records[group_id, name] += lag
                seconds[group_id, name] = max(seconds[group_id, name], lag_s)
                reached[group_id, name] += sum_of_offsets
        times.keep_only(ends)
        yield _gauge(
            "group_committed_offset",
            "The sum of the offsets that a group has committed in all partitions of a topic.",
            _OF_GROUP,
            reached,
        )
        yield _gauge(
            "group_lag_records",
            "Records that a group has not committed yet, in all partitions of a topic.",
            _OF_GROUP,
            records,
        )
        yield _gauge(
            "group_lag_seconds",
            "How long the oldest record that a group has not committed has been there.",
            _OF_GROUP,
            seconds,
        )

    def _end_of(self, key: Key, elsewhere: Mapping[Key, int]) -> int | None:
        partitions = self._broker.partitions
        replica = partitions.find(*key)
        return elsewhere.get(key) if replica is None else replica.high_watermark


def _gauge(
    name: str,
    documentation: str,
    labels: tuple[str, ...],
    values: Mapping[tuple[str, ...], float],
) -> Measure:
    samples = tuple(Sample(at, value) for at, value in values.items())
    return Measure(_PREFIX + name, Kind.GAUGE, documentation, labels, samples)
