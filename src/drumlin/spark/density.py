"""How many bytes lie where in a log, as far as a few samples tell. Pure.

Records of one log may be of very different sizes, and the cleaned head of a compacted log may
hold a tenth of what its tail does in as many offsets. One mean for all of it would make tasks
of a gigabyte in one place and of a megabyte in another.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from drumlin.spark.offsets import TopicPartition
from drumlin.spark.planning import OffsetRange

#: How many bytes a task reads where the user asks for nothing else, as when Spark reads files. To
#: start a task takes as long as to read a few megabytes, and it is a small piece to repeat.
TASK_BYTES: Final = 128 << 20

#: Sampling goes on where this much may lie between two samples, up to so many samples a range.
_STRETCH_BYTES: Final = TASK_BYTES // 2
_SAMPLES_MAX: Final = 128

#: No range makes more tasks: 8 TiB in tasks of their usual size. A broker may name any end.
_PARTS_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class Stretch:
    """Offsets between two samples, and how many bytes each is taken to have."""

    start_offset: int
    end_offset: int
    bytes_per_offset: float

    @property
    def size_bytes(self) -> float:
        return (self.end_offset - self.start_offset) * self.bytes_per_offset


@dataclass(frozen=True, slots=True)
class Density:
    """Bytes per offset at some offsets of a log, in order; at least one.

    Between two samples the greater one counts: where sizes change, tasks get rather too small.
    """

    samples: tuple[tuple[int, float], ...]

    @classmethod
    def of(cls, samples: Iterable[tuple[int, float]]) -> Density:
        return cls(tuple(sorted(dict(samples).items())))

    @classmethod
    def mean(cls, bytes_per_offset: float) -> Density:
        """The same everywhere."""
        return cls(((0, bytes_per_offset),))

    def stretches(self, start_offset: int, end_offset: int) -> Iterator[Stretch]:
        """All of `[start_offset, end_offset)`, in order."""
        offsets = [offset for offset, _ in self.samples]
        inner = offsets[
            bisect.bisect_right(offsets, start_offset) : bisect.bisect_left(offsets, end_offset)
        ]
        for start, end in itertools.pairwise([start_offset, *inner, end_offset]):
            before = self.samples[max(0, bisect.bisect_right(offsets, start) - 1)][1]
            after = self.samples[min(len(offsets) - 1, bisect.bisect_left(offsets, end))][1]
            yield Stretch(start, end, max(before, after))

    def size_bytes(self, start_offset: int, end_offset: int) -> float:
        """About how much lies there."""
        return sum(each.size_bytes for each in self.stretches(start_offset, end_offset))

    def end_within(self, start_offset: int, end_offset: int, size_bytes: float) -> int:
        """How far about `size_bytes` reach from `start_offset` on, at most to `end_offset`."""
        for each in self.stretches(start_offset, end_offset):
            if each.size_bytes > size_bytes:
                return each.start_offset + int(size_bytes / each.bytes_per_offset)
            size_bytes -= each.size_bytes
        return end_offset

    def split(self, whole: OffsetRange, part_bytes: int) -> list[OffsetRange]:
        """The range in parts of about the same bytes, none of them above `part_bytes`.

        Beyond a number of parts that no driver could plan, parts get larger.
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


#: Where nobody can tell.
_USUAL: Final = Density.mean(128.0)


def split_by_bytes(
    ranges: Iterable[OffsetRange], densities: Mapping[TopicPartition, Density]
) -> list[OffsetRange]:
    """Ranges of a size that is good for a task; empty ones are dropped.

    What nothing is known of gets no size: it may be larger than it seems.
    """
    pieces: list[OffsetRange] = []
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

    Every partition gets its share by how much it holds, and at least one offset.
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


def places_to_sample(whole: OffsetRange, samples: dict[int, float]) -> list[int]:
    """Where samples are wanted next, if `samples` is what is known; none when it is enough.

    First both ends; a stream has seen the offset before its start, where the last batch ended, and
    that will do. Then the middle of all that may hold too much, until nothing does.
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
    room = _SAMPLES_MAX - len(within)
    large = [
        each
        for each in Density.of(within.items()).stretches(whole.start_offset, whole.end_offset)
        if each.size_bytes > _STRETCH_BYTES and each.end_offset - each.start_offset > 1
    ]
    large.sort(key=lambda each: each.size_bytes, reverse=True)
    middles = {(each.start_offset + each.end_offset) // 2 for each in large[: max(0, room)]}
    return sorted(middles - samples.keys())
