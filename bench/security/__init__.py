"""What TLS and ACLs cost: Drumlin beside Apache Kafka with the same certificates.

Loads come through TLS to both brokers; what a gigabyte, a request or a handshake costs the broker
in processor time is the figure that a busy machine disturbs least. What OpenSSL alone costs is
asked of a bare loop; what ACLs cost, of Drumlin alone, with them and without; how long a storm of
handshakes keeps its loop, of its turns; how long one tenant's flood lets the others wait, of
brokers of their own, with quotas; what the brokers of one machine let a client have, of its quota.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from bench.harness import Comparison, Options
from bench.security import authorization, flood, floor, handshakes, loads, machine_quota
from bench.security.sides import TlsBroker, both_with_tls

_ROUNDS_MAX = 5
_WARMUP_MAX = 3
_OF_BOTH: dict[str, Callable[[Sequence[TlsBroker], Options], list[Comparison]]] = {
    **loads.ROWS,
    **handshakes.ROWS,
    **floor.ROWS,
}
_APART: dict[str, Callable[[Options], list[Comparison]]] = {
    **authorization.ROWS,
    **flood.ROWS,
    **machine_quota.ROWS,
    "storm": handshakes.storm,
}


def run(options: Options) -> list[Comparison]:
    """The rows that are asked for by name, or all."""
    names = [*_OF_BOTH, *_APART]
    unknown = set(options.rows) - set(names)
    if unknown:
        raise ValueError(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    fewer = dataclasses.replace(
        options,
        rounds=min(options.rounds, _ROUNDS_MAX),
        warmup=min(options.warmup, _WARMUP_MAX),
    )
    chosen = [each for each in names if not options.rows or each in options.rows]
    results: list[Comparison] = []
    if any(each in _OF_BOTH for each in chosen):
        with both_with_tls(fewer) as sides:
            for name in chosen:
                if name in _OF_BOTH:
                    results += _OF_BOTH[name](sides, fewer)
    for name in chosen:
        if name in _APART:
            results += _APART[name](fewer)
    return results
