"""Groups moved by the console: what the plan shows is what is committed, or nothing is."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from console.console_process import Answer, Visitor
from drumlin.client.client import Client
from drumlin.console.changes.reset import target_of
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.waiting import wait_until

TOPIC = "moved-topic"
EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def client(broker: SecuredDrumlin) -> Iterator[Client]:
    with drumlin.connect(broker.address) as client:
        client.create_topic(TOPIC, 2)
        times = [1_000 + i // 2 for i in range(200)]
        rows = pa.table({"value": [f"v{i}" for i in times], "timestamp": times})
        client.append(rows, TOPIC, partition=lambda table, _: pa.array([0, 1] * (len(table) // 2)))
        yield client


@pytest.fixture
def group(client: Client) -> str:
    client.commit_offsets("moved", {(TOPIC, 0): 40, (TOPIC, 1): 60})
    return "moved"


def _plan(visitor: Visitor, group: str, to: str, **more: object) -> Answer:
    return visitor.get("reset_plan", group=group, to=to, **more)


def _committed(client: Client, group: str) -> dict[tuple[str, int], int]:
    return {place: each.offset for place, each in client.committed_offsets(group).items()}


def _moves(answer: Answer) -> list[tuple[Any, ...]]:
    assert answer.status == 200, answer.error
    names = ("partition", "old_offset", "new_offset", "skipped", "again")
    return [tuple(each[name] for name in names) for each in answer.json["moves"]]


@pytest.mark.parametrize(
    ("to", "moves"),
    [
        pytest.param("earliest", [(0, 40, 0, 0, 40), (1, 60, 0, 0, 60)], marks=pytest.mark.deep),
        ("latest", [(0, 40, 100, 60, 0), (1, 60, 100, 40, 0)]),
        pytest.param("current", [(0, 40, 40, 0, 0), (1, 60, 60, 0, 0)], marks=pytest.mark.deep),
        ("offset:50", [(0, 40, 50, 10, 0), (1, 60, 50, 0, 10)]),
        ("shift:-50", [(0, 40, 0, 0, 40), (1, 60, 10, 0, 50)]),
        pytest.param(
            "shift:+50", [(0, 40, 90, 50, 0), (1, 60, 100, 40, 0)], marks=pytest.mark.deep
        ),
        ("time:1005", [(0, 40, 5, 0, 35), (1, 60, 5, 0, 55)]),
        pytest.param(
            "time:9999", [(0, 40, 100, 60, 0), (1, 60, 100, 40, 0)], marks=pytest.mark.deep
        ),
    ],
)
def test_a_plan_is_shown_and_carried_out(
    visitor: Visitor, client: Client, group: str, to: str, moves: list[tuple[Any, ...]]
) -> None:
    plan = _plan(visitor, group, to)
    assert _moves(plan) == moves
    assert _committed(client, group) == {(TOPIC, 0): 40, (TOPIC, 1): 60}
    answer = visitor.post("reset", {"group": group, "moves": plan.json["moves"]})
    assert answer.json == {"group": group, "partitions": 2}
    expected = {(TOPIC, partition): new for partition, _, new, _, _ in moves}
    assert _committed(client, group) == expected


def test_an_offset_that_a_browser_would_round(visitor: Visitor, client: Client) -> None:
    far = 2**63 - 1
    client.commit_offsets("moved-far", {(TOPIC, 0): far})
    assert visitor.get("group", group="moved-far").json["offsets"][0]["offset"] == str(far)
    plan = _plan(visitor, "moved-far", "latest")
    assert _moves(plan) == [(0, str(far), 100, 0, str(far - 100))]
    moves = json.loads(plan.body, parse_int=float)["moves"]  # as a browser reads it
    rows = [{**each, "partition": 0, "new_offset": 100} for each in moves]
    answer = visitor.post("reset", {"group": "moved-far", "moves": rows})
    assert (answer.status, _committed(client, "moved-far")) == (200, {(TOPIC, 0): 100}), answer


@pytest.mark.deep
def test_remarks_say_what_is_not_as_asked_for(visitor: Visitor, group: str) -> None:
    remarks = [each["remark"] for each in _plan(visitor, group, "offset:101").json["moves"]]
    assert remarks == ["101 is outside the log: its end"] * 2
    remarks = [each["remark"] for each in _plan(visitor, group, "time:9999").json["moves"]]
    assert remarks == ["no record since then: the end"] * 2


def test_a_topic_that_the_group_has_never_read(visitor: Visitor, client: Client) -> None:
    client.create_topic("moved-new", 1)
    client.commit_offsets("moved-else", {(TOPIC, 0): 1})
    plan = _plan(visitor, "moved-else", "earliest", topic="moved-new")
    assert _moves(plan) == [(0, None, 0, 0, 0)]
    assert visitor.post("reset", {"group": "moved-else", "moves": plan.json["moves"]}).status == 200
    assert _committed(client, "moved-else") == {(TOPIC, 0): 1, ("moved-new", 0): 0}
    refused = _plan(visitor, "moved-else", "shift:1", topic=TOPIC)
    assert (refused.status, f"{TOPIC}-1" in refused.error) == (409, True)


def test_a_group_that_has_changed_since_is_noticed(
    visitor: Visitor, client: Client, group: str
) -> None:
    moves = _plan(visitor, group, "earliest").json["moves"]
    client.commit_offsets(group, {(TOPIC, 1): 61})
    answer = visitor.post("reset", {"group": group, "moves": moves})
    assert answer.status == 409
    assert "committed 61 now, and had committed 60" in answer.error
    assert _committed(client, group) == {(TOPIC, 0): 40, (TOPIC, 1): 61}


def test_a_log_that_has_changed_since_is_noticed(visitor: Visitor, client: Client) -> None:
    client.create_topic("moved-cut", 1)
    client.append(pa.table({"value": ["a", "b", "c"]}), "moved-cut")
    client.commit_offsets("moved-of-cut", {("moved-cut", 0): 3})
    moves = _plan(visitor, "moved-of-cut", "earliest").json["moves"]
    client.delete_records("moved-cut", before={0: 2})
    answer = visitor.post("reset", {"group": "moved-of-cut", "moves": moves})
    assert (answer.status, "has no offset 0 now" in answer.error) == (409, True)
    assert _committed(client, "moved-of-cut") == {("moved-cut", 0): 3}


@pytest.mark.parametrize("protocol", ["classic", pytest.param("consumer", marks=pytest.mark.deep)])
def test_a_group_with_members_is_left_alone(
    visitor: Visitor, client: Client, protocol: str
) -> None:
    name = f"moved-live-{protocol}"
    client.commit_offsets(name, {(TOPIC, 0): 7})
    moves = _plan(visitor, name, "earliest").json["moves"]
    with client.consumer([TOPIC], group=name, protocol=protocol) as consumer:
        consumer.poll(timeout_ms=10_000)
        for answer in (
            _plan(visitor, name, "earliest"),
            visitor.post("reset", {"group": name, "moves": moves}),
        ):
            assert answer.status == 409
            assert "with 1 member: stop its consumers first" in answer.error


@pytest.mark.deep
def test_share_groups_are_moved_too(
    visitor: Visitor, client: Client, broker: SecuredDrumlin
) -> None:
    name, member = "moved-share", str(uuid.uuid4())
    assert visitor.get("group", group=name).status == 404  # has a coordinator now
    with broker.connect() as raw:

        def beat(epoch: int) -> int:
            fields = {"subscribed_topic_names": [TOPIC] if epoch == 0 else None, "rack_id": None}
            fields |= {"group_id": name, "member_id": member, "member_epoch": epoch}
            return int(raw.ask("share_group_heartbeat", 1, **fields).error_code)

        wait_until(lambda: beat(0) == 0, "a member to join", 60)
        refused = _plan(visitor, name, "earliest", topic=TOPIC)
        assert refused.status == 409, refused
        assert "with 1 member" in refused.error
        assert beat(-1) == 0
    plan = _plan(visitor, name, "offset:7", topic=TOPIC)
    assert [each[2] for each in _moves(plan)] == [7, 7]
    answer = visitor.post("reset", {"group": name, "moves": plan.json["moves"]})
    assert answer.status == 200, answer
    assert [each[1] for each in _moves(_plan(visitor, name, "latest"))] == [7, 7]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("moves", "named"),
    [
        (None, "'moves'"),
        ([], "'moves'"),
        ([1], "'moves'"),
        ([{"topic": TOPIC, "partition": 0, "old_offset": 40}], "'moves'"),
        ([{"topic": TOPIC, "partition": 0, "old_offset": 40, "new_offset": -1}], "'moves'"),
        ([{"topic": TOPIC, "partition": 0, "old_offset": 40, "new_offset": 2**63}], "'moves'"),
        ([{"topic": TOPIC, "partition": True, "old_offset": 40, "new_offset": 1}], "'moves'"),
        ([{"topic": TOPIC, "partition": 0, "old_offset": 40, "new_offset": 1}] * 2, "twice"),
        ([{"topic": 0, "partition": 0, "old_offset": 40, "new_offset": 1}], "'moves'"),
        ([{"topic": EVIL, "partition": 0, "old_offset": None, "new_offset": 1}], EVIL),
        ([{"topic": "\ud800", "partition": 0, "old_offset": None, "new_offset": 1}], "\\ud800"),
        ([{"topic": TOPIC, "partition": 0, "old_offset": 40, "new_offset": 101}], "no offset 101"),
        (
            [{"topic": TOPIC, "partition": 0, "old_offset": None, "new_offset": 1}],
            "had committed n",
        ),
    ],
)
def test_odd_moves_are_refused(
    visitor: Visitor, client: Client, group: str, moves: Any, named: str
) -> None:
    answer = visitor.post("reset", {"group": group, "moves": moves})
    assert answer.status in (400, 409)
    assert named in answer.error
    assert _committed(client, group) == {(TOPIC, 0): 40, (TOPIC, 1): 60}


@pytest.mark.parametrize(
    "to", ["", "end", "offset:-1", "offset:x", "time:-5", "shift:9" + "9" * 19]
)
def test_odd_targets_are_named(to: str) -> None:
    with pytest.raises(ValueError, match="'to'"):
        target_of(to)


@pytest.mark.deep
def test_groups_and_topics_that_do_not_exist(visitor: Visitor, group: str) -> None:
    for name in ("moved-absent", EVIL):
        assert _plan(visitor, name, "earliest").status == 404
    assert _plan(visitor, group, "earliest", topic="moved-absent").status == 404
    assert _plan(visitor, group, "earliest", topic=EVIL).status in (400, 404)
