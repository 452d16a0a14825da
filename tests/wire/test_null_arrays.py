"""Null arrays are malformed where the protocol has none, and only there."""

from __future__ import annotations

import pytest

from drumlin.wire.errors import MalformedMessage
from drumlin.wire.messages import parse_request


def test_null_array() -> None:
    with pytest.raises(MalformedMessage, match="topics is null"):
        parse_request("list_offsets", 1, b"\xff" * 8, 0)


def test_null_array_within_an_array() -> None:
    with pytest.raises(MalformedMessage, match="partitions is null"):
        parse_request(
            "list_offsets", 1, b"\xff" * 4 + b"\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff", 0
        )


def test_null_array_that_may_be() -> None:
    assert parse_request("metadata", 1, b"\xff" * 4, 0).topics is None
