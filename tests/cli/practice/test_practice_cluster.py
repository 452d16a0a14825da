"""`drumlin cluster up`, `start`, `stop`, `kill` and `status`, on real brokers and ZooKeepers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from drumlin.cli.practice.control import not_running
from rig.brokers.practice_cluster import PracticeCluster, is_alive, kill, skip_where_there_is_none
from rig.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Make = Callable[..., PracticeCluster]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes clusters, which are not started yet, and are gone in the end."""
    skip_where_there_is_none()
    made: list[PracticeCluster] = []

    def make(brokers: int = 3, name: str = "one") -> PracticeCluster:
        directory = tmp_path / name
        directory.mkdir()
        made.append(PracticeCluster(directory, brokers))
        return made[-1]

    yield make
    for each in made:
        each.close()


def state_of(run: Run, cluster: PracticeCluster) -> dict[str, Any]:
    shown = run("cluster", "status", "--data", str(cluster.data), "--json")
    return shown.json if shown.code == 0 else {"brokers": [], "is_healthy": None}


def alive(state: dict[str, Any]) -> list[int]:
    return [each["broker"] for each in state["brokers"] if each["is_alive"]]


def wait_for_health(run: Run, cluster: PracticeCluster) -> dict[str, Any]:
    def healthy() -> dict[str, Any] | None:
        state = state_of(run, cluster)
        return state if state["is_healthy"] and len(alive(state)) == cluster.brokers else None

    return wait_until(healthy, "all replicas to be in sync", 90)


@pytest.mark.deep
def test_a_broker_is_killed_missed_and_started_again(run: Run, make: Make) -> None:
    cluster = make()
    cluster.start("--racks", "a,b")
    data, bootstrap = str(cluster.data), cluster.bootstrap
    assert cluster.record["bootstrap"] == bootstrap
    assert cluster.record["pid"] == cluster.pid
    made = ("topics", "create", "t", "-p", "6", "-c", "min.insync.replicas=3", "-b", bootstrap)
    assert run(*made).code == 0
    state = wait_for_health(run, cluster)
    assert [(each["broker"], each["rack"]) for each in state["brokers"]] == [
        (1, "a"),
        (2, "b"),
        (3, "a"),
    ]
    assert sum(each["leaders"] for each in state["brokers"]) == state["partitions"] == 6
    assert {each["replicas"] for each in state["brokers"]} == {6}

    killed = run("cluster", "kill", "2", "--data", data)
    assert (killed.code, killed.out) == (0, "broker 2: killed\n")
    assert cluster.record["brokers"][1]["pid"] is None
    wait_until(lambda: alive(state_of(run, cluster)) == [1, 3], "broker 2 to be missed", 60)
    wait_until(lambda: not state_of(run, cluster)["offline"], "new leaders", 60)
    state = state_of(run, cluster)
    assert not state["is_healthy"]
    assert len(state["under_replicated"]) == len(state["under_min_isr"]) == 6
    (dead,) = (each for each in state["brokers"] if not each["is_alive"])
    assert (dead["broker"], dead["address"]) == (2, f"127.0.0.1:{cluster.port + 1}")
    assert (dead["leaders"], dead["replicas"], dead["in_sync"]) == (0, 6, 0)
    shown = run("cluster", "status", "-b", bootstrap).rows
    assert ["under min.insync.replicas", "t", "0"] in [row[:3] for row in shown]

    again = run("cluster", "start", "2", "1", "--data", data)
    assert (again.code, again.out) == (0, "broker 2: started\nbroker 1: runs already\n")
    wait_for_health(run, cluster)
    assert "ended by itself" not in cluster.said()  # nobody takes it for a crash


@pytest.mark.deep
def test_stopping_in_order_and_coming_up_again(run: Run, make: Make) -> None:
    cluster = make(2)
    cluster.start()
    assert run("topics", "create", "t", "-b", cluster.bootstrap).code == 0
    before = wait_for_health(run, cluster)
    stopped = run("cluster", "stop", "2", "--data", str(cluster.data), "--json")
    assert stopped.json == [{"member": "2", "stopped": True}]
    # It has handed its leadership on and left the ISRs before it was gone; the other one hears of
    # both a moment later.
    wait_until(lambda: alive(state_of(run, cluster)) == [1], "broker 2 to be gone", 60)
    assert not state_of(run, cluster)["offline"]
    assert run("cluster", "stop", "2", "--data", str(cluster.data)).out == (
        "broker 2: is not running\n"
    )
    pids = [cluster.pid_of(1), cluster.pid_of("zookeeper")]
    port = cluster.record["zookeeper"]["address"]
    assert cluster.interrupt() == 0
    assert not any(map(is_alive, pids))
    record = cluster.record
    assert record["pid"] is None
    assert {each["pid"] for each in (*record["brokers"], record["zookeeper"])} == {None}
    assert "stopped cleanly" in (cluster.data / "broker-1.log").read_text()
    down = run("cluster", "status", "--data", str(cluster.data))
    start_it = f"'drumlin cluster up --data {cluster.data}' starts one"
    assert down.err == f"drumlin: no cluster runs in {cluster.data}: {start_it}\n"
    assert down.code == 1
    assert run("cluster", "start", "1", "--data", str(cluster.data)).err == down.err

    cluster.start()
    after = wait_for_health(run, cluster)
    assert (after["cluster_id"], after["topics"]) == (before["cluster_id"], before["topics"])
    assert cluster.record["zookeeper"]["address"] == port
    cluster.brokers = 1
    refused = subprocess.run(cluster.command(), capture_output=True, text=True, timeout=60)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"drumlin: {cluster.data} is in use: a cluster runs there on ")
    assert f"(process {cluster.pid})" in refused.stderr
    assert cluster.terminate(90) == 0


@pytest.mark.deep
def test_a_crash_is_told_and_left_as_it_is(run: Run, make: Make) -> None:
    cluster = make(1)
    cluster.start()
    data = str(cluster.data)
    kill(cluster.pid_of(1))
    wait_until(lambda: "ended by itself" in cluster.said(), "word of the crash")
    line = cluster.said().splitlines()[-1]
    assert line == (
        "drumlin cluster up: broker 1 ended by itself (killed by SIGKILL), see "
        f"{data}/broker-1.log; 'drumlin cluster start 1 --data {data}' starts it again"
    )
    assert cluster.record["brokers"][0]["pid"] is None
    assert run("cluster", "start", "1", "--data", data).out == "broker 1: started\n"
    kill(cluster.pid_of("zookeeper"))
    wait_until(lambda: "ZooKeeper ended by itself" in cluster.said(), "word of its crash")
    assert run("cluster", "start", "zookeeper", "--data", data).out == "zookeeper: started\n"
    unknown = run("cluster", "kill", "4", "--data", data)
    assert (unknown.code, unknown.err) == (1, "drumlin: there is no broker 4: they are 1\n")
    assert run("cluster", "kill", "all", "--data", data).code == 2
    assert cluster.interrupt() == 0


@pytest.mark.deep
def test_nothing_outlives_a_cluster_that_is_killed(run: Run, make: Make) -> None:
    cluster = make(2)
    cluster.start()
    pids = cluster.pids()
    assert all(map(is_alive, pids))
    cluster.kill()
    wait_until(lambda: not any(map(is_alive, pids)), "the end of all members")
    assert cluster.record["pid"] is not None  # nobody was left to say otherwise
    cluster.start()
    wait_for_health(run, cluster)
    assert not set(cluster.pids()) & set(pids)


@pytest.mark.deep
def test_who_asks_twice_does_not_wait(make: Make) -> None:
    cluster = make(1, "Übung 1")  # Java, too, finds its way there
    cluster.start()
    pids = cluster.pids()
    os.kill(cluster.pid_of(1), signal.SIGSTOP)  # it will not stop
    stop = [sys.executable, "-m", "drumlin", "cluster", "stop", "1", "--data", str(cluster.data)]
    with subprocess.Popen(stop, stderr=subprocess.PIPE, text=True) as waiting:
        try:
            assert cluster.process is not None
            cluster.process.send_signal(signal.SIGINT)
            assert waiting.wait(30) == 1
            assert waiting.stderr is not None
            assert waiting.stderr.read() in (
                f"drumlin: the cluster in {cluster.data} went down meanwhile\n",
                # It was not asked before.
                str(not_running(cluster.data)).join(("drumlin: ", "\n")),
            )
        finally:
            waiting.kill()
    assert is_alive(pids[0])
    cluster.interrupt()
    assert not any(map(is_alive, pids))
    assert cluster.said().count("\n") == 1


def test_a_start_can_be_interrupted(make: Make) -> None:
    cluster = make(1)
    cluster.launch(cluster.command())
    record = cluster.data / "cluster.json"
    wait_until(lambda: record.exists() and cluster.record["zookeeper"]["pid"], "ZooKeeper", 60)
    pid = cluster.pid_of("zookeeper")
    assert cluster.interrupt() == 0
    assert not is_alive(pid)
    assert cluster.said() == ""


@pytest.mark.deep
def test_watching_a_pipe_gets_each_change_once(run: Run, make: Make) -> None:
    cluster = make(1)
    cluster.start()
    command = [sys.executable, "-m", "drumlin", "cluster", "status", "--watch", "--json"]
    command += ["--data", str(cluster.data)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watcher:
        assert watcher.stdout is not None
        try:
            assert json.loads(watcher.stdout.readline())["topics"] == 0
            assert run("topics", "create", "t", "-b", cluster.bootstrap).code == 0
            assert json.loads(watcher.stdout.readline())["topics"] == 1
        finally:
            watcher.kill()
