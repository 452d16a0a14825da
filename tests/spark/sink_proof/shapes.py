"""What stands in the source, and what must come to stand in the target, by shape."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from spark.sink_proof.plan import FIRST_MS, KEYS, PARTITIONS, SOURCE, STEP_MS, WINDOW_RECORDS, Plan
from spark.sink_proof.reading import Row
from spark.topics import Headers, Produced

#: Closes every window before it, and lies in the past, as brokers refuse what is to come.
_LAST_MS = FIRST_MS + 30_000_000_000


def source_records(plan: Plan) -> Iterator[Produced]:
    """By turns in all partitions; every value is another."""
    for number in range(plan.rows):
        is_last = plan.shape == "windows" and number == plan.rows - 1
        timestamp = _LAST_MS if is_last else FIRST_MS + number * STEP_MS
        yield number % PARTITIONS, _key(number), b"%d" % number, timestamp, _headers(number)


def _key(number: int) -> bytes | None:
    return None if number % 11 == 0 else b"key-%d" % (number % KEYS)


def _headers(number: int) -> Headers | None:
    return [("number", b"%d" % number), ("none", None)] if number % 5 == 0 else None


def expected_rows(plan: Plan, checkpoint: Path) -> list[Row]:
    """What a reader must find, in any order; with updates it is for Spark to say when."""
    if plan.shape == "updates":
        return [Row(*each) for each in _updates(checkpoint)]
    if plan.shape == "windows":
        return [Row(*each) for each in _windows(plan)]
    return [
        Row(key, value, timestamp, tuple(headers or ()))
        for _, key, value, timestamp, headers in source_records(plan)
    ]


def _windows(plan: Plan) -> Iterator[tuple[bytes, bytes]]:
    """Their starts and counts; the window of the last record stays open."""
    for first in range(0, plan.rows - 1, WINDOW_RECORDS):
        count = min(WINDOW_RECORDS, plan.rows - 1 - first)
        yield b"%d" % (FIRST_MS + first * STEP_MS), b"%d" % count


def _updates(checkpoint: Path) -> Iterator[tuple[bytes | None, bytes]]:
    """The counts of the keys that each batch has, as far as its end; the journal tells where."""
    counts: Counter[bytes | None] = Counter()
    done = dict.fromkeys(range(PARTITIONS), 0)
    journal = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    for entry in journal:
        ends = json.loads(entry.read_text().splitlines()[-1])[SOURCE]
        touched = set()
        for partition, end in ends.items():
            for offset in range(done[int(partition)], end):
                key = _key(offset * PARTITIONS + int(partition))
                counts[key] += 1
                touched.add(key)
            done[int(partition)] = end
        for key in touched:
            yield key, b"%d" % counts[key]
