"""`drumlin topics`: list, describe, create, delete, add partitions, delete records."""

from __future__ import annotations

import fnmatch
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import click

from drumlin.cli.reach.cluster import Cluster, connect
from drumlin.cli.reach.command_config import CommandConfig, CommandConfigAlone, TopicConfigs
from drumlin.cli.reach.completion import complete_topic
from drumlin.cli.reach.eligible_replicas import as_row, ask_eligible, columns_for
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.names import chosen, is_pattern, missing
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Yes,
    confirm,
    examples,
    parse_assignments,
    read_properties,
)
from drumlin.cli.terminal.outcomes import fail, for_each, sentence
from drumlin.cli.terminal.places import HELP as PLACE_HELP
from drumlin.cli.terminal.places import parse_offset, parse_place
from drumlin.client.admin import admin, deleted_records
from drumlin.client.admin.admin import TopicDescription
from drumlin.client.places import OffsetSpec
from drumlin.client.read import offsets
from drumlin.client.topic_partition import TopicPartition
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

app = Group(help="List, describe, create, change and delete topics.")

Topic = Annotated[str, Argument("TOPIC", help="A topic.", complete=complete_topic)]
Topics = Annotated[
    list[str],
    Argument("TOPIC…", help="One topic or more.", complete=complete_topic),
]


@app.add(
    "list",
    epilog=examples(
        "drumlin topics list",
        "drumlin topics list 'flights*' --long",
        "drumlin topics list -b broker1:9092,broker2:9092 --json",
    ),
)
def list_(
    pattern: Annotated[
        str, Argument("[PATTERN]", help="Names to show; * and ? are wildcards.")
    ] = "*",
    long: Annotated[
        bool, Option("--long", "-l", help="Count offsets and bytes too (asks every leader).")
    ] = False,
    internal: Annotated[bool, Option("--internal", help="Show internal topics too.")] = False,
    overridden: Annotated[
        bool, Option("--overridden", help="Only topics with topic-level configurations.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List topics."""
    columns = ["topic", "partitions", "replicas"]
    with connect(bootstrap, command_config) as cluster:
        names = cluster.run(admin.list_topics(cluster.connections, internal))
        matching = fnmatch.filter(names, pattern)
        if overridden:
            matching = [each for each in matching if _own_configs(cluster, each)]
        view = cluster.connections.view.topics
        rows: list[dict[str, Any]] = [
            {
                "topic": name,
                "partitions": len(view[name].partitions),
                "replicas": max(
                    (len(p.replicas) for p in view[name].partitions.values()), default=0
                ),
                "is_internal": view[name].is_internal,
            }
            for name in matching
        ]
        if long:
            columns += ["offsets", "size_bytes"]
            described = cluster.run(admin.describe_topics(cluster.connections, matching))
            for row, partitions in zip(rows, _partitions(cluster, described.values()), strict=True):
                row["offsets"] = sum(_count(p) for p in partitions)
                row["size_bytes"] = sum(p["size_bytes"] or 0 for p in partitions)
    output.show_rows(rows, columns, as_json=as_json, empty="no topics")


@app.add(
    epilog=examples(
        "drumlin topics describe flights",
        "drumlin topics describe flights --json | jq '.[0].partitions[].end_offset'",
    )
)
def describe(
    topics: Topics,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show partitions, leaders, offsets, sizes and configurations of topics.

    Two more columns show replicas that may lead a partition without being in sync, if there are
    any: Kafka's Elr and LastKnownElr.
    """
    with connect(bootstrap, command_config) as cluster:
        names = _chosen(cluster, topics)
        described = cluster.run(admin.describe_topics(cluster.connections, names))
        partitions = _partitions(cluster, described.values())
        configs = {name: _own_configs(cluster, name) for name in names}
    if as_json:
        output.show_json(
            [
                {
                    "topic": topic.name,
                    "topic_id": topic.topic_id,
                    "is_internal": topic.is_internal,
                    "configs": configs[topic.name],
                    "partitions": rows,
                }
                for topic, rows in zip(described.values(), partitions, strict=True)
            ]
        )
        return
    columns = "partition leader leader_epoch replicas isr start_offset end_offset size_bytes"
    eligible = columns_for(row for rows in partitions for row in rows)
    for topic, rows in zip(described.values(), partitions, strict=True):
        output.show_rows(
            [{"topic": topic.name, **row} for row in rows],
            [*columns.split(), *eligible],
            as_json=False,
            title=_title(topic, configs[topic.name]),
            plain_first="topic",
        )


def _count(partition: Mapping[str, Any]) -> int:
    start, end = partition["start_offset"], partition["end_offset"]
    return 0 if start is None or end is None else end - start


def _chosen(cluster: Cluster, topics: list[str]) -> list[str]:
    existing = cluster.run(admin.list_topics(cluster.connections, internal=True))
    return chosen("topic", topics, existing)


def _check_exists(cluster: Cluster, topic: str) -> None:
    existing = cluster.run(admin.list_topics(cluster.connections, internal=True))
    if topic not in existing:
        raise output.Failure(missing("topic", topic, existing))


def _own_configs(cluster: Cluster, topic: str) -> dict[str, str | None]:
    """The keys that are set for this topic; none if the user may not see them."""
    try:
        known = cluster.run(admin.topic_configs(cluster.connections, topic))
    except KafkaError as error:
        if error.code is not ErrorCode.topic_authorization_failed:
            raise
        return {}
    return {key: entry.value for key, entry in sorted(known.items()) if not entry.is_default}


def _title(topic: TopicDescription, configs: Mapping[str, str | None]) -> str:
    shown = "".join(f"  {key}={value}" for key, value in configs.items())
    return f"{topic.name}  (id {topic.topic_id}){shown}"


def _partitions(
    cluster: Cluster, described: Iterable[TopicDescription]
) -> list[list[dict[str, Any]]]:
    """A row for every partition of every topic, in the order given.

    Offsets and sizes are None if there is no leader.
    """
    described = list(described)
    places = [TopicPartition(t.name, p.index) for t in described for p in t.partitions]
    starts = _offsets(cluster, places, "earliest")
    ends = _offsets(cluster, places, "latest")
    sizes = _sizes(cluster, [t.name for t in described])
    # A partition with all replicas in sync has no eligible and no last known replicas.
    unwell = {t.name for t in described for p in t.partitions if len(p.isr) < len(p.replicas)}
    eligible = ask_eligible(cluster, unwell)
    return [
        [
            {
                "partition": p.index,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                **as_row(eligible, t.name, p.index),
                "start_offset": starts.get(TopicPartition(t.name, p.index)),
                "end_offset": ends.get(TopicPartition(t.name, p.index)),
                "size_bytes": sizes.get((t.name, p.index, p.leader)),
            }
            for p in t.partitions
        ]
        for t in described
    ]


def _offsets(
    cluster: Cluster, partitions: list[TopicPartition], at: OffsetSpec
) -> dict[TopicPartition, int]:
    requested = dict.fromkeys(partitions, at)
    asking = offsets.list_offsets(cluster.connections, requested, "read_uncommitted", led_only=True)
    return {partition: place.offset for partition, place in cluster.run(asking).items()}


def _sizes(cluster: Cluster, topics: list[str]) -> Mapping[tuple[str, int, int], int]:
    """Bytes on disk by topic, partition and broker, as far as brokers report them."""
    requested = (
        DescribableLogDirTopic(
            topic=topic,
            partitions=tuple(cluster.connections.view.topics[topic].partitions),
        )
        for topic in topics
    )
    request = DescribeLogDirsRequest(topics=tuple(requested))
    sizes: dict[tuple[str, int, int], int] = defaultdict(int)
    for node_id in cluster.broker_ids:
        try:
            answer = cluster.ask_broker(node_id, "describe_log_dirs", request)
        except PeerError:
            continue  # it was killed a moment ago
        for directory in answer.results:
            for topic in directory.topics:
                for part in topic.partitions:
                    sizes[topic.name, part.partition_index, node_id] += part.partition_size
    return sizes


@app.add(
    epilog=examples(
        "drumlin topics create flights --partitions 4",
        "drumlin topics create users -c cleanup.policy=compact -c retention.ms=-1",
        "drumlin topics create spread --replica-assignment 1:2,2:3,3:1",
    )
)
def create(
    topics: Topics,
    partitions: Annotated[
        int, Option("--partitions", "-p", help="Their number; -1 takes the broker's default.")
    ] = -1,
    replication_factor: Annotated[
        int, Option("--replicas", "-r", help="Their number; -1 takes the broker's default.")
    ] = -1,
    replica_assignment: Annotated[
        str | None,
        Option(
            "--replica-assignment",
            metavar="BROKERS",
            help="The brokers of each partition, such as 1:2,2:1, instead of the two numbers.",
        ),
    ] = None,
    config: TopicConfigs = None,
    config_file: Annotated[
        Path | None,
        Option("--config-file", metavar="FILE", help="Configurations of a properties file."),
    ] = None,
    if_not_exists: Annotated[
        bool, Option("--if-not-exists", help="Ignore topics that exist.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigAlone = None,
    as_json: AsJson = False,
) -> None:
    """Create topics."""
    configs = read_properties(config_file) if config_file else {}
    configs |= parse_assignments(config or [])
    brokers = _brokers(replica_assignment) if replica_assignment is not None else ()
    if brokers and (partitions, replication_factor) != (-1, -1):
        raise click.BadParameter("--replica-assignment says how many partitions and replicas")
    with connect(bootstrap, command_config) as cluster:

        def create_one(topic: str) -> bool:
            requested = admin.NewTopic(topic, partitions, replication_factor, configs, brokers)
            try:
                cluster.run(admin.create_topic(cluster.connections, requested))
            except KafkaError as error:
                if error.code is ErrorCode.topic_already_exists and if_not_exists:
                    return False
                raise
            return True

        for_each("topic", topics, create_one, done="created", otherwise="exists", as_json=as_json)


def _brokers(text: str) -> list[list[int]]:
    """The brokers of each partition, as kafka-topics takes them: 1:2,2:1."""
    partitions = [partition.split(":") for partition in text.split(",")]
    for each in (each for partition in partitions for each in partition):
        if not (each.isascii() and each.isdecimal()) or len(each) > 10 or int(each) >= 1 << 31:
            raise click.BadParameter(f"{text!r} is not BROKER:BROKER,… for each partition")
    return [[int(each) for each in partition] for partition in partitions]


@app.add(
    epilog=examples(
        "drumlin topics delete flights",
        "drumlin topics delete 'test-*' --yes",
        "drumlin topics delete a b --if-exists --yes",
    )
)
def delete(
    topics: Topics,
    if_exists: Annotated[
        bool, Option("--if-exists", help="Ignore topics that do not exist.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics with all their records."""
    with connect(bootstrap, command_config) as cluster:
        existing = cluster.run(admin.list_topics(cluster.connections, internal=True))
        names: dict[str, None] = {}
        for each in topics:
            names |= dict.fromkeys(
                chosen("topic", [each], existing) if is_pattern(each) else [each]
            )
        there = [each for each in names if each in existing]
        if there:
            confirm(f"Delete {', '.join(there)} with all records?", yes)

        def delete_one(topic: str) -> bool:
            if topic in existing:
                cluster.run(admin.delete_topic(cluster.connections, topic))
            elif not if_exists:
                code = ErrorCode.unknown_topic_or_partition
                raise KafkaError(code, missing("topic", topic, existing))
            return topic in existing

        what = {"done": "deleted", "otherwise": "not there"}
        for_each("topic", list(names), delete_one, **what, as_json=as_json)


@app.add(
    "offsets",
    epilog=examples(
        "drumlin topics offsets flights",
        "drumlin topics offsets flights --at -2h",
        "drumlin topics offsets flights --at max-timestamp --json",
    ),
)
def offsets_at(
    topic: Topic,
    at: Annotated[
        str,
        Option("--at", metavar="PLACE", help=f"max-timestamp, or {PLACE_HELP}"),
    ] = "end",
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the offset of a place, such as a time, in every partition."""
    place = None if at == "max-timestamp" else parse_place(at)
    if place is not None and (place.offset is not None or place.before_end is not None):
        raise click.BadParameter("--at is a time, beginning, end or max-timestamp")
    spec: Any = "max_timestamp" if place is None else place.time or place.name
    with connect(bootstrap, command_config) as cluster:
        (name,) = _chosen(cluster, [topic])
        partitions = cluster.connections.view.topics[name].partitions
        places = [TopicPartition(name, each) for each in partitions]
        requested = dict.fromkeys(places, spec)
        asking = offsets.list_offsets(
            cluster.connections, requested, "read_uncommitted", led_only=True
        )
        found = cluster.run(asking)
    rows = [
        {
            "topic": name,
            "partition": place.partition,
            "offset": found[place].offset if place in found else None,
            "timestamp": found[place].timestamp if place in found else None,
        }
        for place in places
    ]
    output.show_rows(rows, ("topic", "partition", "offset", "timestamp"), as_json=as_json)


@app.add(
    "add-partitions",
    epilog=examples(
        "drumlin topics add-partitions flights 8", "drumlin topics add-partitions flights 8 --yes"
    ),
)
def add_partitions(
    topic: Topic,
    count: Annotated[int, Argument(help="How many partitions there will be in total.")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Raise the number of a topic's partitions.

    Keys map to other partitions from then on; records already written stay where they are.
    There is no way back: partitions cannot be removed.
    """
    with connect(bootstrap, command_config) as cluster:
        _check_exists(cluster, topic)
        confirm(f"Raise the partitions of {topic} to {count}, for good?", yes)
        cluster.run(admin.add_partitions(cluster.connections, topic, count))
    row = {"topic": topic, "partitions": count}
    output.show_changes([row], [f"{topic}: {count} partitions"], as_json)


@app.add(
    "delete-records",
    epilog=examples(
        "drumlin topics delete-records flights --before 1000 --partition 0",
        "drumlin topics delete-records flights --before end --yes",
    ),
)
def delete_records(
    topic: Topic,
    before: Annotated[
        str, Option("--before", metavar="OFFSET|end", help="The first offset to keep.")
    ],
    partition: Annotated[
        list[int] | None, Option("--partition", "-p", help="Repeatable; default: all.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete the records before an offset."""
    offset = deleted_records.HIGH_WATERMARK if before == "end" else parse_offset(before)
    if offset is None:
        raise click.BadParameter(f"{before!r} is neither an offset nor 'end'")
    rows, refusals = [], []
    columns = ("topic", "partition", "start_offset")
    with connect(bootstrap, command_config) as cluster:
        _check_exists(cluster, topic)
        confirm(f"Delete records of {topic} before offset {before}?", yes)
        described = cluster.run(admin.describe_topics(cluster.connections, [topic]))[topic]
        chosen = partition or [each.index for each in described.partitions]
        requested = {TopicPartition(topic, index): offset for index in chosen}
        outcomes = cluster.run(deleted_records.delete_records(cluster.connections, requested))
    for (_, index), start in outcomes.items():
        if isinstance(start, Exception):
            refusals.append(sentence(start) if isinstance(start, KafkaError) else str(start))
        else:
            rows.append({"topic": topic, "partition": index, "start_offset": start})
    if rows:  # done, even if others failed
        output.show_rows(rows, columns, as_json=as_json)
    fail(refusals)
