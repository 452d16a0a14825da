"""Options of the source: what is understood and what is refused, without Spark or a broker."""

from __future__ import annotations

import pickle

import pytest

from drumlin.spark.offsets import EARLIEST, LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options import OptionError, SourceOptions, Subscription

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "flights"}


def parse(**options: str) -> SourceOptions:
    """`BASE` and more; a double underscore stands for a dot."""
    more = {name.replace("__", ".").lower(): value for name, value in options.items()}
    return SourceOptions.parse(BASE | more)


def test_defaults() -> None:
    options = parse()
    assert options.subscription == Subscription(topics=("flights",))
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert options.isolation_level == "read_uncommitted"
    assert options.batch_limits() == (OffsetLimit(EARLIEST), OffsetLimit(LATEST))
    assert options.max_trigger_delay_ms == 15 * 60_000
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("subscribe", " a , b,", Subscription(topics=("a", "b"))),
        ("subscribepattern", "fli.*", Subscription(pattern="fli.*")),
        (
            "assign",
            '{"a":[0,2]}',
            Subscription(partitions=(TopicPartition("a", 0), TopicPartition("a", 2))),
        ),
    ],
)
def test_subscriptions(option: str, value: str, expected: Subscription) -> None:
    options = {"kafka.bootstrap.servers": "x:1", option: value}
    assert SourceOptions.parse(options).subscription == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "a"}, "kafka.bootstrap.servers"),
        ({"kafka.bootstrap.servers": "x:1"}, "exactly one of"),
        (BASE | {"assign": '{"a":[0]}'}, "exactly one of"),
        (BASE | {"subscribe": " , "}, "no topics to subscribe"),
        ({"kafka.bootstrap.servers": "x:1", "subscribepattern": " "}, "is empty"),
        ({"kafka.bootstrap.servers": "x:1", "subscribepattern": "("}, "subscribePattern"),
        ({"kafka.bootstrap.servers": "x:1", "assign": "a"}, "expected e.g."),
        ({"kafka.bootstrap.servers": "x:1", "assign": "{}"}, "no topic-partitions"),
        (BASE | {"minpartitions": "0"}, "minPartitions"),
        (BASE | {"maxrecordsperpartition": "-1"}, "maxRecordsPerPartition"),
        (BASE | {"minpartitions": "many"}, "minPartitions"),
        (BASE | {"failondataloss": "maybe"}, "failOnDataLoss"),
        (BASE | {"startingoffsets": "soon"}, "startingOffsets"),
        (BASE | {"startingoffsets": '{"a":{"0":true}}'}, "startingOffsets"),
        (BASE | {"startingtimestamp": "now"}, "startingTimestamp"),
        (BASE | {"maxtriggerdelay": "1 fortnight"}, "maxTriggerDelay"),
        (BASE | {"startingoffsetsbytimestampstrategy": "guess"}, "must be one of"),
        (BASE | {"minoffsetspertrigger": "9", "maxoffsetspertrigger": "8"}, "is above"),
        (BASE | {"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        (BASE | {"kafka.key.deserializer": "X"}, "kafka.key.deserializer"),
        (BASE | {"kafka.value.deserializer": "X"}, "kafka.value.deserializer"),
        (BASE | {"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit"),
        (BASE | {"kafka.interceptor.classes": "X"}, "kafka.interceptor.classes"),
        (BASE | {"kafka.isolation.level": "serializable"}, "kafka.isolation.level"),
        (BASE | {"kafka.security.protocol": "SSL"}, "kafka.security.protocol"),
    ],
)
def test_refusals_name_the_option(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse(options)


def test_unknown_options_are_ignored_as_by_sparks_source() -> None:
    assert parse(noSuchOption="1", kafka__no__such="2") == parse()


def test_the_most_special_way_to_start_wins() -> None:
    times = '{"flights":{"0":5}}'
    both = parse(startingOffsets="latest", startingOffsetsByTimestamp=times)
    assert both.starting == OffsetLimit({TopicPartition("flights", 0): 5}, is_timestamp=True)
    all_three = parse(
        startingOffsets="latest", startingOffsetsByTimestamp=times, startingTimestamp=" 7 "
    )
    assert all_three.starting == OffsetLimit(7, is_timestamp=True)


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"flights":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"flights":{"0":-2}}'},
        {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'},
        {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"b":{"0":6}}'},
    ],
)
def test_what_a_batch_refuses(options: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        parse(**options).check_batch()


def test_what_a_stream_refuses() -> None:
    for name in ("endingOffsets", "endingTimestamp"):
        value = "latest" if name == "endingOffsets" else "5"
        with pytest.raises(OptionError, match="not valid in streaming"):
            parse(**{name: value}).check_stream()


@pytest.mark.parametrize(
    ("text", "milliseconds"), [("500", 500), ("500ms", 500), ("30s", 30_000), ("2h", 7_200_000)]
)
def test_durations(text: str, milliseconds: int) -> None:
    assert parse(maxTriggerDelay=text).max_trigger_delay_ms == milliseconds


def test_kafka_options_that_have_an_effect() -> None:
    options = parse(
        kafka__client__id="me",
        kafka__request__timeout__ms="5000",
        kafka__isolation__level="READ_COMMITTED",
        kafka__group__id="mine",
    )
    assert dict(options.client_options) == {"client_id": "me", "request_timeout_ms": 5000}
    assert options.isolation_level == "read_committed"


def test_a_cluster_has_a_minute_to_come_back_where_no_option_says_so() -> None:
    assert dict(parse().client_options)["call_timeout_ms"] == 60_000
