"""`drumlin groups reset`: make a group continue from other offsets.

Determines the new offset of each partition, shows it, and commits it. Refuses groups with
members, which would continue from their own positions and commit those.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.cli.reach import group_offsets
from drumlin.cli.reach.cluster import Cluster, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.reach.completion import complete_group, complete_topic
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
)
from drumlin.cli.terminal.places import TIMES, parse_place
from drumlin.client.admin import admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.admin.group_admin import GroupDescription
from drumlin.client.admin.reset_plan import Move, NothingCommitted, Target, live_members, planned
from drumlin.client.read.log_bounds import existing_partitions, log_bounds
from drumlin.client.topic_partition import TopicPartition
from drumlin.wire.error_codes import KafkaError

EXAMPLES: Final = examples(
    "drumlin groups reset reporting --to earliest --dry-run",
    "drumlin groups reset reporting flights --to 2013-07-04T12:00",
    "drumlin groups reset reporting flights:0,2 --to offset:4711 --yes",
    "drumlin groups reset reporting --to shift:-100",
    "drumlin groups reset reporting --from-file offsets.csv",
)
_TARGET_HELP: Final = (
    "earliest, latest, current (what is committed, within the log), an offset (4711 or "
    f"offset:4711), shift:-100 or shift:+100 from what is committed, or {TIMES}."
)
_COLUMNS: Final = ("topic", "partition", "old_offset", "new_offset", "lag", "state", "remark")
_SHIFT: Final = re.compile(r"shift:([+-]?\d{1,19})")
_BARE_SHIFT: Final = re.compile(r"[+-]\d*")
_OFFSET: Final = re.compile(r"(?:offset:)?(\d{1,19})")


def parse_target(text: str) -> Target:
    """Parse a target as a user types it.

    Raises:
        click.BadParameter: the text is not a target, or is ambiguous.
    """
    if text in ("earliest", "latest", "current"):
        return Target(text)
    shift, offset = _SHIFT.fullmatch(text), _OFFSET.fullmatch(text)
    if shift:
        return Target("shift", int(shift[1]))
    if offset:
        return Target("offset", int(offset[1]))
    if _BARE_SHIFT.fullmatch(text):
        raise click.BadParameter(f"write shift:{text} to move by {text} from what is committed")
    place = parse_place(text.removeprefix("time:"))
    if place.name is not None:
        return Target(place.name)
    return Target("time", time=place.time)


def reset(
    group: Annotated[str, Argument("GROUP", help="A group.", complete=complete_group)],
    topics: Annotated[
        list[str] | None,
        Argument(
            "[TOPIC[:PARTITION,…]]…",
            help="Topics, or some partitions of them; default: all that the group has committed.",
            complete=complete_topic,
        ),
    ] = None,
    to: Annotated[str | None, Option("--to", metavar="PLACE", help=_TARGET_HELP)] = None,
    from_file: Annotated[
        Path | None,
        Option("--from-file", metavar="FILE", help="Take offsets as `groups export` writes them."),
    ] = None,
    metadata: Annotated[
        str, Option("--metadata", metavar="TEXT", help="Metadata to commit with the offsets.")
    ] = "",
    dry_run: Annotated[
        bool, Option("--dry-run", "-n", help="Show what would be done, and do nothing.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Move a group's offsets, of all its topics or of some.

    An offset outside the log becomes the log's start or end. A time means the first record at
    or after it, or the end if there is no such record.
    """
    if (to is None) == (from_file is None):
        raise click.BadParameter("no target: give either --to or --from-file")
    target = None if to is None else parse_target(to)
    with connect(bootstrap, command_config) as cluster:
        described = group_offsets.describe(cluster, group)
        group_offsets.check_at_rest(described, "reset")
        known = group_offsets.positions_of(cluster, described)
        places = _chosen(cluster, topics or (), known)
        if from_file is not None:
            requested = _from_file(from_file, group, places if topics else None)
            rows = _plan_offsets(cluster, requested, known, metadata)
        else:
            assert target is not None
            rows = _plan_target(cluster, group, places, target, known, metadata)
        if not rows:
            raise output.Failure(f"group {group!r} has committed nothing: name topics to reset")
        _carry_out(cluster, described, rows, dry_run=dry_run, yes=yes, as_json=as_json)


# -- which partitions ----------------------------------------------------------------------------


def _chosen(
    cluster: Cluster, topics: Iterable[str], known: Collection[TopicPartition]
) -> list[TopicPartition]:
    """The named partitions, or all existing ones that the group has committed."""
    places: set[TopicPartition] = set()
    for text in topics:
        topic, colon, partitions = text.partition(":")
        described = cluster.run(admin.describe_topics(cluster.connections, (topic,)))
        existing = {each.index for each in described[topic].partitions}
        requested = (
            {_partition(text, each) for each in partitions.split(",")} if colon else existing
        )
        for each in sorted(requested - existing):
            raise output.Failure(f"topic {topic!r} has no partition {each}")
        places |= {TopicPartition(topic, each) for each in requested}
    if not places:
        places.update(cluster.run(existing_partitions(cluster.connections, known)))
        for topic, partition in sorted(set(known) - places):
            output.note(f"{topic}-{partition}: left alone, as it no longer exists")
    return sorted(places)


def _partition(text: str, number: str) -> int:
    if not (number.isascii() and number.isdigit()):
        raise click.BadParameter(f"{text!r} is not TOPIC or TOPIC:0,1,…")
    return int(number)


def _from_file(
    path: Path, group: str, places: Collection[TopicPartition] | None
) -> dict[TopicPartition, tuple[int, str]]:
    from drumlin.migration.offsets_file import read_file

    rows = [row for row in read_file(path) if row.group in (None, group)]
    if not rows:
        raise output.Failure(f"{path} has no offsets of group {group!r}")
    return {
        TopicPartition(row.topic, row.partition): (row.offset, row.metadata)
        for row in rows
        if places is None or (row.topic, row.partition) in places
    }


# -- the new offsets -----------------------------------------------------------------------------


def _plan_target(
    cluster: Cluster,
    group: str,
    places: Collection[TopicPartition],
    target: Target,
    known: Mapping[TopicPartition, OffsetAndMetadata],
    metadata: str,
) -> list[dict[str, Any]]:
    try:
        moves = cluster.run(planned(cluster.connections, group, places, target, known))
    except NothingCommitted as error:
        raise output.Failure(str(error)) from None
    return [_row(place, each, metadata) for place, each in moves.items()]


def _plan_offsets(
    cluster: Cluster,
    requested: Mapping[TopicPartition, tuple[int, str]],
    known: Mapping[TopicPartition, OffsetAndMetadata],
    metadata: str,
) -> list[dict[str, Any]]:
    bounds = cluster.run(log_bounds(cluster.connections, requested))
    for topic, partition in requested.keys() - bounds.keys():
        raise output.Failure(f"there is no {topic}-{partition}")
    return [
        _row(place, Move.to(offset, bounds[place], known.get(place)), metadata or text)
        for place, (offset, text) in sorted(requested.items())
    ]


def _row(place: TopicPartition, move: Move, metadata: str) -> dict[str, Any]:
    return {
        "topic": place[0],
        "partition": place[1],
        "old_offset": None if move.old is None else move.old.offset,
        "new_offset": move.new_offset,
        "log_start_offset": move.log.start_offset,
        "end_offset": move.log.end_offset,
        "lag": move.log.end_offset - move.new_offset,
        "metadata": metadata,
        "remark": move.remark,
    }


# -- doing it ------------------------------------------------------------------------------------


def _carry_out(
    cluster: Cluster,
    described: GroupDescription,
    rows: list[dict[str, Any]],
    *,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    group = described.group
    asks = not dry_run and not yes and can_ask()
    if dry_run or asks:
        _show(group, rows, as_json and dry_run, "dry run" if dry_run else "planned")
    if dry_run:
        output.note(f"dry run: {output.counted(len(rows), 'offset')} of {group} not changed")
        return
    confirm(f"Reset {len(rows)} offsets of {group}?", yes)
    positions = {
        TopicPartition(row["topic"], row["partition"]): OffsetAndMetadata(
            row["new_offset"], metadata=row["metadata"]
        )
        for row in rows
    }
    try:
        group_offsets.move(cluster, described, positions)
    except KafkaError as error:
        if not group_offsets.is_refusal_for_members(error):
            raise
        now = group_offsets.describe(cluster, group)
        raise output.Failure(live_members(now, "reset")) from None
    if asks and not as_json:
        print(f"{group}: {output.counted(len(rows), 'offset')} reset")
    else:
        _show(group, rows, as_json, "reset")
        output.note(f"{group}: {output.counted(len(rows), 'offset')} reset")


def _show(group: str, rows: list[dict[str, Any]], as_json: bool, state: str) -> None:
    full = [{"group": group, **row, "state": state, "reset": state == "reset"} for row in rows]
    output.show_rows(full, _COLUMNS, as_json=as_json, title=group, plain_first="group")
