"""What people type every day: patterns, misspelt names, keys and ends of lines, places by time."""

from __future__ import annotations

import io
import json
import os
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import drumlin
from cli.conftest import Run
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.scripted_broker import ScriptedBroker
from rig.data.messages import Shape


@pytest.fixture
def topic(cluster: DrumlinServer, run: Run) -> str:
    name = f"everyday-{uuid.uuid4().hex[:8]}"
    assert run("topics", "create", name, "-p", "1", "-c", "retention.ms=86400000").code == 0
    return name


def feed(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    """Standard input."""
    source = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", source)


def test_patterns_name_several(topic: str, run: Run) -> None:
    shown = run("topics", "describe", topic[:-1] + "?", "--json").json
    assert [each["topic"] for each in shown] == [topic]
    assert shown[0]["configs"] == {"retention.ms": "86400000"}
    nothing = run("topics", "describe", "nothing-*")
    assert (nothing.code, nothing.err) == (1, "drumlin: no topic matches 'nothing-*'\n")
    overridden = run("topics", "list", "everyday-*", "--overridden", "--json").json
    assert topic in [each["topic"] for each in overridden]
    assert run("topics", "delete", topic[:-1] + "*", "--yes").out == f"{topic}: deleted\n"


def test_a_misspelt_name_is_told_with_what_was_meant(topic: str, run: Run) -> None:
    wrong = run("topics", "describe", topic[:-1])
    assert wrong.code == 1
    assert wrong.err == f"drumlin: there is no topic {topic[:-1]!r}; did you mean {topic!r}?\n"
    assert run("topics", "delete", "nowhere-at-all", "--yes").code == 1
    gone = run("topics", "delete", "nowhere-at-all", topic, "--if-exists", "--yes")
    assert gone.code == 0
    assert gone.out.splitlines() == ["nowhere-at-all: not there", f"{topic}: deleted"]


def test_offsets_by_time(topic: str, cluster: DrumlinServer, run: Run) -> None:
    with drumlin.connect(cluster.address) as client, client.writer(topic) as writer:
        for timestamp in (1_000, 3_000, 2_000):
            writer.send("v", timestamp=timestamp)
    for place, offset in (("beginning", 0), ("end", 3), ("@1500", 1), ("max-timestamp", 1)):
        (row,) = run("topics", "offsets", topic, "--at", place, "--json").json
        assert (place, row["offset"]) == (place, offset)
    assert run("topics", "offsets", topic, "--at", "17").code == 2


def test_keys_ends_and_times(topic: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    feed(monkeypatch, b"one\ntwo;three")
    how = ("--constant-key", "k", "-D", ";", "--timestamp", "@1234")
    assert run("produce", topic, *how).code == 0
    rows = run("consume", topic, "--json").json_lines
    assert [(each["key"], each["value"]) for each in rows] == [("k", "one\ntwo"), ("k", "three")]
    assert {each["timestamp"] for each in rows} == {1234}
    shown = run("consume", topic, "-n", "1", "--format", "{key_hex} {value_size:>3}|{offset:<3}|")
    assert shown.out == "6b   7|0  |\n"
    for before_end, values in (("-1", ["three"]), ("-9", ["one\ntwo", "three"])):
        last = run("consume", topic, "--from", before_end, "--json").json_lines
        assert [each["value"] for each in last] == values
    assert run("produce", topic, "--constant-key", "k", "-k", ":").code == 2


def test_lines_are_written_byte_by_byte(
    topic: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line has one end, not all that look like one; bytes of arguments need not be UTF-8."""
    feed(monkeypatch, b"a\xffone\r\r\nb\xfftwo\r\nc\xff \n")
    how = ("-k", os.fsdecode(b"\xff"), "-H", "h=1", "-H", "h=", "-H", os.fsdecode(b" h = \xfe"))
    assert run("produce", topic, *how).code == 0
    records = run("consume", topic, "--json").json_lines
    assert [each["value"] for each in records] == ["one\r", "two", " "]
    assert [(each["key"], each["value"]) for each in records[0]["headers"]] == [
        ("h", "1"),
        ("h", ""),
        (" h ", {"base64": "IP4="}),
    ]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        (("-k", ""), "--key-separator: empty"),
        (("-D", ""), "--delimiter: empty"),
        (("-H", "name"), "--header: 'name' is not NAME=VALUE"),
    ],
)
def test_separators_and_headers_that_are_none(
    run: Run, option: tuple[str, str], complaint: str
) -> None:
    result = run("produce", "nowhere", *option)
    assert result.code == 2
    assert complaint in result.err


def test_a_topic_that_is_made_by_writing_is_told(
    cluster: DrumlinServer, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"new-{uuid.uuid4().hex[:8]}"
    for is_new in (True, False):
        feed(monkeypatch, b"v\n")
        said = run("produce", name).err
        assert (f"created topic {name}\n" in said) is is_new


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"xx", "not JSON: Expecting value at column 1"),
        (b'{"value": "v", "headers": [["h", "x"]]}', "a header is"),
        (b'{"values": 1}', 'expected an object with "value"'),
        (b'{"value": "v", "headers": 5}', "headers are a list, not 5"),
        (b'{"value": "v", "timestamp": "now"}', "a timestamp is in milliseconds"),
        (b'{"value": "v", "timestamp": true}', "a timestamp is in milliseconds"),
        (b'{"value": "v", "timestamp": 9999999999999999999}', "a timestamp is in milliseconds"),
        (b"[" * 100_000 + b"]" * 100_000, "JSON that is nested too deeply"),
    ],
)
def test_json_that_is_none_is_told_in_plain_words(
    topic: str, run: Run, monkeypatch: pytest.MonkeyPatch, line: bytes, complaint: str
) -> None:
    feed(monkeypatch, line)
    result = run("produce", topic, "-j")
    assert result.code == 1
    assert f"line 1: {complaint}" in result.err
    assert "0 records were written" in result.err


@pytest.mark.deep
def test_members_of_a_group_share_partitions(topic: str, run: Run, cluster: DrumlinServer) -> None:
    with drumlin.connect(cluster.address) as client, client.writer(topic) as writer:
        for number in range(3):
            writer.send(str(number))
    group = f"group-{uuid.uuid4().hex[:8]}"
    for count, values in ((2, ["0", "1"]), (1, ["2"])):  # no record more is shown or committed
        shown = run("consume", topic, "--group", group, "--join", "-n", str(count))
        assert shown.out.split() == values
    (described,) = run("groups", "describe", group[:-1] + "*", "--json").json
    assert (described["lag"], described["state"]) == (0, "Empty")
    listed = run("groups", "list", group, "--state", "empty", "--json").json
    assert [each["group"] for each in listed] == [group]
    assert run("groups", "list", group, "--state", "stable", "--json").json == []
    wrong = run("groups", "describe", group[:-1])
    assert wrong.err.endswith(f"did you mean {group!r}?\n")
    assert run("consume", topic, "--join").code == 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_are_described_at_length(
    topic: str, run: Run, cluster: DrumlinServer, protocol: str
) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    with drumlin.connect(cluster.address) as client:
        client.append([{"value": "v"}], topic)
        with client.consumer(topic, group=group, protocol=protocol) as consumer:
            assert next(iter(consumer)).num_rows == 1
            (described,) = run("groups", "describe", group, "--json").json
            ((*_, short),) = (row for row in run("groups", "describe", group, "--members").rows)
            (row,) = run("groups", "describe", group, "--members", "--verbose").rows
            (offsets,) = run("groups", "describe", group, "--verbose").rows
    (member,) = described["members"]
    assert short == f"{topic}-0"
    is_new = protocol == "consumer"
    assert row[5:] == [str(member["member_epoch"]) if is_new else "", "", short if is_new else ""]
    assert offsets[-1] == member["member_id"]
    assert len(offsets) == 11


def test_the_cluster_is_described(cluster: DrumlinServer, run: Run) -> None:
    described = run("cluster", "describe", "--json").json
    (broker,) = described["brokers"]
    assert f"{broker['host']}:{broker['port']}" == cluster.address
    assert broker["is_controller"]
    (row,) = run("cluster", "log-dirs", "--json").json
    assert (row["state"], row["free_bytes"] > 0) == ("online", True)


def test_what_verify_found_is_told(tmp_path: Path, run: Run) -> None:
    (tmp_path / f"{0:020}.log").touch()
    assert run("dump-log", "--verify", str(tmp_path)).err == "1 files, 0 records, 0 problems\n"


def test_headings_of_lines(topic: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("topics", "offsets", topic).rows == [[topic, "0", "0", "-1"]]
    monkeypatch.setenv("DRUMLIN_HEADINGS", "1")
    heading, _ = run("topics", "offsets", topic).rows
    assert heading == ["topic", "partition", "offset", "timestamp"]


def test_json_is_json(topic: str, run: Run) -> None:
    for command in (["topics", "list"], ["groups", "list"], ["cluster", "log-dirs"]):
        assert isinstance(json.loads(run(*command, "--json").out), list)


def test_a_topic_that_was_created_before_an_error(tmp_path: Path, run: Run) -> None:
    """It waits for leaders, which do not come; that the topic is there must not get lost."""

    def created(shape: Shape, request: Any) -> Any:
        (topic,) = request.topics
        result = shape(
            "CreatableTopicResult", name=topic.name, error_code=ErrorCode.none, error_message=None
        )
        return shape("CreateTopicsResponse", throttle_time=ZERO, topics=(result,))

    config = tmp_path / "client.properties"
    config.write_text("request.timeout.ms=300\n")
    with ScriptedBroker() as broker:
        broker.versions["create_topics"] = (4, 4)
        broker.script("create_topics", created)
        where = ("-b", broker.address, "--command-config", str(config))
        failed = run("topics", "create", "leaderless", *where)
    assert failed.code == 1
    assert failed.err.endswith("; topic leaderless was created\n")


def test_the_brokers_of_each_partition_are_given(cluster: DrumlinServer, run: Run) -> None:
    assert run("topics", "create", "placed", "--replica-assignment", "1,1,1").code == 0
    (described,) = run("topics", "describe", "placed", "--json").json
    assert [each["replicas"] for each in described["partitions"]] == [[1], [1], [1]]
    refused = run("topics", "create", "misplaced", "--replica-assignment", "1:99")
    assert (refused.code, "99" in refused.err) == (1, True)
    for assignment in ("1;2", "99999999999", "2147483648", "1_0", "-1", ""):
        wrong = run("topics", "create", "misplaced", "--replica-assignment", assignment)
        assert (wrong.code, f"{assignment!r} is not BROKER:BROKER" in wrong.err) == (2, True)
    both = ("--replica-assignment", "1", "-p", "1")
    assert run("topics", "create", "misplaced", *both).code == 2


def test_numbers_have_limits_that_help_does_not_repeat(topic: str, run: Run) -> None:
    refused = run("consume", topic, "-n", "-1")
    assert refused.code == 2
    assert "must be at least 0" in refused.err
    assert "RANGE" not in run("consume", "--help").out
