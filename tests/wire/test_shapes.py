"""What a shape builds is what the declared class itself would be, in the versions that have it."""

from __future__ import annotations

import pytest

from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, encode_response, parse_response
from drumlin.wire.protocol.list_offsets import ListOffsetsPartitionResponse
from rig.data.messages import request_shape, response_shape


def test_what_is_built_is_the_real_thing() -> None:
    built = response_shape("list_offsets", 8)(
        "ListOffsetsPartitionResponse",
        partition_index=1,
        error_code=ErrorCode.none,
        timestamp=-1,
        offset=5,
    )
    assert built == ListOffsetsPartitionResponse(
        partition_index=1, error_code=ErrorCode.none, timestamp=-1, offset=5, leader_epoch=-1
    )


def test_what_has_no_default_has_to_be_given() -> None:
    with pytest.raises(TypeError, match=r"missing .*: .partition_index"):
        response_shape("list_offsets", 8)(
            "ListOffsetsPartitionResponse", error_code=ErrorCode.none, timestamp=-1
        )


@pytest.mark.parametrize("version", [3, 4])
def test_a_field_that_only_other_versions_have_is_not_written(version: int) -> None:
    shape = response_shape("list_offsets", version)
    partition = shape(
        "ListOffsetsPartitionResponse",
        partition_index=1,
        error_code=ErrorCode.none,
        timestamp=-1,
        offset=5,
        leader_epoch=7,  # of version 4
    )
    topic = shape("ListOffsetsTopicResponse", name="t", partitions=(partition,))
    message = shape("ListOffsetsResponse", throttle_time=ZERO, topics=(topic,))
    frame = b"".join(encode_response("list_offsets", version, 1, message))
    _, read = parse_response("list_offsets", version, frame[4:])
    assert read.topics[0].partitions[0].leader_epoch == (7 if version == 4 else -1)


def test_a_field_that_no_version_has_is_refused() -> None:
    shape = response_shape("list_offsets", 8)
    fields = {"partition_index": 1, "error_code": ErrorCode.none, "timestamp": -1, "offset": 5}
    shape("ListOffsetsPartitionResponse", **fields)
    with pytest.raises(TypeError, match=r"unexpected .* .ofset"):
        shape("ListOffsetsPartitionResponse", **fields, ofset=5)


def test_a_request_does_not_have_the_classes_of_its_response() -> None:
    assert not request_shape("api_versions", 3).has("ApiVersionsResponse")
    with pytest.raises(AttributeError, match="version 3 has no ApiVersion"):
        request_shape("api_versions", 3)("ApiVersion")


def test_what_a_version_has() -> None:
    older, newer = request_shape("offset_fetch", 7), request_shape("offset_fetch", 8)
    assert not older.has("OffsetFetchRequestGroup")
    assert newer.has("OffsetFetchRequestGroup")
    assert not newer.knows("OffsetFetchRequestGroup", "member_id")
    assert request_shape("offset_fetch", 9).knows("OffsetFetchRequestGroup", "member_id")
    assert not older.knows("OffsetFetchRequestGroup", "member_id")
