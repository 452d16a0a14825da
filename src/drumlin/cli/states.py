"""`drumlin state`: read the keyed states that processes keep in changelogs."""

from __future__ import annotations

from typing import Annotated, Final

from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.reach.completion import complete_group
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, Bootstrap, examples
from drumlin.cli.terminal.places import TIMES, parse_time
from drumlin.cli.terminal.points import AllowInexact
from drumlin.cli.terminal.record_text import show_lines

_ROWS_AT_A_TIME: Final = 8192  # limits memory, as rows are large as Python objects

app = Group(help="Look into the keyed states of drumlin.state.")


@app.add(
    epilog=examples(
        "drumlin state dump counts counts",
        "drumlin state dump counts counts --at -2h",
        "drumlin state dump counts counts | jq -r 'select(.key == \"ACME\") | .value'",
    )
)
def dump(
    group: Annotated[str, Argument("GROUP", help="The consumer group.", complete=complete_group)],
    state: Annotated[str, Argument("STATE", help="The name of the state.")],
    at: Annotated[
        str | None,
        Option(
            "--at",
            metavar="TIME",
            help=f"The state as it was at {TIMES}. Now by default.",
        ),
    ] = None,
    allow_inexact: AllowInexact = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
) -> None:
    """Print the committed keys and values as lines of JSON.

    Bytes that are not text are {"base64": …}. Standard error names the offset of the input up to
    which each partition's state goes.
    """
    from drumlin.client.client import connect
    from drumlin.client.needs_arrow import needing_arrow

    with needing_arrow():
        from drumlin.state.changelog import Changelog

    time = None if at is None else parse_time(at)
    with connect(bootstrap, **settings_of(command_config)) as client:
        for each in Changelog(client, group, state).read(at=time, allow_inexact=allow_inexact):
            if each.positions:
                reached = ", ".join(f"{at.topic} offset {at.offset}" for at in each.positions)
                output.note(
                    f"partition {each.partition}: {output.counted(each.rows.num_rows, 'key')} "
                    f"as of {reached}"
                )
            for batch in each.rows.to_batches(max_chunksize=_ROWS_AT_A_TIME):
                keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
                show_lines(
                    output.json_line({"partition": each.partition, "key": key, "value": value})
                    for key, value in zip(keys, values, strict=True)
                )
