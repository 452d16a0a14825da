"""A request with very many entries is answered, and meanwhile so is everybody else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.answers import answer_of
from broker.group_client import TOPIC_ID, Client, with_client
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import list_groups, list_offsets
from drumlin.broker.router import Router
from drumlin.coordination.groups.commit import Commit, Position
from drumlin.replication.partition import PartitionRegistry
from drumlin.turns import Turns, Work
from drumlin.wire.errors import ErrorCode
from drumlin.wire.messages import RequestHeader, encode_request, parse_response, response_shape
from rig.drumlin_server import DrumlinServer
from rig.messages import build
from rig.waiting import wait_until

_ENTRIES = 60_000


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


def _group(number: int) -> dict[str, Any]:
    partitions = list(range(_ENTRIES // 600))
    return {
        "group_id": f"group-{number}",
        "topics": [{"name": "nope", "partition_indexes": partitions}],
    }


def _names(count: int) -> list[str]:
    return [f"group-{each}" for each in range(count)]


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("list_offsets", 5, _list_offsets(_ENTRIES)),
        ("offset_for_leader_epoch", 4, _epochs(_ENTRIES)),
        ("describe_producers", 0, _producers(_ENTRIES)),
        ("offset_fetch", 8, {"groups": [_group(each) for each in range(600)]}),
        ("describe_groups", 5, {"groups": _names(_ENTRIES)}),
        ("consumer_group_describe", 0, {"group_ids": _names(_ENTRIES)}),
    ],
)
def test_others_are_answered_meanwhile(
    server: DrumlinServer, api: str, version: int, fields: dict[str, Any]
) -> None:
    request = b"".join(encode_request(api, version, 1, "many", build(api, version, fields)))
    answered = threading.Event()
    frames: list[bytes] = []

    def ask() -> None:
        with server.connect(timeout_s=60) as client:
            client.send_bytes(request)
            frames.append(client.receive_frame())
        answered.set()

    with server.connect() as other:
        asking = threading.Thread(target=ask)
        asking.start()
        count = 0
        while not answered.is_set():
            other.ask("api_versions", 0)
            count += 1
        asking.join()
    _, answer = parse_response(api, version, frames[0])
    assert _entries(answer) == _ENTRIES
    assert count > 40, "hardly anybody else was answered"


def _entries(answer: Any) -> int:
    if hasattr(answer, "groups") and hasattr(answer.groups[0], "topics"):
        return sum(len(topic.partitions) for group in answer.groups for topic in group.topics)
    if hasattr(answer, "groups"):
        return len(answer.groups)
    return sum(len(topic.partitions) for topic in answer.topics)


def test_a_small_request_with_a_large_answer() -> None:
    """ListGroups may be interrupted after each group."""

    async def scenario(client: Client) -> None:
        for number in range(30):
            position = Position("t", TOPIC_ID, 0, 5, -1, "")
            client.broker.groups.commit(Commit(f"group-{number}", "", None, -1, None, [position]))
        context = RequestContext(client.broker, None, RequestHeader(16, 4, 1, "c", 0))  # type: ignore[arg-type]
        request = SimpleNamespace(states_filter=(), types_filter=())
        work = list_groups.handle(context, request, response_shape("list_groups", 4))
        steps = 0
        try:
            while True:
                next(work)
                steps += 1
        except StopIteration as done:
            assert len(done.value.groups) == 30
        assert steps >= 30

    with_client(scenario)


def test_large_requests_are_worked_on_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read, a request takes many times the memory of its frame."""
    parts = encode_request(
        "list_offsets", 5, 1, "c", build("list_offsets", 5, _list_offsets(9_000))
    )
    frame = memoryview(b"".join(parts))[4:]
    handle, active, most = list_offsets.handle, 0, 0

    def counted(*arguments: Any) -> Work[Any]:
        nonlocal active, most
        active += 1
        most = max(most, active)
        yield
        answer = yield from handle(*arguments)
        active -= 1
        return answer

    async def scenario() -> None:
        monkeypatch.setattr(list_offsets, "handle", counted)
        threads = SimpleNamespace(computing=asyncio.to_thread)
        broker: Any = SimpleNamespace(turns=Turns(), threads=threads)
        broker.metadata = SimpleNamespace(image=SimpleNamespace(topics={}))
        broker.partitions = PartitionRegistry()
        router = Router(broker)
        connection: Any = SimpleNamespace(lanes={}, closed=False)
        started = [router.dispatch(connection, frame) for _ in range(10)]
        answers = await asyncio.gather(*map(answer_of, started))
        assert len(answers) == 10
        assert all(answers)

    asyncio.run(scenario())
    assert active == 0
    assert 0 < most <= 2
