"""What a shape builds is what the generated class itself would be: equal, and immutable."""

from __future__ import annotations

import dataclasses
import importlib
from collections import defaultdict

import pytest
from kio.schema.list_offsets.v8.response import ListOffsetsPartitionResponse
from kio.static.primitive import i32, i64

from drumlin.wire.compiled.schema_fields import fields_of_all_versions
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, request_shape, response_shape, schema_versions


def test_what_is_built_is_the_real_thing() -> None:
    built = response_shape("list_offsets", 8)(
        "ListOffsetsPartitionResponse",
        partition_index=1,
        error_code=ErrorCode.none,
        timestamp=-1,
        offset=5,
    )
    expected = ListOffsetsPartitionResponse(
        partition_index=i32(1), error_code=ErrorCode.none, timestamp=i64(-1), offset=i64(5)
    )
    assert built == expected  # its leader epoch, which was not given, too
    assert type(built) is ListOffsetsPartitionResponse
    with pytest.raises(dataclasses.FrozenInstanceError):
        built.offset = 6


def test_what_has_no_default_has_to_be_given() -> None:
    with pytest.raises(TypeError, match=r"missing .*: .partition_index"):
        response_shape("list_offsets", 8)(
            "ListOffsetsPartitionResponse", error_code=ErrorCode.none, timestamp=-1
        )


def test_a_field_that_only_other_versions_have_is_left_out() -> None:
    built = response_shape("list_offsets", 3)(
        "ListOffsetsPartitionResponse",
        partition_index=1,
        error_code=ErrorCode.none,
        timestamp=-1,
        offset=5,
        leader_epoch=7,  # of version 4
    )
    assert not hasattr(built, "leader_epoch")


def test_a_field_that_no_version_has_is_refused() -> None:
    shape = response_shape("list_offsets", 8)
    fields = {"partition_index": 1, "error_code": ErrorCode.none, "timestamp": -1, "offset": 5}
    shape("ListOffsetsPartitionResponse", **fields)
    with pytest.raises(TypeError, match=r"PartitionResponse\(\) .* unexpected .* .ofset"):
        shape("ListOffsetsPartitionResponse", **fields, ofset=5)


def test_each_class_has_fields_of_its_own() -> None:
    shape = response_shape("list_offsets", 8)
    assert shape("ListOffsetsTopicResponse", name="t", partitions=()).name == "t"
    with pytest.raises(TypeError, match=r"unexpected .*throttle_time"):
        shape("ListOffsetsTopicResponse", name="t", partitions=(), throttle_time=ZERO)


def test_a_request_does_not_have_the_fields_of_its_response() -> None:
    shape = request_shape("api_versions", 3)
    with pytest.raises(TypeError, match=r"unexpected .*api_keys"):
        shape(
            "ApiVersionsRequest",
            client_software_name="n",
            client_software_version="1",
            api_keys=(),
        )


@pytest.mark.parametrize("api", ["metadata", "offset_fetch", "add_partitions_to_txn"])
@pytest.mark.parametrize("kind", ["request", "response"])
def test_the_fields_read_from_the_schemas_are_those_of_their_classes(api: str, kind: str) -> None:
    expected: dict[str, set[str]] = defaultdict(set)
    lowest, highest = schema_versions(api)
    for version in range(lowest, highest + 1):
        module = importlib.import_module(f"kio.schema.{api}.v{version}.{kind}")
        for each in vars(module).values():
            if isinstance(each, type) and each.__module__ == module.__name__:
                expected[each.__name__] |= {field.name for field in dataclasses.fields(each)}
    assert fields_of_all_versions(api, kind) == expected
