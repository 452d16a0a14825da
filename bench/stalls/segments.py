"""Logs of thousands of segments, made quickly: every batch is later than its segment may last.

`segment.bytes` has a least value of 1 MiB, so it is time that rolls: the timestamps of the batches
are further apart than `segment.ms`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from bench.load import request_frame
from bench.stalls.neighbour import TOPIC_RESOURCE, Place, ask_all
from drumlin.records.plain.record import Record, encode_batch

_APART_MS = 10
_HOURS_AGO_MS = 48 * 3_600_000
_PRODUCE = 13
_WEEK_MS = 7 * 24 * 3_600_000
_RECORD_BYTES = 100


def timestamps(count: int) -> Iterator[int]:
    """Timestamps of two days ago, each for a new segment."""
    start = time.time_ns() // 1_000_000 - _HOURS_AGO_MS
    yield from range(start, start + count * _APART_MS, _APART_MS)


def rolling_topic(place: Place, **configs: str) -> str:
    """A topic in which each of `timestamps` begins a segment."""
    settings = {"segment.ms": str(_APART_MS // 2), "retention.ms": "-1", **configs}
    return place.led_topic(1, **settings)


def keep_segment(place: Place, topic: str) -> None:
    """New records go to the last segment, which is new."""
    _write(place, topic, iter([time.time_ns() // 1_000_000]))
    place.alter(TOPIC_RESOURCE, topic, segment_ms=str(_WEEK_MS))


def topic_of_segments(place: Place, count: int, **configs: str) -> str:
    """A topic of one partition with `count` segments, of a record each."""
    topic = rolling_topic(place, **configs)
    _write(place, topic, timestamps(count))
    return topic


def _write(place: Place, topic: str, times: Iterator[int]) -> None:
    topic_id = place.broker.topic_id(topic)

    def frames() -> Iterator[bytes]:
        for each in times:
            batch = bytes(encode_batch([Record(0, each, None, b"v" * _RECORD_BYTES)]))
            data = [{"index": 0, "records": batch}]
            yield request_frame(
                "produce",
                _PRODUCE,
                acks=1,
                timeout=60_000,
                topic_data=[{"topic_id": topic_id, "partition_data": data}],
            )

    with place.connect() as client:
        for answer in ask_all(client, "produce", _PRODUCE, frames()):
            code = answer.responses[0].partition_responses[0].error_code
            if code != 0:
                raise RuntimeError(f"{place.broker.name} answered {code!r}")
