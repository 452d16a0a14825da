"""`drumlin restore`: write a topic's state at a point, or its records up to it, to a new topic.

It can be run again after a kill: readers of committed records see all of the restore or nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from drumlin.cli.reach.command_config import CommandConfigAlone, TopicConfigs, settings_of
from drumlin.cli.reach.completion import complete_topic
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.names import existing_partitions
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    examples,
    parse_assignments,
)
from drumlin.cli.terminal.points import HELP, AllowInexact, parse_point

if TYPE_CHECKING:
    from drumlin.client.restore.restoring import RestoreReport

EXAMPLES: Final = examples(
    "drumlin restore --topic accounts --at 2026-01-31T12:00 --to accounts-january",
    "drumlin restore --topic accounts --at 0:120,1:98 --records --to accounts-replay",
    "drumlin restore --topic accounts --first 1000 --to accounts-sample -c retention.ms=60000",
)

Source = Annotated[
    str,
    Option("--topic", "-t", metavar="TOPIC", help="The topic to read.", complete=complete_topic),
]
Target = Annotated[
    str, Option("--to", metavar="TOPIC", help="The topic to write: a new one, or an empty one.")
]
Records = Annotated[
    bool,
    Option("--records", help="Write all records up to the point, tombstones too, not the state."),
]
First = Annotated[
    int | None,
    Option("--first", metavar="N", min=1, help="Write the first N records of each partition."),
]
Compression = Annotated[
    str, Option("--compression", metavar="CODEC", help="gzip, snappy, lz4, zstd or none.")
]
Timeout = Annotated[
    int | None,
    Option(
        "--timeout",
        metavar="SECONDS",
        min=1,
        help="The timeout; default: the broker's limit for transactions.",
    ),
]


def restore(
    topic: Source,
    to: Target,
    at: Annotated[str, Option("--at", metavar="POINT", help=f"The point: {HELP}")] = "end",
    records: Records = False,
    first: First = None,
    config: TopicConfigs = None,
    compression: Compression = "none",
    timeout: Timeout = None,
    allow_inexact: AllowInexact = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfigAlone = None,
    as_json: AsJson = False,
) -> None:
    """Write a topic's state at a point, or its records up to it, into a new topic.

    The restore is one transaction: readers of committed records see all of it, or nothing. If the
    command is killed, run it again; if the restore was complete, it says so and changes nothing.
    """
    from drumlin.client.client import connect

    point = parse_point(at)
    configs = parse_assignments(config or [])
    with (
        connect(bootstrap, **settings_of(command_config)) as client,
        output.progress() as progress,
    ):
        partitions = existing_partitions(client, topic, None)
        task = progress.add_task(topic, total=None, done="")
        written = 0

        def tell(count: int) -> None:
            nonlocal written
            written += count
            progress.update(task, completed=written, done=f"{written:,} records")

        report = client.restore(
            topic,
            to,
            at=point.of(client, topic, partitions),
            records=records,
            first=first,
            configs=configs,
            compression=compression,
            timeout_ms=None if timeout is None else timeout * 1000,
            allow_inexact=allow_inexact,
            on_progress=tell,
        )
    _show(report, as_json)


def _show(report: RestoreReport, as_json: bool) -> None:
    if as_json:
        output.show_json(
            {
                "topic": report.source,
                "to": report.target,
                "was_there": report.was_there,
                "records": None if report.was_there else report.record_count,
                "end_offsets": report.end_offsets,
            }
        )
        return
    ends = ",".join(f"{each}:{offset}" for each, offset in sorted(report.end_offsets.items()))
    whence = f"{report.source} up to {ends}"
    if report.was_there:
        output.note(f"{report.target} is there already: restored from {whence}")
    else:
        output.note(
            f"{output.counted(report.record_count, 'record')} in {report.target}, from {whence}"
        )


restore_command: Final = command(restore, epilog=EXAMPLES)
