"""`drumlin groups export` and `import`: offsets to and from a file, ZooKeeper, another cluster.

Opens the two stores, lets `migration.transfer` plan the copy, shows the plan, and carries it out.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.cli.reach.cluster import Cluster, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.reach.completion import complete_group
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Option
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Yes,
    can_ask,
    confirm,
    examples,
    read_properties,
)
from drumlin.client.read.log_bounds import log_bounds
from drumlin.migration import transfer
from drumlin.migration.file_store import FileStore
from drumlin.migration.stores import BrokerStore, OffsetStore
from drumlin.migration.transfer import DONE, Rules, Step

EXPORT_EXAMPLES: Final = examples(
    "drumlin groups export '*' > offsets.csv",
    "drumlin groups export 'reporting*' --topic 'flights*' --file offsets.json",
    "drumlin groups export reporting --zookeeper zk1:2181,zk2:2181/kafka --dry-run",
    "drumlin groups export reporting --cluster other:9092",
)
IMPORT_EXAMPLES: Final = examples(
    "drumlin groups import reporting --zookeeper zk1:2181/kafka --dry-run",
    "drumlin groups import '*' --file offsets.csv --yes",
    "drumlin groups import reporting --cluster old:9092 --overwrite",
)
_COLUMNS: Final = ("group", "topic", "partition", "existing", "offset", "end_offset", "lag")

Groups = Annotated[
    list[str],
    Argument(
        "GROUP…",
        help="Groups, by name or pattern; * and ? are wildcards.",
        complete=complete_group,
    ),
]
Topics = Annotated[
    list[str] | None,
    Option("--topic", "-t", metavar="PATTERN", help="Only these topics; repeatable."),
]
ZooKeeper = Annotated[
    str | None,
    Option(
        "--zookeeper",
        "-z",
        metavar="HOST:PORT[,…][/CHROOT]",
        help="A ZooKeeper with /consumers/GROUP/offsets.",
    ),
]
ZooKeeperConfig = Annotated[
    Path | None,
    Option(
        "--zookeeper-config",
        metavar="FILE",
        help="A properties file for TLS and digest to ZooKeeper, with a broker's keys.",
    ),
]
OtherCluster = Annotated[
    str | None, Option("--cluster", metavar="HOST:PORT[,…]", help="Another cluster.")
]
OtherConfig = Annotated[
    Path | None,
    Option("--cluster-config", metavar="FILE", help="Like --command-config, for --cluster."),
]
Overwrite = Annotated[
    bool, Option("--overwrite", help="Also replace greater offsets at the destination.")
]
Clamp = Annotated[bool, Option("--clamp", help="Write the log's end offset for offsets beyond it.")]
Live = Annotated[bool, Option("--live", help="Even while the group has live consumers.")]
DryRun = Annotated[bool, Option("--dry-run", "-n", help="Show what would be done, and do nothing.")]


def export(
    groups: Groups,
    file: Annotated[
        Path | None,
        Option("--file", "-f", help="Write a .csv or .json file; default: standard output."),
    ] = None,
    zookeeper: ZooKeeper = None,
    zookeeper_config: ZooKeeperConfig = None,
    cluster: OtherCluster = None,
    cluster_config: OtherConfig = None,
    topics: Topics = None,
    overwrite: Overwrite = False,
    clamp: Clamp = False,
    live: Live = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Copy committed offsets of this cluster to a file, to ZooKeeper, or to another cluster."""
    _check_one(file, zookeeper, cluster, at_least=0)
    rules = Rules(overwrite, clamp, live)
    with ExitStack() as stack:
        here = stack.enter_context(connect(bootstrap, command_config))
        source = BrokerStore(here, bootstrap)
        if zookeeper is None and cluster is None:
            _to_file(source, groups, topics, file, dry_run=dry_run, rules=rules, as_json=as_json)
            return
        other, logs = _open(stack, zookeeper, zookeeper_config, cluster, cluster_config, here)
        _transfer(source, other, logs, groups, topics, rules, dry_run, yes, as_json)


def import_(
    groups: Groups,
    file: Annotated[
        Path | None, Option("--file", "-f", help="A .csv or .json file of an export.")
    ] = None,
    zookeeper: ZooKeeper = None,
    zookeeper_config: ZooKeeperConfig = None,
    cluster: OtherCluster = None,
    cluster_config: OtherConfig = None,
    topics: Topics = None,
    overwrite: Overwrite = False,
    clamp: Clamp = False,
    live: Live = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Commit offsets from a file, ZooKeeper or another cluster to this cluster."""
    _check_one(file, zookeeper, cluster, at_least=1)
    rules = Rules(overwrite, clamp, live)
    with ExitStack() as stack:
        here = stack.enter_context(connect(bootstrap, command_config))
        source: OffsetStore
        if file is not None:
            source = FileStore.load(file)
        else:
            source, _ = _open(stack, zookeeper, zookeeper_config, cluster, cluster_config, here)
        there = BrokerStore(here, bootstrap)
        _transfer(source, there, here, groups, topics, rules, dry_run, yes, as_json)


def _check_one(file: object, zookeeper: object, cluster: object, *, at_least: int) -> None:
    given = sum(each is not None for each in (file, zookeeper, cluster))
    if not at_least <= given <= 1:
        raise click.BadParameter("give one of --file, --zookeeper and --cluster")


def _open(
    stack: ExitStack,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    cluster: str | None,
    cluster_config: Path | None,
    here: Cluster,
) -> tuple[OffsetStore, Cluster]:
    """The other store, and the cluster whose logs its offsets refer to."""
    if zookeeper is not None:
        from drumlin.migration.zookeeper import ZooKeeperStore, connected

        guarded = read_properties(zookeeper_config) if zookeeper_config else {}
        client = stack.enter_context(connected(zookeeper, guarded))
        return ZooKeeperStore(client, zookeeper), here
    assert cluster is not None
    other = stack.enter_context(connect(cluster, cluster_config))
    return BrokerStore(other, cluster), other


# -- between two stores --------------------------------------------------------------------------


def _transfer(
    source: OffsetStore,
    destination: OffsetStore,
    logs: Cluster,
    patterns: Sequence[str],
    topics: Sequence[str] | None,
    rules: Rules,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Copy offsets, which must lie within the logs of the cluster `logs`."""
    groups = transfer.choose(source.groups(), patterns)
    if not rules.live:
        transfer.refuse_live(source, groups)
        transfer.refuse_live(destination, groups)
    steps: list[Step] = []
    for group in groups:
        found = source.read(group)
        requested = {p: each for p, each in found.items() if transfer.is_chosen(p[0], topics)}
        bounds = logs.run(log_bounds(logs.connections, requested))
        steps += transfer.plan(group, requested, destination.read(group), bounds, rules)
    _tell_notes(source, destination)
    asks = not dry_run and not yes and can_ask()
    if dry_run or asks:
        _show([_row(step, step.action) for step in steps], as_json and dry_run)
    if not dry_run:
        count = sum(step.action == "write" for step in steps)
        if count:
            confirm(f"Write {count} offsets to {destination.name}?", yes)
        steps = transfer.carry_out(destination, steps)
        _show([_row(step, DONE[step.action]) for step in steps], as_json)
    refused = sum(step.action == "refuse" for step in steps)
    if refused:
        would_be = "would not be" if dry_run else "were not"
        raise output.Failure(f"{refused} of {len(steps)} offsets {would_be} written: see `remark`")


def _tell_notes(*stores: OffsetStore) -> None:
    for store in stores:
        for each in store.notes:
            output.note(f"drumlin: {store.name}: {each}")
        store.notes.clear()


def _row(step: Step, action: str) -> dict[str, Any]:
    log = step.bounds
    return {
        "group": step.group,
        "topic": step.place[0],
        "partition": step.place[1],
        "existing": step.existing,
        "offset": step.position.offset,
        "metadata": step.position.metadata,
        "log_start_offset": None if log is None else log.start_offset,
        "end_offset": None if log is None else log.end_offset,
        "lag": None if log is None else max(log.end_offset - step.position.offset, 0),
        "action": action,
        "remark": step.remark,
    }


def _show(rows: list[dict[str, Any]], as_json: bool) -> None:
    output.show_rows(rows, (*_COLUMNS, "action", "remark"), as_json=as_json, empty="no offsets")


# -- to a file -----------------------------------------------------------------------------------


def _to_file(
    source: BrokerStore,
    patterns: Sequence[str],
    topics: Sequence[str] | None,
    path: Path | None,
    *,
    dry_run: bool,
    rules: Rules,
    as_json: bool,
) -> None:
    """Copy to a file, which holds the offsets of one moment: live consumers do not matter."""
    from drumlin.migration.offsets_file import write_csv

    sink = FileStore(path)
    for group in transfer.choose(source.groups(), patterns):
        found = source.read(group)
        sink.write(
            group, {p: each for p, each in found.items() if transfer.is_chosen(p[0], topics)}
        )
    rows = [row._asdict() for row in sink.rows]
    if path is None or dry_run:
        if as_json:
            output.show_json(rows)
        else:
            write_csv(sys.stdout, sink.rows)
        return
    if path.exists() and not rules.overwrite:
        raise output.Failure(f"{path} exists: --overwrite replaces it")
    sink.save()
    if as_json:
        output.show_json({"file": str(path), "offsets": len(rows)})
    else:
        output.note(f"{len(rows)} offsets in {path}")
