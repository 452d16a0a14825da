"""`drumlin quotas`: list and change the quotas of users, client ids and addresses."""

from __future__ import annotations

from typing import Annotated, Any, Final

import click

from drumlin.cli.reach.cluster import Cluster, check, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Group, Option
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    Bootstrap,
    Yes,
    confirm,
    examples,
    parse_assignments,
)
from drumlin.peer.peer_error import only
from drumlin.wire.protocol.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from drumlin.wire.protocol.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

_EXACT, _DEFAULT = 0, 1
_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
_DEFAULT_NAME: Final = "<default>"
_COLUMNS: Final = ("user", "client_id", "ip", "key", "value")

#: The entity's names by type; None stands for the default of a type.
_Entity = dict[str, str | None]

app = Group(help="Show and change the quotas of users, clients and addresses.")

User = Annotated[str | None, Option("--user", metavar="NAME", help="Of this user.")]
DefaultUser = Annotated[
    bool, Option("--default-user", help="Of each user without a quota of their own.")
]
ClientId = Annotated[str | None, Option("--client-id", metavar="NAME", help="Of this client id.")]
DefaultClientId = Annotated[
    bool, Option("--default-client-id", help="Of each client id without a quota of its own.")
]
Ip = Annotated[str | None, Option("--ip", metavar="ADDRESS", help="Of this IP address.")]
DefaultIp = Annotated[
    bool, Option("--default-ip", help="Of each address without a quota of its own.")
]


@app.add(
    "list",
    epilog=examples(
        "drumlin quotas list",
        "drumlin quotas list --user alice",
        "drumlin quotas list --default-client-id --json",
    ),
)
def list_(
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """List quotas: all of them, or those of a user, a client id or an address."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    with connect(bootstrap, command_config) as cluster:
        found = _described(cluster, entity, is_strict=False)
    rows = [
        {
            "user": _shown(names, _USER),
            "client_id": _shown(names, _CLIENT_ID),
            "ip": _shown(names, _IP),
            "key": key,
            "value": _number(value),
        }
        for names, values in found
        for key, value in sorted(values.items())
    ]
    rows.sort(key=lambda row: [str(row[column] or "") for column in _COLUMNS])
    output.show_rows(rows, _COLUMNS, as_json=as_json, empty="no quotas")


@app.add(
    "set",
    epilog=examples(
        "drumlin quotas set producer_byte_rate=10000000 --user alice",
        "drumlin quotas set consumer_byte_rate=5e6 request_percentage=50 --client-id reports",
        "drumlin quotas set producer_byte_rate=1e6 --user alice --default-client-id",
        "drumlin quotas set connection_creation_rate=20 --default-ip",
    ),
)
def set_(
    assignments: Annotated[
        list[str], Argument("KEY=VALUE…", help="What they may use in a second.")
    ],
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only let the broker check the change.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Set quotas of a user, a client id, both, or an address; other keys stay as they are."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    wanted = {key: _rate(key, text) for key, text in parse_assignments(assignments).items()}
    _require(entity)
    ops = [OpData(key=key, value=value, remove=False) for key, value in wanted.items()]
    with connect(bootstrap, command_config) as cluster:
        _alter(cluster, entity, ops, dry_run=dry_run)
    _report(entity, list(wanted), "accepted" if dry_run else "set", not dry_run, as_json)


@app.add(
    epilog=examples(
        "drumlin quotas remove producer_byte_rate --user alice",
        "drumlin quotas remove --client-id reports --yes",
    )
)
def remove(
    keys: Annotated[
        list[str] | None, Argument("[KEY]…", help="What is limited; without, all.")
    ] = None,
    user: User = None,
    default_user: DefaultUser = False,
    client_id: ClientId = None,
    default_client_id: DefaultClientId = False,
    ip: Ip = None,
    default_ip: DefaultIp = False,
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Remove quotas of exactly this user, client id, both, or address."""
    entity = _entity(user, default_user, client_id, default_client_id, ip, default_ip)
    _require(entity)
    with connect(bootstrap, command_config) as cluster:
        described = _described(cluster, entity, is_strict=True)
        existing = sorted(key for _, values in described for key in values)
        for key in keys or []:
            if key not in existing:
                raise output.Failure(f"{_told(entity)} has no quota {key}")
        if not existing:
            raise output.Failure(f"{_told(entity)} has no quotas")
        removed = keys or existing
        if not keys:
            confirm(f"Remove {', '.join(removed)} of {_told(entity)}?", yes)
        ops = [OpData(key=key, value=0.0, remove=True) for key in removed]
        _alter(cluster, entity, ops, dry_run=False)
    _report(entity, removed, "removed", True, as_json)


def _entity(
    user: str | None,
    default_user: bool,
    client_id: str | None,
    default_client_id: bool,
    ip: str | None,
    default_ip: bool,
) -> _Entity:
    entity: _Entity = {}
    for entity_type, name, is_default in (
        (_USER, user, default_user),
        (_CLIENT_ID, client_id, default_client_id),
        (_IP, ip, default_ip),
    ):
        if name is not None and is_default:
            raise click.BadParameter(f"give --{entity_type} or --default-{entity_type}, not both")
        if name is not None or is_default:
            entity[entity_type] = name
    if _IP in entity and len(entity) > 1:
        raise click.BadParameter("a quota is of an address, or of users and client ids")
    return entity


def _require(entity: _Entity) -> None:
    if not entity:
        raise click.BadParameter("say whose quota: give --user, --client-id, --ip, or a default")


def _rate(key: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.BadParameter(f"{key}={text}: {text!r} is not a number") from None


def _described(
    cluster: Cluster, entity: _Entity, *, is_strict: bool
) -> list[tuple[_Entity, dict[str, float]]]:
    components = tuple(
        ComponentData(
            entity_type=entity_type, match_type=_DEFAULT if name is None else _EXACT, match=name
        )
        for entity_type, name in entity.items()
    )
    request = DescribeClientQuotasRequest(components=components, strict=is_strict)
    answer: Any = cluster.ask_any("describe_client_quotas", request)
    check(answer.error_code, "quotas", answer.error_message)
    return [
        (
            {each.entity_type: each.entity_name for each in entry.entity},
            {each.key: each.value for each in entry.values},
        )
        for entry in answer.entries or ()
    ]


def _alter(cluster: Cluster, entity: _Entity, ops: list[OpData], *, dry_run: bool) -> None:
    names = tuple(EntityData(entity_type=each, entity_name=entity[each]) for each in entity)
    entry = RequestEntryData(entity=names, ops=tuple(ops))
    request = AlterClientQuotasRequest(entries=(entry,), validate_only=dry_run)
    answer: Any = cluster.ask_any("alter_client_quotas", request)
    result = only(answer.entries, _told(entity))
    check(result.error_code, _told(entity), result.error_message)


def _report(entity: _Entity, keys: list[str], done: str, changed: bool, as_json: bool) -> None:
    row = {
        "user": _shown(entity, _USER),
        "client_id": _shown(entity, _CLIENT_ID),
        "ip": _shown(entity, _IP),
        "keys": keys,
        "changed": changed,
    }
    output.show_changes([row], [f"{_told(entity)}: {done} {', '.join(keys)}"], as_json)


def _shown(entity: _Entity, entity_type: str) -> str | None:
    if entity_type not in entity:
        return None
    name = entity[entity_type]
    return _DEFAULT_NAME if name is None else name


def _told(entity: _Entity) -> str:
    return ", ".join(f"{each} {_shown(entity, each)}" for each in entity)


def _number(value: float) -> float | int:
    return int(value) if value.is_integer() else value
