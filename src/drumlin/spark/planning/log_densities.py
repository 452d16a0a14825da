"""Asks brokers for the density of logs (bytes per offset), and caches it for some minutes.

The answers only help to size tasks and batches. So a failed request must never fail a query.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from drumlin.lowlevel import LogPlace, LogSample
from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.ranges import PlannedRange
from drumlin.spark.planning.density import Density, places_to_sample, samples_each
from drumlin.spark.planning.packed_ranges import PACKED_BYTES
from drumlin.spark.planning.steady_topics import SteadyTopics

_logger = logging.getLogger(__name__)

_LIFE_S: Final = 300.0
_ROUNDS_MAX: Final = 12

#: Not every range with at most this many offsets is sampled: there are many, and most hold next to
#: nothing. The range with the most offsets stands for its topic. A small range is sampled, too,
#: if it may hold many bytes according to the density found there.
UNSAMPLED_OFFSETS: Final = 256
_TOPICS_MAX: Final = 16

_Samples = dict[int, float]
Look = Callable[[Collection[LogPlace]], Mapping[LogPlace, LogSample]]
#: Returns the mean bytes per offset of whole logs, as far as known, or raises `ClientError`.
AskMeans = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, float]]


class LogDensities:
    """The densities of one query's logs, as far as they are known."""

    def __init__(self, look: Look, ask_means: AskMeans) -> None:
        self._look = look
        self._ask_means = ask_means
        self._means: dict[TopicPartition, float | None] = {}
        self._samples: dict[TopicPartition, _Samples] = {}
        self._steady = SteadyTopics()
        self._forget_at = 0.0

    def means(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, float]:
        """The mean bytes per offset of whole logs, as far as the brokers report it."""
        from drumlin.client.errors import ClientError

        self._forget_what_is_old()
        requested = dict.fromkeys(partitions)
        asked = requested.keys() - self._means.keys()
        if asked:
            self._means |= dict.fromkeys(asked)
            try:
                self._means |= self._ask_means(asked)
            except ClientError as error:
                _logger.info("the sizes of partitions are not known: %s", error)
        known = {key: self._means[key] for key in requested}
        return {key: each for key, each in known.items() if each is not None}

    def of(self, ranges: Sequence[PlannedRange]) -> dict[TopicPartition, Density]:
        """The densities of the logs in these ranges, if brokers report them; always sampled."""
        self._forget_what_is_old()
        self._forget_what_lies_behind(ranges)
        return self._look_at(ranges)

    def about(self, ranges: Sequence[PlannedRange]) -> dict[TopicPartition, Density]:
        """`of`, but without sampling small ranges of topics whose density has been steady."""
        self._forget_what_is_old()
        self._forget_what_lies_behind(ranges)
        small = self._steady.small(ranges)
        others = self._look_at([each for each in ranges if each not in small])
        return others | {each.key: Density.mean(density) for each, density in small.items()}

    def _look_at(self, ranges: Sequence[PlannedRange]) -> dict[TopicPartition, Density]:
        large = [each for each in ranges if each.size > UNSAMPLED_OFFSETS]
        small = [each for each in ranges if each.size <= UNSAMPLED_OFFSETS]
        first = dict.fromkeys([*large, *_examples(small)])
        self._sample(list(first))
        # Samples are more exact than the mean of a log: means are requested only without samples.
        rest = [each for each in ranges if each not in first or not self._samples.get(each.key)]
        means = self.means(each.key for each in rest)
        usual = self._largest_ends(first)
        more = [
            each
            for each in rest
            if each not in first
            and (
                each.size * usual.get(each.topic, 0) > PACKED_BYTES
                or (each.key not in means and not self._samples.get(each.key))
            )
        ]
        self._sample(more)
        sampled = {each.key for each in [*first, *more]}
        densities = {}
        for each in ranges:
            known = self._samples.get(each.key)
            if known and (each.key in sampled or each.key not in means):
                densities[each.key] = Density.of(known.items())
            elif each.key in means:
                mean = max(means[each.key], usual.get(each.topic, 0))
                densities[each.key] = Density.mean(mean)
        return densities

    def _largest_ends(self, sampled: Iterable[PlannedRange]) -> dict[str, float]:
        """For each topic, the greatest bytes per offset found at the ends of these ranges."""
        largest: dict[str, float] = {}
        for each in sampled:
            found = self._samples.get(each.key, {}).get(each.end_offset - 1, 0.0)
            largest[each.topic] = max(found, largest.get(each.topic, 0.0))
        return largest

    def _sample(self, ranges: Sequence[PlannedRange]) -> None:
        from drumlin.client.errors import ClientError

        asked: set[LogPlace] = set()
        densest: dict[str, float] = {}
        limit = samples_each(len(ranges))
        for _ in range(_ROUNDS_MAX):
            requested = {
                LogPlace(each.topic, each.partition, offset)
                for each in ranges
                for offset in places_to_sample(each, self._samples.setdefault(each.key, {}), limit)
            } - asked
            if not requested:
                break
            asked |= requested
            try:
                found = self._look(requested)
            except ClientError as error:
                _logger.info("the density of logs is not known: %s", error)
                break
            for place, sample in found.items():
                key = TopicPartition(place.topic, place.partition)
                density = self._samples[key][place.offset] = sample.bytes_per_offset
                densest[key.topic] = max(density, densest.get(key.topic, 0.0))
        self._steady.looked(densest)

    def _forget_what_is_old(self) -> None:
        if time.monotonic() >= self._forget_at:
            self._means.clear()
            self._samples.clear()
            self._forget_at = time.monotonic() + _LIFE_S

    def _forget_what_lies_behind(self, ranges: Sequence[PlannedRange]) -> None:
        """Drop the samples before each range, except for the last one."""
        for each in ranges:
            known = self._samples.get(each.key, {})
            first = max((at for at in known if at <= each.start_offset), default=each.start_offset)
            self._samples[each.key] = {at: known[at] for at in known if at >= first}


def _examples(small: Iterable[PlannedRange]) -> list[PlannedRange]:
    """The range with the most offsets of each topic, for the topics with the largest ranges."""
    largest: dict[str, PlannedRange] = {}
    for each in sorted(small, key=lambda each: each.size):
        largest[each.topic] = each
    return sorted(largest.values(), key=lambda each: each.size)[-_TOPICS_MAX:]
