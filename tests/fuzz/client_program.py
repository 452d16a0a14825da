"""Run as a program: everything that a client does, again and again, with little memory.

    python -m fuzz.client_program ADDRESS SECONDS

Ends with 0 and says how often what was raised. An exception that is not the client's own shows as
a traceback, and ends it with 1; so does a call that takes far longer than its limits allow.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import time
from collections import Counter
from collections.abc import Callable

import pyarrow as pa

import drumlin
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.consumer.options import GroupProtocol
from drumlin.client.errors import ClientError, TopicExists
from fuzz.limits import limit_memory

_REQUEST_TIMEOUT_MS = 1000
_STUCK_S = 60.0
_PROTOCOLS: tuple[GroupProtocol, ...] = ("classic", "consumer")


def main(address: str, seconds: float) -> None:
    table = pa.table({"value": ["a", "b", "c"], "key": ["k", None, "l"]})
    outcomes: Counter[str] = Counter()
    _all_calls(address, table, outcomes, time.monotonic())  # what is loaded lazily is loaded now
    limit_memory(os.getpid())
    _all_calls(address, table, outcomes, time.monotonic() + seconds)
    print(", ".join(f"{count} {what}" for what, count in sorted(outcomes.items())))


def _all_calls(address: str, table: pa.Table, outcomes: Counter[str], deadline: float) -> None:
    while True:
        for call in _CALLS:
            faulthandler.dump_traceback_later(_STUCK_S, exit=True)
            try:
                with drumlin.connect(
                    address,
                    request_timeout_ms=_REQUEST_TIMEOUT_MS,
                    connect_timeout_ms=_REQUEST_TIMEOUT_MS,
                ) as client:
                    call(client, table)
                outcomes["done"] += 1
            except ClientError as error:
                outcomes[type(error).__name__] += 1
        faulthandler.cancel_dump_traceback_later()
        if time.monotonic() >= deadline:
            return


def _describe(client: Client, _: pa.Table) -> None:
    client.list_topics()
    client.describe_topics(["t"])
    client.topic_configs("t")


def _change(client: Client, _: pa.Table) -> None:
    with contextlib.suppress(TopicExists):
        client.create_topic("new")
    client.add_partitions("t", 4)
    client.set_topic_configs("t", {"retention.ms": "1000"})
    client.delete_topic("new")


def _offsets(client: Client, _: pa.Table) -> None:
    client.offsets("t")
    lowlevel.partition_sizes(client, [("t", 0)])


def _read(client: Client, _: pa.Table) -> None:
    client.read("t")


def _append(client: Client, table: pa.Table) -> None:
    client.append(table, "t", delivery_timeout_ms=_REQUEST_TIMEOUT_MS)


def _write(client: Client, _: pa.Table) -> None:
    with client.writer("t", delivery_timeout_ms=_REQUEST_TIMEOUT_MS) as writer:
        writer.send("v", key="k")


def _consume(client: Client, _: pa.Table) -> None:
    for protocol in _PROTOCOLS:
        with client.consumer(["t"], group="g", protocol=protocol) as consumer:
            consumer.poll(timeout_ms=_REQUEST_TIMEOUT_MS)
            consumer.commit()


_CALLS: tuple[Callable[[Client, pa.Table], None], ...] = (
    _describe,
    _change,
    _offsets,
    _read,
    _append,
    _write,
    _consume,
)

if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
