"""Offsets between a cluster and files, ZooKeeper and another cluster, through the command line."""

from __future__ import annotations

from pathlib import Path

import confluent_kafka
import pytest

import drumlin
from cli.conftest import Result, Run
from drumlin.client.client import Client
from migration.conftest import make_topic
from migration.old_consumers import OldStore
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until


def committed(run: Run, group: str, address: str) -> dict[int, int]:
    described = run("groups", "describe", group, "--json", "-b", address)
    if described.code:
        return {}
    return {row["partition"]: row["committed_offset"] for row in described.json[0]["offsets"]}


def commit(run: Run, group: str, topic: str, offset: int, address: str, *more: str) -> None:
    result = run("groups", "reset", group, topic, "--to", str(offset), "-y", "-b", address, *more)
    assert result.code == 0, result.err


def actions(result: Result) -> dict[int, tuple[int, str, str | None]]:
    return {row["partition"]: (row["offset"], row["action"], row["remark"]) for row in result.json}


# -- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "json"])
def test_through_a_file_and_back(
    run: Run, drumlin_address: str, topic: str, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"offsets.{suffix}"
    for group in (f"{topic}-one", f"{topic}-two"):
        commit(run, group, topic, 7, drumlin_address, "--metadata", "so far, so good")
    arguments = ("groups", "export", f"{topic}-*", "--file", str(path), "-b", drumlin_address)
    assert run(*arguments).code == 0
    again = run(*arguments)
    assert (again.code, "--overwrite replaces it" in again.err) == (1, True)
    for group in (f"{topic}-one", f"{topic}-two"):
        assert run("groups", "delete", group, "--yes", "-b", drumlin_address).code == 0
    back = ("groups", "import", f"{topic}-one", "--file", str(path), "-b", drumlin_address)
    assert run(*back, "--dry-run").code == 0
    assert committed(run, f"{topic}-one", drumlin_address) == {}
    assert run(*back, "--yes").code == 0
    shown = run("groups", "describe", f"{topic}-one", "--json", "-b", drumlin_address).json[0]
    assert {row["metadata"] for row in shown["offsets"]} == {"so far, so good"}
    assert committed(run, f"{topic}-one", drumlin_address) == {0: 7, 1: 7, 2: 7}
    assert committed(run, f"{topic}-two", drumlin_address) == {}


def test_standard_output_is_what_a_reset_takes(
    run: Run, drumlin_address: str, topic: str, tmp_path: Path
) -> None:
    commit(run, topic, topic, 3, drumlin_address)
    shown = run("groups", "export", topic, "--topic", "test_*", "-b", drumlin_address)
    assert shown.out.splitlines()[0] == "group,topic,partition,offset,metadata"
    assert (
        run("groups", "export", topic, "-t", "other*", "-b", drumlin_address).out.count("\n") == 1
    )
    path = tmp_path / "offsets.csv"
    path.write_text(shown.out)
    commit(run, topic, topic, 9, drumlin_address)
    reset = run("groups", "reset", topic, "--from-file", str(path), "-y", "-b", drumlin_address)
    assert reset.code == 0, reset.err
    assert committed(run, topic, drumlin_address) == {0: 3, 1: 3, 2: 3}


# -- ZooKeeper ---------------------------------------------------------------------------------


@pytest.mark.zookeeper
def test_from_zookeeper(run: Run, drumlin_address: str, topic: str, store: OldStore) -> None:
    def import_(*more: str) -> Result:
        source = ("--zookeeper", store.address, "-b", drumlin_address, "--json", "--yes")
        return run("groups", "import", topic, *source, *more)

    for partition, offset in ((0, 4), (1, 9), (2, 99), (7, 1)):
        store.commit(topic, topic, partition, offset)
    store.commit(topic, f"{topic}-gone", 0, 1)
    store.commit(topic, topic, 1, b"6\n")
    commit(run, topic, f"{topic}:0", 5, drumlin_address)

    dry = import_("--dry-run", "--topic", topic)
    assert actions(dry) == {
        0: (4, "keep", "the greater one stays"),
        1: (6, "write", None),
        2: (99, "refuse", "beyond the log's end, 10"),
        7: (1, "refuse", "there is no such partition"),
    }
    assert (dry.code, dry.err) == (
        1,
        "drumlin: 2 of 4 offsets would not be written: see `remark`\n",
    )
    assert committed(run, topic, drumlin_address) == {0: 5}

    done = import_("--topic", topic)
    assert done.code == 1
    assert [each[1] for each in actions(done).values()] == ["kept", "written", "refused", "refused"]
    assert committed(run, topic, drumlin_address) == {0: 5, 1: 6}

    assert import_("--overwrite", "--clamp", "--topic", topic).code == 1
    assert committed(run, topic, drumlin_address) == {0: 4, 1: 6, 2: 10}
    same = import_("--topic", topic)
    assert [each[1] for each in actions(same).values()] == ["same", "same", "refused", "refused"]


@pytest.mark.zookeeper
def test_to_zookeeper(run: Run, drumlin_address: str, topic: str, store: OldStore) -> None:
    def export(*more: str) -> Result:
        there = ("--zookeeper", store.address, "-b", drumlin_address, "--json", "--yes")
        return run("groups", "export", topic, *there, *more)

    commit(run, topic, topic, 6, drumlin_address)
    store.commit(topic, topic, 1, 8)
    store.commit(topic, topic, 2, 2)
    assert export("--dry-run").code == 0
    assert store.committed(topic, topic) == {1: 8, 2: 2}
    assert export().code == 0
    assert store.committed(topic, topic) == {0: 6, 1: 8, 2: 6}
    assert store.client.get(f"/consumers/{topic}/offsets/{topic}/0")[0] == b"6"
    assert export("--overwrite").code == 0
    assert store.committed(topic, topic) == {0: 6, 1: 6, 2: 6}


@pytest.mark.zookeeper
def test_consumers_that_run_are_respected(
    run: Run, drumlin_address: str, topic: str, store: OldStore
) -> None:
    there = ("--zookeeper", store.address, "-b", drumlin_address, "--yes")
    store.commit(topic, topic, 0, 4)
    store.register(topic, "host-1", topic, 0, 1)
    for command in ("import", "export"):
        if command == "export":
            commit(run, topic, topic, 6, drumlin_address)
        refused = run("groups", command, topic, *there)
        assert refused.code == 1
        assert refused.err == (
            f"drumlin: group '{topic}' has live consumers in {store.address}: "
            "1 consumer, 2 owned partitions\n"
        )
    assert store.committed(topic, topic) == {0: 4}
    assert run("groups", "export", topic, *there, "--live").code == 0
    assert store.committed(topic, topic) == {0: 6, 1: 6, 2: 6}
    store.unregister(topic, "host-1", topic, 0, 1)
    assert run("groups", "export", topic, *there).code == 0


@pytest.mark.zookeeper
def test_odd_nodes_are_named_and_left_alone(
    run: Run, drumlin_address: str, topic: str, store: OldStore
) -> None:
    store.commit(topic, topic, 0, b"four")
    store.commit(topic, topic, 1, b"")
    store.commit(topic, topic, 2, 3)
    store.client.create(f"/consumers/{topic}/offsets/{topic}/note", b"?")
    there = ("--zookeeper", store.address, "-b", drumlin_address)
    result = run("groups", "import", topic, *there, "--yes")
    assert result.code == 0
    assert [line.rpartition("/")[2] for line in result.err.splitlines()] == [
        "note: no partition, left alone",
        "0: b'four' is no offset, left alone",
        "1: b'' is no offset, left alone",
    ]
    assert committed(run, topic, drumlin_address) == {2: 3}
    nobody = run("groups", "import", "nob*dy", *there)
    assert (nobody.code, nobody.err) == (1, "drumlin: no group is called 'nob*dy'\n")
    nowhere = run("groups", "import", topic, "-z", f"{store.address}/x", "-b", drumlin_address)
    assert (nowhere.code, "has no /" in nowhere.err) == (1, True)


# -- another cluster ---------------------------------------------------------------------------


@pytest.fixture(params=["drumlin", pytest.param("kafka", marks=pytest.mark.kafka)])
def other(request: pytest.FixtureRequest) -> str:
    if request.param == "kafka":
        address: str = request.getfixturevalue("kafka_address")
        return address
    server: DrumlinServer = request.getfixturevalue("other_cluster")
    return server.address


def test_between_clusters(
    run: Run, drumlin_address: str, other: str, topic: str, name: str
) -> None:
    with drumlin.connect(other) as there:
        make_topic(there, topic, 2, 5)
    commit(run, name, topic, 4, drumlin_address, "--metadata", "mine")
    arguments = ("--cluster", other, "-b", drumlin_address, "--yes", "--json")
    exported = run("groups", "export", name, *arguments)
    assert exported.code == 1
    assert actions(exported) == {
        0: (4, "written", None),
        1: (4, "written", None),
        2: (4, "refused", "there is no such partition"),
    }
    shown = run("groups", "describe", name, "--json", "-b", other).json[0]["offsets"]
    assert [(row["committed_offset"], row["metadata"]) for row in shown] == [(4, "mine")] * 2
    commit(run, name, topic, 9, drumlin_address)
    assert run("groups", "import", name, *arguments, "--overwrite").code == 0
    assert committed(run, name, drumlin_address) == {0: 4, 1: 4, 2: 9}


def test_members_of_either_cluster_are_respected(
    run: Run, drumlin_address: str, other_cluster: DrumlinServer, topic: str, client: Client
) -> None:
    with drumlin.connect(other_cluster.address) as there:
        make_topic(there, topic, 2, 5)
    commit(run, topic, topic, 4, other_cluster.address)
    settings = {"bootstrap.servers": drumlin_address, "group.id": topic}
    member = confluent_kafka.Consumer(settings | {"auto.offset.reset": "earliest"})
    arguments = ("groups", "import", topic, "--cluster", other_cluster.address, "--yes")
    try:
        member.subscribe([topic])
        wait_until(lambda: member.poll(0.1) is not None, "a record", 60)
        refused = run(*arguments, "-b", drumlin_address)
        assert refused.err == (
            f"drumlin: group '{topic}' has live consumers in {drumlin_address}: 1 member (Stable)\n"
        )
        # Told otherwise we try, and the broker refuses: only members may commit now.
        told = run(*arguments, "-b", drumlin_address, "--live", "--json")
        assert {each[1:] for each in actions(told).values()} == {("refused", "unknown member id")}
    finally:
        member.close()
    wait_until(lambda: run(*arguments, "-b", drumlin_address).code == 0, "the group to be empty")
