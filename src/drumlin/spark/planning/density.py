"""The distribution of a log's bytes over its offsets, estimated from a few samples. Pure.

Records of one log may differ widely in size, and the cleaned part of a compacted log may hold a
tenth of the bytes that its dirty part holds in as many offsets. With one mean for the whole log,
one task would read a gigabyte and another a megabyte.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.ranges import PlannedRange

#: How many bytes a task reads by default, as when Spark reads files. Starting a task takes as long
#: as reading a few megabytes, so this is large enough; it is still a small piece to repeat.
TASK_BYTES: Final = 128 << 20

#: Sampling continues while this many bytes may lie between two samples, up to a number of samples
#: per range and in all: each sample is a cold read for the broker.
_STRETCH_BYTES: Final = TASK_BYTES // 2
_SAMPLES_MAX: Final = 128
_SAMPLES_IN_ALL: Final = 4096
#: Samples of a range, however many ranges there are: both ends, and two in between.
_SAMPLES_MIN: Final = 4

#: The most tasks of one range: 8 TiB in tasks of the usual size. A limit is needed because a
#: broker may report any end offset.
_PARTS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Stretch:
    """The offsets between two samples, and the estimated bytes per offset."""

    start_offset: int
    end_offset: int
    bytes_per_offset: float

    @property
    def size_bytes(self) -> float:
        return (self.end_offset - self.start_offset) * self.bytes_per_offset


@dataclass(frozen=True, slots=True)
class Density:
    """Bytes per offset at some offsets of a log, in offset order; at least one sample.

    Between two samples the greater one counts: where sizes change, tasks become too small rather
    than too large.
    """

    samples: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, samples: Iterable[tuple[int, float]]) -> Density:
        return cls(tuple(sorted(dict(samples).items())))

    @classmethod
    def mean(cls, bytes_per_offset: float) -> Density:
        """A density that is the same everywhere."""
        return cls(((0, bytes_per_offset),))

    def stretches(self, start_offset: int, end_offset: int) -> Iterator[Stretch]:
        """The stretches that cover `[start_offset, end_offset)`, in order."""
        offsets = [offset for offset, _ in self.samples]
        inner = offsets[
            bisect.bisect_right(offsets, start_offset) : bisect.bisect_left(offsets, end_offset)
        ]
        for start, end in itertools.pairwise([start_offset, *inner, end_offset]):
            before = self.samples[max(0, bisect.bisect_right(offsets, start) - 1)][1]
            after = self.samples[min(len(offsets) - 1, bisect.bisect_left(offsets, end))][1]
            yield Stretch(start, end, max(before, after))

    def size_bytes(self, start_offset: int, end_offset: int) -> float:
        """About how many bytes lie between these offsets."""
        return sum(each.size_bytes for each in self.stretches(start_offset, end_offset))

    def end_within(self, start_offset: int, end_offset: int, size_bytes: float) -> int:
        """The offset about `size_bytes` after `start_offset`, at most `end_offset`."""
        for each in self.stretches(start_offset, end_offset):
            if each.size_bytes > size_bytes:
                return each.start_offset + int(size_bytes / each.bytes_per_offset)
            size_bytes -= each.size_bytes
        return end_offset

    def split(self, whole: PlannedRange, part_bytes: int) -> list[PlannedRange]:
        """Split the range into parts of about equal size, of at most `part_bytes` by the estimate.

        The parts are larger if there would be more of them than a driver can plan.
        """
        total = self.size_bytes(whole.start_offset, whole.end_offset)
        parts = max(1, min(math.ceil(total / part_bytes), whole.size, _PARTS_MAX))
        borders = [whole.start_offset]
        for parts_left in range(parts, 1, -1):
            rest = self.size_bytes(borders[-1], whole.end_offset)
            border = self.end_within(borders[-1], whole.end_offset, rest / parts_left)
            borders.append(min(max(border, borders[-1] + 1), whole.end_offset))
        borders.append(whole.end_offset)
        return [
            whole.part(start, end, math.ceil(self.size_bytes(start, end)))
            for start, end in itertools.pairwise(borders)
            if start < end
        ]


#: The density that is assumed for a log without samples.
_USUAL: Final = Density.mean(128.0)


def split_by_bytes(
    ranges: Iterable[PlannedRange], densities: Mapping[TopicPartition, Density]
) -> list[PlannedRange]:
    """Split ranges to a size that suits a task; empty ones are dropped.

    The parts of a range with unknown density get no size, as they may be larger than assumed.
    """
    pieces: list[PlannedRange] = []
    for each in ranges:
        known = densities.get(each.key)
        if each.size > 0 and known is not None:
            pieces += known.split(each, TASK_BYTES)
        elif each.size > 0:
            parts = _USUAL.split(each, TASK_BYTES)
            pieces += [each.part(one.start_offset, one.end_offset, None) for one in parts]
    return pieces


def limit_bytes(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    max_bytes: int,
    densities: Mapping[TopicPartition, Density],
) -> dict[TopicPartition, int]:
    """Bring `end` nearer to `start` so that about `max_bytes` lie between them.

    Each partition gets a share in proportion to its bytes, and at least one offset.
    """
    logs = {key: densities.get(key, _USUAL) for key, offset in end.items() if offset > start[key]}
    sizes = {key: each.size_bytes(start[key], end[key]) for key, each in logs.items()}
    total = sum(sizes.values())
    if total <= max_bytes:
        return dict(end)
    limited = dict(end)
    for key, each in logs.items():
        reach = each.end_within(start[key], end[key], max_bytes * sizes[key] / total)
        limited[key] = max(reach, start[key] + 1)
    return limited


def samples_each(range_count: int) -> int:
    """The number of samples that each of `range_count` ranges may have."""
    return max(_SAMPLES_MIN, min(_SAMPLES_MAX, _SAMPLES_IN_ALL // max(1, range_count)))


def places_to_sample(whole: PlannedRange, samples: dict[int, float], samples_max: int) -> list[int]:
    """The offsets to sample next, given the `samples` so far; empty when they suffice.

    First come both ends. For the start, a sample of the offset before it is enough: a stream has
    taken it as the end of its last batch. Then comes the middle of each stretch that may hold too
    many bytes.
    """
    last = whole.end_offset - 1
    starts = {whole.start_offset - 1, whole.start_offset}
    missing = {last} - samples.keys()
    if not starts & samples.keys():
        missing.add(whole.start_offset)
    if missing:
        return sorted(missing)
    within = {
        at: each for at, each in samples.items() if whole.start_offset - 1 <= at < whole.end_offset
    }
    room = samples_max - len(within)
    large = [
        each
        for each in Density.of(within.items()).stretches(whole.start_offset, whole.end_offset)
        if each.size_bytes > _STRETCH_BYTES and each.end_offset - each.start_offset > 1
    ]
    large.sort(key=lambda each: each.size_bytes, reverse=True)
    middles = {(each.start_offset + each.end_offset) // 2 for each in large[: max(0, room)]}
    return sorted(middles - samples.keys())
