"""`drumlin groups`: list, describe with lag, delete, delete offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from drumlin.cli import output
from drumlin.cli.assignments import Member, classic_members, consumer_members
from drumlin.cli.cluster import Cluster, check, connect
from drumlin.cli.completion import complete_group
from drumlin.cli.group_offsets import committed
from drumlin.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, Yes, confirm, examples
from drumlin.cli.outcomes import for_each
from drumlin.client import offsets
from drumlin.client.offsets import TopicPartition
from drumlin.wire.errors import ErrorCode, KafkaError
from drumlin.wire.messages import Shape

app = typer.Typer(no_args_is_help=True, help="List, describe and delete consumer groups.")

Group = Annotated[
    str, typer.Argument(metavar="GROUP", help="A group.", autocompletion=complete_group)
]
Groups = Annotated[
    list[str],
    typer.Argument(metavar="GROUP…", help="One group or more.", autocompletion=complete_group),
]


@app.command("list", epilog=examples("drumlin groups list", "drumlin groups list --json"))
def list_(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """List groups and their states."""
    with connect(bootstrap) as cluster:
        rows = all_groups(cluster)
    output.show_rows(
        rows, ("group", "state", "type", "protocol"), as_json=as_json, empty="no groups"
    )


def all_groups(cluster: Cluster) -> list[dict[str, Any]]:
    """The groups of every broker."""
    rows = []
    for node_id in cluster.broker_ids:
        response = cluster.ask_broker(
            node_id, "list_groups", lambda shape: shape("ListGroupsRequest")
        )
        check(response.error_code, f"groups of broker {node_id}")
        rows += [
            {
                "group": each.group_id,
                "state": getattr(each, "group_state", None),
                "type": getattr(each, "group_type", None),
                "protocol": each.protocol_type,
                "coordinator": node_id,
            }
            for each in response.groups
        ]
    return sorted(rows, key=lambda row: str(row["group"]))


@app.command(
    epilog=examples(
        "drumlin groups describe reporting",
        "drumlin groups describe reporting --members",
        "drumlin groups describe reporting --json | jq '.[0].offsets[].lag'",
    )
)
def describe(
    groups: Groups,
    members: Annotated[
        bool, typer.Option("--members", "-m", help="Show members in place of offsets.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show committed offsets, lag and members of groups."""
    with connect(bootstrap) as cluster:
        described = [_describe(cluster, group) for group in groups]
    if as_json:
        output.show_json(described)
        return
    for group in described:
        title = f"{group['group']}  ({group['state']})"
        if members:
            rows = [{"group": group["group"], **member} for member in group["members"]]
            columns = "client_id host member_id partitions"
        else:
            rows = [{"group": group["group"], **row} for row in group["offsets"]]
            columns = "topic partition committed_offset end_offset lag client_id"
        output.show_rows(
            rows,
            columns.split(),
            as_json=False,
            title=title,
            plain_first="group",
            empty=f"{title}: nothing there",
        )


def _describe(cluster: Cluster, group: str) -> dict[str, Any]:
    state, members = _members(cluster, group)
    known = committed(cluster, group)
    owners = {place: member for member in members for place in member.partitions}
    if state == "Dead" and not known:
        raise KafkaError(ErrorCode.group_id_not_found, f"group {group!r}")
    places = sorted(known.keys() | owners.keys())
    ends = _ends(cluster, places)
    rows = []
    for place in places:
        offset, end = known.get(place), ends.get(place)
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed_offset": offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else max(end - offset, 0),
                "client_id": owners[place].client_id if place in owners else None,
            }
        )
    return {
        "group": group,
        "state": state,
        "members": [member.as_row() for member in members],
        "offsets": rows,
    }


def _members(cluster: Cluster, group: str) -> tuple[str, list[Member]]:
    """State and members, by the classic protocol and, failing that, by KIP-848's."""

    def classic(shape: Shape) -> object:
        return shape("DescribeGroupsRequest", groups=(group,), include_authorized_operations=False)

    def consumer(shape: Shape) -> object:
        return shape(
            "ConsumerGroupDescribeRequest", group_ids=(group,), include_authorized_operations=False
        )

    found = cluster.ask_coordinator(group, "describe_groups", classic).groups[0]
    is_classic = found.error_code is ErrorCode.none and found.group_state != "Dead"
    if is_classic:
        return found.group_state, classic_members(found.members)
    rows = {row["group"]: row for row in all_groups(cluster)}
    if group not in rows or str(rows[group]["type"]).lower() != "consumer":
        return "Dead", []
    found = cluster.ask_coordinator(group, "consumer_group_describe", consumer).groups[0]
    check(found.error_code, f"group {group!r}", found.error_message)
    return found.group_state, consumer_members(found.members)


def _ends(cluster: Cluster, places: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the partitions end now; those of deleted topics are left out."""
    view = cluster.connections.view
    cluster.run(cluster.connections.refresh(None))
    existing = [
        (topic, part)
        for topic, part in places
        if topic in view.topics and part in view.topics[topic].partitions
    ]
    found = cluster.run(
        offsets.list_offsets(
            cluster.connections, dict.fromkeys(existing, "latest"), "read_uncommitted"
        )
    )
    return {place: at.offset for place, at in found.items()}


@app.command(epilog=examples("drumlin groups delete reporting", "drumlin groups delete a b --yes"))
def delete(
    groups: Groups,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete groups, which must have no members, with their offsets."""
    confirm(f"Delete {', '.join(groups)} with their offsets?", yes)
    with connect(bootstrap) as cluster:

        def delete_one(group: str) -> bool:
            response = cluster.ask_coordinator(
                group,
                "delete_groups",
                lambda shape: shape("DeleteGroupsRequest", groups_names=(group,)),
            )
            check(response.results[0].error_code, f"group {group!r}")
            return True

        for_each("group", groups, delete_one, done="deleted", as_json=as_json)


@app.command(
    "delete-offsets",
    epilog=examples(
        "drumlin groups delete-offsets reporting flights",
        "drumlin groups delete-offsets reporting flights --partition 3 --yes",
    ),
)
def delete_offsets(
    group: Group,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Whose offsets to forget.")],
    partition: Annotated[
        list[int] | None, typer.Option("--partition", "-p", help="Repeatable; default: all.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Forget what a group has committed for a topic."""
    confirm(f"Forget the offsets of {group} for {topic}?", yes)
    with connect(bootstrap) as cluster:
        known = sorted(part for name, part in committed(cluster, group) if name == topic)
        wanted = partition or known
        if not wanted:
            raise output.Failure(f"group {group!r} has no offsets for topic {topic!r}")
        _delete_offsets(cluster, group, topic, wanted)
    rows = [{"group": group, "topic": topic, "partition": part} for part in wanted]
    output.show_changes(rows, [f"{topic}-{part}: forgotten" for part in wanted], as_json)


def _delete_offsets(cluster: Cluster, group: str, topic: str, partitions: list[int]) -> None:
    def build(shape: Shape) -> object:
        parts = (shape("OffsetDeleteRequestPartition", partition_index=p) for p in partitions)
        named = shape("OffsetDeleteRequestTopic", name=topic, partitions=tuple(parts))
        return shape("OffsetDeleteRequest", group_id=group, topics=(named,))

    response = cluster.ask_coordinator(group, "offset_delete", build)
    check(response.error_code, f"group {group!r}")
    for answer in response.topics[0].partitions:
        check(answer.error_code, f"group {group!r}, {topic}-{answer.partition_index}")
