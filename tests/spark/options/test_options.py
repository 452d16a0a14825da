"""Options of the source: what is understood and what is refused, without Spark or a broker."""

from __future__ import annotations

import inspect
import json
import logging
import pickle
import re

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

import drumlin
from drumlin.spark.options.client_rows import CLIENT_ROWS
from drumlin.spark.options.offsets import EARLIEST, LATEST, OffsetLimit, TopicPartition
from drumlin.spark.options.option_names import ROWS, unknown_options
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions, Subscription
from drumlin.spark.options.source_rows import COLUMNS, STRATEGY
from drumlin.spark.options.starts import GroupStart, LastOffsets, Start, TimeAgo
from drumlin.spark.source import DrumlinDataSource
from drumlin.spark.writing.foreach_batch import sink
from drumlin.spark.writing.options import SinkOptions
from drumlin.spark.writing.protocol.names import DECISION_TOPIC

BASE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "flights"}


def parse(**options: str) -> SourceOptions:
    """`BASE` and more; a double underscore stands for a dot."""
    more = {name.replace("__", ".").lower(): value for name, value in options.items()}
    return SourceOptions.parse(BASE | more)


def test_defaults() -> None:
    options = parse()
    assert options.subscription == Subscription(topics=("flights",))
    assert options.fail_on_data_loss
    assert options.columns == COLUMNS
    assert options.isolation_level == "read_uncommitted"
    assert options.batch_limits() == (OffsetLimit(EARLIEST), OffsetLimit(LATEST))
    assert options.max_trigger_delay_ms == 15 * 60_000


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
        ({"kafka.bootstrap.servers": "x:1", "subscribepattern": r"\R"}, "cannot be translated"),
        ({"kafka.bootstrap.servers": "x:1", "assign": "a"}, "expected e.g."),
        ({"kafka.bootstrap.servers": "x:1", "assign": "{}"}, "no topic-partitions"),
        ({"kafka.bootstrap.servers": "x:1", "assign": '{"a":[-1]}'}, "'a' has no partition -1"),
        ({"kafka.bootstrap.servers": "x:1", "assign": f'{{"a":[{2**31}]}}'}, "no partition"),
        (BASE | {"minpartitions": "0"}, "minPartitions"),
        (BASE | {"maxrecordsperpartition": "-1"}, "maxRecordsPerPartition"),
        (BASE | {"minpartitions": "many"}, "minPartitions"),
        (BASE | {"minpartitions": "1_000"}, "minPartitions"),
        (BASE | {"fetchoffset.numretries": "٣"}, "numRetries"),
        (BASE | {"fetchoffset.retryintervalms": "-1"}, "retryIntervalMs"),
        (BASE | {"batchbytes": str(2**31)}, "'batchBytes': must be below 2 GiB"),
        (BASE | {"batchbytes": "2g"}, "'batchBytes': must be below 2 GiB"),
        (BASE | {"batchbytes": "0m"}, "'batchBytes': must be positive"),
        (BASE | {"batchbytes": "1t"}, "'batchBytes': expected a whole number"),
        (BASE | {"kafka.max.partition.fetch.bytes": str(2**31)}, "below 2 GiB"),
        (BASE | {"failondataloss": "maybe"}, "failOnDataLoss"),
        (BASE | {"startingoffsets": "soon"}, "startingOffsets"),
        (BASE | {"startingoffsets": "last"}, "'startingOffsets': expected earliest, latest, '10"),
        (BASE | {"startingoffsets": "last -3"}, "'startingOffsets': expected earliest"),
        (BASE | {"startingoffsets": "-10m"}, "'startingOffsets': expected earliest"),
        (BASE | {"startingoffsets": "ten minutes ago"}, "'startingOffsets': expected earliest"),
        (BASE | {"startingoffsets": "3 weeks ago"}, "'startingOffsets': expected e.g. 500ms"),
        (BASE | {"startingoffsets": "group: "}, "'startingOffsets': names no group"),
        (BASE | {"endingoffsets": "10 minutes ago"}, "'endingOffsets': expected e.g."),
        (BASE | {"endingoffsets": "group:g"}, "'endingOffsets': expected e.g."),
        (BASE | {"startingoffsets": '{"a":{"0":true}}'}, "startingOffsets"),
        (BASE | {"startingoffsets": '{"a":"soon"}'}, "startingOffsets"),
        (BASE | {"startingoffsets": '{"a":{"0":"earliest"}}'}, "startingOffsets"),
        (BASE | {"startingoffsets": '{"a":{"0":-3}}'}, "a-0: -3 is not an offset"),
        (BASE | {"startingoffsets": f'{{"a":{{"0":{2**63}}}}}'}, r"'startingOffsets': a-0: "),
        (BASE | {"endingoffsets": f'{{"a":{{"0":{2**63}}}}}'}, "'endingOffsets': a-0: "),
        (BASE | {"endingoffsets": '["a"]'}, "endingOffsets"),
        (BASE | {"startingtimestamp": "now"}, "startingTimestamp"),
        (BASE | {"startingtimestamp": "-1"}, "startingTimestamp"),
        (BASE | {"startingtimestamp": str(2**63)}, "'startingTimestamp': .* 64 bits"),
        (BASE | {"startingoffsetsbytimestamp": f'{{"a":{{"0":{2**63}}}}}'}, "ByTimestamp': a-0"),
        (BASE | {"maxoffsetspertrigger": str(2**63)}, "'maxOffsetsPerTrigger': .* 64 bits"),
        (BASE | {"endingoffsetsbytimestamp": '{"a":{"0":-1}}'}, "endingOffsetsByTimestamp"),
        (BASE | {"startingoffsetsbytimestamp": '{"a":"latest"}'}, "ByTimestamp"),
        (BASE | {"maxtriggerdelay": "1 fortnight"}, "maxTriggerDelay"),
        (BASE | {"startingoffsetsbytimestampstrategy": "guess"}, "must be one of"),
        (BASE | {"minoffsetspertrigger": "9", "maxoffsetspertrigger": "8"}, "is above"),
        (BASE | {"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        (BASE | {"kafka.key.deserializer": "X"}, "kafka.key.deserializer"),
        (BASE | {"kafka.value.deserializer": "X"}, "kafka.value.deserializer"),
        (BASE | {"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit"),
        (BASE | {"kafka.interceptor.classes": "X"}, "kafka.interceptor.classes"),
        (BASE | {"kafka.isolation.level": "serializable"}, "kafka.isolation.level"),
    ],
)
def test_refusals_name_the_option(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        SourceOptions.parse(options)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "é", "x" * 250])
def test_what_cannot_be_a_topic_is_refused_before_anybody_is_asked(name: str) -> None:
    with pytest.raises(OptionError, match=r"^option 'assign': "):
        SourceOptions.parse(
            {"kafka.bootstrap.servers": "x:1", "assign": json.dumps({"a": [0], name: [0]})}
        )
    if name:
        with pytest.raises(OptionError, match=r"^option 'subscribe': "):
            SourceOptions.parse(BASE | {"subscribe": f"a,{name}"})
        for option in ("topic", "decisionTopic"):
            with pytest.raises(OptionError, match=f"^option '{option}': "):
                SinkOptions.parse(BASE | {option.lower(): name})


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("startingOffset", "'startingoffset' (did you mean 'startingOffsets'?)"),
        (
            "kafka.isolation.levle",
            "'kafka.isolation.levle' (did you mean 'kafka.isolation.level'?)",
        ),
        ("noSuchThing", "'nosuchthing'"),
    ],
)
def test_an_unknown_option_is_ignored_with_a_warning_or_refused(
    name: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    options = BASE | {name.lower(): "1"}
    with caplog.at_level(logging.WARNING):
        DrumlinDataSource(options).schema()
    assert [each.message for each in caplog.records] == [
        f"the data source 'drumlin' ignores an option it does not have: {hint}"
    ]
    with pytest.raises(OptionError) as refusal:
        SourceOptions.parse(options | {"strictoptions": "true"})
    assert hint in str(refusal.value)


def test_options_without_effect_are_known(caplog: pytest.LogCaptureFixture) -> None:
    harmless = {
        "kafka.max.poll.records": "500",
        "kafka.fetch.min.bytes": "1",
        "kafka.group.id": "mine",
        "groupidprefix": "team",
        "path": "anywhere",
        "owner": "me",
        "option.subscribe": "flights",
        "checkpointlocation": "/tmp/checkpoint",
        "strictoptions": "TRUE",
    }
    with caplog.at_level(logging.WARNING):
        DrumlinDataSource(BASE | harmless).schema()
    assert caplog.records == []
    assert SourceOptions.parse(BASE | harmless) == SourceOptions.parse(BASE)


def test_each_option_has_one_row() -> None:
    names = [row.key for row in ROWS]
    assert len(set(names)) == len(names) > 60
    assert unknown_options(names) == []
    defaults = {row.name: row.find({}) for row in ROWS if row.default is not None}
    assert None not in defaults.values()
    assert defaults["decisionTopic"] == DECISION_TOPIC


def test_a_row_has_a_sentence_unless_no_user_writes_the_option() -> None:
    # Between parts of drumlin.spark:
    ours = {"transform", "transactionalOffsets", "batchPlan", "numberedBatch"}
    ignored = {"kafka.group.id"}
    assert {row.name for row in ROWS if not row.meaning} == ours | ignored
    for row in ROWS:
        assert not row.meaning.endswith("."), row.name
        assert "|" not in row.meaning + row.shown, row.name


def test_what_the_rows_show_of_the_client_are_its_defaults() -> None:
    defaults = inspect.signature(drumlin.connect).parameters
    for row in CLIENT_ROWS:
        assert row.keyword in defaults
        if row.shown.startswith("`") and row.shown.strip("`").isdecimal():
            assert str(defaults[row.keyword].default) == row.shown.strip("`")


def test_a_state_says_of_each_option_whether_it_has_it() -> None:
    """Whatever chooses what is read, or belongs to a stream, would make the state another one."""
    refused = {row.name for row in ROWS if row.not_of_states}
    about_reads = re.compile("assign|Pattern$|^starting|^ending|Trigger|Loss|commit|checkpoint")
    chosen = {row.name for row in ROWS if about_reads.search(row.name)}
    assert chosen - {STRATEGY.name} == refused


@pytest.mark.parametrize(
    ("options", "reader", "told"),
    [
        ({"subscribe": "t", "sinkId": "mine"}, "source", ["'sinkId' (only a sink has it)"]),
        ({"subscribe": "t", "reducers": "7"}, "source", ["'reducers' (only a state has it)"]),
        ({"topic": "t", "batchBytes": "1m"}, "sink", ["'batchBytes' (only a source has it)"]),
        ({"subscribe": "t", "snapshot": "latest", "reducers": "7"}, "source", []),
        ({"subscribe": "t", "topic": "u", "sinkId": "mine", "pushFilters": "true"}, "source", []),
        ({"subscribe": "t", "topic": "u", "sinkId": "mine", "pushFilters": "true"}, "sink", []),
        ({"subscribe": "t", "kafka.acks": "1"}, "source", []),
        ({"topic": "t", "kafka.client.rack": "a"}, "sink", []),
    ],
)
def test_an_option_of_another_direction_is_told(
    options: dict[str, str], reader: str, told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Unless that direction is meant, too, as in a view that is read and written."""
    given = {name.lower(): each for name, each in options.items()}
    given["kafka.bootstrap.servers"] = "127.0.0.1:9"
    source = DrumlinDataSource(given)
    schema = StructType([StructField("value", BinaryType())])
    with caplog.at_level(logging.WARNING):
        if reader == "source":
            source.reader(schema)
        else:
            source.writer(schema, overwrite=False)
    assert [each.message for each in caplog.records] == [
        f"a {reader} of 'drumlin' ignores the option {phrase}" for phrase in told
    ]
    strict = DrumlinDataSource({**given, "strictoptions": "true"})
    read_or_write = strict.reader if reader == "source" else strict.writer
    if told:
        with pytest.raises(OptionError, match=re.escape(f"there is no option {told[0]}")):
            read_or_write(schema, *([False] if reader == "sink" else []))


def test_a_reader_that_has_the_name_of_the_sink_is_told_its_own() -> None:
    with pytest.raises(
        OptionError, match=r"'subscribePattern' must be .*'topic' is an option of the"
    ):
        SourceOptions.parse({"kafka.bootstrap.servers": "x:1", "topic": "t"})


def test_a_word_for_a_topic() -> None:
    limit = parse(startingOffsets='{"a":"earliest","b":{"0":7,"1":-1}}').starting
    assert limit is not None
    partitions = {TopicPartition("b", 0): 7, TopicPartition("b", 1): LATEST}
    words = {TopicPartition("a", 0): EARLIEST, TopicPartition("a", 1): EARLIEST}
    assert limit.for_partitions(words.keys() | partitions.keys()) == words | partitions
    assert limit.for_partitions(partitions.keys()) is None  # there is no topic a
    assert limit.for_partitions(words.keys()) is None
    assert limit.names() == ["a", "b-0", "b-1"]


def test_the_most_special_way_to_start_wins() -> None:
    times = '{"flights":{"0":5}}'
    both = parse(startingOffsets="latest", startingOffsetsByTimestamp=times)
    assert both.starting == OffsetLimit({TopicPartition("flights", 0): 5}, is_timestamp=True)
    all_three = parse(
        startingOffsets="latest", startingOffsetsByTimestamp=times, startingTimestamp=" 7 "
    )
    assert all_three.starting == OffsetLimit(7, is_timestamp=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 minutes ago", TimeAgo(600_000)),
        ("1 day ago", TimeAgo(86_400_000)),
        (" 90 Seconds ago ", TimeAgo(90_000)),
        ("2h ago", TimeAgo(7_200_000)),
        ("500 ms ago", TimeAgo(500)),
        ("last 100", LastOffsets(100)),
        ("last 0", LastOffsets(0)),
        ("group:My Group", GroupStart("My Group")),
        ("group:latest", GroupStart("latest")),
        (" Latest ", OffsetLimit(LATEST)),
    ],
)
def test_starts_that_the_moment_decides(text: str, expected: Start) -> None:
    options = parse(startingOffsets=text)
    assert options.starting == expected
    options.check_stream()
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    "options",
    [
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"flights":{"0":-1}}'},
        {"endingOffsets": "earliest"},
        {"endingOffsets": '{"flights":{"0":-2}}'},
        {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"a":{"0":4}}'},
        {"startingOffsets": '{"a":{"0":5}}', "endingOffsets": '{"b":{"0":6}}'},
        {"startingOffsets": '{"a":"latest"}'},
        {"endingOffsets": '{"a":"earliest"}'},
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
        kafka__client__rack="zone-b",
        kafka__group__id="mine",
    )
    assert dict(options.client_options) == {
        "client_id": "me",
        "request_timeout_ms": 5000,
        "client_rack": "zone-b",
    }
    assert options.isolation_level == "read_committed"


def test_a_cluster_has_a_minute_to_come_back_where_no_option_says_so() -> None:
    assert dict(parse().client_options)["call_timeout_ms"] == 60_000


def test_a_group_for_progress() -> None:
    assert parse(commitOffsetsToGroup=" mine ", kafka__group__id="mine").progress_group == "mine"
    assert parse(kafka__group__id="mine").progress_group is None
    with pytest.raises(OptionError, match="commitOffsetsToGroup"):
        parse(commitOffsetsToGroup="mine", kafka__group__id="another")
    with pytest.raises(OptionError, match="must not be empty"):
        parse(commitOffsetsToGroup=" ")


def test_columns() -> None:
    assert parse(columns="VALUE, timestamptype ,headers").columns == (
        "value",
        "timestampType",
        "headers",
    )
    assert parse(columns="offset", includeHeaders="true").columns == ("offset",)
    assert parse(includeHeaders="true").columns == (*COLUMNS, "headers")
    for text, message in [("", "nothing"), ("valu", "valu is not a column"), ("key,KEY", "twice")]:
        with pytest.raises(OptionError, match=message):
            parse(columns=text)


@pytest.mark.parametrize(
    ("text", "size"), [("64m", 64 << 20), (" 1GB", 1 << 30), ("512kb", 512 << 10), ("1000", 1000)]
)
def test_sizes_may_have_the_units_that_spark_has(text: str, size: int) -> None:
    assert SourceOptions.parse(BASE | {"batchbytes": text}).batch_bytes == size


def test_a_table_of_a_catalog_is_told_what_to_be_instead() -> None:
    """Spark gives it no options, so that every sentence about a missing one would mislead."""
    source = DrumlinDataSource({})
    schema = StructType([StructField("value", BinaryType())])
    for use in (
        source.schema,
        lambda: source.reader(schema),
        lambda: source.streamReader(schema),
        lambda: source.writer(schema, overwrite=False),
        lambda: source.streamWriter(schema, overwrite=False),
    ):
        with pytest.raises(OptionError, match=r"CREATE TEMPORARY VIEW .* WITH"):
            use()


def test_the_function_of_a_sink_shows_no_password() -> None:
    write = sink("t", bootstrap="a:9092", **{"kafka.sasl.jaas.config": "hunter2"})
    assert "hunter2" not in f"{write!r} {write}"
