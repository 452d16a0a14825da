"""`drumlin bench`: a quick look at how fast a cluster is, from here.

Writes to a topic of its own, which it removes. The figures include this client and the network on
the way: they say what one program on this machine gets, not what the cluster could do.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import click

from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.records.produce import Acks, Compression
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.client import Client
    from drumlin.client.consumer import Consumer
    from drumlin.client.write.open_batch import Delivered

EXAMPLES: Final = examples(
    "drumlin bench",
    "drumlin bench --seconds 60 --partitions 12 --record-bytes 100 --compression lz4",
    "drumlin bench --json | jq '.[] | {measure, p99_ms}'",
)
_COLUMNS: Final = ("measure", "records", "rate", "bytes_rate", "p50", "p95", "p99", "max")
_CHUNK_BYTES: Final = 8 << 20
_LATE_S: Final = 10
_PERCENTILES: Final = (50, 95, 99)


def bench(
    seconds: Annotated[
        int, Option("--seconds", "-s", min=1, help="How long in all; a third for each part.")
    ] = 10,
    record_bytes: Annotated[
        int, Option("--record-bytes", min=8, max=1_000_000, help="The size of values.")
    ] = 1000,
    partitions: Annotated[int, Option("--partitions", "-p", min=1, help="Of the topic.")] = 1,
    replication_factor: Annotated[
        int, Option("--replication-factor", help="Of the topic; default: the broker's.")
    ] = -1,
    compression: Annotated[
        Compression, Option("--compression", "-z", help="The codec of batches.")
    ] = Compression.NONE,
    acks: Annotated[Acks, Option("--acks", help="Which replicas to wait for.")] = Acks.ALL,
    rate: Annotated[
        int, Option("--rate", min=1, max=10_000, help="Records per second to measure latency by.")
    ] = 100,
    limit: Annotated[
        int, Option("--limit", metavar="MIB", min=1, help="Write at most this much.")
    ] = 512,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast a cluster is: rates of writing and reading, and latencies.

    Makes a topic of its own, and removes it. First it writes, as quickly as it can, then it reads
    what it has written; then it writes single records at a low rate, and measures when
    they are acknowledged, and when they arrive at a consumer. It is a load on the cluster.
    """
    from drumlin.client.client import connect

    if acks is Acks.NONE:
        raise click.BadParameter("--acks none: nothing would tell what was written")
    settings = settings_of(command_config)
    delivery = {"compression": str(compression), "acks": str(acks)}
    with connect(bootstrap, **settings) as writing, connect(bootstrap, **settings) as reading:
        chunk = _chunk(record_bytes)
        with _own_topic(writing, partitions, replication_factor) as topic:
            run = _Run(writing, topic, partitions, record_bytes, seconds / 3, delivery)
            rows = [_write(run, chunk, limit << 20), _read(reading, run)]
            rows += _latencies(run, reading, rate)
    if as_json:
        output.show_json(rows)
    else:
        output.show_rows([_shown(row) for row in rows], _COLUMNS, as_json=False)


@dataclass(frozen=True, slots=True)
class _Run:
    """What the parts of one run share."""

    client: Client
    topic: str
    partitions: int
    record_bytes: int
    seconds: float  # of each part
    delivery: dict[str, Any]


@contextmanager
def _own_topic(client: Client, partitions: int, replication_factor: int) -> Iterator[str]:
    """A new topic, which is removed afterwards, even after an error."""
    topic = f"drumlin-bench-{uuid.uuid4().hex[:8]}"
    client.create_topic(topic, partitions, replication_factor=replication_factor)
    output.note(f"topic {topic}: made for this, removed at the end")
    try:
        yield topic
    finally:
        client.delete_topic(topic)


def _chunk(record_bytes: int) -> pa.Table:
    """Records to be written again and again; a codec makes about half of them."""
    import numpy as np
    import pyarrow as pa

    count = max(1, _CHUNK_BYTES // record_bytes)
    letters = np.frombuffer(b"0123456789abcdef", np.uint8)
    values = letters[np.random.default_rng(7).integers(0, 16, count * record_bytes, np.uint8)]
    ends = np.arange(count + 1, dtype=np.int32) * record_bytes
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(values)]
    return pa.table({"value": pa.Array.from_buffers(pa.binary(), count, buffers)})


def _write(run: _Run, chunk: pa.Table, limit_bytes: int) -> dict[str, Any]:
    # Before the clock starts, connections are made.
    run.client.append(chunk.slice(0, 1), run.topic, **run.delivery)
    records = size = 0
    started = time.perf_counter()
    while (took := time.perf_counter() - started) < run.seconds and size < limit_bytes:
        run.client.append(chunk, run.topic, **run.delivery)
        records += chunk.num_rows
        size += chunk.num_rows * run.record_bytes
        took = time.perf_counter() - started
    return _rates("produce", records, size, took)


def _read(client: Client, run: _Run) -> dict[str, Any]:
    """Read the topic, again and again if it is short."""
    records = size = 0
    started = time.perf_counter()
    while (took := time.perf_counter() - started) < run.seconds:
        for batch in client.read_batches(run.topic, columns=["value"]):
            records += batch.num_rows
            size += batch.num_rows * run.record_bytes
            took = time.perf_counter() - started
            if took >= run.seconds:
                break
    return _rates("consume", records, size, took)


def _rates(measure: str, records: int, size: int, seconds: float) -> dict[str, Any]:
    return {
        "measure": measure,
        "records": records,
        "records_per_s": round(records / seconds),
        "bytes_per_s": round(size / seconds),
    }


def _latencies(run: _Run, reading: Client, rate: int) -> list[dict[str, Any]]:
    """Latencies of single records, counted from when each was due, so that no stall is hidden."""
    count = max(1, int(rate * run.seconds))
    sender = _Sender(run, count, rate)
    arrived: list[float] = []
    places = [(run.topic, each) for each in range(run.partitions)]
    ends = reading.offsets(run.topic)
    with reading.consumer(assign=places, columns=["value"]) as consumer:
        for topic, partition in places:
            consumer.seek(topic, partition, ends[partition])
        _wait_until_it_reads(run, consumer)
        sender.bases = {each: end + 1 for each, end in ends.items()}
        sender.start()
        deadline = time.perf_counter() + run.seconds + _LATE_S
        while len(arrived) < count and sender.error is None and time.perf_counter() < deadline:
            batch = consumer.poll(timeout_ms=100)
            now = time.perf_counter()
            values = [] if batch is None else batch["value"].to_pylist()
            numbers = (int.from_bytes(each[:8], "big") for each in values)
            arrived += [now - sender.due[each] for each in numbers]
        sender.join(_LATE_S)
    if sender.error is not None:
        raise sender.error
    if len(arrived) < count:
        raise output.Failure(f"{count - len(arrived)} of {count} records did not arrive in time")
    return [_percentiles("acks", sender.acknowledged), _percentiles("end to end", arrived)]


class _Sender(threading.Thread):
    """Writes single records at a rate, and notes when each was due and was acknowledged."""

    def __init__(self, run: _Run, count: int, rate: int) -> None:
        super().__init__(daemon=True)
        self._run = run
        self._count = count
        self._rate = rate
        self.due: list[float] = []
        self.acknowledged: list[float] = []
        self.bases: dict[int, int] = {}  # the offset of the first record in each partition
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self._send()
        except Exception as error:  # noqa: BLE001 - reported by the thread that waits
            self.error = error

    def _send(self) -> None:
        run = self._run
        with run.client.writer(
            run.topic, linger_ms=0, on_delivery=self._note, **run.delivery
        ) as writer:
            started = time.perf_counter()
            for number in range(self._count):
                at = started + number / self._rate
                time.sleep(max(0.0, at - time.perf_counter()))
                self.due.append(at)
                value = number.to_bytes(8, "big").ljust(run.record_bytes, b".")
                writer.send(value, partition=number % run.partitions)

    def _note(self, delivered: Delivered | None, _: BaseException | None) -> None:
        now = time.perf_counter()
        if delivered is not None:  # a failure is raised when the writer is closed
            partition = delivered.partition
            turn = delivered.offset - self.bases[partition]
            self.acknowledged.append(now - self.due[turn * self._run.partitions + partition])


def _wait_until_it_reads(run: _Run, consumer: Consumer) -> None:
    """Write a record to each partition, and wait until the consumer has them all."""
    with run.client.writer(run.topic, linger_ms=0, **run.delivery) as writer:
        for partition in range(run.partitions):
            writer.send(b"", partition=partition)
    left = run.partitions
    deadline = time.perf_counter() + _LATE_S
    while left:
        batch = consumer.poll(timeout_ms=100)
        left -= 0 if batch is None else batch.num_rows
        if time.perf_counter() > deadline:
            raise output.Failure(f"{run.topic}: records do not arrive within {_LATE_S} seconds")


def _percentiles(measure: str, seconds: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(1000 * each for each in seconds)
    found = {
        # The least time within which this many in a hundred were done.
        f"p{each}_ms": round(ordered[-(-len(ordered) * each // 100) - 1], 3)
        for each in _PERCENTILES
    }
    return {"measure": measure, "records": len(ordered), **found, "max_ms": round(ordered[-1], 3)}


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """A row for people, with units."""
    shown = {"measure": row["measure"], "records": row["records"]}
    if "records_per_s" in row:
        shown["rate"] = f"{row['records_per_s']:,}/s"
        shown["bytes_rate"] = f"{output.human_bytes(row['bytes_per_s'])}/s"
    for name in (*(f"p{each}" for each in _PERCENTILES), "max"):
        if f"{name}_ms" in row:
            shown[name] = f"{row[f'{name}_ms']:.2f} ms"
    return shown


bench_command: Final = command(bench, epilog=EXAMPLES)
