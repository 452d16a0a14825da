"""`drumlin materialize`: the last value of every key of a topic, kept in a store."""

from __future__ import annotations

import contextlib
import fnmatch
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import click

from drumlin.cli.reach.command_config import CommandConfig, settings_of
from drumlin.cli.reach.completion import complete_group, complete_topic
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.names import is_pattern
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.client.errors import ClientError
from drumlin.client.needs_arrow import PACKAGES

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.serving.materializing import Progress

#: The interval of progress lines in a log; a terminal has a single line that changes.
_TELL_S: Final = 60.0
#: By which others see what a member of the group is.
_CLIENT_ID: Final = "drumlin-materialize"
#: The time over which the rate is measured.
_RATE_S: Final = 1.0
_COLUMNS: Final = ("topic", "partition", "position", "end", "lag", "offsets_per_s")
EXAMPLES: Final = examples(
    "drumlin materialize users --to sqlite:///users.db --group users-db",
    "drumlin materialize users --to 'sqlite:////var/lib/app.db?table=people' -g app --utf8",
    "drumlin materialize users --to sqlite:///users.db -g users-db --until-end",
    "drumlin materialize users --to postgresql://app@db.example/shop --group users-db",
    "drumlin materialize 'shop.*' --to 'sqlite:///shop.db?table=of_{topic}' --group shop",
    "drumlin materialize users --to sqlite:///users.db --group users-db --status",
    "drumlin materialize users --to redis://127.0.0.1:6379/0 --group users-cache",
    "drumlin materialize users --to opensearch+https://app@search.example:9200 -g users-search",
    "drumlin materialize users --to parquet:/data/lake --group users-lake",
)


def materialize(
    topics: Annotated[
        list[str],
        Argument("TOPIC...", help="Topics with keys, or patterns.", complete=complete_topic),
    ],
    to: Annotated[
        str,
        Option(
            "--to",
            metavar="URL",
            help="The store: sqlite:///PATH[?table=NAME], postgresql://USER@HOST/DATABASE"
            "[?table=NAME], redis://HOST:PORT/NUMBER[?prefix=TEXT], "
            "opensearch+https://USER@HOST:PORT[?index=NAME] or parquet:FOLDER[?table=NAME]; "
            "{topic} in NAME or TEXT is the topic's name.",
        ),
    ],
    group: Annotated[
        str,
        Option(
            "--group",
            "-g",
            help="Processes with the same group share the partitions.",
            complete=complete_group,
        ),
    ],
    instance: Annotated[
        str | None,
        Option(
            "--instance",
            metavar="NAME",
            help="Of this process in the group: after a crash it goes on at once, not after 10 s.",
        ),
    ] = None,
    utf8: Annotated[bool, Option("--utf8", help="Store keys and values as text.")] = False,
    until_end: Annotated[
        bool, Option("--until-end", help="End when the store has all that is there now.")
    ] = False,
    memory: Annotated[
        int,
        Option(
            "--memory",
            metavar="MIB",
            min=1,
            help="For the state of one partition, which is read several times where it is larger.",
        ),
    ] = 1024,
    status: Annotated[
        bool, Option("--status", help="Show how far the store is, and its rate in a second; end.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Keep the last value of every key in a store, up to date, until Ctrl-C.

    A pattern (with * and ?) takes topics that are created later, too.
    """
    from drumlin.client.client import connect
    from drumlin.serving.materialize import materialize as keep
    from drumlin.serving.targets import VARIABLE

    if urlsplit(to).password is not None:
        raise click.BadParameter(f"--to: others see it here; say the password in {VARIABLE}")
    subscribed = _subscribed(topics)
    if status:
        with connect(bootstrap, **settings_of(command_config)) as client, _told():
            output.show_rows(_look(client, subscribed, to, group), _COLUMNS, as_json=as_json)
        return
    if as_json:
        raise click.BadParameter("--json is for --status")
    stop = threading.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: stop.set())

    with (
        connect(bootstrap, **{"client_id": _CLIENT_ID, **settings_of(command_config)}) as client,
        output.progress() as progress,
    ):
        title = ", ".join(topics)
        task = progress.add_task(title, total=None, done="")

        told_s = time.monotonic()

        def show(now: Progress) -> None:
            nonlocal told_s
            progress.update(task, completed=now.records, done=_line(now))
            if not sys.stderr.isatty() and time.monotonic() - told_s >= _TELL_S:
                told_s = time.monotonic()
                output.note(f"{title}: {_line(now)}")

        with _told():
            done = keep(
                client,
                subscribed,
                to,
                group=group,
                instance=instance,
                decode="utf8" if utf8 else None,
                until_end=until_end,
                memory_bytes=memory << 20,
                on_progress=show,
                stop=stop,
            )
    output.note(f"{title}: {_line(done)}")


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Report invalid arguments and missing packages as errors of the command line."""
    try:
        yield
    except ClientError:  # of which one is a ValueError as well
        raise
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    except ModuleNotFoundError as error:
        if error.name in PACKAGES:
            raise  # `app.main` reports it with a remedy
        raise output.Failure(str(error)) from error


def _look(
    client: Client, topics: str | list[str] | re.Pattern[str], to: str, group: str
) -> list[dict[str, Any]]:
    """A row for each partition; the rate is measured over a second."""
    from drumlin.serving.status import look
    from drumlin.serving.targets import open_store

    store = open_store(to, group, None, only_looks=True)
    try:
        before = {each[:2]: each for each in look(client, topics, store)}
        begun_s = time.monotonic()
        time.sleep(_RATE_S)
        rows = []
        for each in look(client, topics, store):
            then = before.get(each[:2], each)
            offsets = (each.position or 0) - (then.position or 0)
            rate = offsets / (time.monotonic() - begun_s)
            rows.append({**each._asdict(), "offsets_per_s": round(rate, 1)})
        return rows
    finally:
        store.close()


def _subscribed(topics: list[str]) -> str | list[str] | re.Pattern[str]:
    """Plain names, or one pattern for all if there is a pattern among them."""
    if any(map(is_pattern, topics)):
        return re.compile("|".join(map(fnmatch.translate, topics)))
    return topics[0] if len(topics) == 1 else topics


def _line(now: Progress) -> str:
    return (
        f"{now.records:,} records, {now.records_per_s:,.0f}/s, "
        f"{now.lag:,} behind in {now.partitions} partitions"
    )


materialize_command: Final = command(materialize, epilog=EXAMPLES)
