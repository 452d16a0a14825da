"""What Spark's sinks have decided and have open, through the command line, on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from drumlin.client.client import Client
from drumlin.spark.writing.entry import TaskWrite, begin_task, commit_batch
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.sink_errors import NotDecided
from rig.brokers.drumlin_server import DrumlinServer
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


def write(client: Client, sink: str, batch: int, run: str = "run") -> TaskMessage:
    begun = begin_task(client, TaskIdentity(sink, "query", batch, run, 0), SETTINGS)
    assert isinstance(begun, TaskWrite)
    begun.transaction.append(pa.table({"value": [f"{batch}"]}), sink)
    return begun.finish(1, "5")


def test_what_is_open_is_listed_and_described(run: Run, client: Client, sink: str) -> None:
    commit_batch(client, SETTINGS, [write(client, sink, 0)], 0)
    opened = write(client, sink, 1).opened
    assert opened is not None
    found = {each["sink"]: each for each in run("sinks", "list", "--open", "--json").json}[sink]
    assert (found["batch"], found["state"], found["open_count"]) == (0, "done", 1)
    described = run("sinks", "describe", sink, "--json").json
    assert (described["rows"], described["ends"]) == (1, "")
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
    opened = write(client, sink, 2, "another").opened
    assert opened is not None
    asked = run("sinks", "forget", sink)
    assert asked.code == 2
    assert "committed first, and all else it has open is aborted" in asked.err
    done = run("sinks", "forget", sink, "--yes")
    assert done.out == f"{opened.transactional_id}: aborted\n{sink}: forgotten\n"
    commit_batch(client, SETTINGS, [write(client, sink, 1)], 1)
    wait_until(lambda: client.read(sink, isolation="read_committed").num_rows == 3, "rows")


# -- what is not there, or cannot be read --------------------------------------------------------


def test_a_sink_that_there_is_not(run: Run, client: Client, sink: str) -> None:
    commit_batch(client, SETTINGS, [write(client, sink, 0)], 0)
    before = client.list_transactions(), client.offsets("drumlin-sinks")
    for name in ("nobody's", "no-such-sink", ""):
        for command in (["describe"], ["abort", "--yes"]):
            result = run("sinks", *command, name)
            assert (result.code, result.out) == (1, "")
            why = f"there is no sink {name!r}: topic 'drumlin-sinks' has no decision of it"
            assert why in result.err
    assert (client.list_transactions(), client.offsets("drumlin-sinks")) == before


def test_a_mistyped_name_leaves_nothing_behind(run: Run, client: Client, sink: str) -> None:
    """Told of a sink, or of a topic."""
    for command in (["list"], ["abort", sink, "--yes"]):
        result = run("sinks", *command, "--decision-topic", f"{sink}-decisions")
        assert (result.code, result.out) == (1, "")
        assert f"there is no topic '{sink}-decisions'" in result.err
    assert f"{sink}-decisions" not in client.list_topics()
    assert not [each for each in client.list_transactions() if sink in each.transactional_id]


def test_the_decisions_are_looked_for_in_the_right_topic(
    run: Run, client: Client, sink: str
) -> None:
    """In another one it looks as if nothing was decided, and what is decided would be aborted."""
    settings = SinkSettings(f"{sink}-decisions")
    begun = begin_task(client, TaskIdentity(sink, "query", 0, "run", 0), settings)
    assert isinstance(begun, TaskWrite)
    begun.transaction.append(pa.table({"value": ["0"]}), sink)
    commit_batch(client, settings, [begun.finish(1, "5")], 0)
    for command in (["describe"], ["abort", "--yes"], ["forget", "--yes"]):
        result = run("sinks", *command, sink)
        assert (result.code, result.out) == (1, "")
        assert f"are in topic '{sink}-decisions': give --decision-topic {sink}-deci" in result.err
    found = run("sinks", "describe", sink, "--decision-topic", f"{sink}-decisions", "--json").json
    assert (found["batch"], found["state"]) == (0, "done")


def test_a_record_that_cannot_be_read_is_told_of(run: Run, client: Client, sink: str) -> None:
    """A decision of a newer drumlin, or of none: a query with that sink would stop."""
    topic = f"{sink}-decisions"
    client.create_topic(topic, 1)
    newer = '{"version": 99, "sink": "newer", "batch": {"number": 7}}'
    values = {"key": ["newer", "odd", "gone", None], "value": [newer, "x", None, "x"]}
    client.append(pa.table(values), topic)
    listed = run("sinks", "list", "--decision-topic", topic, "--json")
    unreadable = [each["sink"] for each in listed.json if each["state"] == "unreadable"]
    assert unreadable == ["newer", "odd"]
    assert "sink 'newer': the record is of version 99, this drumlin knows 1" in listed.err
    assert "sink 'odd': the record was not written by drumlin" in listed.err
    assert "gone" not in listed.out
    for command in (["describe"], ["abort", "--yes"]):
        result = run("sinks", *command, "newer", "--decision-topic", topic)
        assert (result.code, result.out) == (1, "")
        assert "is of version 99" in result.err


def test_the_first_batch_is_aborted_before_anything_was_decided(
    run: Run, client: Client, sink: str
) -> None:
    message = write(client, sink, 0)
    assert message.opened is not None
    described = run("sinks", "describe", sink, "--json").json
    assert (described["state"], described["open_count"]) == ("undecided", 1)
    assert run("sinks", "abort", sink, "--yes").rows == [
        [f"{message.opened.transactional_id}: aborted"]
    ]


def test_what_was_forgotten_is_shown_so(run: Run, client: Client, sink: str) -> None:
    commit_batch(client, SETTINGS, [write(client, sink, 0)], 0)
    assert run("sinks", "forget", sink, "--yes").out == f"{sink}: forgotten\n"
    described = run("sinks", "describe", sink, "--json").json
    assert (described["state"], described["batch"]) == ("forgotten", None)
    unknown = run("sinks", "forget", f"{sink}-other", "--yes")
    assert unknown.out == f"{sink}-other: it had no decisions; its next batch is its first\n"
    refused = run("sinks", "forget", "not a name", "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "a sink's name must have 1 to 150 letters" in refused.err


def test_a_topic_that_was_deleted_under_an_open_transaction(
    run: Run, client: Client, sink: str
) -> None:
    write(client, sink, 0)
    client.delete_topic(sink)
    described = run("sinks", "describe", sink, "--json").json
    assert [each["last_stable_offset"] for each in described["partitions"]] == [None]
    assert run("sinks", "abort", sink, "--yes").code == 0
