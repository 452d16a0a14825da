"""`drumlin context`: name clusters, with their logins, and choose the one that commands work on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.cli.terminal import contexts, output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import AsJson, Yes, confirm, examples

#: Properties whose values are shown. Any other value could be a secret.
_SHOWN: Final = (contexts.BOOTSTRAP, "client.id", "security.protocol", "sasl.mechanism")
_SHOWN_ENDS: Final = (".location", ".type", ".ms", ".algorithm", ".protocol", ".protocols")
_HIDDEN: Final = "(hidden)"
_COLUMNS: Final = ("context", "bootstrap", "protocol", "is_current")

app = Group(
    help="Name clusters, and choose the one that commands work on.",
    epilog=examples(
        "drumlin context add prod --bootstrap broker:9093 --config client.properties",
        "drumlin context use prod",
        "drumlin --context test topics list",
    ),
)


def _complete(_: click.Context, incomplete: str) -> list[str]:
    return [each for each in contexts.names() if each.startswith(incomplete)]


Name = Annotated[str, Argument("NAME", help="A context.", complete=_complete)]


@app.add(
    epilog=examples(
        "drumlin context add test --bootstrap 127.0.0.1:9092",
        "drumlin context add prod --bootstrap broker:9093 --config client.properties --use",
    )
)
def add(
    name: Annotated[str, Argument("NAME", help="The name of the new context.")],
    bootstrap: Annotated[
        str | None,
        Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT[,…]",
            help="Brokers to connect to first; default: bootstrap.servers of the file.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        Option(
            "--config",
            metavar="FILE",
            help="Properties of Kafka's clients, which are copied: TLS, login.",
        ),
    ] = None,
    use: Annotated[bool, Option("--use", help="Make it the current context.")] = False,
    replace: Annotated[bool, Option("--replace", help="Replace a context of this name.")] = False,
) -> None:
    """Name a cluster. The file is private: only its owner can read it.

    No broker is asked. Passwords come from the file: there is no option for them, as other users
    of a machine see command lines.
    """
    from drumlin.cli.reach.command_config import settings_of
    from drumlin.config.properties import decode_properties, encode_properties
    from drumlin.peer.broker_connections import parse_bootstrap
    from drumlin.securing.private_files import write_private

    path = contexts.path_of(name)
    if path.exists() and not replace:
        raise output.Failure(f"there is a context {name} already: say --replace")
    settings_of(config)  # an error in the file is reported now
    properties = {} if config is None else decode_properties(config.read_bytes())
    for key, text in properties.items():
        if key.endswith(".location") and text:  # commands run in any folder
            properties[key] = str(Path(text).absolute())
    addresses = bootstrap or properties.get(contexts.BOOTSTRAP)
    if not addresses:
        raise click.BadParameter("no address: give --bootstrap, or a file with bootstrap.servers")
    parse_bootstrap(addresses)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, encode_properties(properties | {contexts.BOOTSTRAP: addresses}))
    output.note(f"context {name}: {path}")
    if use:
        contexts.choose(name)


@app.add("list", epilog=examples("drumlin context list", "drumlin context list --json"))
def list_(as_json: AsJson = False) -> None:
    """List the contexts."""
    rows = [_row(each) for each in contexts.names()]
    output.show_rows(rows, _COLUMNS, as_json=as_json, empty="no contexts: drumlin context add")


def _row(name: str) -> dict[str, Any]:
    try:
        properties = contexts.properties_of(name)
    except output.Failure as error:
        output.note(f"drumlin: {error}")
        properties = {}
    return {
        "context": name,
        "bootstrap": properties.get(contexts.BOOTSTRAP),
        "protocol": properties.get("security.protocol", "PLAINTEXT") if properties else None,
        "is_current": name == contexts.current(),
    }


@app.add(epilog=examples("drumlin context use prod", "drumlin context use --none"))
def use(
    name: Annotated[str | None, Argument("[NAME]", help="A context.", complete=_complete)] = None,
    none: Annotated[bool, Option("--none", help="Let no context be the current one.")] = False,
) -> None:
    """Make a context the current one: commands work on its cluster.

    It is used where neither the command line nor the environment names a cluster.
    """
    if (name is None) != none:
        raise click.BadParameter("give either a context or --none")
    if name is not None:
        contexts.bootstrap_of(name)
    contexts.choose(name)


@app.add(epilog=examples("drumlin context show", "drumlin context show prod --json"))
def show(
    name: Annotated[
        str | None,
        Argument("[NAME]", help="A context; default: the current one.", complete=_complete),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the properties of a context, without anything that may be secret."""
    name = name or contexts.current()
    if name is None:
        raise output.Failure("there is no current context: drumlin context use NAME")
    rows = [
        {"property": key, "value": value if _is_shown(key) else _HIDDEN}
        for key, value in contexts.properties_of(name).items()
    ]
    output.show_rows(rows, ("property", "value"), as_json=as_json, title=name)


def _is_shown(key: str) -> bool:
    return key in _SHOWN or key.endswith(_SHOWN_ENDS)


@app.add(epilog=examples("drumlin context remove test --yes"))
def remove(name: Name, yes: Yes = False) -> None:
    """Remove a context's file; if it is the current context, there is none afterwards."""
    path = contexts.path_of(name)
    if not path.exists():
        contexts.existing(name)
    confirm(f"Remove context {name}, with the login in {path}?", yes)
    path.unlink()
    if contexts.current() == name:
        contexts.choose(None)
