"""A group's regular expressions, resolved by whoever joins: by the rights of that member."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker.group_client import Client, ms, with_client
from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target
from drumlin.broker.rights.authorizer import Authorizer
from drumlin.broker.rights.session import ANONYMOUS
from drumlin.coordination.groups.consumer import member_change
from rig.data.messages import request_shape

_GROUP = "g"
#: Of a member of the first protocol, for topic "t".
_SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t" + bytes(4)


@pytest.mark.parametrize("sees", [True, False])
def test_of_a_classic_member(monkeypatch: pytest.MonkeyPatch, *, sees: bool) -> None:
    monkeypatch.setattr(member_change, "_REFRESH_INTERVAL_MIN_MS", -1)
    authorizer = Authorizer((), allows_without_acls=False)

    def allow(kind: Kind, name: str, operation: Operation) -> None:
        rule = Rule(ANONYMOUS, "*", operation, Permission.ALLOW)
        authorizer.put(Target(kind, Pattern.LITERAL, name), frozenset({rule}))

    async def scenario(client: Client) -> None:
        await _heartbeat(client)
        await _until_resolved(client, frozenset({"t"}))
        allow(Kind.GROUP, _GROUP, Operation.ALL)
        if sees:
            allow(Kind.TOPIC, "t", Operation.DESCRIBE)
        client.broker.authorizer = authorizer
        client.broker.groups.rights_changed()
        assert (await _join(client)).error_code == 0
        await _until_resolved(client, frozenset({"t"} if sees else ()))

    with_client(scenario)


async def _heartbeat(client: Client) -> None:
    await client.ask(
        "consumer_group_heartbeat",
        1,
        group_id=_GROUP,
        member_id="first",
        member_epoch=0,
        rebalance_timeout=ms(60_000),
        subscribed_topic_names=None,
        subscribed_topic_regex="t.*",
        topic_partitions=(),
    )


async def _join(client: Client) -> Any:
    shape = request_shape("join_group", 3)
    protocol = shape("JoinGroupRequestProtocol", name="range", metadata=_SUBSCRIPTION)
    return await client.ask(
        "join_group",
        3,
        group_id=_GROUP,
        session_timeout=ms(30_000),
        rebalance_timeout=ms(30_000),
        member_id="",
        protocol_type="consumer",
        protocols=(protocol,),
    )


async def _until_resolved(client: Client, expected: frozenset[str]) -> None:
    for _ in range(1000):
        if _resolved(client) == expected:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{_resolved(client)} are resolved, not {expected}")


def _resolved(client: Client) -> frozenset[str] | None:
    found = client.broker.groups.consumer_group(_GROUP).regexes.get("t.*")
    return None if found is None else found.topics
