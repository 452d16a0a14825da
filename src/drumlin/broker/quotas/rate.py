"""Sampled rates, by the rules of Kafka's `Rate`. Pure.

A rate is the total of the last `samples` periods, divided by the time since the oldest of them
began; periods before the first record count as empty. So a new client has credit for all periods
but one.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from drumlin.broker.quotas.untold import Used

#: Throttle times are an int32 in answers.
THROTTLE_MS_MAX: Final = 2**31 - 1


class Window(NamedTuple):
    """The number of samples that are kept, and the duration of each."""

    samples: int
    sample_ms: int

    @property
    def full_ms(self) -> int:
        """The duration of all samples but the current one."""
        return (self.samples - 1) * self.sample_ms


class _Sample:
    __slots__ = ("began_ms", "last_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.began_ms = self.last_ms = now_ms
        self.total = 0.0


class SampledRate:
    """The recent usage of one client."""

    __slots__ = ("_current", "_samples")

    def __init__(self) -> None:
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, window: Window, value: float, now_ms: int) -> None:
        """Count `value`; a negative one undoes an earlier count."""
        samples = self._samples
        if not samples:
            samples.append(_Sample(now_ms))
        sample = samples[self._current]
        if now_ms - sample.began_ms >= window.sample_ms:
            # One more sample than the window has: the oldest is still partly in the window.
            self._current = (self._current + 1) % (window.samples + 1)
            if self._current == len(samples):
                samples.append(_Sample(now_ms))
            sample = samples[self._current]
            sample.reset(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def hear(self, window: Window, used: Used, now_ms: int) -> None:
        """Count what was used at another broker."""
        self.record(window, used.amount, now_ms)

    def measure(self, window: Window, now_ms: int) -> tuple[float, int]:
        """The total of the window, and its length in ms."""
        oldest_ms = now_ms
        total = 0.0
        for sample in self._samples:
            if now_ms - sample.last_ms >= window.samples * window.sample_ms:
                sample.reset(now_ms)
            oldest_ms = min(oldest_ms, sample.began_ms)
            total += sample.total
        elapsed_ms = now_ms - oldest_ms
        lacking = window.samples - 1 - elapsed_ms // window.sample_ms
        return total, max(elapsed_ms + max(lacking, 0) * window.sample_ms, 1)

    def throttle_ms(self, window: Window, bound: float, now_ms: int) -> int:
        """The time to wait until the rate is `bound` per second, if nothing more is recorded."""
        total, elapsed_ms = self.measure(window, now_ms)
        rate = total * 1000 / elapsed_ms
        if rate <= bound:
            return 0
        if bound <= 0:
            return THROTTLE_MS_MAX
        return rounded_ms((rate - bound) / bound * elapsed_ms)


def rounded_ms(duration_ms: float) -> int:
    """A throttle time as Java rounds it, within the limits of answers."""
    return math.floor(min(duration_ms, THROTTLE_MS_MAX) + 0.5)
