"""Commands against three brokers: each asks the broker that knows, and shows what the rest know."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator

import pytest

from cli.conftest import Run
from rig.brokers.practice_cluster import PracticeCluster, skip_where_there_is_none
from rig.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PracticeCluster]:
    skip_where_there_is_none()
    cluster = PracticeCluster(tmp_path_factory.mktemp("three"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def three(started: PracticeCluster, monkeypatch: pytest.MonkeyPatch) -> PracticeCluster:
    """Three brokers, which commands find without being told."""
    monkeypatch.setenv("DRUMLIN_BOOTSTRAP", started.bootstrap)
    return started


@pytest.fixture
def topic(three: PracticeCluster, run: Run, request: pytest.FixtureRequest) -> str:
    """Three partitions with three replicas, each led by another broker; three records in each."""
    name = str(request.node.name).replace("_", "-")
    spread = ("--replica-assignment", "1:2:3,2:3:1,3:1:2")
    assert run("topics", "create", name, *spread).code == 0
    for partition in range(3):
        fill(run, name, partition)
    return name


def fill(run: Run, topic: str, partition: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\nc\n")))
        written = run("produce", topic, "--partition", str(partition), "--json")
    assert written.json["records"] == 3, written.err


@pytest.mark.deep
def test_replicas_are_shown_as_they_are(run: Run, topic: str) -> None:
    (described,) = run("topics", "describe", topic, "--json").json
    rows = described["partitions"]
    assert [each["leader"] for each in rows] == [1, 2, 3]
    assert [each["replicas"] for each in rows] == [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
    assert [sorted(each["isr"]) for each in rows] == [[1, 2, 3]] * 3
    assert [(each["start_offset"], each["end_offset"]) for each in rows] == [(0, 3)] * 3
    assert all(each["size_bytes"] > 0 for each in rows)
    (listed,) = run("topics", "list", topic, "--long", "--json").json
    assert (listed["partitions"], listed["replicas"], listed["offsets"]) == (3, 3, 9)
    offsets = run("topics", "offsets", topic, "--json").json
    assert [each["offset"] for each in offsets] == [3, 3, 3]


def test_records_are_deleted_by_each_leader(run: Run, topic: str) -> None:
    fill(run, topic, 1)
    some = run("topics", "delete-records", topic, "--before", "4", "--yes")
    assert (some.code, some.rows) == (1, [[topic, "1", "4"]])
    assert some.err.count("out of range") == 2  # the others are told, and stop nothing
    everything = run("topics", "delete-records", topic, "--before", "end", "--yes")
    assert (everything.code, len(everything.rows)) == (0, 3)
    assert run("consume", topic).out == ""


def test_each_broker_answers_for_itself(run: Run, three: PracticeCluster) -> None:
    for broker in (1, 2, 3):
        described = run("configs", "describe", "broker", str(broker), "--json").json
        values = {each["key"]: each["value"] for each in described}
        assert values["listeners"] == f"PLAINTEXT://127.0.0.1:{three.port + broker - 1}"
        assert values["offsets.topic.replication.factor"] == "3"
    assert run("configs", "alter", "broker", "2", "--set", "log.cleaner.threads=2").code == 0
    assert run("configs", "alter", "broker-logger", "2", "--set", "root=ERROR").code == 0

    def of(kind: str, broker: int) -> dict[str, str]:
        rows = run("configs", "describe", kind, str(broker), "--all", "--json").json
        return {each["key"]: each["value"] for each in rows}

    threads = [of("broker", each)["log.cleaner.threads"] for each in (1, 2, 3)]
    levels = [of("broker-logger", each)["root"] for each in (1, 2, 3)]
    assert (threads, levels) == (["1", "2", "1"], ["INFO", "ERROR", "INFO"])
    default = ("configs", "alter", "broker", "default", "--set", "log.retention.ms=86400000")
    assert run(*default).code == 0

    def is_everywhere() -> bool:
        return {of("broker", each)["log.retention.ms"] for each in (1, 2, 3)} == {"86400000"}

    wait_until(is_everywhere, "the other brokers to hear of it")


def test_the_cluster_as_a_whole(run: Run, topic: str, three: PracticeCluster) -> None:
    described = run("cluster", "describe", "--json").json
    assert [each["broker"] for each in described["brokers"]] == [1, 2, 3]
    assert [each["is_controller"] for each in described["brokers"]].count(True) == 1
    dirs = run("cluster", "log-dirs", "--json").json
    assert [(each["broker"], each["log_dir"]) for each in dirs] == [
        (each, f"{three.data}/broker-{each}") for each in (1, 2, 3)
    ]
    assert all(each["partitions"] >= 3 and each["used_bytes"] > 0 for each in dirs)
    for broker in (1, 2, 3):
        verified = run("dump-log", "--verify", str(three.data / f"broker-{broker}" / f"{topic}-0"))
        assert verified.code == 0, verified.err
        asked = ("compaction", "status", "--data", str(three.data / f"broker-{broker}"))
        assert run(*asked).code == 0


def test_groups_and_transactions(
    run: Run, topic: str, three: PracticeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(run("consume", topic, "--group", "readers").out.split()) == 9
    assert ["readers", "Empty"] in [row[:2] for row in run("groups", "list").rows]
    (described,) = run("groups", "describe", "readers", "--json").json
    assert [each["lag"] for each in described["offsets"]] == [0, 0, 0]
    reset = run("groups", "reset", "readers", topic, "--to", "beginning", "--yes", "--json")
    assert [each["new_offset"] for each in reset.json] == [0, 0, 0]
    assert run("groups", "delete", "readers", "--yes").code == 0
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"d\n")))
    assert run("produce", topic, "--transactional-id", "once").code == 0
    assert run("transactions", "describe", "once").code == 0
    assert "once" in [row[0] for row in run("transactions", "list").rows]


@pytest.mark.deep
def test_a_broker_that_is_gone_keeps_nobody_from_the_rest(
    run: Run, topic: str, three: PracticeCluster
) -> None:
    assert run("topics", "create", "alone", "--replica-assignment", "2,1").code == 0
    for partition in (0, 1):
        fill(run, "alone", partition)
    assert len(run("consume", "alone", "--group", "alone").out.split()) == 6
    assert run("cluster", "kill", "2", "--data", str(three.data)).code == 0
    # Nobody has missed it yet.
    dirs = run("cluster", "log-dirs")
    assert (dirs.code, [row[0] for row in dirs.rows]) == (1, ["1", "3"])
    assert f":{three.port + 1}: Connection refused" in dirs.err
    (alone,) = run("topics", "describe", "alone", "--json").json
    assert [each["leader"] for each in alone["partitions"]] == [2, 1]
    ends = [each["end_offset"] for each in alone["partitions"]]
    sizes = [each["size_bytes"] is None for each in alone["partitions"]]
    assert (ends, sizes) == ([None, 3], [True, False])
    # It is missed by now: the question for its offsets has waited for that.
    (alone,) = run("topics", "describe", "alone", "--json").json
    assert [each["leader"] for each in alone["partitions"]] == [-1, 1]
    offsets = run("topics", "offsets", "alone", "--json").json
    assert [each["offset"] for each in offsets] == [None, 3]
    (group,) = run("groups", "describe", "alone", "--json").json
    assert [each["lag"] for each in group["offsets"]] == [None, 0]
    (described,) = run("topics", "describe", topic, "--json").json
    assert [each["end_offset"] for each in described["partitions"]] == [3, 3, 3]
    assert all(2 not in each["isr"] for each in described["partitions"])
    gone = run("configs", "describe", "broker", "2")
    assert (gone.code, gone.err) == (1, "drumlin: broker 2 is not there (broker not available)\n")
    fill(run, topic, 1)
    assert run("topics", "delete", "alone", "--yes").code == 0
    assert run("cluster", "start", "2", "--data", str(three.data)).code == 0

    def is_back() -> bool:
        (again,) = run("topics", "describe", topic, "--json").json
        return all(len(each["isr"]) == 3 for each in again["partitions"])

    wait_until(is_back, "the replicas of broker 2 to be in sync", 60)
    stopped = run("cluster", "stop", "3", "--data", str(three.data))
    assert stopped.code == 0
    kept = run("compaction", "status", "--data", str(three.data / "broker-3"))
    assert kept.err.endswith("are in ZooKeeper: its broker has to run\n")
    assert run("cluster", "start", "3", "--data", str(three.data)).code == 0
