"""The APIs of share groups' state, as the leaders of partitions and group coordinators use them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

Ask = Callable[..., Any]

NO_TOPIC = uuid.UUID(int=99)


@pytest.fixture
def topic_id(ask: Ask, create: Callable[..., str]) -> uuid.UUID:
    """A topic with two partitions."""
    name = create("shared", partitions=2)
    (topic,) = ask("metadata", 12, topics=[{"topic_id": None, "name": name}])["topics"]
    return uuid.UUID(str(topic["topic_id"]))


@pytest.fixture
def group(topic_name: Callable[[str], str]) -> str:
    return topic_name("share-group")


class States:
    """The states of one group in one topic, as plain answers."""

    def __init__(self, ask: Ask, group: str, topic_id: uuid.UUID) -> None:
        self._ask, self.group, self.topic_id = ask, group, topic_id

    def __call__(self, api: str, version: int = 0, partition: int = 0, **fields: Any) -> Any:
        topic = {
            "topic_id": self.topic_id,
            "partitions": [{"partition": partition, **fields}],
        }
        answer = self._ask(api, version, group_id=self.group, topics=[topic])
        (result,) = answer["results"]
        assert uuid.UUID(str(result["topic_id"])) == self.topic_id
        (answered,) = result["partitions"]
        assert answered.pop("partition") == partition
        return answered

    def initialize(self, **fields: Any) -> str:
        wanted = {"state_epoch": 0, "start_offset": -1, **fields}
        return str(self("initialize_share_group_state", **wanted)["error_code"])

    def read(self, leader_epoch: int = 0, **fields: Any) -> Any:
        return self("read_share_group_state", leader_epoch=leader_epoch, **fields)

    def write(self, *batches: tuple[int, int, int, int], **fields: Any) -> str:
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        wanted = {
            "state_epoch": 0,
            "leader_epoch": 0,
            "start_offset": -1,
            "delivery_complete_count": -1,
            "state_batches": [dict(zip(names, batch, strict=True)) for batch in batches],
            **fields,
        }
        return str(self("write_share_group_state", 1, **wanted)["error_code"])

    def summary(self, **fields: Any) -> Any:
        return self("read_share_group_state_summary", 1, leader_epoch=-1, **fields)


@pytest.fixture
def states(ask: Ask, group: str, topic_id: uuid.UUID) -> States:
    return States(ask, group, topic_id)


def _batch(first: int, last: int, state: int, count: int) -> dict[str, int]:
    return {
        "first_offset": first,
        "last_offset": last,
        "delivery_state": state,
        "delivery_count": count,
    }


def test_what_is_written_is_read(states: States) -> None:
    assert states.initialize(start_offset=5) == "none"
    assert states.write((5, 9, 2, 1), (12, 14, 0, 1), delivery_complete_count=5) == "none"
    assert states.write((10, 11, 2, 1), (12, 12, 4, 5), delivery_complete_count=8) == "none"
    assert states.read() == {
        "error_code": "none",
        "error_message": None,
        "state_epoch": 0,
        "start_offset": 5,
        "state_batches": [_batch(5, 11, 2, 1), _batch(12, 12, 4, 5), _batch(13, 14, 0, 1)],
    }
    assert states.summary() == {
        "error_code": "none",
        "error_message": None,
        "state_epoch": 0,
        "leader_epoch": 0,
        "start_offset": 5,
        "delivery_complete_count": 8,
    }
    assert states.write(start_offset=13, delivery_complete_count=0) == "none"
    assert states.read()["state_batches"] == [_batch(13, 14, 0, 1)]


def test_states_that_were_never_initialised(states: States) -> None:
    assert states.read()["error_code"] == "invalid_request"
    assert states.write((0, 0, 2, 1)) == "invalid_request"
    assert states.summary()["start_offset"] == -1
    assert states("delete_share_group_state")["error_code"] == "none"


def test_old_leaders_are_fenced(states: States) -> None:
    states.initialize(start_offset=0)
    assert states.read(leader_epoch=0)["error_code"] == "none"
    assert states.read(leader_epoch=-1)["error_code"] == "fenced_leader_epoch"
    assert states.write((0, 0, 2, 1), leader_epoch=-2) == "fenced_leader_epoch"
    assert states.write((0, 0, 2, 1), leader_epoch=0) == "none"
    assert states.summary()["leader_epoch"] == 0


def test_a_leader_in_an_epoch_that_is_not_known_fences_nobody(states: States) -> None:
    """The news of it may be to come; who is told to try again reads then."""
    states.initialize(start_offset=0)
    for epoch in (1, 2**31 - 1):
        told = states.read(leader_epoch=epoch)
        assert told["error_code"] == "coordinator_load_in_progress"
    assert states.read(leader_epoch=0)["error_code"] == "none"


def test_old_states_are_fenced(states: States) -> None:
    states.initialize(state_epoch=3, start_offset=0)
    assert states.initialize(state_epoch=2, start_offset=0) == "fenced_state_epoch"
    assert states.write((0, 0, 2, 1), state_epoch=2) == "fenced_state_epoch"
    assert states.write((0, 0, 2, 1), state_epoch=3) == "none"
    assert states.initialize(state_epoch=4, start_offset=9) == "none"
    state = states.read()
    assert (state["start_offset"], state["state_batches"]) == (9, [])


def test_deleted_states_are_gone(states: States) -> None:
    states.initialize(state_epoch=3, start_offset=0)
    assert states("delete_share_group_state")["error_code"] == "none"
    assert states.read()["error_code"] == "invalid_request"
    assert states.initialize(state_epoch=0, start_offset=0) == "none"


def test_partitions_that_are_not_there(states: States) -> None:
    assert states.initialize(partition=2) == "unknown_topic_or_partition"
    assert states.initialize(partition=-1) == "invalid_request"
    states.topic_id = NO_TOPIC
    assert states.initialize() == "unknown_topic_or_partition"


def test_requests_for_nothing_get_no_results(ask: Ask, topic_id: uuid.UUID) -> None:
    topic = {"topic_id": topic_id, "partitions": [{"partition": 0}]}
    for group_id, topics in [("", [topic]), ("g", []), ("g", [{**topic, "partitions": []}])]:
        answer = ask("delete_share_group_state", 0, group_id=group_id, topics=topics)
        assert answer["results"] == []


def test_the_coordinator_is_found(ask: Ask, states: States) -> None:
    key = f"{states.group}:SvqXyFA-SQGVRA1d-mqqCA:0"
    keys = [key, "nothing", "g:not-an-id:0", "g:SvqXyFA-SQGVRA1d-mqqCA:x"]
    answer = ask("find_coordinator", 6, key_type=2, coordinator_keys=keys)
    codes = [each["error_code"] for each in answer["coordinators"]]
    assert codes == ["none", "invalid_request", "invalid_request", "invalid_request"]
    assert answer["coordinators"][0]["node_id"] >= 0
    (old,) = ask("find_coordinator", 5, key_type=2, coordinator_keys=[key])["coordinators"]
    assert old["error_code"] == "invalid_request"
