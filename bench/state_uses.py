"""A keyed state that counts, exactly once, with a commit every 100 ms: by columns, and one by one.

The input lies in the broker when a round begins. Each batch writes the new counts of its keys to an
output topic. What is told is the processor time of the process that counts, without the broker's,
and the rate on this machine, which both share.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa

import drumlin
from bench.brokers import Broker, brokers
from bench.harness import Comparison, Metric, Metrics, Options, compare
from drumlin.state import Processor

_RECORDS: Final = 2_000_000
_KEYS: Final = 10_000
_PARTITIONS: Final = 2
_WRITTEN_AT_ONCE: Final = 100_000
_groups = itertools.count()

Work = Callable[[Processor, pa.RecordBatch, str], None]


def run(options: Options) -> list[Comparison]:
    """All ways of counting, on both brokers."""
    metrics = (
        Metric("cpu", "processor µs/record", higher_is_better=False, limit=5.0),
        Metric("rate", "records/s"),
    )
    results = []
    count = int(_RECORDS * options.scale)
    with brokers(options) as both:
        for name, work in (("count_by", _columns), ("update_many", _sums), ("records", _records)):
            sides = {each.name: _counting(each, work, count) for each in both}
            results += compare("state_uses", name, metrics, sides, options)
    return results


def _counting(broker: Broker, work: Work, count: int) -> Callable[[], Metrics]:
    topic = broker.create_topic(_PARTITIONS)
    random = np.random.default_rng(7)
    with drumlin.connect(broker.address) as client:
        for start in range(0, count, _WRITTEN_AT_ONCE):
            rows = min(_WRITTEN_AT_ONCE, count - start)
            keys = np.char.add("customer-", random.integers(_KEYS, size=rows).astype(str))
            values = pa.array(random.integers(100, size=rows)).cast(pa.string())
            client.append({"key": pa.array(keys), "value": values}, topic)

    def measure() -> Metrics:
        group = f"bench-{next(_groups)}"
        cpu_began = time.process_time()  # waiting for partitions costs none
        with (
            broker.topic() as output,
            drumlin.state.processor(
                topic, group=group, state="counts", bootstrap=broker.address
            ) as processor,
        ):
            left = count
            began = 0.0
            for batch in processor:
                if left == count:  # it has its partitions by now
                    began = time.perf_counter()
                work(processor, batch, output)
                left -= batch.num_rows
                if left == 0:
                    break
            processor.close()  # with the last commit
            seconds, cpu = time.perf_counter() - began, time.process_time() - cpu_began
        return {"rate": count / seconds, "cpu": 1e6 * cpu / count}

    return measure


def _columns(processor: Processor, batch: pa.RecordBatch, output: str) -> None:
    counts = processor.state.count_by(batch.column("key"))
    processor.append({"key": counts["key"], "value": counts["count"].cast("string")}, output)


def _sums(processor: Processor, batch: pa.RecordBatch, output: str) -> None:
    rows = pa.table({"key": batch["key"], "value": batch["value"].cast("string").cast("int64")})
    sums = rows.group_by("key").aggregate([("value", "sum")])
    state = processor.state
    keys, more = sums["key"].to_pylist(), sums["value_sum"].to_pylist()
    totals = [
        b"%d" % (int(state.get(key, b"0")) + each) for key, each in zip(keys, more, strict=True)
    ]
    state.update_many(keys, totals)
    processor.append({"key": keys, "value": totals}, output)


def _records(processor: Processor, batch: pa.RecordBatch, output: str) -> None:
    state = processor.state
    for key in batch.column("key").to_pylist():
        count = b"%d" % (int(state.get(key, b"0")) + 1)
        state[key] = count
        processor.send(output, count, key)
