"""What the console tells of sinks, captures, states and followers, from a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

import drumlin
from console.console_process import Answer, ConsoleProcess, Visitor
from console.pipelines import QUERY, capture, commit_state, decide
from drumlin.capture.changes import Table
from drumlin.capture.log.position import Counts, Definition, Position
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.client import Client
from drumlin.spark.writing.protocol import names
from drumlin.spark.writing.protocol.content import Content
from drumlin.spark.writing.protocol.state import SinkState
from drumlin.spark.writing.protocol.transactions import Winner
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.waiting import wait_until


@pytest.fixture(scope="module")
def client(broker: SecuredDrumlin):
    with drumlin.connect(broker.address) as client:
        yield client


def test_sinks_with_their_last_batch(visitor: Visitor, client: Client) -> None:
    client.create_topic("piped.copies", 1)
    sink = f"{QUERY}.piped.copies"
    task_id = str(names.TaskId(sink, "run-1", "0123456789ab", 0))
    content = Content(41, "ab" * 16, "")
    winner = Winner("", 0, task_id, 7, 0, 41, "ab" * 16)
    ends = json.dumps({"sources": {"0": 41}})
    decided = SinkState(
        QUERY,
        3,
        "run-1",
        False,
        (winner,),
        decided_ms=1_700_000_000_000,
        content=content,
        ends=ends,
    )
    with client.transaction(task_id) as transaction, transaction.writer("piped.copies") as writer:
        writer.send(b"not committed yet")
        writer.flush()
        decide(client, sink, decided)
        rows = {each["sink"]: each for each in visitor.get("sinks").json["sinks"]}
        row = rows[sink]
        assert (row["state"], row["batch"], row["rows"], row["open_count"]) == ("decided", 3, 41, 1)
        assert row["topics"] == ["piped.copies"]
        found = visitor.get("sink", sink=sink).json
        assert (found["winners"], found["ends"], found["query"]) == (1, ends, QUERY)
        (mine,) = found["transactions"]
        assert (mine["transactional_id"], mine["is_winner"]) == (task_id, True)
        assert mine["partitions"] == ["piped.copies-0"]
    decide(client, sink, decided.done())
    found = visitor.get("sink", sink=sink).json
    assert (found["state"], found["winners"], found["open_count"]) == ("done", 0, 0)
    assert (found["group"], found["decision_topic"]) == (f"drumlin.{sink}", "drumlin-sinks")


def test_sinks_of_which_one_place_only_knows(visitor: Visitor, client: Client) -> None:
    """The group's offset expires; the decisions may be in another topic."""
    decide(client, "no-group", SinkState(QUERY, 9), commits=False)
    client.create_topic("others", 1)
    note = SinkState(QUERY, 5, "run-2").note.encode()
    client.commit_offsets("drumlin.no-record", {("others", 0): OffsetAndMetadata(0, note)})
    client.commit_offsets("drumlin.no-sink", {("others", 0): OffsetAndMetadata(0, "mine")})
    with client.writer(names.DECISION_TOPIC) as writer:
        writer.send(b'{"version": 99}', key=b"newer")
        writer.send(b"nonsense", key=b"<not a sink>")
    rows = {each["sink"]: each for each in visitor.get("sinks").json["sinks"]}
    assert (rows["no-group"]["batch"], rows["no-group"]["group"]) == (9, None)
    assert (rows["no-record"]["batch"], rows["no-record"]["written_ms"]) == (5, None)
    assert rows["no-record"]["decision_topic"] == "others"
    assert rows["newer"]["state"] == "unreadable"
    assert "version 99" in rows["newer"]["error"]
    assert not {"no-sink", "<not a sink>"} & rows.keys()
    assert visitor.get("sink", sink="nobody's").status == 400
    assert visitor.get("sink", sink="nobody").status == 404


#: Instead of what belongs there. Each of these once made all sinks, or all captures, unseen.
_ODD = ([], {"a": []}, "x", 1.5, True, float("nan"), float("inf"), 10**30)
_DEEP = b"[" * 100_000


def test_a_sink_that_anyone_has_written_is_unreadable_alone(
    visitor: Visitor, client: Client
) -> None:
    decide(client, "sound", SinkState(QUERY, 9), commits=False)
    told = json.loads(SinkState(QUERY, 9, content=Content(1, "ab" * 16, "")).encode("sound"))
    fields = ("query", "batch", "run", "decided_ms", "repairs", "ends", "content", "winners")
    odd = {"deep": _DEEP, "deeper": b'{"version": 1, "batch": ' + _DEEP}
    for number, value in enumerate(_ODD):
        for each in fields:
            if not (isinstance(value, str) and each in ("query", "run", "ends")):
                odd[f"{each}-{number}"] = json.dumps(told | {each: value}).encode()
        odd[f"rows-{number}"] = json.dumps(told | {"content": [value, "ab", ""]}).encode()
    with client.writer(names.DECISION_TOPIC) as writer:
        for name, record in odd.items():
            writer.send(record, key=name)
    client.create_topic("others-odd", 1)
    nested = OffsetAndMetadata(0, "[" * 3_000)
    client.commit_offsets("drumlin.nested", {("others-odd", 0): nested})
    rows = {each["sink"]: each for each in _exact(visitor.get("sinks"))["sinks"]}
    assert (rows["sound"]["batch"], rows["sound"]["error"]) == (9, None)
    harmless = {"winners-0", "winners-2"}  # none, or a text of none
    seen = {name for name in odd if rows[name]["state"] != "unreadable"}
    assert seen <= harmless | {f"repairs-{each}" for each in range(len(_ODD))}, seen
    for name in ("batch-1", "ends-0", "deeper", "decided_ms-2"):
        assert _exact(visitor.get("sink", sink=name))["error"]


def _exact(answer: Answer) -> dict[str, Any]:
    """An answer that a browser can read, too."""
    assert answer.status == 200, answer.error

    def no_json(word: str) -> NoReturn:
        raise AssertionError(word)

    found: dict[str, Any] = json.loads(answer.body, parse_constant=no_json)
    return found


@pytest.mark.deep
def test_a_capture_that_anyone_has_written_is_unreadable_alone(
    visitor: Visitor, client: Client
) -> None:
    counts = Counts(1_000, 12, 3, 0, 1_700_000_000_000)
    position = json.loads(Position("r", 7, counts=counts).encode())
    definition = json.loads(Definition("42", "shop", [_table("odd-table")]).encode())
    (table,) = definition["tables"]
    records = [(0, _DEEP), (1, _DEEP)]
    for value in _ODD:
        for each in counts._fields:
            odd = position["counts"] | {each: value}
            records.append((0, json.dumps(position | {"counts": odd}).encode()))
        records.append((0, json.dumps(position | {"binlog": {"gtids": value}}).encode()))
        records.append((0, json.dumps(position | {"timeline": value}).encode()))
        for name in ("oid", "schema", "name", "topic"):
            odd = definition | {"tables": [table | {name: value}]}
            records.append((1, json.dumps(odd).encode()))
    client.create_topic("drumlin-capture.odd", 2)
    sound = json.dumps(position).encode(), json.dumps(definition).encode()
    unreadable = 0
    for partition, value in records:
        with client.writer("drumlin-capture.odd") as writer:
            for each in (0, 1):
                writer.send(value if each == partition else sound[each], partition=each)
        found = _exact(visitor.get("capture", capture="odd"))
        unreadable += found["error"] is not None
        assert _is_whole(found["records"]) and _is_whole(found["complete_ms"]), value
        assert all(isinstance(each["topic"], str) for each in found["tables"]), value
    assert unreadable > len(records) / 2
    assert _exact(visitor.get("captures"))["captures"]


def _is_whole(value: object) -> bool:
    return value is None or type(value) is int


def _table(topic: str) -> Table:
    return Table(1, "public", "item", topic, ("id",), ("integer",))


def test_captures_with_their_position(visitor: Visitor, client: Client) -> None:
    tables = [
        _table("shop.public.item"),
        Table(2, "public", "later", "shop.public.later", ("id",), ("integer",), is_read=False),
    ]
    capture(client, "shop", tables, Counts(1_000, 12, 3, 0, 1_700_000_000_000))
    client.create_topic("drumlin-capture.broken", 2)
    with client.writer("drumlin-capture.broken") as writer:
        writer.send(b"by another program", partition=0)
    rows = {each["name"]: each for each in visitor.get("captures").json["captures"]}
    row = rows["shop"]
    assert (row["phase"], row["position"], row["database"]) == ("stream", "16/B374D848", "shop")
    assert (row["records"], row["complete_ms"], row["unread"]) == (12, 1_700_000_000_000, 1)
    assert "not written by a capture" in rows["broken"]["error"]
    found = visitor.get("capture", capture="shop").json
    assert [(each["table"], each["is_read"], each["end_offsets"]) for each in found["tables"]] == [
        ("public.item", True, 2),  # a record, and the marker of its transaction
        ("public.later", False, None),
    ]
    assert found["transaction"]["state"] == "CompleteCommit"
    for name in ("nobody", "No/Body", ""):
        assert visitor.get("capture", capture=name).status == 404


@pytest.mark.deep  # the console imports what states are made of, which takes a second
def test_states_with_their_positions(visitor: Visitor, client: Client) -> None:
    client.create_topic("piped-purchases", 2)
    with client.writer("piped-purchases") as writer:
        for number in range(20):
            writer.send(str(number), key=str(number), partition=0)
    changelog = commit_state(client, "totals", "sums", "piped-purchases", 15)
    client.create_topic("streams-store-changelog", 1)
    with client.writer("streams-store-changelog") as writer:
        writer.send(b"1", key=b"of another program")
    rows = {each["topic"]: each for each in visitor.get("states").json["states"]}
    row = rows[changelog]
    assert (row["state"], row["group"], row["inputs"]) == ("sums", "totals", ["piped-purchases"])
    assert (row["lag"], row["error"]) == (5, None)
    assert rows["streams-store-changelog"]["group"] is None
    first, second = visitor.get("state", topic=changelog).json["rows"]
    assert (first["offset"], first["group_offset"], first["end_offset"]) == (15, 15, 20)
    assert (first["lag"], second["input"]) == (5, None)
    assert visitor.get("state", topic="nobody").status == 404


def test_followers_of_compacted_topics(visitor: Visitor, client: Client) -> None:
    client.create_topic("piped-users", 2, configs={"cleanup.policy": "compact"})
    client.create_topic("piped-plain", 1)
    with client.writer("piped-users") as writer:
        for number in range(6):
            writer.send(str(number), key=str(number), partition=number % 2)
    client.commit_offsets("piped-cache", {("piped-users", 0): 1, ("piped-plain", 0): 0})

    def rows() -> list[dict[str, Any]]:
        found = visitor.get("followers").json["followers"]
        return [each for each in found if each["group"] == "piped-cache"]

    (row,) = rows()
    assert (row["topic"], row["lag"], row["offsets"]) == ("piped-users", 2, 1)
    assert (row["followed"], row["partitions"], row["members"]) == (1, 2, 0)


def test_who_has_no_rights_sees_none_of_it(login_console: ConsoleProcess, client: Client) -> None:
    decide(client, "not-for-bob", SinkState(QUERY, 1))
    capture(client, "not_for_bob", [_table("not-for-bob")], Counts(1_000, 1, 1, 0, None))
    commit_state(client, "not-for-bob", "sums", "not-for-bob", 0)
    bob = Visitor(login_console)
    assert bob.login(user="bob", password="bob").status == 200
    for path in ("sinks", "captures", "states", "followers"):
        answer = bob.get(path)
        assert (answer.status, answer.json[path]) == (200, []), answer
    for path, name in (
        ("sink", {"sink": "not-for-bob"}),
        ("capture", {"capture": "not_for_bob"}),
        ("state", {"topic": "not-for-bob-sums-changelog"}),
    ):
        answer = bob.get(path, **name)
        assert answer.status in (403, 404), (path, answer)


@pytest.mark.deep
def test_programs_at_work(
    visitor: Visitor, client: Client, broker: SecuredDrumlin, tmp_path: Path
) -> None:
    """A materialization and a processor, while they run."""
    client.create_topic("worked-users", 1, configs={"cleanup.policy": "compact"})
    with client.writer("worked-users") as writer:
        for number in range(6):
            writer.send(str(number), key=str(number))
    arguments = ("worked-users", "--to", f"sqlite:///{tmp_path}/store.db", "--group", "worked-db")
    command = [sys.executable, "-m", "drumlin", "materialize", *arguments]
    process = subprocess.Popen([*command, "--bootstrap", broker.address], cwd=tmp_path)

    def follows() -> dict[str, Any] | None:
        rows = visitor.get("followers").json["followers"]
        done = [each for each in rows if each["group"] == "worked-db" and each["lag"] == 0]
        return dict(done[0]) if done else None

    try:
        row = wait_until(follows, "the materialization to be seen")
        assert (row["client_ids"], row["members"]) == (["drumlin-materialize"], 1)
    finally:
        process.terminate()
        process.wait(60)
    options = {"group": "worked", "state": "counts", "bootstrap": broker.address}
    with drumlin.state.processor("worked-users", idle_timeout_ms=3_000, **options) as processor:
        for batch in processor:
            processor.state.count_by(batch["key"])
    found = visitor.get("state", topic="worked-counts-changelog").json
    assert (found["group"], found["state"], found["lag"]) == ("worked", "counts", 0)
    (mine,) = found["rows"]
    assert (mine["input"], mine["offset"], mine["group_offset"]) == ("worked-users", 6, 6)
