"""Handlers of the group APIs, with ordinary and odd requests in every version.

The expected answers are what Apache Kafka 4.3.0 gave to the same requests. Each answer is also
encoded and parsed in its version. Behind the handlers are a real coordinator and image; only
the log is in memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable
from typing import Any

import pytest

from broker.group_client import TOPIC_ID, Client, ms, versions, with_client
from drumlin.broker.apis.served import SERVED
from drumlin.wire.error_codes import ErrorCode
from rig.data.messages import request_shape

UNKNOWN_ID = uuid.UUID(int=12)
SUBSCRIPTION = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"
NONE = ErrorCode.none


# -- requests ----------------------------------------------------------------------------------


def join(client: Client, version: int, group_id: str, **fields: Any) -> Awaitable[Any]:
    protocols = fields.pop("protocols", (("range", SUBSCRIPTION),))
    shape = request_shape("join_group", version)
    return client.send(
        "join_group",
        version,
        **{
            "group_id": group_id,
            "session_timeout": ms(10_000),
            "rebalance_timeout": ms(10_000),
            "member_id": "",
            "group_instance_id": None,
            "protocol_type": "consumer",
            "protocols": tuple(
                shape("JoinGroupRequestProtocol", name=name, metadata=metadata)
                for name, metadata in protocols
            ),
            **fields,
        },
    )


async def sync(client: Client, version: int, group_id: str, **fields: Any) -> Any:
    fields = {
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (),
        **fields,
    }
    return await client.ask("sync_group", version, group_id=group_id, **fields)


async def commit(
    client: Client, version: int, group_id: str, topics: list[tuple[Any, list[Any]]], **fields: Any
) -> Any:
    shape = request_shape("offset_commit", version)
    fields = {
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "retention_time": ms(-1),
        **fields,
    }
    return await client.ask(
        "offset_commit",
        version,
        group_id=group_id,
        topics=tuple(
            shape(
                "OffsetCommitRequestTopic",
                name=topic,
                topic_id=topic,
                partitions=tuple(
                    shape(
                        "OffsetCommitRequestPartition",
                        partition_index=partition,
                        committed_offset=offset,
                        committed_leader_epoch=-1,
                        committed_metadata=metadata,
                    )
                    for partition, offset, metadata in partitions
                ),
            )
            for topic, partitions in topics
        ),
        **fields,
    )


def committed(response: Any) -> list[tuple[Any, list[tuple[int, str]]]]:
    return [
        (
            getattr(topic, "name", None) or topic.topic_id,
            [(part.partition_index, part.error_code.name) for part in topic.partitions],
        )
        for topic in response.topics
    ]


async def fetch(client: Client, version: int, *asked: tuple[str, Any]) -> Any:
    """What is asked of each group: None for everything, or topics with their partitions."""
    shape = request_shape("offset_fetch", version)
    topic_class = "OffsetFetchRequestTopics" if version >= 8 else "OffsetFetchRequestTopic"
    key = "topic_id" if version >= 10 else "name"
    groups = [
        (
            group_id,
            topics
            and tuple(
                shape(topic_class, **{key: topic}, partition_indexes=tuple(partitions))
                for topic, partitions in topics
            ),
        )
        for group_id, topics in asked
    ]
    if version < 8:
        ((group_id, topics),) = groups
        return await client.ask("offset_fetch", version, group_id=group_id, topics=topics)
    return await client.ask(
        "offset_fetch",
        version,
        groups=tuple(
            shape("OffsetFetchRequestGroup", group_id=group_id, topics=topics)
            for group_id, topics in groups
        ),
    )


def fetched(group: Any) -> list[tuple[Any, list[tuple[int, int, str, str]]]]:
    return [
        (
            getattr(topic, "name", None) or topic.topic_id,
            [
                (part.partition_index, part.committed_offset, part.metadata, part.error_code.name)
                for part in topic.partitions
            ],
        )
        for topic in group.topics
    ]


async def describe(client: Client, version: int, *group_ids: str, operations: bool = False) -> Any:
    response = await client.ask(
        "describe_groups", version, groups=group_ids, include_authorized_operations=operations
    )
    return response.groups


# -- membership --------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions("join_group"))
def test_one_member_from_its_join_to_its_leave(version: int) -> None:
    async def run(client: Client) -> None:
        answer = await join(client, version, "g")
        if version >= 4:
            assert answer.error_code is ErrorCode.member_id_required
            assert answer.member_id.startswith("c-")
            answer = await join(client, version, "g", member_id=answer.member_id)
        assert (answer.error_code, answer.generation_id) == (NONE, 1)
        assert (answer.protocol_name, answer.leader) == ("range", answer.member_id)
        assert answer.members[0].metadata == SUBSCRIPTION
        if version >= 7:
            assert answer.protocol_type == "consumer"
        member_id = answer.member_id
        sync_version = min(version, SERVED["sync_group"][1])
        assignment = request_shape("sync_group", sync_version)(
            "SyncGroupRequestAssignment", member_id=member_id, assignment=b"all"
        )
        synced = await sync(
            client,
            sync_version,
            "g",
            generation_id=1,
            member_id=member_id,
            assignments=(assignment,),
        )
        assert (synced.error_code, synced.assignment) == (NONE, b"all")
        beat = await client.ask(
            "heartbeat",
            min(version, 4),
            group_id="g",
            generation_id=1,
            member_id=member_id,
            group_instance_id=None,
        )
        assert beat.error_code is NONE
        (described,) = await describe(client, min(version, 6), "g")
        assert (described.group_state, described.protocol_data) == ("Stable", "range")
        (member,) = described.members
        assert (member.client_id, member.client_host) == ("c", "/127.0.0.1")
        assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"all")
        listed = await client.ask("list_groups", min(version, 5), states_filter=(), types_filter=())
        assert [group.group_id for group in listed.groups] == ["g"]
        left = await _leave(client, min(version, 5), "g", (member_id, None))
        assert left.error_code is NONE
        (described,) = await describe(client, 6, "g")
        assert (described.group_state, described.members) == ("Empty", ())

    with_client(run)


@pytest.mark.parametrize("version", versions("join_group"))
def test_joins_that_are_refused(version: int) -> None:
    async def run(client: Client) -> None:
        no_name = "" if version < 7 else None
        for fields, code, member_id in (
            ({"member_id": "zzz"}, ErrorCode.unknown_member_id, "zzz"),
            ({"protocols": ()}, ErrorCode.inconsistent_group_protocol, ""),
            ({"protocol_type": ""}, ErrorCode.inconsistent_group_protocol, ""),
            ({"session_timeout": ms(5_999)}, ErrorCode.invalid_session_timeout, ""),
            ({"session_timeout": ms(1_800_001)}, ErrorCode.invalid_session_timeout, ""),
            ({"group_id": ""}, ErrorCode.invalid_group_id, ""),
        ):
            answer = await join(client, version, **{"group_id": "g", **fields})
            assert (answer.error_code, answer.member_id) == (code, member_id)
            assert (answer.generation_id, answer.protocol_name) == (-1, no_name)
            assert (answer.leader, answer.members) == ("", ())

    with_client(run)


@pytest.mark.parametrize("version", versions("sync_group"))
def test_syncs_that_are_refused(version: int) -> None:
    async def run(client: Client) -> None:
        member_id = (await join(client, 3, "g")).member_id
        for fields, code in (
            ({"protocol_type": None}, ErrorCode.inconsistent_group_protocol),
            ({"protocol_name": "other"}, ErrorCode.inconsistent_group_protocol),
            ({"generation_id": 0}, ErrorCode.illegal_generation),
            ({"member_id": "m"}, ErrorCode.unknown_member_id),
            ({"group_id": "none"}, ErrorCode.unknown_member_id),
            ({"group_id": ""}, ErrorCode.invalid_group_id),
        ):
            if version < 5 and code is ErrorCode.inconsistent_group_protocol:
                continue
            defaults = {"group_id": "g", "generation_id": 1, "member_id": member_id}
            answer = await sync(client, version, **{**defaults, **fields})
            assert (answer.error_code, answer.assignment) == (code, b"")
            assert getattr(answer, "protocol_type", None) is None

    with_client(run)


def test_a_leave_overtakes_the_join_that_it_follows() -> None:
    """A consumer that closes during a rebalance need not wait for its end."""

    async def run(client: Client) -> None:
        first = await join(client, 3, "g")
        waiting = join(client, 3, "g", protocols=(("range", b"other"),))
        (described,) = await describe(client, 0, "g")
        assert described.group_state == "PreparingRebalance"
        joining = next(
            each.member_id for each in described.members if each.member_id != first.member_id
        )
        await _leave(client, 0, "g", (joining, None))
        assert (await waiting).error_code is ErrorCode.unknown_member_id

    with_client(run)


@pytest.mark.parametrize("version", versions("leave_group"))
def test_leaving(version: int) -> None:
    async def run(client: Client) -> None:
        await join(client, 5, "g", group_instance_id="red")
        if version < 3:
            for group_id, member_id, code in (
                ("g", "q", ErrorCode.unknown_member_id),
                ("none", "q", ErrorCode.unknown_member_id),
                ("", "q", ErrorCode.invalid_group_id),
            ):
                left = await _leave(client, version, group_id, (member_id, None))
                assert left.error_code is code
            return
        left = await _leave(client, version, "g", ("y", None), ("", "no"), ("", None), ("", "red"))
        assert left.error_code is NONE
        unknown = ErrorCode.unknown_member_id
        assert [each.error_code for each in left.members] == [unknown, unknown, unknown, NONE]
        assert [each.group_instance_id for each in left.members] == [None, "no", None, "red"]
        left = await _leave(client, version, "none", ("q", None))
        assert (left.error_code, left.members[0].error_code) == (NONE, unknown)
        left = await _leave(client, version, "", ("q", None))
        assert (left.error_code, left.members) == (ErrorCode.invalid_group_id, ())
        assert (await _leave(client, version, "g")).members == ()

    with_client(run)


async def _leave(client: Client, version: int, group_id: str, *members: Any) -> Any:
    if version < 3:
        ((member_id, _),) = members
        return await client.ask("leave_group", version, group_id=group_id, member_id=member_id)
    shape = request_shape("leave_group", version)
    identities = tuple(
        shape("MemberIdentity", member_id=member_id, group_instance_id=instance_id)
        for member_id, instance_id in members
    )
    return await client.ask("leave_group", version, group_id=group_id, members=identities)


@pytest.mark.parametrize("version", versions("heartbeat"))
def test_heartbeats_that_are_refused(version: int) -> None:
    async def run(client: Client) -> None:
        member_id = (await join(client, 3, "g")).member_id
        for group_id, generation_id, sender, code in (
            ("g", 1, member_id, NONE),
            ("g", 2, member_id, ErrorCode.illegal_generation),
            ("g", 1, "m", ErrorCode.unknown_member_id),
            ("none", 1, "m", ErrorCode.unknown_member_id),
            ("", 1, "m", ErrorCode.invalid_group_id),
        ):
            beat = await client.ask(
                "heartbeat",
                version,
                group_id=group_id,
                generation_id=generation_id,
                member_id=sender,
                group_instance_id=None,
            )
            assert beat.error_code is code

    with_client(run)


# -- offsets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 10))
def test_commits_by_name(version: int) -> None:
    async def run(client: Client) -> None:
        topics = [
            ("nope", [(1, 8, "")]),
            ("t", [(7, 1, ""), (0, 11, "x" * 5_000), (1, 12, None), (-1, 1, "")]),
        ]
        # Partitions that do not exist come first.
        assert committed(await commit(client, version, "g", topics)) == [
            ("nope", [(1, "unknown_topic_or_partition")]),
            (
                "t",
                [
                    (7, "unknown_topic_or_partition"),
                    (-1, "unknown_topic_or_partition"),
                    (0, "offset_metadata_too_large"),
                    (1, "none"),
                ],
            ),
        ]
        twice = [("t", [(0, 1, "")]), ("t", [(1, 2, "")]), ("t", [])]
        assert committed(await commit(client, version, "g", twice)) == [
            ("t", [(0, "none")]),
            ("t", [(1, "none")]),
        ]
        assert committed(await commit(client, version, "g", [])) == []
        assert committed(await commit(client, version, "", [("t", [(0, 1, "")])])) == [
            ("t", [(0, "none")])
        ]
        fields = {"generation_id_or_member_epoch": 3, "member_id": "m"}
        ((_, [(_, code)]),) = committed(
            await commit(client, version, "none", [("t", [(0, 1, "")])], **fields)
        )
        assert code == ("illegal_generation" if version < 9 else "group_id_not_found")

    with_client(run)


def test_commits_by_id() -> None:
    async def run(client: Client) -> None:
        topics = [
            (TOPIC_ID, [(1, 9, "x"), (5, 1, "")]),
            (UNKNOWN_ID, [(0, 1, None)]),
        ]
        assert committed(await commit(client, 10, "g", topics)) == [
            (TOPIC_ID, [(5, "unknown_topic_or_partition"), (1, "none")]),
            (UNKNOWN_ID, [(0, "unknown_topic_id")]),
        ]
        response = await fetch(
            client,
            10,
            ("g", None),
            ("g", [(UNKNOWN_ID, [1]), (TOPIC_ID, [1, 9])]),
            ("none", None),
        )
        everything, asked, none = (fetched(group) for group in response.groups)
        assert everything == [(TOPIC_ID, [(1, 9, "x", "none")])]
        assert asked == [
            (TOPIC_ID, [(1, 9, "x", "none"), (9, -1, "", "none")]),
            (UNKNOWN_ID, [(1, -1, "", "unknown_topic_id")]),
        ]
        assert none == []

    with_client(run)


@pytest.mark.parametrize("version", range(1, 10))
def test_fetches_by_name(version: int) -> None:
    async def run(client: Client) -> None:
        await commit(client, 6, "g", [("t", [(0, 7, "é"), (1, 8, "")])])
        asked = [("t", [0, 2]), ("nope", [1])]
        response = await fetch(client, version, ("g", asked))
        group = response.groups[0] if version >= 8 else response
        assert fetched(group) == [
            ("t", [(0, 7, "é", "none"), (2, -1, "", "none")]),
            ("nope", [(1, -1, "", "none")]),
        ]
        if version >= 2:
            response = await fetch(client, version, ("g", None))
            group = response.groups[0] if version >= 8 else response
            assert fetched(group) == [("t", [(0, 7, "é", "none"), (1, 8, "", "none")])]
            assert group.error_code is NONE
        for partition in range(4):
            client.broker.groups.resign(partition)
        response = await fetch(client, version, ("g", asked))
        if version < 2:
            assert fetched(response)[1] == ("nope", [(1, -1, "", "not_coordinator")])
        else:
            group = response.groups[0] if version >= 8 else response
            assert (group.error_code, group.topics) == (ErrorCode.not_coordinator, ())

    with_client(run)


def test_offsets_are_deleted() -> None:
    async def run(client: Client) -> None:
        await commit(client, 6, "g", [("t", [(0, 7, ""), (1, 8, "")])])
        deleted = await _delete_offsets(client, "g", [("t", [0, 5]), ("nope", [0])])
        assert deleted.error_code is NONE
        assert committed(deleted) == [
            ("t", [(5, "unknown_topic_or_partition"), (0, "none")]),
            ("nope", [(0, "unknown_topic_or_partition")]),
        ]
        assert fetched((await fetch(client, 9, ("g", None))).groups[0]) == [
            ("t", [(1, 8, "", "none")])
        ]
        for group_id, code in (
            ("", ErrorCode.invalid_group_id),
            ("none", ErrorCode.group_id_not_found),
        ):
            deleted = await _delete_offsets(client, group_id, [("nope", [0])])
            assert (deleted.error_code, deleted.topics) == (code, ())
        await join(client, 3, "live")
        deleted = await _delete_offsets(client, "live", [("t", [0])])
        assert committed(deleted) == [("t", [(0, "group_subscribed_to_topic")])]
        await join(client, 3, "connect", protocol_type="connect")
        deleted = await _delete_offsets(client, "connect", [("t", [0])])
        assert deleted.error_code is ErrorCode.non_empty_group

    with_client(run)


async def _delete_offsets(client: Client, group_id: str, topics: Any) -> Any:
    shape = request_shape("offset_delete", 0)
    return await client.ask(
        "offset_delete",
        0,
        group_id=group_id,
        topics=tuple(
            shape(
                "OffsetDeleteRequestTopic",
                name=topic,
                partitions=tuple(
                    shape("OffsetDeleteRequestPartition", partition_index=partition)
                    for partition in partitions
                ),
            )
            for topic, partitions in topics
        ),
    )


# -- groups ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", versions("describe_groups"))
def test_groups_that_are_not_there(version: int) -> None:
    async def run(client: Client) -> None:
        await commit(client, 6, "simple", [("t", [(0, 7, "")])])
        simple, none = await describe(client, version, "simple", "none", operations=True)
        assert (simple.error_code, simple.group_state) == (NONE, "Empty")
        assert (simple.protocol_type, simple.protocol_data) == ("", "")
        assert none.group_state == "Dead"
        missing = ErrorCode.group_id_not_found if version >= 6 else NONE
        assert none.error_code is missing
        if version >= 6:
            assert none.error_message == "there is no group none"
        if version >= 3:
            assert simple.authorized_operations == 3400
            unknown = -(2**31) if version >= 6 else 3400
            assert none.authorized_operations == unknown

    with_client(run)


@pytest.mark.parametrize("version", versions("list_groups"))
def test_groups_are_listed_by_state_and_type(version: int) -> None:
    async def run(client: Client) -> None:
        await commit(client, 6, "empty", [("t", [(0, 7, "")])])
        await join(client, 3, "completing")

        async def listed(*states: str, types: tuple[str, ...] = ()) -> list[str]:
            response = await client.ask(
                "list_groups", version, states_filter=states, types_filter=types
            )
            assert response.error_code is NONE
            return sorted(group.group_id for group in response.groups)

        assert await listed() == ["completing", "empty"]
        if version >= 4:
            assert await listed(" eMPTY ", "x") == ["empty"]
            assert await listed("") == []
        if version >= 5:
            assert await listed(types=("CLASSIC", "consumer")) == ["completing", "empty"]
            assert await listed(types=("share",)) == []
            assert await listed(types=("foo",)) == []

    with_client(run)


@pytest.mark.parametrize("version", versions("delete_groups"))
def test_groups_are_deleted(version: int) -> None:
    async def run(client: Client) -> None:
        await commit(client, 6, "g", [("t", [(0, 7, "")])])
        await join(client, 3, "live")
        response = await client.ask(
            "delete_groups", version, groups_names=("g", "none", "g", "", "live")
        )
        assert [(each.group_id, each.error_code.name) for each in response.results] == [
            ("g", "none"),
            ("none", "group_id_not_found"),
            ("", "group_id_not_found"),
            ("live", "non_empty_group"),
        ]

    with_client(run)


# -- coordinators and producer ids -------------------------------------------------------------


@pytest.mark.parametrize("version", versions("find_coordinator"))
def test_coordinators_are_found(version: int) -> None:
    async def run(client: Client) -> None:
        for key_type, code in ((0, NONE), (2, ErrorCode.invalid_request), (-1, None)):
            if version == 0 and key_type:
                continue
            code = ErrorCode.invalid_request if code is None else code
            where = ("localhost", 9092, 1) if code is NONE else ("", -1, -1)
            response = await client.ask(
                "find_coordinator", version, key="g", coordinator_keys=("g", ""), key_type=key_type
            )
            found = response.coordinators if version >= 4 else (response,)
            assert len(found) == (2 if version >= 4 else 1)
            for each in found:
                assert each.error_code is code
                assert (each.host, each.port, each.node_id) == where

    with_client(run)


@pytest.mark.parametrize("version", versions("init_producer_id"))
def test_producer_ids(version: int) -> None:
    async def run(client: Client) -> None:
        async def ask(transactional_id: str | None = None, **fields: Any) -> Any:
            defaults = {"transaction_timeout": ms(60_000), "producer_id": -1, "producer_epoch": -1}
            return await client.ask(
                "init_producer_id",
                version,
                transactional_id=transactional_id,
                **{**defaults, **fields},
            )

        for expected, fields in ((4_000, {}), (4_001, {"producer_id": 5, "producer_epoch": 3})):
            answer = await ask(**fields)
            assert (answer.error_code, answer.producer_id) == (NONE, expected)
            assert answer.producer_epoch == 0
        refused = [
            (await ask("", transaction_timeout=ms(0)), ErrorCode.invalid_request),
        ]
        if version >= 3:
            refused.append((await ask(producer_id=5), ErrorCode.invalid_request))
            refused.append((await ask(producer_epoch=0), ErrorCode.invalid_request))
        for answer, code in refused:
            assert (answer.error_code, answer.producer_id) == (code, -1)

    with_client(run)
