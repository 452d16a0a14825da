"""`drumlin consume`: records of a topic as text, JSON lines, or a columnar file.

It reads up to the end of the log and exits, like `cat`; with --follow it waits for more, like
`tail -f`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import click

from drumlin.cli.reach import group_offsets
from drumlin.cli.reach.cluster import Cluster
from drumlin.cli.reach.cluster import connect as connect_cluster
from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.reach.completion import complete_group, complete_topic
from drumlin.cli.terminal import output, standard_output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.names import existing_partitions
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.cli.terminal.places import BEGINNING, END, HELP, Place, parse_place
from drumlin.cli.terminal.record_text import FIELDS, Formatter, json_lines, show_lines
from drumlin.client.needs_arrow import has_arrow
from drumlin.client.topic_partition import TopicPartition

if TYPE_CHECKING:
    from drumlin.cli.terminal.record_text import Records
    from drumlin.client.client import Client
    from drumlin.client.read.reader import ReadOptions

Sink = Callable[["Records"], None]

_POLL_S: Final = 0.1
_CHECK_EVERY_MS: Final = 1_000
EXAMPLES: Final = examples(
    "drumlin consume flights -n 10",
    "drumlin consume flights --follow --format '{time} {key}: {value}'",
    "drumlin consume flights --from -2h --json | jq .value",
    "drumlin consume flights --from -100 --partition 0",
    "drumlin consume flights -o flights.parquet",
    "drumlin consume flights --group audit --follow",
    "drumlin consume flights --group workers --join",
)


def consume(
    topic: Annotated[str, Argument("TOPIC", help="A topic.", complete=complete_topic)],
    start: Annotated[
        str | None,
        Option(
            "--from",
            metavar="PLACE",
            help=f"Where to start: {HELP} Default: beginning, or end with --follow.",
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
    template: Annotated[
        str, Option("--format", metavar="FORMAT", help=f"With {', '.join(FIELDS)} in {{}}.")
    ] = "{value}",
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
    """Show records of a topic, or write them to a file."""
    from drumlin.client.client import connect
    from drumlin.client.read.reader import ReadOptions

    first = parse_place(start) if start else END if follow else BEGINNING
    last = parse_place(until)
    if follow and last != END:
        raise click.BadParameter("--follow has no end: leave out --until")
    formatter = Formatter(template, null)
    options = ReadOptions(
        headers=headers or as_json or formatter.uses_headers,
        isolation="read_committed" if committed else "read_uncommitted",
    )
    if join and (group is None or start or partition or last != END):
        raise click.BadParameter("--join needs --group")
    check = _check_nothing if to_file else standard_output.check_read
    with ExitStack() as stack:
        client = stack.enter_context(connect(bootstrap, **settings_of(command_config)))
        if join:
            sink = _sink(stack, topic, to_file, as_json, formatter, options)
            _read_as_member(client, str(group), topic, sink, count, options, check)
            return
        partitions = existing_partitions(client, topic, partition)
        starts = first.in_partitions(client, topic, partitions)
        member = _group(stack, bootstrap, command_config, group, topic)
        if member is not None:
            starts |= {each: at for each, at in member.committed().items() if each in starts}
        reading = _Reading(client, topic, starts, count, options, to_file)
        sink = _sink(stack, topic, to_file, as_json, formatter, options)
        with output.progress(enabled=bool(to_file) or not sys.stdout.isatty()) as progress:
            task = progress.add_task(topic, total=None, done="")
            for batch in reading.batches(last, follow, check):
                sink(batch)
                progress.update(
                    task,
                    total=None if follow else reading.expected,
                    completed=reading.records,
                    done=f"{reading.records:,} records",
                )
                if member is not None:
                    member.commit(reading.offsets)
    if to_file:
        output.show_file(to_file, reading.records, as_json)


def _check_nothing() -> None:
    """Check nothing: records go into a file, so a closed standard output does not matter."""


def _read_as_member(
    client: Client,
    group: str,
    topic: str,
    sink: Sink,
    count: int | None,
    options: ReadOptions,
    check: Callable[[], None],
) -> None:
    """Show and commit records of our assigned partitions, until `count` have been shown."""
    shown = 0
    with client.consumer(
        topic,
        group=group,
        commit_interval_ms=None,
        headers=options.headers,
        isolation=options.isolation,
    ) as consumer:
        while True:
            batch = consumer.poll(timeout_ms=_CHECK_EVERY_MS)
            if batch is None:
                check()
                continue
            if count is not None:
                batch = batch.slice(0, count - shown)
            sink(batch)
            shown += batch.num_rows
            last = batch.slice(batch.num_rows - 1).to_pylist()[0]
            consumer.commit({(topic, last["partition"]): last["offset"] + 1})
            if shown == count:
                return


def _group(
    stack: ExitStack, bootstrap: str, command_config: Path | None, name: str | None, topic: str
) -> _Group | None:
    if name is None:
        return None
    return _Group(stack.enter_context(connect_cluster(bootstrap, command_config)), name, topic)


class _Group:
    """A group whose offsets are read and committed without joining it."""

    def __init__(self, cluster: Cluster, name: str, topic: str) -> None:
        self._cluster = cluster
        self._name = name
        self._topic = topic

    def committed(self) -> dict[int, int]:
        found = group_offsets.committed(self._cluster, self._name)
        return {
            partition: offset
            for (topic, partition), offset in found.items()
            if topic == self._topic
        }

    def commit(self, offsets: dict[int, int]) -> None:
        positions = {
            TopicPartition(self._topic, partition): offset for partition, offset in offsets.items()
        }
        group_offsets.commit(self._cluster, self._name, positions)


class _Reading:
    """One run over the topic; counts the records it yields."""

    def __init__(
        self,
        client: Client,
        topic: str,
        starts: dict[int, int],
        count: int | None,
        options: ReadOptions,
        to_file: Path | None,
    ) -> None:
        self._as_columns = to_file is not None or has_arrow()  # columns are faster
        self._client = client
        self._topic = topic
        self.offsets = starts  # the next offset to read, by partition
        self._count = count
        self._options = options
        self.records = 0
        self.expected: int | None = None  # an estimate: some offsets have no records

    def batches(self, last: Place, follow: bool, check: Callable[[], None]) -> Iterator[Records]:
        """Batches of one partition each, up to `last`; following, until `check` raises."""
        while True:
            ends = last.in_partitions(self._client, self._topic, self.offsets)
            if last == END:
                self._check_starts(ends)
            yield from self._up_to(ends)
            if not follow or self.records == self._count:
                return
            check()
            time.sleep(_POLL_S)

    def _check_starts(self, ends: dict[int, int]) -> None:
        for partition, offset in self.offsets.items():
            if offset > ends[partition]:
                where = f"{self._topic}-{partition} ends at offset {ends[partition]}"
                raise output.Failure(f"{where}, there is no offset {offset}")

    def _up_to(self, ends: dict[int, int]) -> Iterator[Records]:
        starts = dict(self.offsets)
        behind = [each for each in starts if starts[each] < ends[each]]
        if not behind or self.records == self._count:
            return
        self.expected = sum(ends[each] - starts[each] for each in behind)
        if self._count is not None:
            self.expected = min(self.expected, self._count)
        for batch in self._batches(behind, starts, ends):
            if self._count is not None:
                batch = _first(batch, self._count - self.records)
            self.records += len(batch)
            if len(batch):
                partition, offset = _last_place(batch)
                self.offsets[partition] = offset + 1
            yield batch
            if self.records == self._count:
                return
        # Offsets without records (compacted away, or control records) count as read, too.
        self.offsets |= {each: ends[each] for each in behind}

    def _batches(
        self, partitions: list[int], starts: dict[int, int], ends: dict[int, int]
    ) -> Iterator[Records]:
        starts, ends = ({each: at[each] for each in partitions} for at in (starts, ends))
        isolation = self._options.isolation
        if self._as_columns:
            headers = self._options.headers
            return self._client.read_batches(
                self._topic,
                partitions,
                start=starts,
                end=ends,
                headers=headers,
                isolation=isolation,
            )
        return self._client.read_records(
            self._topic, partitions, start=starts, end=ends, isolation=isolation
        )


def _first(batch: Records, count: int) -> Records:
    return batch[:count] if isinstance(batch, list) else batch.slice(0, count)


def _last_place(batch: Records) -> tuple[int, int]:
    """Partition and offset of the last record."""
    if isinstance(batch, list):
        return batch[-1].partition, batch[-1].offset
    # Field by field: to convert a timestamp, Arrow would import pandas.
    partition, offset = (batch[name][-1].as_py() for name in ("partition", "offset"))
    return partition, offset


def _sink(
    stack: ExitStack,
    topic: str,
    to_file: Path | None,
    as_json: bool,
    formatter: Formatter,
    options: ReadOptions,
) -> Sink:
    if to_file is not None:
        from drumlin.cli.terminal import record_files
        from drumlin.client.read.reader import schema_of

        return stack.enter_context(record_files.writing(to_file, schema_of(options)))
    lines = json_lines if as_json else formatter.lines

    def show(batch: Records) -> None:
        show_lines(lines(topic, batch))

    return show


consume_command: Final = command(consume, epilog=EXAMPLES)
