"""`drumlin configs`: the configuration of topics, brokers, loggers and groups, and its changes."""

from __future__ import annotations

import enum
import re
from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.cli.reach.cluster import Cluster, check, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.reach.completion import complete_group, complete_topic
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    examples,
    parse_assignments,
    read_properties,
)
from drumlin.peer.peer_error import only
from drumlin.wire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from drumlin.wire.protocol.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_DEFAULT: Final = 5
_BROKER_ID: Final = re.compile(r"[0-9]{1,10}")
_SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster default",
    4: "static",  # from the file, the environment or the command line: a broker does not say which
    5: "default",
    6: "broker logger",
    7: "client metrics",
    8: "group",
}
_CLUSTER_DEFAULT: Final = "default"  # the broker name that stands for all brokers


class Kind(enum.StrEnum):
    """A kind of thing that can be configured."""

    TOPIC = "topic"
    BROKER = "broker"
    BROKER_LOGGER = "broker-logger"
    GROUP = "group"


_RESOURCE_TYPES: Final = {Kind.TOPIC: 2, Kind.BROKER: 4, Kind.BROKER_LOGGER: 8, Kind.GROUP: 32}

app = Group(help="Show and change configurations.")

KindArgument = Annotated[Kind, Argument(help="What is configured.")]


def _complete_name(context: click.Context, incomplete: str) -> list[str]:
    complete = {Kind.TOPIC: complete_topic, Kind.GROUP: complete_group}
    of_kind = complete.get(Kind(context.params["kind"]))
    return of_kind(context, incomplete) if of_kind else []


Name = Annotated[
    str,
    Argument(
        "NAME",
        help="Its name; for a broker and its loggers the broker's id, or 'default' for all "
        "brokers of the cluster.",
        complete=_complete_name,
    ),
]


@app.add(
    epilog=examples(
        "drumlin configs describe topic flights",
        "drumlin configs describe topic flights --all",
        "drumlin configs describe broker 1 --json",
        "drumlin configs describe broker-logger 1",
    )
)
def describe(
    kind: KindArgument,
    name: Name,
    show_all: Annotated[
        bool, Option("--all", "-a", help="Show keys with default values too.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show what is set (with --all: every key), and where each value comes from."""
    with connect(bootstrap, command_config) as cluster:
        entries = _describe(cluster, kind, _resource_name(kind, name))
    rows = [
        {
            "key": entry.name,
            "value": entry.value,
            "source": _SOURCES.get(entry.config_source, "unknown"),
            "is_read_only": entry.read_only,
            "is_sensitive": entry.is_sensitive,
        }
        for entry in sorted(entries, key=lambda entry: str(entry.name))
        if show_all or entry.config_source != _DEFAULT
    ]
    output.show_rows(
        rows,
        ("key", "value", "source"),
        as_json=as_json,
        title=f"{kind} {name}",
        empty="every key has its default (--all shows them)",
    )


def _describe(cluster: Cluster, kind: Kind, name: str) -> list[Any]:
    resource = DescribeConfigsResource(
        resource_type=_RESOURCE_TYPES[kind],
        resource_name=name,
        configuration_keys=None,
    )
    request = DescribeConfigsRequest(resources=(resource,))
    response = _ask(cluster, kind, name, "describe_configs", request)
    result = only(response.results, f"{kind} {name!r}")
    check(result.error_code, f"{kind} {name!r}", result.error_message)
    return list(result.configs)


@app.add(
    epilog=examples(
        "drumlin configs alter topic flights --set retention.ms=86400000",
        "drumlin configs alter topic flights --append cleanup.policy=compact",
        "drumlin configs alter topic flights --unset retention.ms",
        "drumlin configs alter topic flights --from-file flights.properties --dry-run",
        "drumlin configs alter broker default --set log.cleaner.threads=2",
        "drumlin configs alter broker-logger 1 --set root=DEBUG",
    )
)
def alter(
    kind: KindArgument,
    name: Name,
    to_set: Annotated[
        list[str] | None,
        Option("--set", "-s", metavar="KEY=VALUE", help="Set a key. Repeatable."),
    ] = None,
    from_file: Annotated[
        Path | None,
        Option("--from-file", metavar="FILE", help="Set the keys of a properties file."),
    ] = None,
    to_unset: Annotated[
        list[str] | None,
        Option("--unset", "-u", metavar="KEY", help="Back to the default. Repeatable."),
    ] = None,
    to_append: Annotated[
        list[str] | None,
        Option("--append", metavar="KEY=VALUE", help="Add to a list. Repeatable."),
    ] = None,
    to_subtract: Annotated[
        list[str] | None,
        Option("--subtract", metavar="KEY=VALUE", help="Take from a list. Repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only let the broker check the change.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Change configurations; keys that are not named stay as they are."""
    changes: list[tuple[int, str, str | None]] = [(_DELETE, key, None) for key in to_unset or []]
    # The command line takes precedence over the file.
    requested = (read_properties(from_file) if from_file else {}) | parse_assignments(to_set or [])
    changes += [
        (_SET, key, value) for key, value in requested.items() if key not in (to_unset or [])
    ]
    for operation, given in ((_APPEND, to_append), (_SUBTRACT, to_subtract)):
        changes += [
            (operation, key, value) for key, value in parse_assignments(given or []).items()
        ]
    if not changes:
        raise click.BadParameter(
            "nothing to change: give --set, --from-file, --unset, --append or --subtract"
        )
    with connect(bootstrap, command_config) as cluster:
        _alter(cluster, kind, _resource_name(kind, name), changes, dry_run)
    keys = [key for _, key, _ in changes]
    done = "accepted" if dry_run else "changed"
    output.show_changes(
        [{"kind": kind, "name": name, "keys": keys, "changed": not dry_run}],
        [f"{kind} {name}: {done} {', '.join(keys)}"],
        as_json,
    )


def _alter(
    cluster: Cluster,
    kind: Kind,
    name: str,
    changes: list[tuple[int, str, str | None]],
    dry_run: bool,
) -> None:
    configs = (
        AlterableConfig(name=key, config_operation=operation, value=value)
        for operation, key, value in changes
    )
    resource = AlterConfigsResource(
        resource_type=_RESOURCE_TYPES[kind],
        resource_name=name,
        configs=tuple(configs),
    )
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=dry_run)
    response = _ask(cluster, kind, name, "incremental_alter_configs", request)
    result = only(response.responses, f"{kind} {name!r}")
    check(result.error_code, f"{kind} {name!r}", result.error_message)


def _resource_name(kind: Kind, name: str) -> str:
    return "" if kind is Kind.BROKER and name == _CLUSTER_DEFAULT else name


def _ask(cluster: Cluster, kind: Kind, name: str, api_name: str, request: Any) -> Any:
    """Ask the broker itself about its configuration and loggers, any broker about the rest."""
    if kind is Kind.BROKER_LOGGER or (kind is Kind.BROKER and name):
        if not _BROKER_ID.fullmatch(name):
            raise click.BadParameter(f"{name!r} is no broker id")
        return cluster.ask_broker(int(name), api_name, request)
    return cluster.ask_any(api_name, request)
