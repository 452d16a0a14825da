"""Transactions through the command line, on a real broker."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from drumlin.client.client import Client
from drumlin.client.transactions.errors import ProducerFenced
from rig.brokers.drumlin_server import DrumlinServer


@pytest.fixture
def client(cluster: DrumlinServer) -> Iterator[Client]:
    with drumlin.connect(cluster.address) as client:
        yield client


@pytest.fixture
def topic(client: Client, request: pytest.FixtureRequest) -> str:
    name = f"{request.node.name}-topic"
    client.create_topic(name, 2)
    return name


def rows(*values: str) -> pa.Table:
    return pa.table({"value": list(values), "partition": [0] * len(values)})


def test_an_open_one_is_listed_and_described(run: Run, client: Client, topic: str) -> None:
    client.append(rows("before"), topic, partition="partition")
    first = client.transaction(f"{topic}-first", timeout_ms=60_000)
    second = client.transaction(f"{topic}-second", timeout_ms=60_000)
    for transaction in (first, second):
        transaction.append(rows("a", "b"), topic, partition="partition")
    listed = run("transactions", "list", "--open").rows
    found = {row[0]: row for row in listed if row[0].startswith(topic)}
    assert set(found) == {f"{topic}-first", f"{topic}-second"}
    state, producer_id, epoch, since, timeout, partitions = found[f"{topic}-first"][1:]
    assert (state, epoch, timeout, partitions) == ("Ongoing", "0", "60000", "1")
    assert producer_id == str(first.producer_id)
    assert abs(int(since) / 1000 - time.time()) < 600
    described = run("transactions", "describe", f"{topic}-first", f"{topic}-second", "--json").json
    assert [each["partitions"] for each in described] == [
        [
            {
                "topic": topic,
                "partition": 0,
                "first_offset": first_offset,
                "last_stable_offset": 1,
                "holds_up": first_offset == 1,
            }
        ]
        for first_offset in (1, 3)
    ]
    assert run("transactions", "describe", f"{topic}-second").rows == [
        [f"{topic}-second", topic, "0", "3", "1", "false"]
    ]
    first.commit()
    second.commit()
    assert run("transactions", "describe", f"{topic}-first").code == 0
    listed = run("transactions", "list", "--producer-id", str(first.producer_id), "--json").json
    assert [each["transactional_id"] for each in listed] == [f"{topic}-first"]


def test_what_is_open_in_a_topic(run: Run, client: Client, topic: str) -> None:
    with client.transaction(f"{topic}-id") as transaction:
        transaction.append(rows("a"), topic, partition="partition")
        (row,) = run("transactions", "list", "--topic", topic, "--json").json
    assert (row["partition"], row["first_offset"], row["holds_up"]) == (0, 0, True)
    assert (row["transactional_id"], row["producer_id"]) == (f"{topic}-id", transaction.producer_id)


def test_abort_by_id(run: Run, client: Client, topic: str) -> None:
    transaction = client.transaction(f"{topic}-id")
    transaction.append(rows("a"), topic, partition="partition")
    refused = run("transactions", "abort", f"{topic}-id")
    assert refused.code == 2
    assert "say --yes" in refused.err
    done = run("transactions", "abort", f"{topic}-id", "nobody's", "--yes")
    assert (done.code, done.out) == (1, f"{topic}-id: aborted\n")
    assert "nobody's" in done.err
    with pytest.raises(ProducerFenced):
        transaction.commit()
    assert run("transactions", "list", "--topic", topic).out == ""


def test_what_does_not_hang_is_not_aborted_in_a_partition(
    run: Run, client: Client, topic: str
) -> None:
    with client.transaction(f"{topic}-id") as transaction:
        transaction.append(rows("a"), topic, partition="partition")
        place = ["--topic", topic, "--partition", "0", "--yes"]
        producer_id = str(transaction.producer_id)
        refused = run("transactions", "abort", *place, "--producer-id", producer_id)
        assert refused.code == 1
        assert f"abort '{topic}-id' instead" in refused.err
        refused = run("transactions", "abort", *place, "--producer-id", "987654321")
        assert refused.code == 1
        assert "has no open transaction there" in refused.err


@pytest.mark.parametrize("arguments", [[], ["--topic", "t"], ["an-id", "--partition", "1"]])
def test_an_abort_of_nothing_in_particular(
    run: Run, cluster: DrumlinServer, arguments: list[str]
) -> None:
    result = run("transactions", "abort", *arguments, "--yes")
    assert result.code == 2
    assert "say what to abort" in result.err


def test_a_state_that_there_is_not_is_no_empty_list(run: Run, cluster: DrumlinServer) -> None:
    result = run("transactions", "list", "--state", "ongoing")
    assert (result.code, result.out) == (1, "")
    assert "unknown transaction state: 'ongoing'" in result.err


def test_a_filter_that_topics_do_not_have(run: Run, cluster: DrumlinServer) -> None:
    result = run("transactions", "list", "--topic", "t", "--state", "Empty")
    assert result.code == 2
    assert "leave out --state" in result.err


def test_what_is_known_is_described_beside_what_is_not(
    run: Run, client: Client, topic: str
) -> None:
    with client.transaction(f"{topic}-id") as transaction:
        transaction.append(rows("a"), topic, partition="partition")
        ids = ["nobody's", f"{topic}-id", "somebody's"]
        result = run("transactions", "describe", *ids)
        assert (result.code, result.rows) == (1, [[f"{topic}-id", topic, "0", "0", "0", "true"]])
        as_json = run("transactions", "describe", *ids, "--json")
        assert [each["transactional_id"] for each in as_json.json] == [f"{topic}-id"]
    for said in (result.err, as_json.err):
        assert [line.partition(" (")[0] for line in said.splitlines()] == [
            f"drumlin: transaction {name!r}" for name in ("nobody's", "somebody's")
        ]
    result = run("transactions", "describe", "nobody's", "--json")
    assert (result.code, result.out) == (1, "")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--producer-id", str(2**63)], "Invalid value for '--producer-id'"),
        (["--producer-id", "-1"], "Invalid value for '--producer-id'"),
        (["--open", "--state", "Empty"], "--open is --state Ongoing: leave out one of them"),
    ],
    ids=["a large id", "a negative id", "open and a state"],
)
def test_what_cannot_be_listed(
    run: Run, cluster: DrumlinServer, arguments: list[str], why: str
) -> None:
    result = run("transactions", "list", *arguments)
    assert (result.code, result.out) == (2, "")
    assert why in result.err
