"""What goes wrong in a run, drawn beforehand from the seed.

A fault names nobody: it carries a number by which its victim is picked when its time has come. So a
run can be repeated without some of its faults.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

#: Drawn by itself: in runs without it, all else is as it was.
_RETENTION = "retention"


class Fault(NamedTuple):
    at_ms: int
    kind: str
    #: By which a victim is picked, its other end, and how bad it is; each from 0 up to 1.
    victim: float
    other: float
    extent: float

    def __str__(self) -> str:
        return (
            f"{self.at_ms:6d} {self.kind} ({self.victim:.3f}, {self.other:.3f}, {self.extent:.3f})"
        )


def draw(seed: int, kinds: Mapping[str, int], until_ms: int) -> list[Fault]:
    """The faults of a run."""
    source = random.Random(f"faults {seed}")
    kinds = {kind: weight * source.choice((0, 0, 1, 1, 2, 6)) for kind, weight in kinds.items()}
    kinds["flush"] = max(kinds["flush"], 1)
    if source.random() < 0.6:
        kinds["clean"] = 0
    faults: list[Fault] = []
    interval_ms = source.choice((150, 300, 600))
    at_ms = 600
    while True:
        at_ms += int(source.expovariate(1 / interval_ms)) + 1
        if at_ms >= until_ms:
            return sorted(faults + _retentions(seed, until_ms))
        (kind,) = source.choices(list(kinds), list(kinds.values()))
        faults.append(Fault(at_ms, kind, source.random(), source.random(), source.random()))


def _retentions(seed: int, until_ms: int) -> list[Fault]:
    """In some runs logs are short: now and then a replica removes old records, or all."""
    source = random.Random(f"retention {seed}")
    if source.random() < 0.65:
        return []
    times = [source.randrange(600, until_ms) for _ in range(source.choice((2, 6, 20)))]
    return [
        Fault(at_ms, _RETENTION, source.random(), source.random(), source.random())
        for at_ms in times
    ]
