"""How the time of a cleaning grows: with the size of the log, and with its share of distinct keys.

Draws `compaction.png`: both brokers in both charts.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence

from bench.brokers import Broker, brokers
from bench.compacted_topics import CLEANER_SETTINGS, Contents, compacted_topic
from bench.harness import Comparison, Metric, Metrics, Options, Stopwatch, compare
from bench.report import Curve, write_curves

_ROUNDS_MAX = 3
_RECORDS = (1_000_000, 2_000_000, 4_000_000, 8_000_000)
_SHARE = 1 / 6  # of distinct keys, where the size changes
_SHARES = (0.01, 0.1, 0.25, 0.5, 1.0)
_RECORDS_OF_SHARES = 4_000_000  # no more keys than Kafka's map of 128 MiB takes
_METRIC = Metric("seconds", "s until done", higher_is_better=False)


def run(options: Options) -> list[Comparison]:
    """One comparison a point of the charts."""
    by_size = [
        Contents(round(each * options.scale), _keys(each, _SHARE, options)) for each in _RECORDS
    ]
    records = round(_RECORDS_OF_SHARES * options.scale)
    by_share = [Contents(records, _keys(_RECORDS_OF_SHARES, each, options)) for each in _SHARES]
    with brokers(options, CLEANER_SETTINGS) as sides:
        measure = functools.partial(_measure, sides, options)
        # The virtual machine is warm after the first point; the others need no warm-up.
        measure(by_share[0], options.warmup)
        sizes = [measure(each, 0) for each in by_size]
        shares = [measure(each, 0) for each in by_share]
    options.output.mkdir(parents=True, exist_ok=True)
    write_curves(
        options.output / "compaction.png",
        "Time to clean a log of records of 200 B",
        [
            Curve(
                "log size in GB, 1/6 of the keys distinct",
                [_gigabytes(each) for each in by_size],
                sizes,
            ),
            Curve(
                f"distinct keys in % of {records / 1e6:g} M records",
                [100 * each.distinct_keys / each.records for each in by_share],
                shares,
            ),
        ],
    )
    return sizes + shares


def _keys(records: int, share: float, options: Options) -> int:
    return max(1, round(records * options.scale * share))


def _gigabytes(contents: Contents) -> float:
    return contents.records * 200 / 1e9


def _measure(
    sides: Sequence[Broker], options: Options, contents: Contents, warmup: int
) -> Comparison:
    rounds = min(options.rounds, _ROUNDS_MAX) if not warmup else 1
    share = contents.distinct_keys / contents.records
    scenario = f"{_gigabytes(contents):.2g} GB, {share:.0%} distinct"
    turns = {each.name: _round(each, options, contents) for each in sides}
    fewer = dataclasses.replace(options, rounds=rounds, warmup=warmup)
    return compare("compaction_growth", scenario, [_METRIC], turns, fewer)[0]


def _round(broker: Broker, options: Options, contents: Contents) -> Callable[[], Metrics]:
    def measure() -> Metrics:
        with compacted_topic(broker, options, contents) as topic:
            with Stopwatch(broker.pid) as watch:
                topic.clean()
            topic.verify()
            return {"seconds": watch.seconds}

    return measure
