"""`drumlin snapshot`: the last record of every key, now or at a point, as text or as a file.

A file is written under a temporary name and renamed, so that it is complete or absent. It is
written while partitions are read: neither topic nor state need fit into memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

import click

from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.reach.completion import complete_topic
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.names import existing_partitions
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.cli.terminal.points import HELP, AllowInexact, parse_point
from drumlin.cli.terminal.record_text import FIELDS, Formatter, json_lines, rows_of, show_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.arguments import Decode
    from drumlin.client.client import Client
    from drumlin.client.places import Point

_DECODINGS: Final[dict[str | None, Decode | None]] = {None: None, "utf8": "utf8", "json": "json"}
EXAMPLES: Final = examples(
    "drumlin snapshot accounts",
    "drumlin snapshot accounts --at 2026-01-31T24:00 -o january.parquet",
    "drumlin snapshot accounts --at 0:120,1:98 --json | jq .value",
    "drumlin snapshot accounts -o accounts.csv --columns key,value --decode utf8",
)


Columns = Annotated[
    str | None,
    Option(
        "--columns", metavar="NAME[,…]", help="The columns of the file; default: all but headers."
    ),
]
Decoding = Annotated[
    str | None,
    Option(
        "--decode",
        metavar="utf8|json",
        help="What the file has of keys and values, in place of bytes: text, or columns of the "
        "type that JSON values have (the state must fit into memory).",
    ),
]
Memory = Annotated[
    int,
    Option(
        "--memory",
        metavar="MIB",
        min=1,
        help="For the state of one partition, which is read several times where it is larger.",
    ),
]
ToFile = Annotated[
    Path | None,
    Option("--output", "-o", metavar="FILE", help="Write a .parquet, .arrow or .csv file."),
]


class _Options(TypedDict):
    """The options for showing a state and for writing it to a file."""

    at: Point | None
    partitions: Sequence[int]
    memory_bytes: int
    allow_inexact: bool


def snapshot(
    topic: Annotated[str, Argument("TOPIC", help="A topic.", complete=complete_topic)],
    at: Annotated[str, Option("--at", metavar="POINT", help=f"The point: {HELP}")] = "end",
    partition: Annotated[
        list[int] | None, Option("--partition", "-p", help="Repeatable; default: all.")
    ] = None,
    template: Annotated[
        str, Option("--format", metavar="FORMAT", help=f"With {', '.join(FIELDS)} in {{}}.")
    ] = "{key}\t{value}",
    null: Annotated[str, Option("--null", metavar="TEXT", help="The text shown for a null.")] = "",
    to_file: ToFile = None,
    columns: Columns = None,
    decode: Decoding = None,
    memory: Memory = 1024,
    allow_inexact: AllowInexact = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show the state of a compacted topic: the last record of every key."""
    from drumlin.client.client import connect

    if to_file is None and (columns or decode):
        raise click.BadParameter("--columns and --decode are for a file: give --output")
    if decode not in _DECODINGS:
        raise click.BadParameter(f"--decode {decode!r}: expected utf8 or json")
    point = parse_point(at)
    formatter = Formatter(template, null)
    with connect(bootstrap, **settings_of(command_config)) as client:
        partitions = existing_partitions(client, topic, partition)
        options: _Options = {
            "at": point.of(client, topic, partitions),
            "partitions": partitions,
            "memory_bytes": memory << 20,
            "allow_inexact": allow_inexact,
        }
        if to_file is not None:
            names = columns.split(",") if columns else None
            records = _write(client, topic, to_file, names, _DECODINGS[decode], options)
            output.show_file(to_file, records, as_json)
            return
        headers = as_json or formatter.uses_headers
        for batch in client.snapshot_batches(topic, headers=headers, **options):
            rows = rows_of(topic, batch)
            show_lines(json_lines(rows) if as_json else formatter.lines(rows))


def _write(
    client: Client,
    topic: str,
    path: Path,
    columns: Sequence[str] | None,
    decode: Decode | None,
    options: _Options,
) -> int:
    """Write the state to a file; returns the number of records."""
    from drumlin.cli.terminal import record_files
    from drumlin.client import tables
    from drumlin.client.state import snapshots

    batches: Iterable[pa.RecordBatch]
    if decode == "json":  # all values must have a common type
        table = client.snapshot(
            topic,
            at=options["at"],
            partitions=options["partitions"],
            allow_inexact=options["allow_inexact"],
            columns=columns,
            decode=decode,
        )
        schema, batches = table.schema, table.to_batches()
    else:
        empty = snapshots.schema_of(columns, headers=False).empty_table()
        schema = tables.decoded(empty, decode, topic).schema
        batches = client.snapshot_batches(topic, columns=columns, decode=decode, **options)
    records = 0
    with record_files.replacing(path, schema) as write, output.progress() as progress:
        task = progress.add_task(topic, total=None, done="")
        for batch in batches:
            write(batch)
            records += batch.num_rows
            progress.update(task, completed=records, done=f"{records:,} records")
    return records


snapshot_command: Final = command(snapshot, epilog=EXAMPLES)
