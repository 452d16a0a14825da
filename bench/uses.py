"""What the log is for: a table that follows, beside a dictionary that a program fills itself.

A broker of Drumlin has the topic. `table_load`: until a topic of a million keys
can be looked up; theirs is confluent-kafka, record by record. `table_lookup`: keys in random order;
theirs is the dictionary itself. `state_takeover`: a million keys of state, whose owner is killed;
theirs has no standby. `captures.py` has rows of a database, `stores.py` those of the same topic in
stores, `landings.py` a table of Delta.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from confluent_kafka import Consumer, TopicPartition

from bench import captures, landings, stores
from bench.brokers import Broker, drumlin
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.state_takeover import takeover
from drumlin.client.client import Client, connect

_KEYS: Final = 1_000_000
_APPENDED: Final = 100_000
_LOOKUPS: Final = 200_000
_BATCH: Final = 10_000
_SETTINGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",  # six seconds by default
}
_LOAD: Final = Metric("rate", "keys/s", target=4.0)
_CPU: Final = Metric("cpu", "CPU s/million keys", higher_is_better=False)
_TAKEOVER: Final = Metric("time", "s", higher_is_better=False, limit=5.0)
_LOOKUP: Final = Metric("time", "CPU µs", higher_is_better=False, limit=1.0)


def run(options: Options) -> list[Comparison]:
    """All rows, or those that are chosen."""
    keys = round(_KEYS * options.scale)
    results: list[Comparison] = []
    with (
        drumlin(options, _SETTINGS) as broker,
        broker.topic(1, **{"cleanup.policy": "compact"}) as topic,
        connect(broker.address) as client,
    ):
        if not options.rows or set(options.rows) - {*captures.ROWS, *landings.ROWS}:
            _fill(client, topic, keys)
        sides: dict[str, Any]
        if not options.rows or "table_load" in options.rows:
            sides = {
                "client.table": lambda: _timed(keys, lambda: client.table(topic).close()),
                "a dict by confluent": lambda: _timed(keys, lambda: _dict(broker, topic, keys)),
            }
            results += compare("uses", "table_load", [_LOAD, _CPU], sides, options)
        if not options.rows or "table_lookup" in options.rows:
            names = [b"user-%d" % random.randrange(keys) for _ in range(_LOOKUPS)]
            with client.table(topic) as table:
                plain = dict(table.items())
                sides = {
                    "client.table": lambda: _lookups(table, names),
                    "a dict": lambda: _lookups(plain, names),
                }
                results += compare("uses", "table_lookup", [_LOOKUP], sides, options)
        if not options.rows or set(options.rows) & set(stores.ROWS):
            results += stores.run(
                options, client, topic, lambda: _records(broker, topic, keys), keys
            )
        if not options.rows or set(options.rows) & set(captures.ROWS):
            results += captures.run(options, broker)
        if not options.rows or set(options.rows) & set(landings.ROWS):
            results += landings.run(options, broker, client)
        if not options.rows or "state_takeover" in options.rows:
            sides = {
                "a standby": lambda: takeover(broker, client, keys, 1),
                "from the changelog": lambda: takeover(broker, client, keys, 0),
            }
            results += compare("uses", "state_takeover", [_TAKEOVER], sides, options)
    return results


def _fill(client: Client, topic: str, keys: int) -> None:
    for start in range(0, keys, _APPENDED):
        numbers = range(start, min(start + _APPENDED, keys))
        rows = {
            "key": [b"user-%d" % each for each in numbers],
            "value": [b"value of the user %d" % each for each in numbers],
        }
        client.append(pa.table(rows), topic)


def _timed(keys: int, work: Any) -> Metrics:
    begun_s, begun_cpu_s = time.perf_counter(), time.process_time()
    work()
    cpu_s = time.process_time() - begun_cpu_s
    return {"rate": keys / (time.perf_counter() - begun_s), "cpu": cpu_s / keys * 1e6}


def _lookups(table: Any, names: list[bytes]) -> Metrics:
    begun_s = time.thread_time()
    for name in names:
        table[name]
    return {"time": (time.thread_time() - begun_s) / len(names) * 1e6}


def _records(broker: Broker, topic: str, keys: int) -> Iterator[list[tuple[bytes, bytes]]]:
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0
    try:
        while read < keys:
            found = consumer.consume(_BATCH, 1.0)
            read += len(found)
            yield [(each.key() or b"", each.value() or b"") for each in found]
    finally:
        consumer.close()


def _dict(broker: Broker, topic: str, keys: int) -> None:
    dict(itertools.chain.from_iterable(_records(broker, topic, keys)))
