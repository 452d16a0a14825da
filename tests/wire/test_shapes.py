"""What a shape builds is what the generated class itself would be: equal, and immutable."""

from __future__ import annotations

import dataclasses

import pytest
from kio.schema.list_offsets.v8.response import ListOffsetsPartitionResponse
from kio.static.primitive import i32, i64

from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import response_shape


def test_what_is_built_is_the_real_thing() -> None:
    built = response_shape("list_offsets", 8)(
        "ListOffsetsPartitionResponse",
        partition_index=1,
        error_code=ErrorCode.none,
        timestamp=-1,
        offset=5,
        unknown_in_this_version="dropped",
    )
    expected = ListOffsetsPartitionResponse(
        partition_index=i32(1), error_code=ErrorCode.none, timestamp=i64(-1), offset=i64(5)
    )
    assert built == expected  # its leader epoch, which was not given, too
    assert type(built) is ListOffsetsPartitionResponse
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.offset = 6


def test_what_has_no_default_has_to_be_given() -> None:
    with pytest.raises(TypeError, match="needs partition_index"):
        response_shape("list_offsets", 8)(
            "ListOffsetsPartitionResponse", error_code=ErrorCode.none, timestamp=-1
        )
