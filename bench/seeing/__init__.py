"""What it costs to be looked at: Drumlin with metrics beside itself without, and its console.

A broker has 5,000 partitions and 500 groups (`--scale`), and its metrics are fetched every 15
seconds (`--scale`, too), once a round. Beside it runs one that counts no requests and is not asked.
How long a scrape keeps the event loop, of its turns; what the console asks while nobody looks at
it, of the broker's counts, and how smoothly its list of topics scrolls; `drumlin consume` beside
kcat is `consume_command`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from bench import consume_command
from bench.harness import Comparison, Options
from bench.seeing import console, frames, scrapes, traffic

ROWS: dict[str, Callable[[Options], list[Comparison]]] = {
    **traffic.ROWS,
    **scrapes.ROWS,
    **console.ROWS,
    **frames.ROWS,
    "consume": lambda options: consume_command.run(dataclasses.replace(options, rows=())),
}


def run(options: Options) -> list[Comparison]:
    """The rows that are asked for by name, or all."""
    unknown = set(options.rows) - set(ROWS)
    if unknown:
        raise ValueError(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    chosen = [each for each in ROWS if not options.rows or each in options.rows]
    return [row for name in chosen for row in ROWS[name](options)]
