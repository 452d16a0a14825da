"""`drumlin restore`: a state or records in a new topic, once, however often it is run."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer


@pytest.fixture
def topic(cluster: DrumlinServer) -> str:
    """Two partitions: an update and a tombstone in the first, one record in the other."""
    name = f"source-{uuid.uuid4().hex[:8]}"
    with drumlin.connect(cluster.address) as client:
        client.create_topic(name, 2)
        rows = pa.table(
            {
                "key": ["a", "b", "a", "b", "c"],
                "value": ["1", "2", "3", None, "5"],
                "place": [0, 0, 0, 0, 1],
            }
        )
        client.append(rows, name, partition="place")
    return name


def test_a_state_is_restored_once(topic: str, run: Run) -> None:
    target = f"{topic}-restored"
    command = ("restore", "--topic", topic, "--to", target, "--at", "0:2,1:1")
    done = run(*command, "-c", "cleanup.policy=compact")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"3 records in {target}, from {topic} up to 0:2,1:1\n"
    shown = ("consume", target, "--committed", "--format", "{partition} {key} {value}")
    state = "0 a 1\n0 b 2\n1 c 5\n"
    assert run(*shown).out == state
    again = run(*command)
    assert again.code == 0
    assert again.err == f"{target} is there already: restored from {topic} up to 0:2,1:1\n"
    assert run(*command, "--json").json == {
        "topic": topic,
        "to": target,
        "was_there": True,
        "records": None,
        "end_offsets": {"0": 2, "1": 1},
    }
    other = run("restore", "--topic", topic, "--to", target)
    assert other.code == 1
    assert f"was restored already, from the state of topic '{topic}', up to offsets" in other.err
    assert run(*shown).out == state


def test_the_first_records(topic: str, run: Run) -> None:
    command = ("restore", "-t", topic, "--to", f"{topic}-first", "--first", "3", "--json")
    assert run(*command).json["records"] == 4
    shown = run("consume", f"{topic}-first", "--format", "{key} {value}")
    assert shown.out == "a 1\nb 2\na 3\nc 5\n"
    everything = ("restore", "-t", topic, "--to", f"{topic}-all", "--records", "--json")
    assert run(*everything).json["records"] == 5


def test_what_is_refused(cluster: DrumlinServer, topic: str, run: Run) -> None:
    own = run("restore", "--topic", topic, "--to", topic)
    assert own.err == f"drumlin: topic {topic!r} cannot be restored into itself\n"
    full = f"{topic}-full"
    assert run("topics", "create", full, "-p", "2").code == 0
    with drumlin.connect(cluster.address) as client:
        client.append({"value": ["mine"]}, full)
    refused = run("restore", "--topic", topic, "--to", full)
    assert (refused.code, "records that no restore has written" in refused.err) == (1, True)
    assert run("consume", full).out == "mine\n"
    missing = run("restore", "--topic", topic[:-1], "--to", full)
    assert f"did you mean {topic!r}?" in missing.err
    assert run("restore", "--topic", topic, "--to", full, "--first", "0").code == 2
