"""A classic group of very many members: requests about all of them leave others their turn."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from broker.answers import answer_of
from broker.group_client import Client, with_client
from broker.sessions import SESSION
from coordination.groups.classic.scenario import subscription
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import describe_groups, join_group
from drumlin.broker.loop.later import begun
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import (
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    SyncRequest,
)
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import RequestHeader
from drumlin.wire.protocol.describe_groups import DescribeGroupsRequest
from rig.data.messages import request_shape
from rig.time.stepped import Stepped
from rig.time.ways_given import WaysGiven

_MEMBERS = 600
_JOIN_GROUP = 11
_DESCRIBE_GROUPS = 15


def _context(client: Client, api_key: int, version: int) -> RequestContext:
    connection = SimpleNamespace(peer_host="127.0.0.1", session=SESSION, counts=ListenerCounts())
    header = RequestHeader(api_key, version, 1, "c", 0)
    return RequestContext(client.broker, connection, header, SESSION)  # type: ignore[arg-type]


def _request() -> JoinRequest:
    protocols = (("range", subscription("t")),)
    return JoinRequest("", None, "", "/h", 60_000, 60_000, "consumer", protocols, False)


async def _stable(groups: GroupCoordinator) -> list[JoinAnswer]:
    members = await asyncio.gather(*(groups.join("g", _request()) for _ in range(_MEMBERS)))
    said = [(each.member_id, b"mine") for each in members]
    leader = next(each for each in members if each.members)
    asked = SyncRequest(leader.member_id, None, 1, "consumer", "range", said)
    assert (await groups.sync("g", asked)).error is ErrorCode.none
    return members


def test_the_leader_is_told_of_all_members_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(client: Client) -> None:
        shape = request_shape("join_group", 3)
        zero = _request()
        request = shape(
            "JoinGroupRequest",
            group_id="g",
            session_timeout=join_group._MILLISECOND * zero.session_timeout_ms,
            rebalance_timeout=join_group._MILLISECOND * zero.rebalance_timeout_ms,
            member_id="",
            protocol_type="consumer",
            protocols=(shape("JoinGroupRequestProtocol", name="range", metadata=b"bad"),),
        )
        context = _context(client, _JOIN_GROUP, 3)
        answer = begun(join_group.handle(context, request))
        ways = WaysGiven(monkeypatch)
        others = [client.broker.groups.join("g", _request()) for _ in range(_MEMBERS)]
        joined = await asyncio.gather(*others)
        assert not any(each.members for each in joined)
        assert len((await answer_of(answer)).members) == _MEMBERS + 1
        assert ways.count >= _MEMBERS

    with_client(run)


def _describing(client: Client) -> Stepped[Any]:
    asked = DescribeGroupsRequest(groups=("g",))
    return Stepped(describe_groups.handle(_context(client, _DESCRIBE_GROUPS, 5), asked))


def test_a_group_is_described_in_steps() -> None:
    async def run(client: Client) -> None:
        await _stable(client.broker.groups)
        work = _describing(client)
        for _ in range(_MEMBERS):
            next(work)
        (described,) = work.to_end().groups
        assert described.group_state == "Stable"
        assert len(described.members) == _MEMBERS
        assert {each.member_assignment for each in described.members} == {b"mine"}
        assert {each.member_metadata for each in described.members} == {subscription("t")}

    with_client(run)


def test_a_group_that_changes_is_described_as_it_is_then() -> None:
    async def run(client: Client) -> None:
        groups = client.broker.groups
        members = await _stable(groups)
        work = _describing(client)
        for _ in range(_MEMBERS // 2):
            next(work)
        await groups.leave("g", [LeavingMember(each.member_id) for each in members[5:]])
        (described,) = work.to_end().groups
        assert described.group_state == "PreparingRebalance"
        assert len(described.members) == 5
        assert {each.member_metadata for each in described.members} == {b""}

    with_client(run)


def test_a_group_that_changes_all_the_time_is_described_nevertheless() -> None:
    async def run(client: Client) -> None:
        groups = client.broker.groups
        members = await _stable(groups)
        work = _describing(client)
        described = None
        for steps in range(10 * _MEMBERS):
            try:
                next(work)
            except StopIteration as done:
                (described,) = done.value.groups
                break
            if steps % 100 == 0:  # each time it is another generation, or being prepared
                groups.leave("g", [LeavingMember(members.pop().member_id)])
                for each in members if steps % 200 else []:
                    asked = _request()
                    groups.join("g", _joining(asked, each.member_id))
        assert described is not None
        assert described.group_id == "g"
        assert len(described.members) > _MEMBERS // 2

    with_client(run)


def _joining(request: JoinRequest, member_id: str) -> JoinRequest:
    return JoinRequest(
        member_id,
        None,
        request.client_id,
        request.client_host,
        request.rebalance_timeout_ms,
        request.session_timeout_ms,
        request.protocol_type,
        request.protocols,
        False,
    )
