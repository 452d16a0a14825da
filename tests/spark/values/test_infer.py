"""The schema of JSON values, from a sample."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession

from drumlin import SchemaError
from drumlin.spark import infer_json_schema, read_values
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.values.infer import json_schema_of
from spark.topics import Topic

NewTopic = Callable[[int], Topic]


def inferred(*values: object) -> str:
    """The schema as DDL."""
    given = (each if isinstance(each, bytes) else json.dumps(each).encode() for each in values)
    return json_schema_of(given).simpleString()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (({"a": 1, "b": "x"}, {"c": True, "a": 2}), "struct<a:bigint,b:string,c:boolean>"),
        (({"a": 1}, {"a": 1.5}, {"a": None}), "struct<a:double>"),
        (({"a": None, "b": []}, {"b": None}), "struct<a:string,b:array<string>>"),
        (
            ({"o": {"x": [{"y": 1}, None]}}, {"o": {"x": [{"z": 0.5}], "w": {}}, "v": {"w": [{}]}}),
            "struct<o:struct<x:array<struct<y:bigint,z:double>>>>",
        ),
        (
            (b"not JSON", b"[1]", b"\xff", b"7", {"a": [[1], [2.5]]}),
            "struct<a:array<array<double>>>",
        ),
    ],
)
def test_types(values: tuple[object, ...], expected: str) -> None:
    assert inferred(*values) == expected


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (({"a": {"b": 1}}, {"a": {"b": "x"}}), "value.a.b is long in some records and string in "),
        (({"a": [1, "x"]},), r"value.a\[\] is long in some records and string in others"),
        (({"a": {}}, {"a": [1]}), "value.a is an object in some records and an array in others"),
        (({"a": 10**4000},), "value.a: 1000.* does not fit a long"),
        (({"a": True}, {"a": 1}), "value.a is boolean in some records and long in others"),
        (({"a": 2**63},), "value.a: 9223372036854775808 does not fit a long"),
        ((b"not JSON", b"[]"), "no fields were found: 2 records are no JSON objects"),
        (({},), "no fields were found: 0 records"),
        ((), "no fields were found"),
        (
            ({str(n): 1 for n in range(10_001)},),
            "value: more than 10000 fields: is it used as a map",
        ),
        ((b'{"a": {"\\ud800b": 1}}',), r"value.a.\\ud800b: half of a surrogate pair"),
        ((b'{"a":' * 65 + b"1" + b"}" * 65,), r"value(\.a)+\.?…: more than 64 levels"),
        ((b'{"a":' + b"[" * 70 + b"]" * 70 + b"}",), r"value\.a(\[\])+\[?…: more than 64 levels"),
        (({str(n): 1 for n in range(9000)}, {str(n): 1 for n in range(8000, 12_000)}), "as a map?"),
    ],
)
def test_what_cannot_be_told(values: tuple[object, ...], reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        inferred(*values)


@pytest.mark.spark
@pytest.mark.deep
def test_a_topic_is_read_by_its_inferred_schema(spark: SparkSession, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    old, new = [b'{"id": "old"}'] * 20, [b'{"id": 1, "tags": ["a"]}', b'{"id": 2, "more": 0.5}']
    topic.write((n % 2, None, value, 1, None) for n, value in enumerate([*old, *new]))
    on = {"bootstrap": topic.address}
    schema = infer_json_schema(spark, topic.name, sample=2, **on)
    assert sorted(schema.names) == ["id", "more", "tags"]
    rows = read_values(
        spark, topic.name, schema, into=None, startingOffsets="last 1", **on
    ).collect()
    assert sorted((row.id, row.tags, row.more) for row in rows) == [
        (1, ["a"], None),
        (2, None, 0.5),
    ]
    with pytest.raises(SchemaError, match=r"value.id is string in some records and long in others"):
        infer_json_schema(spark, topic.name, sample=100, **on)
    with pytest.raises(OptionError, match="sample=0"):
        infer_json_schema(spark, topic.name, sample=0, **on)
