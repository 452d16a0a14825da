"""Responses that are packed directly, beside those of the encoder of all messages."""

from __future__ import annotations

from datetime import timedelta

import pytest

from drumlin.wire.by_hand.heartbeat_response import heartbeat_response, unchanged_response
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, encode_response
from rig.data.messages import response_shape


@pytest.mark.parametrize("version", range(5))
@pytest.mark.parametrize("code", [ErrorCode.none, ErrorCode.rebalance_in_progress])
def test_heartbeats(version: int, code: ErrorCode) -> None:
    expected = response_shape("heartbeat", version)(
        "HeartbeatResponse", throttle_time=ZERO, error_code=code
    )
    packed = heartbeat_response(version, code)
    one, other = (encode_response("heartbeat", version, 7, each) for each in (packed, expected))
    assert b"".join(one) == b"".join(other)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("name", ["", "m", "é" * 63])
def test_consumer_heartbeats(version: int, name: str) -> None:
    api = "consumer_group_heartbeat"
    expected = response_shape(api, version)(
        "ConsumerGroupHeartbeatResponse",
        throttle_time=ZERO,
        error_code=ErrorCode.none,
        error_message=None,
        member_id=name,
        member_epoch=2**31 - 1,
        heartbeat_interval=timedelta(milliseconds=5_000),
        assignment=None,
    )
    packed = unchanged_response(name, 2**31 - 1, 5_000)
    assert packed is not None
    one, other = (encode_response(api, version, 7, each) for each in (packed, expected))
    assert b"".join(one) == b"".join(other)


def test_a_name_whose_length_takes_more_than_a_byte() -> None:
    assert unchanged_response("m" * 127, 1, 5_000) is None
