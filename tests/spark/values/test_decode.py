"""Topics with typed values as DataFrames, by a real broker and a real Spark."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from drumlin import SchemaError, SchemaRegistry
from drumlin.spark import dead_letters, decode_values, encode_values, read_values, sink
from rig.servers.schema_registry import RegistryRig, running_registry
from spark.topics import Topic

ORDERS: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryRig]:
    with running_registry() as rig:
        yield rig


def avro(schema: dict[str, Any], value: Any, schema_id: int | None = None) -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, schema, value)
    header = b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
    return header + target.getvalue()


@pytest.fixture
def topic(address: str) -> Topic:
    return Topic(address, 1).create()


def write(topic: Topic, values: list[bytes | None]) -> None:
    topic.write((0, b"k", value, 1_700_000_000_000, None) for value in values)


def load(spark: SparkSession, topic: Topic) -> DataFrame:
    return spark.read.format("drumlin").options(**topic.options()).load()


def test_json(spark: SparkSession, topic: Topic) -> None:
    write(topic, [b'{"id": 1, "name": "a", "more": []}', None, b'{"id":2}'])
    frame = decode_values(load(spark, topic), "id long, name string", into=None)
    rows = frame.select("offset", "id", "name").orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(0, 1, "a"), (1, None, None), (2, 2, None)]
    assert "value" not in frame.columns


def test_avro_of_two_versions(spark: SparkSession, topic: Topic, registry: RegistryRig) -> None:
    old = {**ORDERS, "fields": ORDERS["fields"][:2]}
    first, second = registry.add("orders-value", old), registry.add("orders-value", ORDERS)
    write(
        topic,
        [
            avro(old, {"id": 1, "price": Decimal("1.25")}, first),
            avro(ORDERS, {"id": 2, "price": Decimal("-3.5"), "note": "ü"}, second),
            None,
        ],
    )
    frame = read_values(
        spark,
        topic.name,
        bootstrap=topic.address,
        format="avro",
        registry=registry.url,
        subject="orders-value",
    )
    assert frame.schema["value"].dataType.simpleString() == (
        "struct<id:bigint,price:decimal(9,2),note:string>"
    )
    rows = frame.orderBy("offset").collect()
    assert [row.value for row in rows] == [
        Row(id=1, price=Decimal("1.25"), note=None),
        Row(id=2, price=Decimal("-3.50"), note="ü"),
        None,
    ]


def test_a_bad_record_stops_the_query_and_says_which(spark: SparkSession, topic: Topic) -> None:
    write(topic, [b"{}", b"oops"])
    frame = decode_values(load(spark, topic), "id long")
    with pytest.raises(PySparkException, match=f"topic {topic.name} partition 0 offset 1: .*JSON"):
        frame.collect()


def test_bad_records_in_columns_or_dropped(
    spark: SparkSession, topic: Topic, registry: RegistryRig
) -> None:
    schema_id = registry.add("orders-value", ORDERS)
    good = avro(ORDERS, {"id": 1, "price": Decimal("1.25")}, schema_id)
    write(topic, [good, good[:-2], b"no", b"\0\0\1\0\0xyz", None])

    def read(bad_records: Any) -> list[Row]:
        frame = decode_values(
            load(spark, topic),
            format="avro",
            registry=SchemaRegistry(registry.url, patience_ms=0, unknown_ids_are_bad=True),
            subject="orders-value",
            into="order",
            bad_records=bad_records,
        )
        return frame.orderBy("offset").collect()

    rows = read("column")
    assert [row.order and row.order.id for row in rows] == [1, None, None, None, None]
    assert [row.raw and bytes(row.raw) for row in rows] == [
        None,
        good[:-2],
        b"no",
        b"\0\0\1\0\0xyz",
        None,
    ]
    assert [row.error is None for row in rows] == [True, False, False, False, True]
    assert "registry" in rows[3].error
    assert [row.offset for row in read("drop")] == [0, 4]


PROTO = """
syntax = "proto3"; package shop;
message Order { int64 id = 1; optional string note = 2; map<string, int32> counts = 3; }
"""


def test_protobuf(spark: SparkSession, topic: Topic, registry: RegistryRig) -> None:
    schema_id = registry.add("proto-value", PROTO, "PROTOBUF")
    start = b"\0" + schema_id.to_bytes(4, "big") + b"\0"
    write(topic, [start + b"\x08\x07\x1a\x05\x0a\x01a\x10\x03", start])
    frame = read_values(
        spark,
        topic.name,
        bootstrap=topic.address,
        format="protobuf",
        registry=registry.url,
        subject="proto-value",
        into=None,
        columns=["value", "offset"],
    )
    rows = frame.orderBy("offset").collect()
    assert [tuple(row) for row in rows] == [(0, 7, None, {"a": 3}), (1, 0, None, {})]


def test_written_values_are_read_again(
    spark: SparkSession, topic: Topic, registry: RegistryRig
) -> None:
    value = "struct(id, timestamp_micros(id) AS at, map('k', array(id)) AS m) AS value"
    rows = spark.range(3).selectExpr(f"'{topic.name}' AS topic", value)
    encoded = encode_values(rows, format="avro", registry=registry.url, subject="written-value")
    encoded.write.format("drumlin").options(**{"kafka.bootstrap.servers": topic.address}).mode(
        "append"
    ).save()
    found = decode_values(
        load(spark, topic), format="avro", registry=registry.url, subject="written-value", into=None
    )
    selected = found.orderBy("id").selectExpr("id", "unix_micros(at)", "m['k'][0]")
    assert [tuple(row) for row in selected.collect()] == [(n, n, n) for n in range(3)]
    as_json = encode_values(rows).selectExpr("cast(value AS string) AS text").orderBy("text")
    assert json.loads(as_json.first().text)["m"] == {"k": [0]}  # type: ignore[union-attr]


@pytest.mark.deep
@pytest.mark.parametrize("by", ["schema", "latest", "id"])
def test_written_protobuf_is_read_again(
    spark: SparkSession, topic: Topic, registry: RegistryRig, by: str
) -> None:
    subject = f"{topic.name}-value"
    given: dict[str, Any] = {"schema": PROTO, "subject": subject}
    if by != "schema":
        schema_id = registry.add(subject, PROTO, "PROTOBUF")
        registry.closed.add(subject)
        given = {"subject": subject, "schema_id": "latest"}
        if by == "id":
            given = {"schema_id": schema_id}
    value = "struct(id, if(id = 1, null, 'ü') AS note, map('a', int(id)) AS counts) AS value"
    rows = spark.range(3).selectExpr(f"'{topic.name}' AS topic", value)
    encoded = encode_values(rows, format="protobuf", registry=registry.url, **given)
    broker = {"kafka.bootstrap.servers": topic.address}
    encoded.write.format("drumlin").options(**broker).mode("append").save()
    assert registry.versions(subject) == [PROTO]
    found = read_values(
        spark,
        topic.name,
        bootstrap=topic.address,
        format="protobuf",
        registry=registry.url,
        subject=subject,
        into=None,
    ).orderBy("id")
    assert [tuple(row) for row in found.select("id", "note", "counts").collect()] == [
        (0, "ü", {"a": 0}),
        (1, None, {"a": 1}),
        (2, "ü", {"a": 2}),
    ]
    with pytest.raises(SchemaError, match=r"shop.Order has no field 'other'"):
        encode_values(
            spark.sql("SELECT struct(1 AS other) AS value"),
            format="protobuf",
            registry=registry.url,
            **given,
        )


@pytest.mark.deep
def test_dead_letters_go_to_a_topic_of_their_own(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    """Good and bad records of a batch become visible together."""
    values = [b'{"id": 1}', b"oops", None]
    topic.write((0, b"k", each, 1_700_000_000_000, [("trace", b"abc")]) for each in values)
    clean, dead = Topic(topic.address, 1).create(), Topic(topic.address, 1).create()
    decoded = read_values(
        spark,
        topic.name,
        "id long",
        bootstrap=topic.address,
        stream=True,
        bad_records="column",
        startingOffsets="earliest",
    )

    def good(batch: DataFrame) -> DataFrame:
        return encode_values(batch.where("error IS NULL").select("key", "value"))

    write_both = sink({clean.name: good, dead.name: dead_letters}, bootstrap=topic.address)
    query = (
        decoded.writeStream.foreachBatch(write_both)
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [bytes(row.value or b"") for row in load(spark, clean).orderBy("offset").collect()] == [
        b'{"id":1}',
        b"",
    ]
    options = dead.options(includeHeaders=True)
    (letter,) = spark.read.format("drumlin").options(**options).load().collect()
    assert bytes(letter.value) == b"oops"
    headers = {each.key.rpartition("errors.")[2]: bytes(each.value) for each in letter.headers}
    assert headers.pop("exception.message").startswith(b"not JSON")
    assert headers.pop("timestamp") == b"1700000000000"
    own = {"topic": topic.name.encode(), "partition": b"0", "offset": b"1"}
    assert headers == {"trace": b"abc", **own}


LETTERS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)


def test_keys_and_values_together_and_all_of_a_bad_record_is_in_its_letter(
    spark: SparkSession,
) -> None:
    at = datetime(2024, 2, 3, 4, 5, 6, 789000)
    trace = ("trace", bytearray(b"abc"))
    records = [
        (b'{"k":1}', b'{"id":1}', "t", 0, 0, at, [trace]),
        (b"oops", b'{"id":2}', "t", 0, 1, at, [trace]),
        (b'{"k":3}', b"oops", "t", 0, 2, at, None),
        (b"no", b"no", "t", 0, 3, at, []),
        (b"no", None, "t", 0, 4, None, []),
        (None, None, "t", 0, 5, at, [trace]),
    ]
    given = spark.createDataFrame(records, LETTERS).coalesce(1)
    decoded = decode_values(given, "id long", key="k long", bad_records="column")
    rows = decoded.orderBy("offset").collect()
    assert [row.key and row.key.k for row in rows] == [1, None, 3, None, None, None]
    assert [row.value and row.value.id for row in rows] == [1, 2, None, None, None, None]
    assert [row.raw_key and bytes(row.raw_key) for row in rows] == [
        *(None, b"oops", b'{"k":3}', b"no", b"no", None)
    ]
    errors = [row.error for row in rows]
    assert errors[0] is errors[5] is None
    assert [each[:12] for each in errors[1:5]] == [
        *("key: not JSO", "not JSON of ", "not JSON of ", "key: not JSO")
    ]
    letters = dead_letters(decoded).collect()
    assert [(each.key, each.value, each.timestamp) for each in letters] == [
        (key, value, time) for key, value, _, _, _, time, _ in records[1:5]
    ]
    headers = [[(each.key, bytes(each.value or b"")) for each in row.headers] for row in letters]
    assert headers[0][0] == ("trace", b"abc")
    for row, found in enumerate(headers, 1):
        own = dict(found[1:] if row == 1 else found)
        assert own.pop("__connect.errors.exception.message").decode() == errors[row]
        assert own.pop("__connect.errors.offset") == b"%d" % row
        time = b"" if row == 4 else b"%d" % (at.timestamp() * 1000)
        assert own.pop("__drumlin.errors.timestamp") == time
        assert own == {"__connect.errors.topic": b"t", "__connect.errors.partition": b"0"}


def test_keys_that_were_decoded_elsewhere(spark: SparkSession) -> None:
    given = spark.createDataFrame([], LETTERS)
    keys = decode_values(given, "k long", column="key", into="key")
    with pytest.raises(ValueError, match="in one call, by its argument `key`"):
        dead_letters(decode_values(keys, "id long", bad_records="column"))
    keys = decode_values(given, "k long", column="key", into="key", bad_records="column")
    assert dead_letters(keys).columns == ["key", "value", "timestamp", "headers"]
    with pytest.raises(ValueError, match=r"two columns error: rename .* or decode key and value"):
        decode_values(keys, "id long", bad_records="column")
    with pytest.raises(ValueError, match="already decoded by the argument `key`"):
        decode_values(given, "k long", column="key", key="k long")


def test_a_stream(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    write(topic, [json.dumps({"id": number}).encode() for number in range(10)])
    frame = read_values(
        spark,
        topic.name,
        "id long",
        bootstrap=topic.address,
        stream=True,
        into=None,
        columns="value,offset",
        startingOffsets="earliest",
    )
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.read.parquet(str(tmp_path / "out")).select("id").orderBy("id").collect()
    assert [row.id for row in found] == list(range(10))


@pytest.mark.deep
def test_several_record_types_written_with_schemas_of_the_registry(
    spark: SparkSession, topic: Topic, registry: RegistryRig
) -> None:
    refund = {"type": "record", "name": "shop.Refund", "fields": [{"name": "id", "type": "long"}]}
    subjects = [f"{topic.name}-shop.{name}" for name in ("Order", "Refund")]
    for subject, schema in zip(subjects, (ORDERS, refund), strict=True):
        registry.add(subject, schema)
        registry.closed.add(subject)
    for subject, value in zip(
        subjects,
        ("named_struct('id', id, 'price', cast(1.5 AS decimal(9, 2)))", "named_struct('id', -id)"),
        strict=True,
    ):
        rows = spark.range(1, 3).selectExpr(f"'{topic.name}' AS topic", f"{value} AS value")
        encoded = encode_values(
            rows, format="avro", registry=registry.url, subject=subject, schema_id="latest"
        )
        broker = {"kafka.bootstrap.servers": topic.address}
        encoded.write.format("drumlin").options(**broker).mode("append").save()
    found = read_values(
        spark,
        topic.name,
        bootstrap=topic.address,
        format="avro",
        registry=registry.url,
        subject=subjects,
    )
    ids = found.select("value.Order.id", "value.Order.price", "value.Refund.id").collect()
    assert sorted(map(tuple, ids), key=str) == [
        (1, Decimal("1.50"), None),
        (2, Decimal("1.50"), None),
        (None, None, -1),
        (None, None, -2),
    ]
