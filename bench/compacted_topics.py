"""Topics for a cleaner: filled alike on every broker, rolled, cleaned, and checked afterwards.

A topic is filled while its policy is `delete`, so that no cleaner begins before all is there.
Then its last segment is rolled, and its policy becomes `compact`: one cleaning takes all of it.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import re
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.brokers import Broker
from bench.harness import Options
from bench.produce import once_led, produce_frame
from drumlin import connect
from drumlin.client.client import Client
from drumlin.records.batch.batch import Buffer
from drumlin.records.columns.arrow_encode import RecordColumns
from rig.waiting import wait_until

BATCH_BYTES = 16 << 10
_SEGMENT_BYTES = 100 << 20
_SMALLEST_SEGMENT_BYTES = 1 << 20
_VALUE_BYTES = 174  # with a key of 16 bytes: 200 bytes a record
_ROWS_AT_ONCE = 1 << 18
_FRAMES_AT_ONCE = 64
_WORDS = 1024  # of 6 letters, of which compressible values are made
_WORD_BYTES = 6
_NOW_MS = 1_700_000_000_000
_ROLL_KEY = b"roll"
_PATIENCE_S = 120
#: Cleaners look for work this often.
BACKOFF_MS = 100
CLEANER_SETTINGS = {
    "log.cleaner.backoff.ms": str(BACKOFF_MS),
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.segment.delete.delay.ms": "1000",
}
_KAFKA_SAYS = re.compile(
    r"cleaned log (?P<log>\S+) \(dirty section = \[(?P<start>[\d,]+), (?P<end>[\d,]+)\]\)\s+"
    r"(?P<size>[\d.,]+) MB of log processed in (?P<seconds>[\d.,]+) seconds"
    r" \((?P<rate>[\d.,]+) MB/sec\)"
)
_DRUMLIN_SAYS = re.compile(
    r"cleaned (?P<log>\S+) up to (?P<end>\d+): .* (?P<rate>[\d.]+) MB/s", re.MULTILINE
)


class Contents(NamedTuple):
    """What a topic is filled with: every key equally often, in an order that is random."""

    records: int
    distinct_keys: int
    compression: str = "none"

    def keys(self) -> NDArray[np.int64]:
        """The number of each record's key, in the order of the log."""
        numbers = np.arange(self.records, dtype=np.int64) % self.distinct_keys
        return np.random.default_rng(self.records).permutation(numbers)

    def expected_offsets(self) -> NDArray[np.int64]:
        """What a cleaning leaves: the last offset of every key."""
        last = np.zeros(self.distinct_keys, np.int64)
        last[self.keys()] = np.arange(self.records)
        return np.sort(last)


@functools.lru_cache(maxsize=1)  # gigabytes; the next contents take their place
def _batches(contents: Contents) -> list[memoryview]:
    """Record batches as a producer sends them: one for every request."""
    keys = contents.keys()
    batches = []
    for start in range(0, contents.records, _ROWS_AT_ONCE):
        part = keys[start : start + _ROWS_AT_ONCE]
        columns = RecordColumns(
            _values(start, len(part)), keys=encoded_keys(part), default_timestamp_ms=_NOW_MS
        )
        batches += columns.encode(max_batch_bytes=BATCH_BYTES, compression=contents.compression)
    return batches


def encoded_keys(numbers: NDArray[np.int64]) -> pa.Array:
    """Keys of 16 bytes: "key-" and twelve digits."""
    digits = numbers[:, None] // 10 ** np.arange(11, -1, -1) % 10 + ord("0")
    prefix = np.broadcast_to(np.frombuffer(b"key-", np.uint8), (len(numbers), 4))
    return _binary(np.hstack([prefix, digits.astype(np.uint8)]))


def _values(seed: int, rows: int) -> pa.Array:
    """Values of random words: lz4 makes two thirds of them, zstd less than half."""
    words = np.random.default_rng(1).integers(97, 123, (_WORDS, _WORD_BYTES), np.uint8)
    chosen = np.random.default_rng(seed).integers(0, _WORDS, (rows, _VALUE_BYTES // _WORD_BYTES))
    return _binary(words[chosen].reshape(rows, -1))


def _binary(rows: NDArray[np.uint8]) -> pa.Array:
    """One value a row, all of one length."""
    count, width = rows.shape
    ends = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(rows))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(ends), data])


def _frames_like(model: bytes, first: Buffer, batches: Iterable[Buffer]) -> Iterator[bytes]:
    """Produce requests for more batches: as `model`, which is one for `first`.

    A frame is made by hand, as encoding 75,000 requests takes longer than cleaning their records.
    """
    position = model.index(bytes(first))
    head = model[4 : position - len(_compact_length(len(first)))]
    tail = model[position + len(first) :]
    for batch in batches:
        body = b"".join((head, _compact_length(len(batch)), batch, tail))
        yield len(body).to_bytes(4, "big") + body


def _compact_length(size: int) -> bytes:
    """How the protocol writes the length of a compact byte string: size + 1, 7 bits a byte."""
    size += 1
    written = bytearray()
    while size > 0x7F:
        written.append(size & 0x7F | 0x80)
        size >>= 7
    written.append(size)
    return bytes(written)


def _receive(connection: socket.socket, size: int) -> None:
    """Answers are only counted: the log's end offset tells whether they were good ones."""
    while size:
        received = len(connection.recv(min(size, 1 << 16)))
        if not received:
            raise RuntimeError("the broker closed the connection")
        size -= received


class CompactedTopic:
    """One partition with known contents, which can be given to its broker's cleaner."""

    def __init__(self, broker: Broker, options: Options, contents: Contents) -> None:
        self.broker = broker
        self.contents = contents
        settings = {"retention.ms": "-1", "segment.bytes": str(_SEGMENT_BYTES)}
        self.name = broker.create_topic(partitions=1, **settings)
        self.log_name = f"{self.name}-0"
        self._directory = options.directory / broker.name.lower() / "data" / self.log_name
        self._fill()
        with connect(broker.address) as client:
            self._roll(client)
        self.size_bytes = sum(each.stat().st_size for each in self._sealed())

    def _fill(self) -> None:
        """Send all batches, some of them unanswered at a time; their order stays."""
        batches = iter(_batches(self.contents))
        first = next(batches)
        model = produce_frame(self.broker, self.name, bytes(first))
        answer_bytes = len(once_led(self.broker, model))
        frames = _frames_like(model, first, batches)
        unanswered = 0
        with socket.create_connection(("127.0.0.1", self.broker.port), 60) as connection:
            while some := list(itertools.islice(frames, _FRAMES_AT_ONCE)):
                connection.sendall(b"".join(some))
                _receive(connection, unanswered * answer_bytes)
                unanswered = len(some)
            _receive(connection, unanswered * answer_bytes)
        if self.end_offset() != self.contents.records:
            raise RuntimeError(f"{self.broker.name} did not append all that was sent")

    def _roll(self, client: Client) -> None:
        """Begin a new active segment after the contents, as the active one is never cleaned."""
        smallest = {"segment.bytes": str(_SMALLEST_SEGMENT_BYTES)}
        client.set_topic_configs(self.name, smallest)
        last = pa.table({"key": [_ROLL_KEY], "value": [b""]})

        def is_rolled() -> bool:
            # The new configuration may still be on its way to the log.
            client.append(last, self.name, acks="leader")
            return (self._directory / f"{self.end_offset() - 1:020}.log").exists()

        wait_until(is_rolled, f"{self.broker.name} to roll {self.log_name}")
        self.sealed_end_offset = self.end_offset() - 1
        client.set_topic_configs(self.name, {"segment.bytes": str(_SEGMENT_BYTES)})

    def end_offset(self) -> int:
        return self.broker.end_offset(self.name)

    def _sealed(self) -> list[Path]:
        return sorted(self._directory.glob("*.log"))[:-1]

    def begin_to_compact(self) -> None:
        """From now on the cleaner may take it."""
        with connect(self.broker.address) as client:
            client.set_topic_configs(self.name, {"cleanup.policy": "compact"})

    def clean(self) -> float:
        """Have it cleaned, and wait; MiB/s as the broker's log says it."""
        self.begin_to_compact()
        return wait_until(self.cleaning_rate, f"{self.broker.name} to clean", _PATIENCE_S)

    def cleaning_rate(self) -> float:
        """What the broker's log says of its cleaning: MiB/s; 0 as long as it says nothing.

        Raises:
            RuntimeError: one cleaning did not take all of it.
        """
        kafka = self.broker.name == "Kafka"
        for found in (_KAFKA_SAYS if kafka else _DRUMLIN_SAYS).finditer(self.broker.process.said()):
            if found["log"] != self.log_name:
                continue
            if int(found["end"].replace(",", "")) != self.sealed_end_offset:
                raise RuntimeError(f"not cleaned in one round: {found[0]}")
            rate = float(found["rate"].replace(",", ""))
            return rate if kafka else rate * 1e6 / (1 << 20)
        return 0.0

    def verify(self) -> None:
        """Every key's last record is there, at its offset, and nothing else.

        Raises:
            RuntimeError: something is missing, or too much.
        """
        contents = self.contents
        wanted = contents.expected_offsets()
        batches = []
        with connect(self.broker.address) as client:
            batches = list(client.read_batches(self.name, end=contents.records))
        offsets = np.concatenate([each.column("offset").to_numpy() for each in batches])
        if not np.array_equal(offsets, wanted):
            raise RuntimeError(
                f"{self.broker.name} left {len(offsets)} records, not {len(wanted)}, "
                "or others than the last ones"
            )
        keys = pa.chunked_array([each.column("key") for each in batches])
        if not keys.equals(pa.chunked_array([encoded_keys(contents.keys()[wanted])])):
            raise RuntimeError(f"{self.broker.name} left other keys than were written")

    def delete(self) -> None:
        """Give its memory back."""
        with connect(self.broker.address) as client:
            client.delete_topic(self.name)
        # The next one is written when this one's files are gone.
        wait_until(lambda: not self._leftovers(), f"{self.broker.name} to delete", 60)

    def _leftovers(self) -> list[Path]:
        return list(self._directory.parent.glob(f"{self.log_name}*"))


@contextlib.contextmanager
def compacted_topic(
    broker: Broker, options: Options, contents: Contents
) -> Iterator[CompactedTopic]:
    """A filled topic, which is deleted after the block."""
    topic = CompactedTopic(broker, options, contents)
    try:
        yield topic
    finally:
        topic.delete()
