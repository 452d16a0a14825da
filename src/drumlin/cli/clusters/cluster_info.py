"""`drumlin cluster describe` and `log-dirs`: the brokers and their log directories."""

from __future__ import annotations

from typing import Any, Final

from drumlin.cli.reach.cluster import DESCRIBE_CLUSTER, Cluster, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import command
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.cli.terminal.outcomes import fail
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.protocol.api_versions import ApiVersionsRequest
from drumlin.wire.protocol.describe_log_dirs import DescribeLogDirsRequest


def describe(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the cluster's id, its brokers and its features."""
    with connect(bootstrap, command_config) as cluster:
        found = cluster.ask_any("describe_cluster", DESCRIBE_CLUSTER)
        client = ApiVersionsRequest(client_software_name="drumlin-cli", client_software_version="1")
        served = cluster.ask_any("api_versions", client)
    brokers = [
        {
            "broker": each.broker_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "is_controller": each.broker_id == found.controller_id,
        }
        for each in sorted(found.brokers, key=lambda each: each.broker_id)
    ]
    features = [
        {"feature": each.name, "level": each.max_version_level}
        for each in served.finalized_features
    ]
    if as_json:
        output.show_json({"cluster_id": found.cluster_id, "brokers": brokers, "features": features})
        return
    columns = ("broker", "host", "port", "rack", "is_controller")
    output.show_rows(brokers, columns, as_json=False, title=f"cluster {found.cluster_id}")
    output.note("features: " + ", ".join(f"{each['feature']}={each['level']}" for each in features))


def log_dirs(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the log directories of every broker, what is in them, and their free space."""
    rows: list[dict[str, Any]] = []
    refusals = []
    with connect(bootstrap, command_config) as cluster:
        for node_id in cluster.broker_ids:
            try:
                rows += _log_dirs(cluster, node_id)
            except PeerError as error:
                refusals.append(str(error))
    columns = ("broker", "log_dir", "state", "partitions", "used_bytes", "free_bytes")
    if rows:
        output.show_rows(rows, columns, as_json=as_json)
    fail(refusals)


def _log_dirs(cluster: Cluster, node_id: int) -> list[dict[str, Any]]:
    request = DescribeLogDirsRequest(topics=None)
    rows = []
    for each in cluster.ask_broker(node_id, "describe_log_dirs", request).results:
        parts = [part for topic in each.topics for part in topic.partitions]
        free = each.usable_bytes
        rows.append(
            {
                "broker": node_id,
                "log_dir": each.log_dir,
                "state": "online" if each.error_code is ErrorCode.none else each.error_code.name,
                "partitions": len(parts),
                "used_bytes": sum(part.partition_size for part in parts),
                "free_bytes": None if free < 0 else free,
            }
        )
    return rows


describe_command: Final = command(
    describe, epilog=examples("drumlin cluster describe", "drumlin cluster describe --json")
)
log_dirs_command: Final = command(
    log_dirs, epilog=examples("drumlin cluster log-dirs", "drumlin cluster log-dirs --json")
)
