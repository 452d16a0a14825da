"""`drumlin consume`: several topics, filters, a group's position, values of a registry, colour."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import fastavro
import pyarrow.parquet
import pytest

import drumlin
from cli.conftest import Result, Run
from drumlin.client.values.framing import header
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.schema_registry import RegistryRig, running_registry

ORDER = {"type": "record", "name": "Order", "fields": [{"name": "amount", "type": "long"}]}
PROTO = 'syntax = "proto3"; message A { int32 x = 1; } message B { string y = 1; }'


@pytest.fixture
def prefix(cluster: DrumlinServer, run: Run) -> Iterator[str]:
    """The beginning of the names of two topics of one partition, with three records each."""
    name = f"consumed-{uuid.uuid4().hex[:8]}"
    assert run("topics", "create", f"{name}-a", f"{name}-b", "-p", "1").code == 0
    with drumlin.connect(cluster.address) as client:
        for topic in "ab":
            with client.writer(f"{name}-{topic}") as writer:
                for number in range(3):
                    value, headers = json.dumps({"n": number}), [("h", str(number))]
                    writer.send(value, key=f"{topic}{number}", headers=headers)
    yield name
    run("topics", "delete", f"{name}-*", "--yes")


def test_several_topics(prefix: str, run: Run, tmp_path: Path) -> None:
    both = [f"{prefix}-{topic}\t{topic}{number}" for topic in "ab" for number in range(3)]
    form = ("--format", r"{topic}\t{key}")
    assert run("consume", f"{prefix}-a", f"{prefix}-b", *form).out.splitlines() == both
    assert run("consume", f"{prefix}-*", *form).out.splitlines() == both
    assert run("consume", "--regex", f"{prefix}-[ab]", *form).out.splitlines() == both
    assert run("consume", f"{prefix}-*", "-n", "4", *form).out.splitlines() == both[:4]
    assert run("consume", f"{prefix}-*", "-n", "1").out == f'{prefix}-a\t{{"n": 0}}\n'
    rows = run("consume", f"{prefix}-*", "--json").json_lines
    assert [f"{each['topic']}\t{each['key']}" for each in rows] == both
    assert list(rows[0]) == [
        *("topic", "partition", "offset", "timestamp", "key", "value", "headers")
    ]
    file = tmp_path / "both.parquet"
    assert run("consume", f"{prefix}-*", "-o", str(file), "--where", "value.n=2").code == 0
    table = pyarrow.parquet.read_table(file)
    assert table["topic"].to_pylist() == [f"{prefix}-a", f"{prefix}-b"]
    assert table["key"].to_pylist() == [b"a2", b"b2"]
    assert "no topic matches" in run("consume", "-r", f"{prefix}-c").err
    assert "no regular expression" in run("consume", "-r", "[").err
    assert "did you mean" in run("consume", f"{prefix}-a", f"{prefix}-").err


def test_filters_count_what_is_shown(prefix: str, run: Run) -> None:
    shown = ("--format", "{key}{headers}")
    assert run("consume", f"{prefix}-a", "--where", "value.n>=1", *shown).out == "a1h=1\na2h=2\n"
    assert run("consume", f"{prefix}-a", "-w", "header.h=1", "-w", "key=a2").out == ""
    one = run("consume", f"{prefix}-*", "-w", "value.n!=0", "-n", "3", "--format", "{key}")
    assert one.out == "a1\na2\nb1\n"
    assert run("consume", f"{prefix}-a", "--where", "what=1").code == 2


def test_a_group_s_position(prefix: str, run: Run) -> None:
    topic, group = f"{prefix}-a", f"{prefix}-group"
    form = ("--format", "{key}")
    # The position moves past what the filter leaves out, up to the last record that is shown.
    first = run("consume", topic, "-g", group, "-w", "value.n=1", "-n", "1", *form)
    assert first.out == "a1\n"
    for _ in range(2):
        assert run("consume", topic, "--from", f"group:{group}", *form).out == "a2\n"
    both = run("consume", f"{prefix}-*", "-g", group, *form)
    assert both.out == "a2\nb0\nb1\nb2\n"
    assert run("consume", f"{prefix}-*", "-g", group, *form).out == ""


def test_a_place_that_is_none(prefix: str, run: Run) -> None:
    """A variable that was not set, or a group's misspelt name, are not the beginning."""
    empty = run("consume", f"{prefix}-a", "--from", "")
    assert (empty.code, empty.out) == (2, "")
    for name in ("", "nobody"):
        result = run("consume", f"{prefix}-a", "--from", f"group:{name}")
        assert (result.code, result.out) == (1, "")
        assert f"--from group:{name}: nothing is committed" in result.err
    # A group that begins where another one is; later it goes on from its own position.
    run("consume", f"{prefix}-a", "-g", f"{prefix}-first", "-n", "1")
    begun = ("consume", f"{prefix}-a", "--from", f"group:{prefix}-first", "-g", f"{prefix}-next")
    form = ("--format", "{key}", "-n", "1")
    assert [run(*begun, *form).out for _ in range(2)] == ["a1\n", "a2\n"]


@pytest.mark.parametrize("template", ["{}", "{", "{nokey}", "{offset:05d}", "{value:{key}}"])
def test_a_format_that_is_none(run: Run, template: str) -> None:
    result = run("consume", "nowhere", "--format", template, "-b", "127.0.0.1:1")
    assert result.code == 2
    assert "--format: " in result.err


def test_members_of_several_topics(prefix: str, run: Run) -> None:
    group = f"{prefix}-members"
    form = ("--format", "{key}", "--join", "-g", group)
    shown = run("consume", f"{prefix}-a", f"{prefix}-b", "-n", "6", *form)
    assert sorted(shown.out.split()) == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_values_of_a_registry(
    prefix: str, cluster: DrumlinServer, run: Run, tmp_path: Path
) -> None:
    topic = f"{prefix}-registry"
    with running_registry() as registry:
        _write(cluster, topic, registry)
        registry.login = "registry:secret"
        config = tmp_path / "login.properties"
        login = f"schema.registry.basic.auth.user.info={registry.login}\n"
        config.write_text(login)
        without = ("consume", topic, "--registry", registry.url)
        asked = (*without, "--config", str(config))
        shown = run(*asked)
        assert shown.out.splitlines() == [
            '{"amount": 7}',
            '{"x": 5}',
            '{"y": "b"}',
            '{"j": 1}',
            "raw",
        ]
        assert shown.err == (
            f"drumlin: 1 value not decoded but shown as is; {topic}-0 offset 4: "
            "the value does not begin with a zero byte and a schema id\n"
        )
        rows = run(*asked, "--json").json_lines
        assert [each["value"] for each in rows[:2]] == [{"amount": 7}, {"x": 5}]
        assert run(*asked, "--where", "value.amount>5").out == '{"amount": 7}\n'
        assert "401" in run(*without).err
        other = tmp_path / "other.properties"  # a login is for one registry
        other.write_text(f"schema.registry.url=http://other:8081\n{login}")
        assert "401" in run(*without, "--config", str(other)).err
        config = tmp_path / "wrong.properties"
        config.write_text("schema.registry.what=1")
        assert "what" in run(*without, "--config", str(config)).err


def _write(cluster: DrumlinServer, topic: str, registry: RegistryRig) -> None:
    """A value of each kind, and one without a schema."""
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, fastavro.parse_schema(ORDER), {"amount": 7})
    proto = header(registry.add("p", PROTO, "PROTOBUF"))
    with drumlin.connect(cluster.address) as client:
        client.create_topic(topic, 1)
        with client.writer(topic) as writer:
            writer.send(header(registry.add("a", ORDER)) + encoded.getvalue())
            writer.send(proto + b"\x00\x08\x05")  # the first message
            writer.send(proto + b"\x02\x02\x0a\x01b")  # the path of the second one
            writer.send(header(registry.add("j", {"type": "object"}, "JSON")) + b'{"j": 1}')
            writer.send(b"raw")


def test_lines_become_values_of_a_schema(prefix: str, run: Run, tmp_path: Path) -> None:
    topic = f"{prefix}-a"
    avro, proto = tmp_path / "order.avsc", tmp_path / "a.proto"
    avro.write_text(json.dumps(ORDER))
    proto.write_text(PROTO)
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text('{"amount": 1}\nnull\n')
    with running_registry() as registry:
        to = ("--registry", registry.url)

        def produce(lines: Path, schema: object, *others: str) -> Result:
            return run("produce", topic, str(lines), *to, "--value-schema", str(schema), *others)

        assert produce(good, avro, "--null", "null").code == 0
        assert produce(good, f"{topic}-value", "--null", "null").code == 0, "it is registered"
        shown = run("consume", topic, "--from", "3", "--null", "NULL", *to)
        assert shown.out.splitlines() == ['{"amount": 1}', "NULL"] * 2
        for line, complaint in (
            ("{}", "does not fit the schema"),
            ('{"amount": 1, "more": 2}', "does not fit the schema"),
            ('{"amount": "x"}', "does not fit the schema"),
            ("amount", "not JSON"),
        ):
            bad.write_text(line)
            refused = produce(bad, avro)
            assert refused.code == 1
            assert f"{bad}, line 1: " in refused.err
            assert complaint in refused.err
        good.write_text('{"x": 5}')
        registry.add("p", PROTO, "PROTOBUF")
        assert produce(good, "p").code == 0
        assert run("consume", topic, "--from", "-1", *to).out == '{"x": 5}\n'
        bad.write_text('{"y": "b"}')
        assert "does not fit message A" in produce(bad, "p").err
        topic = f"{prefix}-b"
        assert produce(good, proto).code == 0
        assert run("consume", topic, "--from", "3", *to).out == '{"x": 5}\n'
        registry.add("t", "syntax", "THRIFT")
        assert "is THRIFT, which is unknown" in produce(good, "t").err
        assert "not found" in produce(good, "nothing").err
        avro.write_text("[")
        assert produce(good, avro).code == 1
        assert run("produce", topic, str(good), *to).code == 2


def test_lines_are_checked_by_a_json_schema(prefix: str, run: Run, tmp_path: Path) -> None:
    topic = f"{prefix}-a"
    schema, lines = tmp_path / "order.json", tmp_path / "lines"
    amount = {"$id": "http://127.0.0.1:1/amount", "type": "integer", "minimum": 1}
    properties = {"amount": {"$ref": "http://127.0.0.1:1/amount"}, "any": {}}
    order = {"type": "object", "properties": properties, "required": ["amount"]}
    with running_registry() as registry:
        to = ("--registry", registry.url)
        registry.add("amount", amount, "JSON")
        named = {"name": "http://127.0.0.1:1/amount", "subject": "amount", "version": 1}
        registry.add("order", order, "JSON", [named])

        def produce(line: str, which: object) -> Result:
            lines.write_text(line)
            return run("produce", topic, str(lines), *to, "--value-schema", str(which))

        assert produce('{"any": {},  "amount": 3}', "order").code == 0
        assert run("consume", topic, "--from", "-1").out.endswith('{"any": {},  "amount": 3}\n')
        assert run("consume", topic, "--from", "-1", *to).out == '{"any": {}, "amount": 3}\n'
        for line, complaint in (
            ('{"any": 1}', "does not fit the schema at $: 'amount' is a required property"),
            ('{"amount": 0}', "does not fit the schema at $.amount: 0 is less than the minimum"),
            ('{"amount": 1, "any": NaN}', "NaN is no value of JSON"),
            ("[" * 100_000, "not JSON"),
            ("amount", "not JSON"),
        ):
            refused = produce(line, "order")
            assert refused.code == 1
            assert f"{lines}, line 1: " in refused.err
            assert complaint in refused.err
        schema.write_text(json.dumps(order))  # a file has no references, and nothing is fetched
        assert "refers to http://127.0.0.1:1/amount, which" in produce('{"amount": 1}', schema).err
        schema.write_text('{"type": 7}')
        assert "no JSON schema: 7 is not valid" in produce("{}", schema).err
        assert len(registry.versions(f"{topic}-value")) == 1, "a wrong schema is not registered"
        schema.write_text('{"type": "array"}')
        assert produce("[7]", schema).code == 0
        assert registry.versions(f"{topic}-value")[1:] == ['{"type": "array"}']


def test_keys_of_a_registry(prefix: str, run: Run, tmp_path: Path) -> None:
    topic = f"{prefix}-b"
    key, lines = tmp_path / "key.avsc", tmp_path / "lines"
    key.write_text('"long"')
    lines.write_text("7|one\n8|two\n")
    shape = ("--format", "{key}={value}", "--from", "3")
    with running_registry() as registry:
        to = ("--registry", registry.url)
        written = run("produce", topic, str(lines), "-k", "|", *to, "--key-schema", str(key))
        assert written.code == 0, written.err
        assert registry.versions(f"{topic}-key") == ['"long"']
        keys = run("consume", topic, *shape, *to, "--decode", "key")
        assert (keys.out, keys.err) == ("7=one\n8=two\n", "")
        assert run("consume", topic, *shape, *to, "--decode", "key", "-w", "key=8").out == "8=two\n"
        rows = run("consume", topic, "--from", "3", *to, "--decode", "both", "--json")
        assert [each["key"] for each in rows.json_lines] == [7, 8]
        assert "drumlin: 2 values not decoded but shown as is" in rows.err
        both = run("consume", topic, *to, "--decode", "both", "--from", "2")
        assert "1 key and 3 values not decoded but shown as is" in both.err
        assert "the key does not begin with a zero byte" in both.err
    assert run("consume", topic, "--decode", "key").code == 2
    assert run("produce", topic, str(lines), "--key-schema", str(key)).code == 2
