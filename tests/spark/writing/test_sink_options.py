"""The sink's options: what they mean, and what is refused because something else says otherwise."""

from __future__ import annotations

import logging
import pickle

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType, TimestampType

from drumlin.spark.options.option_names import unknown_options
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.writing.options import SinkOptions

SERVERS = {"kafka.bootstrap.servers": "host:9092"}


def parse(**options: object) -> SinkOptions:
    given = {name.replace("__", ".").lower(): str(each) for name, each in options.items()}
    return SinkOptions.parse(SERVERS | given)


def test_defaults_are_those_of_kafkas_producer_or_better() -> None:
    options = parse()
    assert (options.acks, options.retries, options.is_idempotent) == ("all", None, True)
    assert (options.compression, options.compression_level) == ("none", None)
    assert options.batch_bytes == 1_000_000
    assert options.delivery_timeout_ms == 120_000
    assert pickle.loads(pickle.dumps(options)) == options


def test_each_batch_is_written_once_unless_something_else_is_asked_for() -> None:
    options = parse(
        sinkId="mine", writeId="june", decisionTopic="d", transactionTimeoutMs=5000, sinkIsNew=True
    )
    assert (parse().delivery, options.delivery) == ("exactly-once", "exactly-once")
    assert (options.sink_id, options.write_id) == ("mine", "june")
    assert (options.settings.decision_topic, options.settings.transaction_timeout_ms) == ("d", 5000)
    assert options.settings.may_begin_late
    same = parse(transactionTimeoutMs=7, kafka__transaction__timeout__ms=7)
    assert same.settings.transaction_timeout_ms == 7
    assert parse(delivery="at-least-once").delivery == "at-least-once"


def test_kafkas_options_have_their_effect() -> None:
    options = parse(
        delivery="at-least-once",
        kafka__acks=1,
        kafka__compression__type="ZSTD",
        kafka__compression__zstd__level=7,
        kafka__compression__gzip__level=1,
        kafka__batch__size=65536,
        kafka__linger__ms=20,
        kafka__delivery__timeout__ms=5000,
        kafka__buffer__memory=1_000_000,
        kafka__max__block__ms=700,
        topic=" t ",
    )
    assert (options.acks, options.is_idempotent, options.topic) == ("1", False, "t")
    assert (options.compression, options.compression_level) == ("zstd", 7)
    assert (options.batch_bytes, options.buffer_bytes) == (65536, 1_000_000)
    assert options.delivery_timeout_ms == 5000
    assert dict(options.client_options)["call_timeout_ms"] == 700


def test_a_batch_is_no_larger_than_a_request_may_be() -> None:
    assert parse(kafka__max__request__size=4000).batch_bytes == 4000
    assert parse(kafka__max__request__size=8_000_000).batch_bytes == 1_000_000
    assert parse(kafka__max__request__size=8_000_000, kafka__batch__size=2_000_000).batch_bytes == (
        2_000_000
    )
    assert parse(kafka__batch__size=0).batch_bytes == 1  # each record by itself


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"kafka.bootstrap.servers": " "}, "'kafka.bootstrap.servers': must not be empty"),
        ({"delivery": "at-most-once"}, "'delivery': must be one of"),
        ({"topic": " "}, "'topic': must not be empty"),
        ({"kafka.acks": "2"}, "'kafka.acks': must be one of"),
        ({"kafka.retries": "-1"}, "'kafka.retries': must be from 0"),
        ({"kafka.compression.type": "rar"}, "'kafka.compression.type': must be one of"),
        ({"kafka.batch.size": "many"}, "'kafka.batch.size': expected a whole number"),
        ({"kafka.linger.ms": "soon"}, "'kafka.linger.ms'"),
        ({"kafka.value.serializer": "X"}, "encode them with DataFrame functions"),
        ({"kafka.partitioner.class": "X"}, "a column 'partition'"),
        ({"kafka.interceptor.classes": "X"}, "no Java runs here"),
        ({"kafka.transactional.id": "X"}, "see 'sinkId'"),
        (
            {"delivery": "at-least-once", "kafka.enable.idempotence": "true", "kafka.acks": "1"},
            "'kafka.acks' is '1'",
        ),
        (
            {"delivery": "at-least-once", "kafka.enable.idempotence": "true", "kafka.retries": "0"},
            "'kafka.retries' is 0",
        ),
        ({"kafka.acks": "1"}, "'kafka.acks' is '1', and each batch is to be written exactly once"),
        ({"kafka.retries": "0"}, "'kafka.retries' is 0, and each batch"),
        ({"kafka.enable.idempotence": "false"}, "'kafka.enable.idempotence' is false, and each"),
        ({"delivery": "at-least-once", "sinkId": "x"}, "option 'sinkId' has no meaning"),
        ({"delivery": "at-least-once", "transactionTimeoutMs": "5"}, "has no meaning"),
        ({"transactionTimeoutMs": "5", "kafka.transaction.timeout.ms": "6"}, "one option"),
        ({"sinkId": "not/this"}, "'sinkId': must be up to 100 letters"),
        ({"writeId": " "}, "'writeId': must not be empty"),
        ({"strictOptions": "true", "kafka.ack": "all"}, "did you mean 'kafka.acks'"),
    ],
)
def test_what_is_refused(options: dict[str, str], complaint: str) -> None:
    with pytest.raises(OptionError, match=complaint):
        SinkOptions.parse(SERVERS | {name.lower(): each for name, each in options.items()})


def columns(schema: str, **options: object) -> tuple[str, ...]:
    fields = [each.split() for each in schema.split(", ")]
    types = {"string": StringType(), "timestamp": TimestampType(), "bigint": LongType()}
    struct = StructType([StructField(name, types[kind]) for name, kind in fields])
    return parse(topic="t", **options).columns(struct)


def test_times_of_rows_are_those_of_records_only_if_that_is_asked_for() -> None:
    """Old ones are deleted by retention, and most rows have them without meaning it."""
    for kind in ("timestamp", "bigint", "string"):
        assert columns(f"value string, timestamp {kind}") == ("value",)
    for kind in ("timestamp", "bigint"):
        found = columns(f"value string, timestamp {kind}", writeTimestamps=True)
        assert found == ("value", "timestamp")
    with pytest.raises(OptionError, match="must be a timestamp, or a bigint"):
        columns("value string, timestamp string", writeTimestamps=True)
    with pytest.raises(OptionError, match="no column 'timestamp'"):
        columns("value string", writeTimestamps=True)


def test_no_option_of_a_producer_is_unknown() -> None:
    assert unknown_options(["kafka.linger.ms", "kafka.acks", "delivery", "topic"]) == []
    assert unknown_options(["kafka.linger"]) == ["'kafka.linger' (did you mean 'kafka.linger.ms'?)"]


def test_passwords_do_not_show(caplog: pytest.LogCaptureFixture) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
    with caplog.at_level(logging.DEBUG):
        options = parse(
            kafka__security__protocol="SASL_PLAINTEXT",
            kafka__sasl__mechanism="PLAIN",
            kafka__sasl__jaas__config=login + 'password="hidden-word";',
        )
    assert "hidden-word" not in repr(options) + caplog.text
