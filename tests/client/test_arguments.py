"""What makes no sense is refused at the call, in a sentence that names argument and value."""

from __future__ import annotations

import dataclasses
import inspect
import re
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drumlin
import drumlin.client.errors
from client.write.flaky_log import FlakyLog
from drumlin.client.client import Client
from drumlin.client.consumer.options import ConsumerOptions
from drumlin.client.deprecated_calls import DeprecatedCalls
from drumlin.client.read.reader import ReadOptions
from drumlin.client.write.options import AppendOptions, WriterOptions
from rig.brokers.scripted_broker import ScriptedBroker
from rig.waiting import wait_until

TABLE = pa.table({"value": [b"x"]})


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker({"t": 2}) as broker:
        yield broker


@pytest.fixture
def log(broker: ScriptedBroker) -> FlakyLog:
    return FlakyLog(broker, iter(()))


@pytest.fixture
def lone_client(broker: ScriptedBroker) -> Iterator[Client]:
    with drumlin.connect(broker.address) as client:
        yield client


def append(**options: Any) -> Callable[[Client], object]:
    return lambda client: client.append(TABLE, "t", **options)


def writer(**options: Any) -> Callable[[Client], object]:
    return lambda client: client.writer("t", **options)


def send(*arguments: Any, **options: Any) -> Callable[[Client], object]:
    return lambda client: client.writer("t").send(*arguments, **options)


def created(configs: Any) -> Callable[[Client], object]:
    return lambda client: client.create_topic("new", configs=configs)


def odd_acks(acks: object) -> str:
    return f"acks {acks!r}: expected 'all' (-1), 'leader' (1) or 'none' (0)"


CODEC = "compression 'brotli': expected one of 'none', 'gzip', 'snappy', 'lz4', 'zstd'"
ISOLATION = "isolation 'committed': expected one of 'read_uncommitted', 'read_committed'"
REFUSED: list[tuple[type[Exception], str, Callable[[Client], object]]] = [
    *[(ValueError, odd_acks(each), append(acks=each)) for each in ("two", 2, True, 1.0, None)],
    *[(ValueError, odd_acks(each), writer(acks=each)) for each in ("ALL", -2, False, b"all")],
    (ValueError, CODEC, append(compression="brotli")),
    (ValueError, CODEC, writer(compression="brotli")),
    (ValueError, "compression None", append(compression=None)),
    (ValueError, ISOLATION, lambda client: client.read("t", isolation="committed")),
    (ValueError, ISOLATION, lambda client: client.offsets("t", isolation="committed")),
    (ValueError, ISOLATION, lambda client: client.list_offsets({}, isolation="committed")),
    (ValueError, ISOLATION, lambda client: client.consumer("t", isolation="committed")),
    (TypeError, "partition 7: expected the name of a column", append(partition=7)),
    (ValueError, "no column 'p' for partition: there are ['value']", append(partition="p")),
    (TypeError, "value 3: expected the name of a column", append(value=3)),
    (TypeError, "data is a int: expected a pyarrow", lambda client: client.append(5, "t")),
    (ValueError, "encode 'avro': expected one of 'json'", append(encode="avro")),
    (ValueError, "decode 'text': expected one of 'utf8', 'json'",
     lambda client: client.read("t", decode="text")),
    (ValueError, "decode 'text': expected one of 'utf8', 'json'",
     lambda client: client.consumer("t", decode="text")),
    (TypeError, "configs['retention.ms'] []: expected a string, a number or a bool",
     created({"retention.ms": []})),
    (TypeError, "configs: key 5: expected a string", created({5: "x"})),
    (TypeError, "changes['retention.ms'] b'5': expected a string, a number or a bool",
     lambda client: client.set_topic_configs("t", {"retention.ms": b"5"})),
    (TypeError, "topic 5: expected a string", lambda client: client.create_topic(5)),
    (TypeError, "bootstrap ['a:9092']: expected a string", lambda _: drumlin.connect(["a:9092"])),
    (TypeError, "topic 5: expected a string", lambda client: client.writer(5)),
    (TypeError, "topic 5: expected a string", lambda client: client.append(TABLE, 5)),
    (TypeError, "value 5: expected bytes, a string or None", send(5)),
    (TypeError, "value {'a': 1}: expected bytes", send({"a": 1})),
    (TypeError, "key 1.5: expected bytes", send(b"v", key=1.5)),
    (ValueError, "value 'a\\udc80': it cannot be written as UTF-8", send("a\udc80")),
    (ValueError, "header name '\\udc80': it cannot be", send(b"v", headers={"\udc80": b""})),
    (TypeError, "header 'a' 5: expected bytes", send(b"v", headers={"a": 5})),
    (TypeError, "header name 5: expected a string", send(b"v", headers=[(5, b"x")])),
    (TypeError, "header ('a',): expected a name and a value", send(b"v", headers=[("a",)])),
    (TypeError, "headers 'ab': expected a mapping, or pairs", send(b"v", headers="ab")),
    (TypeError, "timestamp 1.5: expected a whole number", send(b"v", timestamp=1.5)),
    (ValueError, "timestamp 9223372036854775808: expected", send(b"v", timestamp=2**63)),
    (TypeError, "partition 'a': expected a whole number", send(b"v", partition="a")),
    (ValueError, "topic 't' has no partition 2", send(b"v", partition=2)),
    *[(TypeError, f"got an unexpected keyword argument {name!r}", call) for name, call in (
        ("compresion", append(compresion="zstd")),
        ("isolaton", lambda client: client.read("t", isolaton="read_committed")),
        ("x", lambda client: client.read_batches("t", x=1)),
        ("y", lambda client: client.read_range("t", 0, 0, 1, y=1)),
        ("linger", writer(linger=5)),
        ("timeout_ms", lambda _: drumlin.connect("a:9092", timeout_ms=5)),
    )],
    (TypeError, "consumer() has no option 'group_id': it is called 'group' here",
     lambda client: client.consumer("t", group_id="g")),
    (TypeError, "consumer() has no option 'auto_offset_reset': it is called 'start' here",
     lambda client: client.consumer("t", auto_offset_reset="earliest")),
    (TypeError, "consumer() has no option 'enable_auto_commit': it is called 'commit_interval_ms=",
     lambda client: client.consumer("t", enable_auto_commit=False)),
    (TypeError, "consumer() has no option 'client_rack': it is called 'rack' here",
     lambda client: client.consumer("t", client_rack="a")),
    (TypeError, "writer() has no option 'batch_size': it is called 'batch_bytes' here",
     writer(batch_size=1)),
    (TypeError, "append() has no option 'value_serializer': it is called 'encode' here",
     append(value_serializer=str)),
    *[(TypeError, "connect() has no option 'bootstrap_servers': it is called 'bootstrap' here",
       lambda _, args=args: drumlin.connect(*args, bootstrap_servers="a:9092"))
      for args in ([], ["a:9092"])],
    (TypeError, "got an unexpected keyword argument 'auto_offset_reset'",
     append(auto_offset_reset="earliest")),
    (TypeError, "missing 1 required positional argument: 'bootstrap'",
     lambda _: drumlin.connect()),
    (ValueError, "no broker address given: expected host:port", lambda _: drumlin.connect("")),
    (ValueError, "retries -1: expected 0 to", writer(retries=-1)),
    (TypeError, "retries 'x': expected a whole number", append(retries="x")),
    (ValueError, "end -1: expected 0 to", lambda client: client.read("t", end=-1)),
    (ValueError, "start -1: expected 0 to", lambda client: client.read_batches("t", start=-1)),
    (ValueError, "start '2026-11-29': expected one of 'earliest', 'latest'; or an offset, a date",
     lambda client: client.read("t", start="2026-11-29")),
    (ValueError, "expected one of 'earliest', 'latest', 'committed'; or a datetime or Millisec",
     lambda client: client.consumer("t", start=3)),
    (TypeError, "before True: expected 'latest' or an offset",
     lambda client: client.delete_records("t", before={0: 1, 1: True})),
    *[(TypeError, f"partition {wrong!r}: expected (topic, number)",
       lambda client, wrong=wrong: client.commit_offsets("g", {wrong: 3}))
      for wrong in ("t", ("t", "0"), ("t",), 0, (0, "t"))],
    *[(TypeError, f"partitions {wrong!r}: expected a list of numbers", call)
      for wrong in (0, "0")
      for call in (
          lambda client, wrong=wrong: client.read("t", wrong),
          lambda client, wrong=wrong: client.read_batches("t", wrong),
          lambda client, wrong=wrong: client.read_records("t", wrong),
          lambda client, wrong=wrong: client.snapshot("t", partitions=wrong),
          lambda client, wrong=wrong: client.delete_records("t", wrong, before=0))],
    (TypeError, "partition '0': expected a whole number", lambda client: client.read("t", ["0"])),
    *[(TypeError, f"data['value'] {wrong!r}: expected a column (a list)",
       lambda client, wrong=wrong: client.append({"value": wrong}, "t"))
      for wrong in ("a", b"a", 1)],
    (TypeError, "create_topic() has no option 'num_partitions': it is called 'partitions' here",
     lambda client: client.create_topic("new", num_partitions=3)),
    (TypeError, "partition 't': expected (topic, number)",
     lambda client: client.delete_offsets("g", "t")),
    *[(error, text, lambda client, call=call, offset=offset: call(client)("g", {("t", 0): offset}))
      for error, offset, text in (
          (TypeError, "3", "the offset of t-0 '3': expected a whole number"),
          (ValueError, -1, "the offset of t-0 -1: expected 0 to"))
      for call in (attrgetter("commit_offsets"), attrgetter("commit_offsets_async"))],
    *[(TypeError, f"group {wrong!r}: expected a string",
       lambda client, wrong=wrong, name=name: getattr(client, name)(wrong))
      for wrong in (5, None)
      for name in ("describe_group", "committed_offsets", "group_lag", "delete_group",
                   "remove_members")],
    (TypeError, "group 5: expected a string", lambda client: client.commit_offsets(5, {})),
    (TypeError, "start True: expected 'earliest', 'latest', an offset, a datetime or Milliseconds",
     lambda client: client.read("t", start=True)),
    (ValueError, "start 'max_timestamp': expected one of 'earliest', 'latest'",
     lambda client: client.read("t", start="max_timestamp")),
    (TypeError, "end[1] 1.5: expected 'earliest'",
     lambda client: client.read("t", end={0: 0, 1: 1.5})),
    (ValueError, "start has partitions [0], but [0, 1] are read",
     lambda client: client.read("t", start={0: 0})),
    (ValueError, "end has partitions [0, 1, 7], but [0, 1] are read",
     lambda client: client.read("t", end={0: 0, 1: 0, 7: 0})),
    (TypeError, "at 3: an int is an offset, not a time: expected",
     lambda client: client.offsets("t", 3)),
    (TypeError, "at 3: an int is an offset, not a time: expected a datetime, Milliseconds, or",
     lambda client: client.snapshot("t", at=3)),
    (TypeError, "at 3: an int is an offset", lambda client: client.restore("t", "u", at=3)),
    (ValueError, "Milliseconds -1: expected 0 to", lambda _: drumlin.Milliseconds(-1)),
    (TypeError, "Milliseconds 1.5: expected a whole number", lambda _: drumlin.Milliseconds(1.5)),
    (ValueError, "batch_bytes 0: expected 1 to", append(batch_bytes=0)),
    (ValueError, "batch_bytes 4294967296: expected 1 to", writer(batch_bytes=1 << 32)),
    (ValueError, "linger_ms -1: expected at least 0", writer(linger_ms=-1)),
    (ValueError, "linger_ms nan: expected at least 0", writer(linger_ms=float("nan"))),
    (TypeError, "delivery_timeout_ms '5': expected a number", append(delivery_timeout_ms="5")),
    (TypeError, "on_delivery 5: expected a function", writer(on_delivery=5)),
    (TypeError, "on_assigned 5: expected a function",
     lambda client: client.consumer("t", on_assigned=5)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "said", "call"), REFUSED, ids=[each[1] for each in REFUSED])
def test_refused_at_the_call(
    log: FlakyLog,
    lone_client: Client,
    kind: type[Exception],
    said: str,
    call: Callable[[Client], object],
) -> None:
    with pytest.raises(kind, match=re.escape(said)):
        call(lone_client)
    assert log.records == []
    lone_client.append(TABLE, "t")
    assert len(log.records) == 1


@pytest.mark.parametrize("acks", ["all", "leader", "none", 0, 1, -1, "0", "1", "-1"])
def test_all_names_of_acks(broker: ScriptedBroker, lone_client: Client, acks: Any) -> None:
    wanted = int({"all": -1, "leader": 1, "none": 0}.get(acks, acks))
    FlakyLog(broker, iter(["silent"] * 2 if wanted == 0 else []))
    lone_client.append(TABLE, "t", acks=acks)
    with lone_client.writer("t", acks=acks) as writer:
        writer.send(b"y")
    lone_client.refresh()  # answered after what was sent
    assert [request.acks for request in broker.asked("produce")] == [wanted] * 2


def test_an_object_that_cannot_be_shown(log: FlakyLog, lone_client: Client) -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("not today")

    with pytest.raises(TypeError, match="value a Odd: expected bytes"):
        lone_client.writer("t").send(Odd())


def test_a_small_batch_has_room_for_one_record(log: FlakyLog, lone_client: Client) -> None:
    """Even if that is smaller than the header of a batch."""
    for batch_bytes in (1, 60, 61, 62):
        lone_client.append(pa.table({"value": [b"x" * 300] * 3}), "t", batch_bytes=batch_bytes)
    assert [header.record_count for header in log.headers] == [1] * 12


def test_configs_of_every_kind(client: Client, topic: str) -> None:
    client.set_topic_configs(
        topic, {"retention.ms": 86_400_000, "preallocate": True, "min.cleanable.dirty.ratio": 0.25}
    )

    def value_of(key: str) -> str | None:
        return client.topic_configs(topic)[key].value

    # Apache Kafka's brokers hear of it a moment later.
    wait_until(lambda: value_of("retention.ms") == "86400000", "the change")
    configs = client.topic_configs(topic)
    assert configs["preallocate"].value == "true"
    assert configs["min.cleanable.dirty.ratio"].value == "0.25"
    client.set_topic_configs(topic, {"retention.ms": None})
    wait_until(lambda: client.topic_configs(topic)["retention.ms"].is_default, "the default")


def test_objects_say_what_they_are(log: FlakyLog, lone_client: Client) -> None:
    assert repr(lone_client) == f"<drumlin.Client of {lone_client.bootstrap}>"
    with lone_client.writer("t") as writer:
        assert repr(writer) == "<drumlin.Writer to 't'>"
        delivery = writer.send(b"x", partition=1)
        assert repr(delivery) == "<drumlin.Delivery to topic 't' partition 1, in flight>"
    assert repr(writer) == "<drumlin.Writer to 't', closed>"
    assert repr(delivery) == "<drumlin.Delivery to topic 't' partition 1, offset 0>"
    consumer = lone_client.consumer(assign=[("t", 0)])
    assert repr(consumer) == "<drumlin.Consumer without a group>"
    lone_client.close()
    assert repr(lone_client) == f"<drumlin.Client of {lone_client.bootstrap}, closed>"


def test_a_traceback_shows_an_error_once(client: Client) -> None:
    name = "there-is-no-such-topic"
    with pytest.raises(drumlin.UnknownTopic) as caught:
        client.read(name)
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count(name) == 1
    assert "direct cause" not in shown


def test_public_names() -> None:
    """They are found by completion, can be imported, and type checkers see them all."""
    assert {"connect", "Client", "ClientError", "TopicExists", "topic_of"} <= set(dir(drumlin))
    for name in drumlin.__all__:
        assert getattr(drumlin, name) is not None
    source = Path(drumlin.__file__).read_text("utf-8")
    assert set(re.findall(r"import \w+ as (\w+)", source)) == {*drumlin.__all__} - {"__version__"}
    errors = [each for each in vars(drumlin.client.errors).values() if is_public_error(each)]
    assert {each.__name__ for each in errors} <= set(drumlin.__all__)


def is_public_error(each: object) -> bool:
    return isinstance(each, type) and issubclass(each, drumlin.ClientError)


def test_importing_the_package_loads_nothing_heavy() -> None:
    program = (
        "import sys, drumlin; dir(drumlin);"
        "print({'asyncio', 'numpy', 'pyarrow', 'numba', 'drumlin.client'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def keywords_of(call: Callable[..., object]) -> dict[str, object]:
    """The options of a call, with their defaults."""
    parameters = inspect.signature(call).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


#: What says where to read, and not how.
PLACES = {"start", "end", "group", "assign"}


@pytest.mark.parametrize(
    ("call", "options"),
    [
        (Client.append, AppendOptions),
        (Client.writer, WriterOptions),
        (Client.read, ReadOptions),
        (Client.read_batches, ReadOptions),
        (Client.read_range, ReadOptions),
        (Client.consumer, ConsumerOptions),
    ],
)
def test_an_option_is_spelled_in_the_signature(call: Callable[..., object], options: Any) -> None:
    """What is checked is what can be given; where both know a default, it is the same."""
    given = keywords_of(call)
    fields = {each.name: each.default for each in dataclasses.fields(options)}
    assert fields.keys() <= given.keys()
    assert given.keys() - fields.keys() <= PLACES
    for name, default in fields.items():
        assert default in (dataclasses.MISSING, given[name]), name


def test_a_transaction_takes_the_options_of_its_client() -> None:
    for name in ("append", "writer"):
        mine, other = (getattr(each, name) for each in (drumlin.Transaction, Client))
        assert mine is other


@pytest.mark.parametrize(
    "call",
    [
        drumlin.connect,
        Client.append,
        Client.writer,
        Client.read,
        Client.read_range,
        Client.consumer,
        Client.snapshot,
        Client.restore,
        Client.create_topic,
    ],
    ids=lambda each: each.__name__,
)
def test_help_shows_every_option(call: Callable[..., object]) -> None:
    """With its default in the signature, and a sentence each."""
    parameters = [*inspect.signature(call).parameters.values()]
    assert not any(each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL) for each in parameters)
    assert all(
        each.default is not each.empty for each in parameters if each.kind is each.KEYWORD_ONLY
    )
    said = inspect.getdoc(call) or ""
    described = {
        name.strip()
        for names in re.findall(r"^    ([a-z_, ]+): ", said, re.MULTILINE)
        for name in names.split(",")
    }
    assert {each.name for each in parameters} - {"self"} <= described


CALLS = [
    call
    for owner in (Client, drumlin.Consumer, drumlin.Transaction, drumlin.Writer)
    for name, call in inspect.getmembers(owner, inspect.isfunction)
    if not name.startswith("_") and name not in {*vars(DeprecatedCalls), "stream_appender"}
] + [getattr(drumlin.lowlevel, name) for name in drumlin.lowlevel.__all__ if name.islower()]
#: They raise what any call may, or nothing; the first sentence says what they return.
PLAIN = {
    "lag",
    "pause",
    "resume",
    "group_metadata",
    "known_leader_epochs",
    "positions",
    "sample_logs",
    "end_transactions",
}


@pytest.mark.parametrize("call", CALLS, ids=lambda each: each.__qualname__)
def test_a_call_says_what_it_raises(call: Callable[..., object]) -> None:
    said = inspect.getdoc(call) or ""
    if "Deprecated." not in said and call.__name__ not in PLAIN:
        assert re.search(r"^Raises:$", said, re.MULTILINE) or "Raises as" in said


@pytest.mark.parametrize("call", CALLS, ids=lambda each: each.__qualname__)
def test_a_call_says_what_it_returns(call: Callable[..., object]) -> None:
    returned = str(inspect.signature(call).return_annotation)
    if re.search(r"dict|list|Iterator|pa\.|Future|Report|Description|Claims|Lookup", returned):
        assert re.search(r"^Returns:$", inspect.getdoc(call) or "", re.MULTILINE)
