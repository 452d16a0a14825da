"""A request with very many entries is answered, and meanwhile so is everybody else."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker.answers import answer_of
from broker.group_client import TOPIC_ID, Client, ms, with_client
from broker.sessions import SESSION
from drumlin.broker import router as router_module
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import consumer_group_describe, list_groups, list_offsets
from drumlin.broker.router import Router
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.coordination.groups.consumer.member import Progress
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import RequestHeader, encode_request, parse_response
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.committed_offsets import commit_offsets, position
from rig.data.messages import build, request_shape
from rig.time.stepped import Stepped
from rig.waiting import wait_until

_ENTRIES = 10_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    settings = {"offsets.topic.num.partitions": "1"}
    server = DrumlinServer(tmp_path_factory.mktemp("server"), settings)
    server.start()
    with server.connect() as client:
        client.ask("find_coordinator", 3, key="group-0", key_type=0)  # makes its topic

        def coordinates() -> bool:
            answer = client.ask("describe_groups", 5, groups=["group-0"])
            return bool(answer.groups[0].error_code is ErrorCode.none)

        wait_until(coordinates, "the group coordinator")
    yield server
    server.close()
    server.check_output()


def _list_offsets(count: int) -> dict[str, Any]:
    partitions = [{"partition_index": each, "timestamp": -1} for each in range(count)]
    return {"replica_id": -1, "topics": [{"name": "nope", "partitions": partitions}]}


def _epochs(count: int) -> dict[str, Any]:
    partitions = [{"partition": each, "leader_epoch": 0} for each in range(count)]
    return {"replica_id": -1, "topics": [{"topic": "nope", "partitions": partitions}]}


def _producers(count: int) -> dict[str, Any]:
    return {"topics": [{"name": "nope", "partition_indexes": list(range(count))}]}


def _markers(count: int) -> dict[str, Any]:
    marker = {"producer_id": 1, "producer_epoch": 0, "coordinator_epoch": 0}
    return {"markers": [marker | _producers(count)]}


def _group(number: int) -> dict[str, Any]:
    partitions = list(range(_ENTRIES // 400))
    return {
        "group_id": f"group-{number}",
        "topics": [{"name": "nope", "partition_indexes": partitions}],
    }


def _names(count: int) -> list[str]:
    return [f"group-{each}" for each in range(count)]


def _topics(count: int, /, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"topic-{each}", **fields} for each in range(count)]


def _one_topic(count: int, /, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"name": "nope", "partitions": [{"partition_index": i, **fields} for i in range(count)]}
    ]


def _resources(count: int, /, **fields: Any) -> dict[str, Any]:
    resources = [
        {"resource_type": 2, "resource_name": f"topic-{each}", **fields} for each in range(count)
    ]
    return {"resources": resources}


def _transaction(count: int) -> dict[str, Any]:
    topics = [{"name": "nope", "partitions": list(range(count))}]
    return {
        "v3_and_below_transactional_id": "id",
        "v3_and_below_producer_id": 1,
        "v3_and_below_producer_epoch": 0,
        "v3_and_below_topics": topics,
    }


def _share_offsets(count: int) -> dict[str, Any]:
    topics = [{"topic_name": "nope", "partitions": list(range(count))}]
    return {"groups": [{"group_id": "group-0", "topics": topics}]}


def _groups(count: int) -> dict[str, Any]:
    topics = [{"topic_name": "nope", "partitions": [0]}]
    return {"groups": [{"group_id": f"group-{each}", "topics": topics} for each in range(count)]}


def _begin_at(count: int) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "start_offset": 5}]
    topics = [{"topic_name": f"topic-{each}", "partitions": partitions} for each in range(count)]
    return {"group_id": "group-0", "topics": topics}


_CREATED = {
    "topics": _topics(9_999, num_partitions=1, replication_factor=1),
    "timeout": 60_000,
    "validate_only": True,
}


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("list_offsets", 5, _list_offsets(_ENTRIES)),
        ("offset_for_leader_epoch", 4, _epochs(_ENTRIES)),
        ("describe_producers", 0, _producers(_ENTRIES)),
        ("offset_fetch", 8, {"groups": [_group(each) for each in range(400)]}),
        ("write_txn_markers", 1, _markers(_ENTRIES)),
        ("describe_groups", 5, {"groups": _names(_ENTRIES)}),
        ("consumer_group_describe", 0, {"group_ids": _names(_ENTRIES)}),
        ("share_group_describe", 1, {"group_ids": _names(_ENTRIES)}),
        ("describe_share_group_offsets", 0, _share_offsets(_ENTRIES)),
        ("describe_share_group_offsets", 0, _groups(_ENTRIES)),
        ("alter_share_group_offsets", 0, _begin_at(_ENTRIES)),
        ("describe_transactions", 0, {"transactional_ids": _names(_ENTRIES)}),
        ("find_coordinator", 4, {"key_type": 0, "coordinator_keys": _names(_ENTRIES)}),
        ("delete_groups", 2, {"groups_names": _names(_ENTRIES)}),
        ("metadata", 9, {"topics": _topics(_ENTRIES), "allow_auto_topic_creation": False}),
        ("describe_topic_partitions", 0, {"topics": _topics(_ENTRIES), "cursor": None}),
        ("create_topics", 4, _CREATED),
        ("create_topics", 4, _CREATED | {"timeout": 0}),
        ("create_partitions", 2, {"topics": _topics(_ENTRIES, count=2, assignments=None)}),
        ("delete_topics", 5, {"topic_names": _names(_ENTRIES), "timeout": 1000}),
        ("delete_records", 2, {"topics": _one_topic(_ENTRIES, offset=0), "timeout": 1000}),
        ("describe_configs", 4, _resources(_ENTRIES, configuration_keys=None)),
        ("alter_configs", 2, _resources(_ENTRIES, configs=[])),
        ("incremental_alter_configs", 1, _resources(_ENTRIES, configs=[])),
        ("add_partitions_to_txn", 3, _transaction(_ENTRIES)),
        ("txn_offset_commit", 3, {"group_id": "group-0", "topics": _one_topic(6 * _ENTRIES)}),
    ],
)
def test_others_are_answered_meanwhile(
    server: DrumlinServer, api: str, version: int, fields: dict[str, Any]
) -> None:
    request = b"".join(encode_request(api, version, 1, "many", build(api, version, fields)))
    expected = {"create_topics": 9_999, "txn_offset_commit": 6 * _ENTRIES}
    expected["metadata"] = _ENTRIES + 1  # the broker too
    for _ in range(5):  # on a busy machine we may be the ones who have no time to ask
        frame, count = _answered_beside(server, request)
        _, answer = parse_response(api, version, frame)
        assert _entries(answer) == expected.get(api, _ENTRIES)
        if count > 8:
            break
    assert count > 8, "hardly anybody else was answered"


def _answered_beside(server: DrumlinServer, request: bytes) -> tuple[bytes, int]:
    """The answer, and how many others were answered from when the request was whole."""
    answered = threading.Event()
    frames: list[bytes] = []
    with server.connect(timeout_s=60) as client, server.connect() as other:
        client.send_bytes(request[:-1])
        for _ in range(20):  # by then the rest has been received, too
            other.ask("api_versions", 0)

        def ask() -> None:
            client.send_bytes(request[-1:])
            frames.append(client.receive_frame())
            answered.set()

        asking = threading.Thread(target=ask)
        asking.start()
        count = 0
        while not answered.is_set():
            other.ask("api_versions", 0)
            count += 1
        asking.join()
    return frames[0], count


def _entries(answer: Any) -> int:
    """The elements of the answer's innermost arrays, as far as they are structures."""
    counted = 0
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            counted += sum(_entries(each) for each in value)
    return counted or 1


def test_a_small_request_with_a_large_answer() -> None:
    """ListGroups may be interrupted after each group."""

    async def scenario(client: Client) -> None:
        for number in range(30):
            one = position("t", TOPIC_ID, 0, 5, -1, "")
            commit_offsets(
                client.broker.groups, Commit(f"group-{number}", "", None, -1, None, [one])
            )
        context = RequestContext(client.broker, None, RequestHeader(16, 4, 1, "c", 0), SESSION)  # type: ignore[arg-type]
        request = SimpleNamespace(states_filter=(), types_filter=())
        work = Stepped(list_groups.handle(context, request))
        steps = 0
        try:
            while True:
                next(work)
                steps += 1
        except StopIteration as done:
            assert len(done.value.groups) == 30
        assert steps >= 30

    with_client(scenario)


def test_the_many_topics_of_one_member_are_described_in_turns() -> None:
    """Those of its assignment, and those that it gives up: it may hold partitions of both."""
    topics = [UUID(int=each + 1) for each in range(100)]
    progress = Progress(5, assigned={each: {0: 5} for each in topics}, revoking={topics[0]: {1: 4}})
    work = Stepped(consumer_group_describe._held(progress))
    steps = 0
    with pytest.raises(StopIteration) as done:
        while True:
            next(work)
            steps += 1
    assert steps > len(topics)
    assert done.value.value == {each: {0} for each in topics} | {topics[0]: {0, 1}}


def test_large_requests_are_worked_on_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, a request takes many times the memory of its frame."""
    parts = encode_request(
        "list_offsets", 5, 1, "c", build("list_offsets", 5, _list_offsets(9_000))
    )
    frame = memoryview(b"".join(parts))[4:]
    handle, active, most = list_offsets.handle, 0, 0

    async def counted(*arguments: Any) -> Any:
        nonlocal active, most
        active += 1
        most = max(most, active)
        await give_way()
        answer = await handle(*arguments)
        active -= 1
        return answer

    async def scenario() -> None:
        monkeypatch.setattr(list_offsets, "handle", counted)
        apart = asyncio.to_thread
        threads = SimpleNamespace(making=apart, make_later=lambda call, *args: call(*args))
        broker: Any = SimpleNamespace(threads=threads, authorizer=None, quotas=None)
        broker.metadata = SimpleNamespace(image=SimpleNamespace(topics={}))
        broker.partitions = PartitionRegistry(lambda *_: False)
        router = Router(broker)
        connection: Any = SimpleNamespace(closed=False, session=SESSION, counts=ListenerCounts())
        started = [router.dispatch(connection, frame) for _ in range(10)]
        answers = await asyncio.gather(*map(answer_of, started))
        assert len(answers) == 10
        assert all(answers)

    asyncio.run(scenario())
    assert active == 0
    assert 0 < most <= 2


def test_very_many_members_leave_in_pieces() -> None:
    """Each is answered all the same, in the order in which they were named."""

    async def scenario(client: Client) -> None:
        await client.ask(
            "join_group",
            3,
            group_id="g",
            session_timeout=ms(10_000),
            rebalance_timeout=ms(10_000),
            member_id="",
            protocol_type="consumer",
            protocols=(request_shape("join_group", 3)("JoinGroupRequestProtocol", **_RANGE),),
        )
        (member_id,) = client.broker.groups.classic_group("g").membership.members
        names = [f"nobody-{each}" for each in range(1_200)]
        names[700] = member_id
        identity = request_shape("leave_group", 4)
        members = tuple(
            identity("MemberIdentity", member_id=each, group_instance_id=None) for each in names
        )
        answer = await client.ask("leave_group", 4, group_id="g", members=members)
        assert [each.member_id for each in answer.members] == names
        left = [each.member_id for each in answer.members if each.error_code is ErrorCode.none]
        assert left == [member_id]

    with_client(scenario)


_RANGE: dict[str, Any] = {"name": "range", "metadata": b""}


def test_what_would_take_a_turn_to_be_read_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight thousand elements, of the smallest there are."""
    read_by: list[int] = []
    parse_request = router_module.parse_request

    def parsing(*arguments: Any) -> Any:
        read_by.append(threading.get_ident())
        return parse_request(*arguments)

    async def scenario() -> None:
        monkeypatch.setattr(router_module, "parse_request", parsing)
        broker: Any = SimpleNamespace(authorizer=None, quotas=None)
        broker.threads = SimpleNamespace(making=asyncio.to_thread)
        broker.metadata = SimpleNamespace(image=SimpleNamespace(topics={}))
        fields = {"topics": [{"name": "", "partition_indexes": ()}] * 8000}
        parts = encode_request(
            "describe_producers", 0, 1, "c", build("describe_producers", 0, fields)
        )
        connection: Any = SimpleNamespace(closed=False, session=SESSION, counts=ListenerCounts())
        started = Router(broker).dispatch(connection, memoryview(b"".join(parts))[4:])
        assert await answer_of(started)

    asyncio.run(scenario())
    assert len(read_by) == 1
    assert threading.get_ident() not in read_by
