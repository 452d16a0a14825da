"""`drumlin consume`: records of topics as text, JSON lines, or a columnar file.

It reads up to the end of the logs and exits, like `cat`; with --follow it waits for more, like
`tail -f`.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from drumlin.cli.reach.cluster import Cluster
from drumlin.cli.reach.cluster import connect as connect_cluster
from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.reach.completion import complete_group, complete_topic
from drumlin.cli.records.reading import Group, Offsets, Reading, Wanted, last_place
from drumlin.cli.records.view import OF_FILE, View
from drumlin.cli.terminal import output, standard_output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.names import chosen, existing_partitions, is_pattern, matching
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.cli.terminal.places import BEGINNING, END, HELP, Place, parse_place
from drumlin.cli.terminal.record_filters import HELP as WHERE_HELP
from drumlin.cli.terminal.record_filters import parse_conditions
from drumlin.cli.terminal.record_text import FIELDS, Formatter

if TYPE_CHECKING:
    from drumlin.cli.records.registry_values import RegistryValues
    from drumlin.cli.terminal.record_text import Records
    from drumlin.client.client import Client
    from drumlin.client.topic_partition import TopicPartition
    from drumlin.records.text.lines import Lines

Sink = Callable[[str, "Records | Lines"], None]

_CHECK_EVERY_MS: Final = 1_000
_GROUP: Final = "group:"
EXAMPLES: Final = examples(
    "drumlin consume flights -n 10",
    "drumlin consume flights --follow --format '{time} {key}: {value}'",
    "drumlin consume flights --from -2h --json | jq .value",
    "drumlin consume flights --from -100 --partition 0",
    "drumlin consume 'orders-*' payments --follow",
    "drumlin consume orders --registry http://registry:8081 --where 'value.amount >= 100'",
    "drumlin consume orders --registry http://registry:8081 --decode both --format '{key} {value}'",
    "drumlin consume flights -o flights.parquet",
    "drumlin consume flights --from group:reporting --follow",
    "drumlin consume flights --group audit --follow",
    "drumlin consume flights --group workers --join",
)


class Decoded(enum.StrEnum):
    """What is decoded by a registry's schemas."""

    VALUE = "value"
    KEY = "key"
    BOTH = "both"


def consume(
    topics: Annotated[
        list[str],
        Argument("TOPIC…", help="Topics, or patterns with * and ?.", complete=complete_topic),
    ],
    regex: Annotated[
        bool, Option("--regex", "-r", help="TOPIC is a regular expression for whole names.")
    ] = False,
    start: Annotated[
        str | None,
        Option(
            "--from",
            metavar="PLACE",
            help=f"Where to start: {HELP} Or group:NAME, where this group has committed. "
            "Default: beginning, or end with --follow.",
        ),
    ] = None,
    until: Annotated[
        str, Option("--until", metavar="PLACE", help="Where to end, written as for --from.")
    ] = "end",
    partition: Annotated[
        list[int] | None, Option("--partition", "-p", help="Repeatable; default: all.")
    ] = None,
    count: Annotated[
        int | None, Option("--count", "-n", min=0, help="End after this many records.")
    ] = None,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Wait for more records, until Ctrl-C.")
    ] = False,
    where: Annotated[
        list[str] | None, Option("--where", "-w", metavar="FIELD=VALUE", help=WHERE_HELP)
    ] = None,
    registry: Annotated[
        str | None,
        Option(
            "--registry",
            metavar="URL",
            help="Show values as JSON, by the schemas of this registry whose ids they begin with. "
            "Its login is in --config.",
        ),
    ] = None,
    decode: Annotated[Decoded, Option("--decode", help="What --registry decodes.")] = Decoded.VALUE,
    template: Annotated[
        str | None,
        Option(
            "--format",
            metavar="FORMAT",
            help=f"With {', '.join(FIELDS)} in {{}}. Default: {{value}}; of several topics "
            "{topic}\\t{value}.",
        ),
    ] = None,
    null: Annotated[str, Option("--null", metavar="TEXT", help="The text shown for a null.")] = "",
    to_file: Annotated[
        Path | None,
        Option("--output", "-o", metavar="FILE", help="Write a .parquet, .arrow or .csv file."),
    ] = None,
    headers: Annotated[
        bool, Option("--headers", help="Put headers into the file (JSON has them).")
    ] = False,
    group: Annotated[
        str | None,
        Option(
            "--group",
            "-g",
            help="Start where this group has committed, and commit what was shown, without "
            "joining it (see --join).",
            complete=complete_group,
        ),
    ] = None,
    join: Annotated[
        bool,
        Option("--join", help="Be a member of --group: share partitions with its other members."),
    ] = False,
    committed: Annotated[
        bool, Option("--committed", help="Leave out records of aborted transactions.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show records of topics, or write them to a file.

    Topics that are made later are not read, even if a pattern matches them.
    """
    last = parse_place(until)
    if follow and last != END:
        raise click.BadParameter("--follow has no end: leave out --until")
    if join and (group is None or start or partition or last != END or where):
        raise click.BadParameter("--join needs --group, and has no --from, --until or --where")
    if registry is None and decode is not Decoded.VALUE:
        raise click.BadParameter("--decode needs --registry")
    if to_file is not None and registry is not None:
        raise click.BadParameter("--registry is for text and JSON, not for --output")
    is_one = not regex and len(topics) == 1 and not is_pattern(topics[0])
    template = template or ("{value}" if is_one else r"{topic}\t{value}")
    view = View(
        Formatter(template, null, is_coloured=output.is_coloured() and to_file is None),
        as_json,
        parse_conditions(where or ()),
        _values(registry, command_config, decode),
    )
    fields = view.fields if to_file is None else OF_FILE | view.filtered
    wanted = Wanted(
        fields | ({"headers"} if headers else frozenset()),
        to_file is not None,
        "read_committed" if committed else "read_uncommitted",
        count,
        view.choose,
        None if to_file else view.form_of,
    )
    with ExitStack() as stack:
        run = _Run.connected(stack, bootstrap, command_config, topics, regex)
        sink = _sink(stack, view, to_file, wanted, with_topic=not is_one)
        check = _check_nothing if to_file else standard_output.check_read
        if join:
            _read_as_member(run.client, str(group), run.topics, sink, wanted, check)
        else:
            default = "end" if follow else "beginning"
            places = _Places(default if start is None else start, group, partition)
            records = run.read(places, last, follow, wanted, sink, check)
            if to_file is not None:
                output.show_file(to_file, records, as_json)
    view.report()


@dataclass(frozen=True, slots=True)
class _Places:
    """Where reading starts, as it was typed."""

    start: str
    group: str | None  # starts where it has committed, and commits
    partitions: list[int] | None


@dataclass(frozen=True, slots=True)
class _Run:
    """A connected cluster, and the topics there that were asked for."""

    client: Client
    topics: list[str]
    cluster: Callable[[], Cluster]

    @classmethod
    def connected(
        cls,
        stack: ExitStack,
        bootstrap: str,
        command_config: Path | None,
        asked: list[str],
        regex: bool,
    ) -> _Run:
        from drumlin.client.client import connect

        client = stack.enter_context(connect(bootstrap, **settings_of(command_config)))
        existing = client.list_topics(internal=True)
        topics = matching(asked, existing) if regex else chosen("topic", asked, existing)
        return cls(
            client,
            topics,
            lambda: stack.enter_context(connect_cluster(bootstrap, command_config)),
        )

    def read(
        self,
        places: _Places,
        last: Place,
        follow: bool,
        wanted: Wanted,
        sink: Sink,
        check: Callable[[], None],
    ) -> int:
        """Show records without being a group's member; returns their number."""
        positions, group = self._positions(places)
        reading = Reading(self.client, positions, wanted)
        is_quiet = check is not _check_nothing and sys.stdout.isatty()
        with output.progress(enabled=not is_quiet) as progress:
            task = progress.add_task(", ".join(self.topics), total=None, done="")
            for topic, batch in reading.batches(last, follow, check):
                sink(topic, batch)
                progress.update(
                    task,
                    total=None if follow else reading.expected,
                    completed=reading.records,
                    done=f"{reading.records:,} records",
                )
                if group is not None:
                    group.commit(topic, reading.positions[topic])
        return reading.records

    def _positions(self, places: _Places) -> tuple[dict[str, Offsets], Group | None]:
        """The positions to start from; and the group that commits, if there is one."""
        is_of_group = places.start.startswith(_GROUP)
        place = BEGINNING if is_of_group else parse_place(places.start)
        positions = {}
        for topic in self.topics:
            partitions = existing_partitions(self.client, topic, places.partitions)
            positions[topic] = place.in_partitions(self.client, topic, partitions)
        if is_of_group:
            name = places.start.removeprefix(_GROUP)
            if not _move(positions, Group(self.cluster(), name).committed()):
                shown = ", ".join(self.topics)
                raise output.Failure(
                    f"--from {places.start}: nothing is committed there of {shown}"
                )
        if places.group is None:
            return positions, None
        group = Group(self.cluster(), places.group)
        _move(positions, group.committed())
        return positions, group


def _move(positions: dict[str, Offsets], committed: Mapping[TopicPartition, int]) -> int:
    """Move positions to what is committed; returns how many there were."""
    moved = 0
    for (topic, partition), offset in committed.items():
        if partition in positions.get(topic, {}):
            positions[topic][partition] = offset
            moved += 1
    return moved


def _check_nothing() -> None:
    """Check nothing: records go into a file, so a closed standard output does not matter."""


def _values(
    registry: str | None, command_config: Path | None, decode: Decoded
) -> RegistryValues | None:
    if registry is None:
        return None
    from drumlin.cli.reach.schema_registry import registry_of
    from drumlin.cli.records.registry_values import RegistryValues

    parts = ("key", "value") if decode is Decoded.BOTH else (decode.value,)
    return RegistryValues(registry_of(registry, command_config), parts)


def _read_as_member(
    client: Client,
    group: str,
    topics: list[str],
    sink: Sink,
    wanted: Wanted,
    check: Callable[[], None],
) -> None:
    """Show and commit records of our assigned partitions, until `count` have been shown."""
    from drumlin.client.consumer import topic_of

    shown = 0
    with client.consumer(
        topics,
        group=group,
        commit_interval_ms=None,
        columns=wanted.columns(sys.maxsize),
        isolation=wanted.isolation,
    ) as consumer:
        while True:
            batch = consumer.poll(timeout_ms=_CHECK_EVERY_MS)
            if batch is None:
                check()
                continue
            topic = topic_of(batch)
            if wanted.count is not None:
                batch = batch.slice(0, wanted.count - shown)
            sink(topic, batch)
            shown += batch.num_rows
            partition, offset = last_place(batch)
            consumer.commit({(topic, partition): offset + 1})
            if shown == wanted.count:
                return


def _sink(
    stack: ExitStack, view: View, to_file: Path | None, wanted: Wanted, *, with_topic: bool
) -> Sink:
    if to_file is None:
        return view.show
    import pyarrow as pa

    from drumlin.cli.terminal import record_files
    from drumlin.client.read.reader import ReadOptions, schema_of

    schema = schema_of(ReadOptions(columns=wanted.columns(0)))
    if with_topic:
        schema = schema.insert(0, pa.field("topic", pa.string()))
    write = stack.enter_context(record_files.writing(to_file, schema))

    def put(topic: str, batch: Records | Lines) -> None:
        assert isinstance(batch, pa.RecordBatch)
        columns = [batch[name] for name in batch.schema.names]
        named = [pa.array([topic] * len(batch), pa.string())] if with_topic else []
        write(pa.record_batch([*named, *columns], schema=schema))

    return put


consume_command: Final = command(consume, epilog=EXAMPLES)
