"""Several inputs share a state: partition N of all of them is processed by one process."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.consumer.assignors.members import Member
from drumlin.client.consumer.assignors.subscription import MemberSubscription
from drumlin.client.topic_partition import TopicPartition
from drumlin.state import Processor, StateRefused, replay
from drumlin.state.changelog_format import (
    POSITION_KEY,
    Position,
    changelog_name,
    position_value,
    read_positions,
)
from drumlin.state.standbys.assignor import StateAssignor
from rig.waiting import wait_until
from state.conftest import QUICK
from state.counting import committed

Made = Callable[..., Processor]
KEYS = [f"k{number % 30}" for number in range(120)]


@pytest.fixture
def inputs(client: Client) -> list[str]:
    names = [f"{each}-{uuid.uuid4().hex[:8]}" for each in ("orders", "payments")]
    for each in names:
        client.create_topic(each, 2)
    return names


@pytest.fixture
def made(address: str, inputs: list[str], group: str) -> Made:
    return partial(
        drumlin.state.processor,
        inputs,
        group=group,
        state="join",
        bootstrap=address,
        idle_timeout_ms=200,
        commit_interval_ms=20,
        **QUICK,
    )


def join(processor: Processor, inputs: list[str], output: str) -> None:
    """Write the number of orders and payments of each key."""
    for batch in processor:
        side = inputs.index(processor.topic or "")
        for key in batch["key"].to_pylist():
            counts = processor.state.get(key, b"0 0").split()
            counts[side] = b"%d" % (int(counts[side]) + 1)
            processor.state[key] = b" ".join(counts)
            processor.send(output, processor.state[key], key)


def test_two_inputs_are_joined(
    client: Client, inputs: list[str], group: str, made: Made, address: str
) -> None:
    """By two processes, one of which goes away."""
    output = f"{group}-output"
    client.create_topic(output, 1)

    def write() -> None:
        for each in inputs:
            client.append({"key": KEYS, "value": KEYS}, each)

    write()
    with made(standbys=1) as first:
        with made(standbys=1) as second:

            def is_shared() -> bool:
                join(first, inputs, output)
                join(second, inputs, output)
                return [len(each._work.owned) for each in (first, second)] == [1, 1]

            wait_until(is_shared, "one partition each")
            write()
            for each in (first, second):
                assert {partition for _, partition in each._consumer.assignment} == {
                    *each._work.owned
                }
                assert len(each._consumer.assignment) == 2
            is_shared()
        write()

        def is_done() -> bool:
            join(first, inputs, output)
            return len(committed(client, output)) == 720

        wait_until(is_done, "all")
    latest = dict(committed(client, output))
    assert latest == {each.encode(): b"12 12" for each in KEYS}
    states = replay(group, "join", bootstrap=address)
    assert {key: value for each in states.values() for key, value in each.state.items()} == latest
    ends = {each: client.offsets(each) for each in inputs}
    for partition, past in states.items():
        assert past.offset is None
        assert past.offsets == {each: ends[each][partition] for each in inputs}


def test_inputs_that_do_not_fit_are_refused(
    client: Client, inputs: list[str], group: str, made: Made, address: str
) -> None:
    client.append({"key": KEYS, "value": KEYS}, inputs[0])
    client.create_topic(f"{group}-3", 3)
    options = {"group": group, "state": "join", "bootstrap": address, "idle_timeout_ms": 200}
    with pytest.raises(StateRefused, match="the inputs need the same number of partitions"):
        drumlin.state.processor([inputs[0], f"{group}-3"], **options)
    with pytest.raises(ValueError, match="for one input only"):
        drumlin.state.processor(inputs, new_partitions="follow", **options)
    with pytest.raises(ValueError, match="no topics"):
        drumlin.state.processor([], **options)
    with made() as processor:
        for batch in processor:
            processor.state.count_by(batch["key"])
    with (
        pytest.raises(StateRefused, match=f"belongs to the inputs .*, not to .*{inputs[0]}"),
        drumlin.state.processor(inputs[0], **options) as processor,
    ):
        next(processor)


def test_the_format_of_several_inputs(
    client: Client, inputs: list[str], group: str, made: Made
) -> None:
    told = (Position("g", "a", "x", 1), Position("g", "b", "", 2))
    assert read_positions(position_value(told, "c"), "here") == told
    assert read_positions(position_value(told[:1], "c"), "here") == told[:1]
    client.append({"key": KEYS, "value": KEYS}, inputs[1])
    with made() as processor:
        for batch in processor:
            processor.state.count_by(batch["key"])
    rows = client.snapshot(changelog_name(group, "join")).to_pylist()
    ends = client.offsets(inputs[1])
    for row in rows:
        if row["key"] == POSITION_KEY:
            found = read_positions(row["value"], "here")
            assert [(each.topic, each.offset) for each in found] == [
                (inputs[0], 0),
                (inputs[1], ends[row["partition"]]),
            ]


def test_partitions_of_the_same_number_stay_together() -> None:
    def member(name: str, owned: set[int]) -> Member:
        places = frozenset(TopicPartition(topic, each) for topic in "ab" for each in owned)
        return Member(name, None, MemberSubscription(("a", "b"), None, places, 3))

    assignor = StateAssignor(("a", "b"), 1, dict, lambda told: None)
    found, _ = assignor.assign({"a": 5, "b": 5}, [member("x", {0, 1, 2}), member("y", {3, 4})])
    assert found == {
        "x": {TopicPartition(topic, each) for topic in "ab" for each in (0, 1, 2)},
        "y": {TopicPartition(topic, each) for topic in "ab" for each in (3, 4)},
    }
