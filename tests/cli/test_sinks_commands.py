"""What Spark's sinks have decided and have open, through the command line, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from drumlin.client.client import Client
from drumlin.spark.writing.protocol.entry import TaskWrite, begin_task, commit_batch
from drumlin.spark.writing.protocol.errors import NotDecided
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from rig.drumlin_server import DrumlinServer
from rig.waiting import wait_until

SETTINGS = SinkSettings()


@pytest.fixture
def client(cluster: DrumlinServer) -> Iterator[Client]:
    with drumlin.connect(cluster.address) as client:
        yield client


@pytest.fixture
def sink(client: Client, request: pytest.FixtureRequest) -> str:
    """Also the name of a topic."""
    name = str(request.node.name)
    client.create_topic(name, 1)
    return name


def write(client: Client, sink: str, batch: int) -> TaskMessage:
    begun = begin_task(client, TaskIdentity(sink, "query", batch, "run", 0), SETTINGS)
    assert isinstance(begun, TaskWrite)
    begun.transaction.append(pa.table({"value": [f"{batch}"]}), sink)
    return begun.finish(1, "sum")


def test_what_is_open_is_listed_and_described(run: Run, client: Client, sink: str) -> None:
    commit_batch(client, SETTINGS, [write(client, sink, 0)], 0)
    opened = write(client, sink, 1).opened
    assert opened is not None
    found = {each["sink"]: each for each in run("sinks", "list", "--open", "--json").json}[sink]
    assert (found["batch"], found["state"], found["open_count"]) == (0, "done", 1)
    described = run("sinks", "describe", sink, "--json").json
    (place,) = described["partitions"]
    assert (place["transactional_id"], place["topic"]) == (opened.transactional_id, sink)
    assert (place["last_stable_offset"], place["is_winner"]) == (2, False)
    run("sinks", "abort", sink, "--yes")


def test_records_of_others_in_the_decision_topic_do_no_harm(
    run: Run, client: Client, sink: str
) -> None:
    client.create_topic(sink + "-decisions", 1, configs={"retention.ms": "-1"})
    settings = SinkSettings(sink + "-decisions")
    begun = begin_task(client, TaskIdentity(sink, "query", 0, "run", 0), settings)
    assert isinstance(begun, TaskWrite)
    commit_batch(client, settings, [begun.finish(0, "")], 0)
    others = {"key": [None, "other", "gone"], "value": ["x", "x", None]}
    client.append(pa.table(others), settings.decision_topic)
    found = run("sinks", "list", "--decision-topic", settings.decision_topic, "--json").json
    assert [each["sink"] for each in found if each["batch"] is not None] == [sink]


def test_an_abort_frees_readers_and_fails_the_query(run: Run, client: Client, sink: str) -> None:
    message = write(client, sink, 0)
    run("sinks", "abort", sink, "--yes")
    wait_until(
        lambda: client.offsets(sink, isolation="read_committed") == client.offsets(sink),
        "the abort to be marked",
        20,
    )
    with pytest.raises(NotDecided):
        commit_batch(client, SETTINGS, [message], 0)


def test_a_sink_that_is_forgotten_begins_anew(run: Run, client: Client, sink: str) -> None:
    for batch in range(2):
        commit_batch(client, SETTINGS, [write(client, sink, batch)], batch)
    run("sinks", "forget", sink, "--yes")
    commit_batch(client, SETTINGS, [write(client, sink, 1)], 1)
    wait_until(lambda: client.read(sink, isolation="read_committed").num_rows == 3, "rows", 20)
