"""What the doctor finds in a cluster, each bad state made for real."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import drumlin
from cli.conftest import Run
from drumlin.cli.doctor.checkup import checkup
from drumlin.cli.doctor.facts import Facts
from drumlin.cli.doctor.finding import Finding, Severity
from drumlin.cli.doctor.gathering.cluster import look_at_cluster
from drumlin.cli.reach.cluster import connect
from drumlin.client.client import Client
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.running import running
from rig.waiting import wait_until

_TRANSACTIONAL = 0x10
_AN_HOUR_MS = 3_600_000

#: What makes some of the bad states possible.
LAX = {
    "transaction.partition.verification.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.message.timestamp.after.max.ms": "9000000000",
    "num.network.threads": "5",
    "transaction.state.log.replication.factor": "1",
    "default.replication.factor": "2",
}


@pytest.fixture(
    scope="module",
    params=["drumlin", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep])],
)
def port(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    directory: Path = tmp_path_factory.mktemp("doctor")
    if request.param == "kafka":
        with running(ApacheKafka(directory, LAX)) as kafka:
            yield kafka.port
        return
    server = DrumlinServer(directory, LAX)
    try:
        server.start()
        yield server.port
    finally:
        server.close()


def rows(*values: str) -> pa.Table:
    return pa.table({"value": list(values)})


def make_bad_states(client: Client, port: int) -> None:
    for topic in ("read", "cut", "shrunk", "hung", "late"):
        client.create_topic(topic, 1, replication_factor=1)
    client.set_topic_configs("read", {"unclean.leader.election.enable": "true"})
    for topic in ("read", "cut", "shrunk"):
        client.append(rows("a", "b", "c"), topic)
    client.commit_offsets("stands", {("read", 0): 1})
    client.commit_offsets("moves", {("read", 0): 3})
    client.commit_offsets("too-late", {("cut", 0): 1})
    client.delete_records("cut", before=2)
    client.commit_offsets("too-far", {("shrunk", 0): 10})
    in_two_hours = round(time.time() * 1000) + 2 * _AN_HOUR_MS
    client.append(
        pa.table(
            {"value": ["x"], "timestamp": pa.array([in_two_hours], pa.timestamp("ms", "UTC"))}
        ),
        "late",
    )
    with client.transaction("hangs") as transaction:
        transaction.append(rows("a"), "hung")
    wait_until(lambda: not client.open_producers([("hung", 0)])["hung", 0], "the commit's marker")
    stray = batch(
        b"stray",
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        base_sequence=1,
        extra_attributes=_TRANSACTIONAL,
    )
    with RawClient(port) as raw:
        data = [{"name": "hung", "partition_data": [{"index": 0, "records": stray}]}]
        raw.ask("produce", 9, transactional_id="hangs", acks=-1, timeout=9_000, topic_data=data)


@pytest.fixture(scope="module")
def found(port: int) -> dict[tuple[str, str], Finding]:
    """The findings, by check and subject."""
    address = f"127.0.0.1:{port}"

    def between(_: float) -> None:
        with drumlin.connect(address) as client:
            client.append(rows("d", "e"), "read")
            client.commit_offsets("moves", {("read", 0): 5})

    with drumlin.connect(address) as client:
        make_bad_states(client, port)
    with connect(address) as cluster:
        facts, unknown = look_at_cluster(cluster, 0, sleep=between)
    findings = checkup(Facts(now_ms=time.time_ns() // 1_000_000, cluster=facts, unknown=unknown))
    return {(each.check, each.subject): each for each in findings}


def test_groups(found: dict[tuple[str, str], Finding]) -> None:
    stuck = found["group-stuck", "group stands"]
    assert "it has no members" in stuck.what
    assert "its lag is 4" in stuck.what
    cut = found["group-below-log-start", "group too-late"]
    assert "has not read 1 record of what was removed from cut-0" in cut.what
    assert "drumlin groups reset too-late cut --to earliest" in cut.remedy
    assert "beyond the end of shrunk-0" in found["group-beyond-log-end", "group too-far"].what
    assert not [each for each in found if each[1] == "group moves"]


def test_transactions(found: dict[tuple[str, str], Finding]) -> None:
    hanging = found["transaction-hanging", "hung-0"]
    assert hanging.severity is Severity.ERROR
    assert "before 1 record," in hanging.why
    assert "--topic hung --partition 0 --producer-id" in hanging.remedy


def test_configuration_and_records(
    found: dict[tuple[str, str], Finding], request: pytest.FixtureRequest
) -> None:
    assert ("unclean-election", "read") in found
    assert ("replication-above-brokers", "default.replication.factor") in found
    assert "late-0" in found["future-records", "late-0"].subject
    assert ("single-replica", "cut, hung, late and 2 more") in found
    is_kafka = "kafka" in request.node.name
    assert (("key-without-effect", "broker 1") in found) is not is_kafka


def test_nothing_else_is_found(found: dict[tuple[str, str], Finding]) -> None:
    expected = {
        *("group-stuck", "group-below-log-start", "group-beyond-log-end", "transaction-hanging"),
        *("unclean-election", "replication-above-brokers", "future-records", "single-replica"),
        "key-without-effect",
    }
    of_this_machine = {"disk-full"}
    assert {check for check, _ in found} - of_this_machine <= expected


def test_the_command(run: Run, port: int, found: dict[tuple[str, str], Finding]) -> None:
    result = run("doctor", "-b", f"127.0.0.1:{port}", "--seconds", "0", "--json")
    assert result.code == 4
    checks = {(each["check"], each["subject"]) for each in result.json}
    assert ("transaction-hanging", "hung-0") in checks
    assert all(each["why"] and each["remedy"] for each in result.json)


def test_a_cluster_that_does_not_answer(run: Run) -> None:
    result = run("doctor", "-b", "127.0.0.1:1", "--json")
    assert result.code == 4
    (finding,) = result.json
    assert finding["check"] == "unreachable"
    assert "127.0.0.1:1" in finding["what"]
