"""DDL of JSON values means what it means to Spark, and what is wrong with it is told without."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from drumlin.client.values.errors import SchemaError
from drumlin.spark.values.ddl import struct_of

_SAME = (
    "id long, name string",
    "a boolean, b byte, c tinyint, d short, e smallint, f int, g integer, h bigint",
    "a float, b real, c double, d date, e timestamp, f timestamp_ltz, g timestamp_ntz",
    "a decimal, b dec(5), c numeric(38, 38), d DECIMAL ( 10 , 2 )",
    "tags array<string>, m map<string,array<struct<a:int,`b c`: long>>>",
    "`a``b` int, `ü` string, date date, array array<int>, not int, null string, comment int",
    "id: long NOT NULL, s STRUCT<a: int NOT NULL COMMENT 'x', b: string>",
)


@pytest.mark.spark
@pytest.mark.parametrize("ddl", _SAME)
def test_it_is_what_spark_makes_of_it(ddl: str, spark: SparkSession) -> None:
    assert struct_of(ddl).simpleString() == StructType.fromDDL(ddl).simpleString()
    nullable = [each.nullable for each in StructType.fromDDL(ddl)]
    assert [each.nullable for each in struct_of(ddl)] == nullable


@pytest.mark.parametrize(
    ("ddl", "why"),
    [
        ("id lung", "'id' has the unknown type 'lung'; there are array, bigint"),
        ("a array<struct<b:lung>>", r"'a\[\]\.b' has the unknown type 'lung'"),
        ("id", "lacks the type of 'id'"),
        ("id int,", "lacks the name of a column"),
        ("", "lacks the name of a column"),
        ("id int name string", "expected a comma and the next column, not 'name'"),
        ("a array<int", "lacks '>'"),
        ("a map<int>", "expected ',', not '>'"),
        ("a decimal(39)", r"'a' is decimal\(39,0\)"),
        ("a decimal(5,9)", r"'a' is decimal\(5,9\)"),
        ("a decimal(x)", "expected a number, not 'x'"),
        ("a int comment b", "expected a text in quotes, not 'b'"),
        ("a int; b", "'; b' was not expected"),
        ("a " + "array<" * 5000, "nested too deeply"),
    ],
)
def test_what_is_wrong_is_named(ddl: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        struct_of(ddl)
