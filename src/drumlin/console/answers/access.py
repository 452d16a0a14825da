"""Users, ACLs and quotas: each part by itself, as a user may be allowed to see one only."""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Awaitable, Callable
from typing import Any, Final

from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission
from drumlin.console.answers.asking import Answer, ask_any, check
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import KafkaError
from drumlin.wire.protocol.describe_acls import DescribeAclsRequest
from drumlin.wire.protocol.describe_client_quotas import DescribeClientQuotasRequest
from drumlin.wire.protocol.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)

_ROWS_MAX: Final = 5_000
_ANY: Final = 1
_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


async def access(connections: BrokerConnections) -> Answer:
    """For users, ACLs and quotas: the rows, or the `error` why there are none."""
    users, acls, quotas = await asyncio.gather(
        _part(_users, connections), _part(_acls, connections), _part(_quotas, connections)
    )
    return {"users": users, "acls": acls, "quotas": quotas}


async def _part(
    ask: Callable[[BrokerConnections], Awaitable[list[Answer]]], connections: BrokerConnections
) -> Answer:
    try:
        rows = await ask(connections)
    except (KafkaError, PeerError) as error:
        return {"rows": [], "not_shown": 0, "error": str(error)}
    return {"rows": rows[:_ROWS_MAX], "not_shown": max(len(rows) - _ROWS_MAX, 0), "error": None}


async def _users(connections: BrokerConnections) -> list[Answer]:
    """The users with a SCRAM password in the cluster; others are known to listeners only."""
    request = DescribeUserScramCredentialsRequest(users=None)
    api_name = "describe_user_scram_credentials"
    response: Any = await ask_any(connections, api_name, request)
    check(api_name, response.error_code, "users", response.error_message)
    return sorted(
        (
            {
                "user": each.user,
                "mechanisms": [
                    f"{_MECHANISMS.get(info.mechanism, info.mechanism)}, {info.iterations} rounds"
                    for info in each.credential_infos
                ],
            }
            for each in response.results
        ),
        key=lambda row: str(row["user"]),
    )


async def _acls(connections: BrokerConnections) -> list[Answer]:
    request = DescribeAclsRequest(
        resource_type_filter=_ANY,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    response: Any = await ask_any(connections, "describe_acls", request)
    check("describe_acls", response.error_code, "ACLs", response.error_message)
    return [
        {
            "kind": _word(Kind, resource.resource_type),
            "name": resource.resource_name,
            "pattern": _word(Pattern, resource.pattern_type),
            "principal": acl.principal,
            "permission": _word(Permission, acl.permission_type),
            "operation": _word(Operation, acl.operation),
            "host": acl.host,
        }
        for resource in sorted(
            response.resources, key=lambda each: (each.resource_type, each.resource_name)
        )
        for acl in resource.acls
    ]


async def _quotas(connections: BrokerConnections) -> list[Answer]:
    request = DescribeClientQuotasRequest(components=(), strict=False)
    response: Any = await ask_any(connections, "describe_client_quotas", request)
    check("describe_client_quotas", response.error_code, "quotas", response.error_message)
    return [
        {
            "entity": [
                [each.entity_type, each.entity_name] for each in entry.entity
            ],  # a name of None stands for the default
            "key": value.key,
            "value": value.value,
        }
        for entry in response.entries or ()
        for value in sorted(entry.values, key=lambda each: str(each.key))
    ]


def _word(numbers: type[enum.IntEnum], number: int) -> str:
    """The name of a number; the number itself if it is newer than this version."""
    try:
        return numbers(number).name.lower().replace("_", "-")
    except ValueError:
        return str(number)
