"""`drumlin top`: a cluster's rates, lag and sizes, live on a terminal, or as JSON."""

from __future__ import annotations

import asyncio
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from drumlin.cli.reach.broker_http import BrokerHttp, broker_at, broker_on
from drumlin.cli.reach.cluster import Cluster, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.terminal import output, standard_output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.cli.top.look import take_look
from drumlin.cli.top.pace import pause_s
from drumlin.cli.top.rates import Looks, Picture, View
from drumlin.cli.top.screen import COLUMNS, Screen, showing, shown_rows
from drumlin.peer.options import PeerOptions

_EXIT_USAGE: Final = 2
#: A broker that hangs must not stop the picture for long.
_OPTIONS: Final = PeerOptions(
    client_id="drumlin-top", request_timeout_ms=5_000, connect_timeout_ms=5_000
)


def top(
    view: Annotated[View, Option("--view", help="What to show first, or once.")] = View.TOPICS,
    pattern: Annotated[
        str,
        Option(
            "--filter", metavar="PATTERN", help="Names: a part of them, or a pattern with * and ?."
        ),
    ] = "",
    interval: Annotated[
        float,
        Option("--interval", "-i", metavar="SECONDS", min=0, max=3600, help="The time to a look."),
    ] = 2.0,
    once: Annotated[
        bool, Option("--once", help="Two looks, one --interval apart, and their rates.")
    ] = False,
    internal: Annotated[bool, Option("--internal", help="Show internal topics too.")] = False,
    data: Annotated[
        Path | None,
        Option(
            "--data",
            "-d",
            metavar="DIR",
            help="The data directory of a Drumlin broker here: cleaner, stalls, bytes out.",
        ),
    ] = None,
    http: Annotated[
        list[str] | None,
        Option(
            "--http",
            metavar="HOST:PORT",
            help="The same from a drumlin.metrics.listener; repeatable.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show rates of topics, lag of groups, sizes and disks of brokers, live. Press ? for the keys.

    Works with any Kafka cluster. Records are counted by offsets, bytes by how much the leaders'
    logs have grown; rates are those of the last 10 s. Bytes out are known to brokers alone: they
    are shown if --data or --http name all brokers of the cluster. A look never takes more than a
    tenth of the time, or 30 s apart: with very many partitions, there are fewer than --interval
    says.

    --json prints a line for each look, until Ctrl-C; with --once a single document.
    """
    if not (as_json or once or (sys.stdout.isatty() and sys.stdin.isatty())):
        raise output.Failure("there is no terminal: say --once, or --json", _EXIT_USAGE)
    own = [broker_at(each) for each in http or ()]
    if data is not None:
        broker = broker_on(data)
        if broker is None:
            raise output.Failure(f"no broker runs on {data}")
        own.append(broker)
    views = [each for each in View if own or each is not View.CLEANER]
    if view not in views:
        raise output.Failure("the cleaner is known to a broker alone: say --data or --http")
    screen = _first_screen(view, pattern, internal)
    with connect(bootstrap, command_config, _OPTIONS) as cluster:
        if once:
            _show_once(_two_looks(cluster, own, interval), screen, as_json)
        elif as_json:
            _stream(cluster, own, interval)
        else:
            from drumlin.cli.top.live import live

            cluster.run(live(cluster.connections, own, screen, views, interval))


def _first_screen(view: View, pattern: str, internal: bool) -> Screen:
    return dataclasses.replace(showing(view), pattern=pattern, shows_internal=internal)


def _two_looks(cluster: Cluster, own: Sequence[BrokerHttp], interval: float) -> Picture:
    looks = Looks()
    looks.add(cluster.run(take_look(cluster.connections, own)))
    cluster.run(asyncio.sleep(interval))
    return looks.add(cluster.run(take_look(cluster.connections, own)))


def _stream(cluster: Cluster, own: Sequence[BrokerHttp], interval: float) -> None:
    looks = Looks()

    async def look() -> float:
        began = asyncio.get_running_loop().time()
        picture = looks.add(await take_look(cluster.connections, own))
        if picture.seconds is not None:
            print(output.json_line(picture.as_json()), flush=True)
        return asyncio.get_running_loop().time() - began

    while True:
        took_s = cluster.run(look())
        standard_output.check_read()
        cluster.run(asyncio.sleep(pause_s(interval, took_s)))


def _show_once(picture: Picture, screen: Screen, as_json: bool) -> None:
    if as_json:
        output.show_json(picture.as_json())
        return
    rows = shown_rows(picture, screen)
    output.show_rows(rows, COLUMNS[screen.view], as_json=False)


top_command: Final = command(
    top,
    epilog=examples(
        "drumlin top -b broker1:9092",
        "drumlin top --view groups --filter 'report*'",
        "drumlin top --data /var/lib/drumlin",
        "drumlin top --once --json | jq '.groups[] | select(.lag > 1000)'",
    ),
)
