"""What the doctor finds in a cluster of three while its brokers die."""

from __future__ import annotations

from pathlib import Path

import pytest

import drumlin
from cli.conftest import Run
from rig.brokers.drumlin_cluster import running_cluster
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.slow, pytest.mark.deep]


def test_brokers_that_die(run: Run, tmp_path: Path) -> None:
    with running_cluster(tmp_path / "cluster") as cluster:
        addresses = ",".join(each.address for each in cluster.brokers.values())

        def found() -> dict[str, str]:
            result = run("doctor", "-b", addresses, "--seconds", "0", "--json")
            return {each["check"]: each["subject"] for each in result.json}

        with drumlin.connect(addresses) as client:
            client.create_topic("safe", 1, replication_factor=3)
            client.create_topic("one", 1, replication_factor=1)
            client.create_topic(
                "rigid", 1, replication_factor=2, configs={"min.insync.replicas": "2"}
            )
            client.create_topic(
                "loose", 1, replication_factor=3, configs={"min.insync.replicas": "1"}
            )
        cluster.await_whole()
        whole = found()
        assert whole["single-replica"] == "one"
        assert whole["min-isr-all"] == "rigid"
        assert whole["min-isr-one"] == "loose"
        at_risk = {"broker-dead", "offline", "below-min-isr", "at-min-isr", "under-replicated"}
        assert not at_risk & whole.keys()
        cluster.brokers[3].kill()
        wait_until(lambda: "broker-dead" in found(), "the death to be noticed", 60)
        assert found()["broker-dead"] == "broker 3"
        wait_until(lambda: found().get("at-min-isr", "").startswith("safe-0"), "one to be missed")
        cluster.brokers[2].kill()
        wait_until(lambda: "safe-0" in found().get("below-min-isr", ""), "two to be missed", 60)
        top = run("top", "-b", addresses, "--once", "--interval", "0", "--json").json
        assert top["totals"]["brokers"] == 1
        assert top["totals"]["under_replicated"] >= 2
