"""A right that is taken while a long request is worked on: the rest of it is not done."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from drumlin.broker.handlers import (
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    elect_leaders,
    metadata,
)
from drumlin.broker.rights.acls import Kind, Operation
from drumlin.broker.rights.denials import denied
from rig.data.messages import build

_UNKNOWN, _DENIED, _DENIED_TOPIC = 3, 31, 29
_CHUNK = 500
_PARTITIONS = list(range(2 * _CHUNK))


class _Context:
    """The right is there when the request comes, and for one chunk of it."""

    def __init__(self) -> None:
        self.broker = SimpleNamespace(metadata=SimpleNamespace(image=SimpleNamespace(topics={})))
        self._left = 2

    def may_cluster(self, operation: Operation) -> bool:
        assert operation is Operation.ALTER
        self._left -= 1
        return self._left >= 0


class _Once:
    """The right on a topic is there once."""

    version = 7

    def __init__(self, operation: Operation) -> None:
        config = SimpleNamespace(auto_create_topics_enable=True)
        image = SimpleNamespace(topics={})
        self.broker = SimpleNamespace(config=config, metadata=SimpleNamespace(image=image))
        self._operation, self._left = operation, 1

    def mutations(self, _: int) -> None:
        """There are no quotas."""

    def may(self, operation: Operation, kind: Kind, name: str) -> bool:
        assert (operation, kind, name) == (self._operation, Kind.TOPIC, "t")
        self._left -= 1
        return self._left >= 0

    def sees_cluster(self, _: Operation) -> bool:
        return False

    def topic_right(self, _: Operation) -> None:
        """All topics are seen."""

    def require(self, operation: Operation, kind: Kind, name: str) -> None:
        if not self.may(operation, kind, name):
            raise denied(kind)


def _handled(module: Any, api: str, **fields: Any) -> Any:
    request = build(api, 1, {"timeout": 1000, **fields})
    return asyncio.run(module.handle(_Context(), request))


def test_an_election() -> None:
    topics = [{"topic": "t", "partitions": _PARTITIONS}]
    answer = _handled(elect_leaders, "elect_leaders", election_type=0, topic_partitions=topics)
    assert answer.error_code == _DENIED
    (told,) = answer.replica_election_results
    codes = [int(each.error_code) for each in told.partition_result]
    assert codes == [_UNKNOWN] * _CHUNK + [_DENIED] * _CHUNK


def test_a_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    """The right is there while the request is looked through, and not when a topic is to grow."""

    async def check_nothing(*_: object) -> None:
        """All of them may grow, as far as their number goes."""

    monkeypatch.setattr(create_partitions, "check_added_total", check_nothing)
    monkeypatch.setattr(create_partitions, "plan_partitions", lambda *_: ())
    topic = {"name": "t", "count": 2, "assignments": None}
    request = build("create_partitions", 3, {"topics": [topic], "timeout": 1000})
    context: Any = _Once(Operation.ALTER)
    answer = asyncio.run(create_partitions.handle(context, request))
    assert [(each.name, int(each.error_code)) for each in answer.results] == [("t", _DENIED_TOPIC)]


def test_a_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(create_topics, "check_partition_total", lambda *_: None)
    monkeypatch.setattr(create_topics, "plan_topic", lambda *_: ())
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    request = build("create_topics", 7, {"topics": [topic], "timeout": 1000})
    context: Any = _Once(Operation.CREATE)
    answer = asyncio.run(create_topics.handle(context, request))
    assert [(each.name, int(each.error_code)) for each in answer.topics] == [("t", _DENIED_TOPIC)]


def test_a_topic_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[str] = []

    async def create(_: object, name: str) -> None:
        created.append(name)

    async def respond(*_: object) -> None:
        """The answer may say of a topic that it is not there: it was to be created."""

    monkeypatch.setattr(metadata, "create_automatically", create)
    monkeypatch.setattr(metadata, "_respond", respond)
    fields = {"topics": [{"name": "t"}], "allow_auto_topic_creation": True}
    context: Any = _Once(Operation.CREATE)
    asyncio.run(metadata.handle(context, build("metadata", 7, fields)))
    assert created == []


def test_a_reassignment() -> None:
    wanted = [{"partition_index": each, "replicas": [1]} for each in _PARTITIONS]
    answer = _handled(
        alter_partition_reassignments,
        "alter_partition_reassignments",
        allow_replication_factor_change=True,
        topics=[{"name": "t", "partitions": wanted}],
    )
    assert answer.error_code == _DENIED
    (told,) = answer.responses
    codes = [int(each.error_code) for each in told.partitions]
    assert codes == [_UNKNOWN] * _CHUNK + [_DENIED] * _CHUNK
