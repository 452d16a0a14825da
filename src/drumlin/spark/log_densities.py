"""Asks brokers how dense logs are, and remembers it for some minutes.

It only serves to make tasks and batches of a good size: what cannot be asked is no reason to fail.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from drumlin.client.log_samples import LogPlace, LogSample
from drumlin.spark.density import Density, places_to_sample
from drumlin.spark.offsets import TopicPartition
from drumlin.spark.planning import OffsetRange

_logger = logging.getLogger(__name__)

_LIFE_S: Final = 300.0
_ROUNDS_MAX: Final = 12

#: So few offsets are not looked at: record batches are of a mebibyte at most, where brokers are as
#: Kafka's come, and a task reads 256 MiB at most.
UNSAMPLED_OFFSETS: Final = 256

_Samples = dict[int, float]
Look = Callable[[Collection[LogPlace]], Mapping[LogPlace, LogSample]]


class LogDensities:
    """What one query knows of the density of its logs."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._samples: dict[TopicPartition, _Samples] = {}
        self._forget_at = 0.0

    def of(
        self, ranges: Sequence[OffsetRange], means: Mapping[TopicPartition, float]
    ) -> dict[TopicPartition, Density]:
        """How dense the logs are in these ranges, as far as is known; `means` of whole logs."""
        self._forget(ranges)
        large = [each for each in ranges if each.size > UNSAMPLED_OFFSETS]
        unknown = [
            each for each in ranges if each.key not in means and not self._samples.get(each.key)
        ]
        self._sample(list(dict.fromkeys([*large, *unknown])))
        sampled = {each.key for each in large} | {each.key for each in unknown}
        densities = {}
        for each in ranges:
            known = self._samples.get(each.key)
            if known and (each.key in sampled or each.key not in means):
                densities[each.key] = Density.of(known.items())
            elif each.key in means:
                densities[each.key] = Density.mean(means[each.key])
        return densities

    def _sample(self, ranges: Sequence[OffsetRange]) -> None:
        from drumlin.client.errors import ClientError

        asked: set[LogPlace] = set()
        for _ in range(_ROUNDS_MAX):
            wanted = {
                LogPlace(each.topic, each.partition, offset)
                for each in ranges
                for offset in places_to_sample(each, self._samples.setdefault(each.key, {}))
            } - asked
            if not wanted:
                return
            asked |= wanted
            try:
                found = self._look(wanted)
            except ClientError as error:
                _logger.info("the density of logs is not known: %s", error)
                return
            for place, sample in found.items():
                key = TopicPartition(place.topic, place.partition)
                self._samples[key][place.offset] = sample.bytes_per_offset

    def _forget(self, ranges: Sequence[OffsetRange]) -> None:
        """What is old, and what a stream has left behind, but for the last of it."""
        if time.monotonic() >= self._forget_at:
            self._samples.clear()
            self._forget_at = time.monotonic() + _LIFE_S
        for each in ranges:
            known = self._samples.get(each.key, {})
            first = max((at for at in known if at <= each.start_offset), default=each.start_offset)
            self._samples[each.key] = {at: known[at] for at in known if at >= first}
