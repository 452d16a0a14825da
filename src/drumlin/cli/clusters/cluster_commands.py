"""`drumlin cluster`: the list of its commands. Each is loaded when it is run."""

from __future__ import annotations

from typing import Final

from drumlin.cli.terminal.commands import LazyGroup, Place


def _info(attribute: str, help: str) -> Place:  # noqa: A002
    return Place("drumlin.cli.clusters.cluster_info", attribute, help)


def _practice(attribute: str, help: str) -> Place:  # noqa: A002
    return Place("drumlin.cli.clusters.practice_cluster", attribute, help)


app: Final = LazyGroup(
    {
        "describe": _info("describe_command", "Show the cluster's id, brokers and features."),
        "status": Place(
            "drumlin.cli.clusters.cluster_status",
            "status_command",
            "Show whether the cluster is well.",
        ),
        "log-dirs": _info("log_dirs_command", "Show the log directories of every broker."),
        "adopt": Place(
            "drumlin.cli.clusters.cluster_adopt",
            "adopt_command",
            "Move a stopped broker's metadata into ZooKeeper.",
        ),
        "secure-zookeeper": Place(
            "drumlin.cli.clusters.cluster_rights",
            "secure_zookeeper_command",
            "Let brokers alone change what is in ZooKeeper.",
        ),
        "up": _practice("up_command", "Run a practice cluster on this machine."),
        "start": _practice("start_command", "Start brokers of a practice cluster again."),
        "stop": _practice("stop_command", "Stop brokers of a practice cluster cleanly."),
        "kill": _practice("kill_command", "Kill brokers of a practice cluster."),
    },
    help="Show the state of a cluster; run one on this machine for practice.",
)
