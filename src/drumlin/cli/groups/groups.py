"""`drumlin groups`: list, describe with lag, delete, delete offsets; loads the other commands."""

from __future__ import annotations

import fnmatch
from typing import Annotated, Any

from drumlin.cli.groups import group_mirror, group_reset, group_transfer
from drumlin.cli.reach import group_offsets
from drumlin.cli.reach.cluster import Cluster, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.reach.completion import complete_group, complete_topic
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.names import check_known, chosen, is_pattern, missing
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Yes,
    confirm,
    examples,
)
from drumlin.cli.terminal.outcomes import for_each
from drumlin.client.admin import group_admin, share_group_admin
from drumlin.client.admin.share_group_admin import SHARE
from drumlin.client.read.log_bounds import log_bounds
from drumlin.client.topic_partition import TopicPartition

app = Group(help="List, describe and delete consumer groups; move their offsets.")
app.add("reset", epilog=group_reset.EXAMPLES)(group_reset.reset)
app.add("export", epilog=group_transfer.EXPORT_EXAMPLES)(group_transfer.export)
app.add("import", epilog=group_transfer.IMPORT_EXAMPLES)(group_transfer.import_)
app.add("mirror", epilog=group_mirror.EXAMPLES)(group_mirror.mirror)

GroupId = Annotated[str, Argument("GROUP", help="A group.", complete=complete_group)]
Groups = Annotated[
    list[str],
    Argument("GROUP…", help="One group or more.", complete=complete_group),
]


@app.add(
    "list",
    epilog=examples(
        "drumlin groups list",
        "drumlin groups list 'report*' --state empty --type classic --json",
    ),
)
def list_(
    pattern: Annotated[
        str, Argument("[PATTERN]", help="Names to show; * and ? are wildcards.")
    ] = "*",
    states: Annotated[
        list[str] | None,
        Option("--state", metavar="STATE", help="Only in this state, such as empty; repeatable."),
    ] = None,
    types: Annotated[
        list[str] | None,
        Option(
            "--type", metavar="TYPE", help="Only classic, consumer, share or streams; repeatable."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List groups and their states."""
    check_known("state of a group", states, group_admin.STATES)
    check_known("type of a group", types, group_admin.TYPES)
    with connect(bootstrap, command_config) as cluster:
        rows = [
            row
            for row in group_offsets.all_groups(cluster, states or (), types or ())
            if fnmatch.fnmatchcase(row["group"], pattern)
        ]
    output.show_rows(
        rows, ("group", "state", "type", "protocol"), as_json=as_json, empty="no groups"
    )


@app.add(
    epilog=examples(
        "drumlin groups describe reporting",
        "drumlin groups describe '*'",
        "drumlin groups describe reporting --members --verbose",
        "drumlin groups describe reporting --json | jq '.[0].offsets[].lag'",
    )
)
def describe(
    groups: Groups,
    members: Annotated[
        bool, Option("--members", "-m", help="Show members in place of offsets.")
    ] = False,
    verbose: Annotated[
        bool,
        Option(
            "--verbose",
            "-v",
            help="More columns: log start, leader epoch, metadata, member; with --members, their "
            "epoch, instance id and the partitions that they will have.",
        ),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show committed offsets, lag and members of groups."""
    with connect(bootstrap, command_config) as cluster:
        described = [_describe(cluster, group) for group in _chosen(cluster, groups)]
    if as_json:
        output.show_json(described)
        return
    for group in described:
        title = f"{group['group']}  ({group['state']}, lag {group['lag']})"
        if members:
            rows = [{"group": group["group"], **member} for member in group["members"]]
            columns = "client_id host member_id partitions"
            columns += " member_epoch instance_id target_partitions" if verbose else ""
        else:
            rows = [{"group": group["group"], **row} for row in group["offsets"]]
            columns = "topic partition committed_offset end_offset lag client_id"
            columns += " log_start_offset leader_epoch metadata member_id" if verbose else ""
        output.show_rows(
            rows,
            columns.split(),
            as_json=False,
            title=title,
            plain_first="group",
            empty=f"{title}: nothing there",
        )


def _chosen(cluster: Cluster, groups: list[str]) -> list[str]:
    """Groups by name or pattern. A plain name need not be in the list: a group may be hidden."""
    if not any(map(is_pattern, groups)):
        return groups
    return chosen("group", groups, [row["group"] for row in group_offsets.all_groups(cluster)])


def _describe(cluster: Cluster, group: str) -> dict[str, Any]:
    found = group_offsets.describe(cluster, group)
    known = group_offsets.positions_of(cluster, found)
    owners = {place: member for member in found.members for place in member.partitions}
    if found.state == "Dead" and not known:
        listed = [row["group"] for row in group_offsets.all_groups(cluster)]
        raise output.Failure(missing("group", group, listed))
    places = sorted(known.keys() | owners.keys())
    bounds = cluster.run(log_bounds(cluster.connections, places, led_only=True))
    rows = []
    for place in places:
        position, log = known.get(place), bounds.get(place)
        offset = None if position is None else position.offset
        end = None if log is None else log.end_offset
        rows.append(
            {
                "topic": place[0],
                "partition": place[1],
                "committed_offset": offset,
                "leader_epoch": None if position is None else position.leader_epoch,
                "metadata": None if position is None else position.metadata,
                "log_start_offset": None if log is None else log.start_offset,
                "end_offset": end,
                "lag": None if offset is None or end is None else max(end - offset, 0),
                "client_id": owners[place].client_id if place in owners else None,
                "member_id": owners[place].member_id if place in owners else None,
            }
        )
    return {
        "group": group,
        "state": found.state,
        "type": found.type,
        "lag": sum(row["lag"] or 0 for row in rows),
        "members": [member.as_row() for member in found.members],
        "offsets": rows,
    }


@app.add(epilog=examples("drumlin groups delete reporting", "drumlin groups delete 'test-*' --yes"))
def delete(
    groups: Groups,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete groups, which must have no members, with their offsets."""
    with connect(bootstrap, command_config) as cluster:
        names = _chosen(cluster, groups)
        confirm(f"Delete {', '.join(names)} with their offsets?", yes)

        def delete_one(group: str) -> bool:
            cluster.run(group_admin.delete_group(cluster.connections, group))
            return True

        for_each("group", names, delete_one, done="deleted", as_json=as_json)


@app.add(
    "delete-offsets",
    epilog=examples(
        "drumlin groups delete-offsets reporting flights",
        "drumlin groups delete-offsets reporting flights --partition 3 --yes",
    ),
)
def delete_offsets(
    group: GroupId,
    topic: Annotated[
        str, Argument("TOPIC", help="The topic whose offsets to delete.", complete=complete_topic)
    ],
    partition: Annotated[
        list[int] | None, Option("--partition", "-p", help="Repeatable; default: all.")
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Delete a group's committed offsets of a topic."""
    with connect(bootstrap, command_config) as cluster:
        described = group_offsets.describe(cluster, group)
        known = group_offsets.positions_of(cluster, described)
        requested = partition or sorted(part for name, part in known if name == topic)
        if not requested:
            raise output.Failure(f"group {group!r} has no offsets for topic {topic!r}")
        confirm(f"Forget the offsets of {group} for {topic}?", yes)
        if described.type != SHARE:
            places = [TopicPartition(topic, each) for each in requested]
            asking = group_admin.delete_offsets(cluster.connections, group, places)
        elif partition:
            raise output.Failure(f"{group!r} is a share group: it forgets whole topics only")
        else:
            asking = share_group_admin.delete_start_offsets(cluster.connections, group, topic)
        cluster.run(asking)
    rows = [{"group": group, "topic": topic, "partition": part} for part in requested]
    output.show_changes(rows, [f"{topic}-{part}: forgotten" for part in requested], as_json)
