"""Telemetry of clients: payloads that are damaged or too large. Kafka's own rules are compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from broker.telemetry.encoded import counter, inner, pushed
from drumlin.records.compression.compression import GZIP, LZ4, SNAPPY, ZSTD, compress

Ask = Callable[..., Any]

_PUSH = pushed(counter("org.apache.kafka.producer.connection.creation.total", 1))
_BOMB = bytes(12 << 20)


def push(ask: Ask, payload: bytes, codec: int = 0) -> str:
    """Push as a client of its own; the code that it gets."""
    instance_id = uuid4()
    asked = ask("get_telemetry_subscriptions", 0, client_instance_id=instance_id)
    assert asked["error_code"] == "none"
    answer = ask(
        "push_telemetry",
        0,
        client_instance_id=instance_id,
        subscription_id=asked["subscription_id"],
        terminating=False,
        compression_type=codec,
        metrics=payload,
    )
    return str(answer["error_code"])


@pytest.mark.parametrize(
    ("codec", "encode"),
    [
        (0, bytes),
        (GZIP, partial(compress, GZIP)),
        (SNAPPY, partial(compress, SNAPPY)),
        (LZ4, partial(compress, LZ4)),
        (ZSTD, partial(compress, ZSTD)),
    ],
    ids=["none", "gzip", "snappy", "lz4", "zstd"],
)
def test_every_codec_that_is_offered_is_read(
    ask: Ask, codec: int, encode: Callable[[bytes], bytes]
) -> None:
    assert push(ask, encode(_PUSH), codec) == "none"
    if codec:
        assert push(ask, _PUSH, codec) == "invalid_record"


def test_a_payload_that_is_no_message_is_refused(ask: Ask) -> None:
    for damaged in (_PUSH[:-1], b"no protobuf", inner(1, b"\xff")):
        assert push(ask, damaged) == "invalid_record"


def test_a_small_payload_that_becomes_large_is_refused(ask: Ask) -> None:
    for codec, bomb in (
        (ZSTD, compress(ZSTD, _BOMB)),
        (GZIP, compress(GZIP, _BOMB)),
    ):
        assert len(bomb) < 100_000
        before = time.process_time()
        assert push(ask, bomb, codec) == "telemetry_too_large"
        assert time.process_time() - before < 5
    assert push(ask, bytes((1 << 20) + 1)) == "telemetry_too_large"
