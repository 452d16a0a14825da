"""The shapes that real clients have: Drumlin beside Apache Kafka, with a goal for most rows.

Raw requests that are all different, Java's performance tools, librdkafka, crowds of connections,
and requests of many partitions. What a request or record costs the broker in processor time is
the figure that a busy machine disturbs least, so it is always there.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence

from bench.brokers import Broker, brokers
from bench.harness import Comparison, Options
from bench.real_clients import crowds, java, librdkafka, raw

_ROUNDS_MAX = 5
_WARMUP_MAX = 2
#: From so much of a core on the load generator, not the broker, may be what is measured.
_GENERATOR_BOUND = 85.0
ROWS: dict[str, Callable[[Sequence[Broker], Options], list[Comparison]]] = {
    name: row for each in (raw, java, librdkafka, crowds) for name, row in each.rows()
}


def run(options: Options) -> list[Comparison]:
    """The rows that are asked for by name or by its beginning, or all."""
    chosen = [name for name in ROWS if not options.rows or _is_meant(name, options.rows)]
    if not chosen:
        raise ValueError(f"no such row; there are {', '.join(ROWS)}")
    fewer = dataclasses.replace(
        options,
        rounds=min(options.rounds, _ROUNDS_MAX),
        warmup=min(options.warmup, _WARMUP_MAX),
    )
    results: list[Comparison] = []
    with brokers(fewer) as both:
        for name in chosen:
            try:
                results += ROWS[name](both, fewer)
            except Exception as error:
                # The other rows still have something to say.
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    _name_bound(results)
    return results


def _is_meant(name: str, asked: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}_") for each in asked)


def _name_bound(results: Sequence[Comparison]) -> None:
    bound = [
        f"{each.scenario} ({side})"
        for each in results
        if each.metric.name == "generator"
        for side, busy in ((each.our_name, each.our_median), (each.their_name, each.their_median))
        if busy >= _GENERATOR_BOUND
    ]
    if bound:
        print("Rates bound by the load generator; only processor time counts there:")
        print("".join(f"  {each}\n" for each in bound), end="")
