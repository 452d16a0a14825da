"""What `drumlin cluster status` makes of what a cluster answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from drumlin.cli.clusters import cluster_status
from drumlin.cli.clusters.cluster_health import Found, LiveBroker, judge
from drumlin.cli.reach.eligible_replicas import EligibleReplicas
from drumlin.cli.terminal import output
from drumlin.metadata.embedded.database import FILE_NAME, Database, put_state
from drumlin.metadata.image import LastKnown, LogEnd, PartitionState
from drumlin.peer.cluster_view import PartitionView, TopicView
from rig.brokers.drumlin_server import DrumlinServer

BROKERS = {1: LiveBroker("a:9092", "x"), 2: LiveBroker("b:9092", None)}


def topic(name: str, *partitions: tuple[int, tuple[int, ...], tuple[int, ...]]) -> TopicView:
    """Leader, replicas and ISR of each partition."""
    views = {
        index: PartitionView(index, leader, 0, replicas, isr)
        for index, (leader, replicas, isr) in enumerate(partitions)
    }
    return TopicView(name, None, False, views)


def state(*topics: TopicView, controller: int = 1, **how: Any) -> dict[str, Any]:
    known = how.pop("known", {})
    how = {"min_isr": {}, "reassignments": None, **how}
    return judge(
        Found("id", controller, BROKERS, {each.name: each for each in topics}, **how), known
    )


def places(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["topic"], each["partition"]) for each in rows]


def test_a_healthy_cluster() -> None:
    found = state(topic("t", (1, (1, 2), (2, 1)), (2, (2, 1), (1, 2))), min_isr={"t": 2})
    assert found["is_healthy"]
    assert cluster_status.verdict(found) == "healthy, 1 topic, 2 partitions"
    assert [(each["leaders"], each["replicas"], each["in_sync"]) for each in found["brokers"]] == [
        (1, 2, 2),
        (1, 2, 2),
    ]


def test_what_is_amiss_with_partitions() -> None:
    found = state(
        topic("t", (1, (1, 3), (1,)), (3, (3,), (3,)), (-1, (3, 2), ())), min_isr={"t": 1}
    )
    assert places(found["under_replicated"]) == [("t", 0), ("t", 2)]
    assert places(found["under_min_isr"]) == [("t", 2)]
    # The leader of t-1 is gone, and nobody has noticed yet.
    assert places(found["offline"]) == [("t", 1), ("t", 2)]
    assert not found["is_healthy"]
    assert cluster_status.verdict(found) == (
        "broker 3 is dead, 2 partitions offline, 1 partition under min.insync.replicas, "
        "2 partitions under-replicated"
    )
    (dead,) = (each for each in found["brokers"] if not each["is_alive"])
    assert (dead["broker"], dead["address"], dead["replicas"]) == (3, None, 3)


def test_fewer_replicas_than_have_to_be_in_sync() -> None:
    found = state(topic("t", (1, (1,), (1,))), min_isr={"t": 2})
    assert (found["under_replicated"], places(found["under_min_isr"])) == ([], [("t", 0)])


def test_a_broker_that_should_be_there_and_a_controller_that_is_not() -> None:
    found = state(controller=7, known={9: "c:9092"})
    assert found["controller"] is None
    assert [each["address"] for each in found["brokers"]] == ["a:9092", "b:9092", "c:9092"]
    assert cluster_status.verdict(found) == "broker 9 is dead, there is no controller"
    assert not found["is_healthy"]


def test_each_partition_is_listed_once_and_not_all_are(capsys: pytest.CaptureFixture[str]) -> None:
    moves = [{"topic": "t", "partition": 0, "replicas": [1], "adding": [2], "removing": []}]
    many = [(1, (1, 2), (1,))] * 30
    found = state(topic("t", (-1, (3,), ()), *many), reassignments=moves)
    cluster_status._show(found, as_json=False)
    out, err = capsys.readouterr()
    lines = [line.split("\t") for line in out.splitlines()]
    assert [line[0] for line in lines] == [
        *["broker"] * 3,
        "offline",
        *["under-replicated"] * 19,
        "being moved",
    ]
    assert [line[1:3] for line in lines[3:5]] == [["t", "0"], ["t", "1"]]
    assert err == "... and 11 partitions more: --json has them all\n"


def test_who_may_lead_is_shown_where_there_is_anybody(capsys: pytest.CaptureFixture[str]) -> None:
    waiting, lonely = (-1, (1, 2, 3), ()), (1, (1, 2), (1,))
    eligible = {("t", 0): EligibleReplicas((3,), (1, 2))}
    cluster_status._show(state(topic("t", waiting, lonely), eligible=eligible), as_json=False)
    offline, under_replicated = capsys.readouterr().out.splitlines()[-2:]
    assert offline.split("\t")[-2:] == ["3", "1,2"]
    assert under_replicated.split("\t")[-2:] == ["", ""]
    cluster_status._show(state(topic("t", lonely), eligible={}), as_json=False)
    assert len(capsys.readouterr().out.splitlines()[-1].split("\t")) == 7


def test_a_broker_tells_who_may_lead(run: Run, tmp_path: Path) -> None:
    """As Kafka's tools ask: DescribeTopicPartitions. Of a broker of several, by its metadata."""
    server = DrumlinServer(tmp_path)
    try:
        server.start()
        two = "min.insync.replicas=2"  # with fewer, the one that leads suffices, and the ELR goes
        assert run("topics", "create", "t", "-p", "2", "-c", two, "-b", server.address).code == 0
        server.stop()
        known = (LastKnown(2, LogEnd(0, 7), True),)
        led = PartitionState(0, 1, 0, (1, 2, 3), (1,), elr=(3,))
        offline = PartitionState(1, -1, 0, (1, 2, 3), (), elr=(3,), last_known=known)
        metadata = Database(server.data / FILE_NAME)
        topic_id = metadata.load("").topics["t"].topic_id
        metadata.execute_durably(put_state(topic_id, each) for each in (led, offline))
        metadata.close()
        server.start()
        described = run("topics", "describe", "t", "-b", server.address)
        assert [row[-2:] for row in described.rows] == [["3", ""], ["3", "2"]]
        (shown,) = run("topics", "describe", "t", "-b", server.address, "--json").json
        told = [(each["elr"], each["last_known_elr"]) for each in shown["partitions"]]
        assert told == [([3], []), ([3], [2])]
        health = run("cluster", "status", "-b", server.address, "--json").json
        (unwell,) = health["offline"]
        assert (unwell["elr"], unwell["last_known_elr"]) == ([3], [2])
    finally:
        server.close()


@pytest.mark.parametrize("broker", ["drumlin", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_any_cluster_is_asked(run: Run, broker: str, request: pytest.FixtureRequest) -> None:
    address = request.getfixturevalue(f"{broker}_address")
    assert run("topics", "create", "status", "-r", "1", "-b", address, "--if-not-exists").code == 0
    shown = run("cluster", "status", "-b", address, "--json")
    assert shown.code == 0, shown.err
    assert places(shown.json["offline"]) == []
    (only,) = shown.json["brokers"]
    assert only["is_alive"]
    assert only["leaders"] == shown.json["partitions"] >= 1
    if broker == "kafka":
        assert shown.json["reassignments"] == []


def test_who_cannot_be_asked_is_told(run: Run) -> None:
    nobody = run("cluster", "status", "-b", "127.0.0.1:1")
    assert (nobody.code, nobody.err) == (1, "drumlin: broker 127.0.0.1:1: Connection refused\n")


def test_headings_are_short() -> None:
    columns = ("is_alive", "size_bytes", "min_isr", "took_ms", "ended_timestamp", "timestamp")
    shown = ["alive", "size", "min isr", "took", "ended", "timestamp"]
    assert [output.heading(each) for each in columns] == shown


@pytest.mark.parametrize(
    ("column", "value", "shown"),
    [
        ("took_ms", 850, "850 ms"),
        ("took_ms", 32_636, "32.6 s"),
        ("timeout_ms", 900_000, "15 min"),
        ("timeout_ms", 5_400_000, "1.5 h"),
        ("head_bytes", 32_636, "31.9 KiB"),
        ("open_since", 1_700_000_000_123, "2023-11-14T22:13:20Z"),
        ("ended_timestamp", -1, "-"),
        ("dirty_ratio", 0.25, "25.0%"),
        ("took_ms", None, "-"),
        ("partition", 3, "3"),
    ],
)
def test_a_cell_has_its_unit(column: str, value: Any, shown: str) -> None:
    assert output.human(column, value) == shown
