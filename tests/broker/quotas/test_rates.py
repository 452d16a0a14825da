"""Sampled rates and token buckets, beside what Apache Kafka's own classes said.

`throttle_times_of_kafka.txt` was written by `Rate` and `TokenBucket` of Kafka 4.3: a line for each
window, with the time to wait after each of 150 records.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from drumlin.broker.quotas.rate import THROTTLE_MS_MAX, SampledRate, Window
from drumlin.broker.quotas.token_bucket import TokenBucket

_LINES = Path(__file__).with_name("throttle_times_of_kafka.txt").read_text().splitlines()


def _numbers(seed: int) -> Callable[[int], int]:
    """The numbers that the lines were made with: below a bound."""

    def following(bound: int) -> int:
        nonlocal seed
        seed = (seed * 1103515245 + 12345) & 0x7FFFFFFF
        return (seed >> 8) % bound

    return following


@pytest.mark.parametrize("line", _LINES, ids=lambda line: " ".join(line.split()[:3]))
def test_throttle_times(line: str) -> None:
    kind, samples, sample_s, *told = line.split()
    window = Window(int(samples), int(sample_s) * 1000)
    below = _numbers(int(samples) * 100 + int(sample_s))
    rate, bucket = SampledRate(), TokenBucket()
    now_ms, found = 1_000_000, []
    for _ in told:
        now_ms += below(15_000) if below(20) == 0 else below(700)
        if kind == "rate":
            value = below(1500)
            rate.record(window, value - (1200 if below(10) == 0 else 0), now_ms)
            found.append(rate.throttle_ms(window, 1000, now_ms))
        else:
            bucket.take(window, 3, below(5), now_ms)
            found.append(bucket.throttle_ms(window, 3, now_ms))
    assert found == list(map(int, told))


def test_what_is_out_of_all_proportion_fits_into_an_answer() -> None:
    rate = SampledRate()
    rate.record(Window(11, 1000), 1e30, 0)
    for bound in (0.0, 1e-300, 1.0):
        assert rate.throttle_ms(Window(11, 1000), bound, 0) == THROTTLE_MS_MAX
    assert rate.throttle_ms(Window(11, 1000), float("inf"), 0) == 0
