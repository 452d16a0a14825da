"""Topics that were encoded once are, byte for byte, what encoding the whole answer gives."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.in_process import running
from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import metadata
from drumlin.broker.parts.cluster_view import OPERATIONS_NOT_ASKED, leadership
from drumlin.broker.rights.acls import ALL_OPERATIONS, Kind
from drumlin.broker.rights.session import ANONYMOUS, Session
from drumlin.broker.topics import topic_pieces
from drumlin.broker.topics.topic_pieces import TopicPieces
from drumlin.broker.traffic.listener_counts import ListenerCounts
from drumlin.metadata.image import BrokerState, ClusterImage, Endpoint, PartitionState, TopicState
from drumlin.metadata.store.changes import TopicDeleted
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO, RequestHeader, encode_response
from drumlin.wire.protocol.metadata import MetadataRequest, MetadataRequestTopic
from rig.data.messages import response_shape
from rig.time.stepped import Stepped

_VERSIONS = range(14)


class _Cluster:
    """The part of a broker that Metadata looks at."""

    def __init__(self) -> None:
        self.node_id = 1
        self.image = ClusterImage("c", 1)
        self.image.put_broker(BrokerState(1, "rack", (Endpoint("P", "host", 9092),)))
        self.metadata = SimpleNamespace(image=self.image)
        self.partitions = PartitionRegistry(lambda *_: False)
        self.directory = SimpleNamespace(is_readable=True)
        self.logs = SimpleNamespace(directories=[self.directory])
        self.config = SimpleNamespace(auto_create_topics_enable=False)
        self.authorizer = None
        self.quotas = None
        self.topic_pieces = TopicPieces(self)  # type: ignore[arg-type]

    def put(self, number: int, partitions: int, replicas: tuple[int, ...] = (1,)) -> TopicState:
        states = tuple(
            PartitionState(index, replicas[0], 3, replicas, replicas) for index in range(partitions)
        )
        topic = TopicState(f"topic-{number}", UUID(int=number + 1), states)
        self.image.put_topic(topic)
        return topic

    def answer(self, version: int, *, names: list[str] | None = None, operations: bool) -> bytes:
        work = self.work(version, names, operations)
        return _bytes(version, to_end(work))

    def work(self, version: int, names: list[str] | None = None, operations: bool = False) -> Any:
        topics = None if names is None else tuple(MetadataRequestTopic(name=name) for name in names)
        header = RequestHeader(3, version, 1, None, 0)
        cluster: Any = self
        connection: Any = SimpleNamespace(counts=ListenerCounts())
        context = RequestContext(cluster, connection, header, Session(ANONYMOUS, "", "P"))
        request = MetadataRequest(
            topics=topics,
            include_topic_authorized_operations=operations,
            include_cluster_authorized_operations=operations,
        )
        return metadata.handle(context, request)

    def plain(self, version: int, names: list[str] | None, operations: bool) -> bytes:
        """The same answer as one message, in which nothing is encoded before."""
        shape = response_shape("metadata", version)
        wanted = list(self.image.topics) if names is None else list(dict.fromkeys(names))
        known = [name for name in wanted if name in self.image.topics]
        missing = [name for name in wanted if name not in self.image.topics]
        message = shape(
            "MetadataResponse",
            throttle_time=ZERO,
            brokers=(
                shape("MetadataResponseBroker", node_id=1, host="host", port=9092, rack="rack"),
            ),
            cluster_id="c",
            controller_id=1,
            topics=tuple(self._plain_topic(shape, name, operations) for name in known + missing),
            cluster_authorized_operations=(
                ALL_OPERATIONS[Kind.CLUSTER] if operations else OPERATIONS_NOT_ASKED
            ),
            error_code=ErrorCode.none,
        )
        return _bytes(version, message)

    def _plain_topic(self, shape: Any, name: str, operations: bool) -> Any:
        topic = self.image.topics.get(name)
        code = ErrorCode.unknown_topic_or_partition if topic is None else ErrorCode.none
        return shape(
            "MetadataResponseTopic",
            error_code=code,
            name=name,
            topic_id=None if topic is None else topic.topic_id,
            is_internal=False,
            partitions=()
            if topic is None
            else tuple(self._plain_partition(shape, name, each) for each in topic.partitions),
            topic_authorized_operations=ALL_OPERATIONS[Kind.TOPIC]
            if operations
            else OPERATIONS_NOT_ASKED,
        )

    def _plain_partition(self, shape: Any, name: str, state: PartitionState) -> Any:
        led = leadership(self, name, state)  # type: ignore[arg-type]
        error, replicas = led.error, state.replicas
        if shape.version == 0 and led.offline_replicas:
            replicas = tuple(each for each in replicas if each not in led.offline_replicas)
            error = error if error.value else ErrorCode.replica_not_available
        return shape(
            "MetadataResponsePartition",
            error_code=error,
            partition_index=state.index,
            leader_id=led.leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=led.isr,
            offline_replicas=led.offline_replicas,
        )


def _bytes(version: int, message: Any) -> bytes:
    return b"".join(encode_response("metadata", version, 7, message))


_numbers = st.integers(0, 5)
_changes = st.one_of(
    st.tuples(
        st.just("put"), _numbers, st.integers(0, 40), st.sampled_from([(1,), (1, 2), (2,), (2, 1)])
    ),
    st.tuples(st.just("remove"), _numbers),
    st.tuples(st.just("offline"), _numbers, st.integers(0, 3)),
    st.tuples(st.just("online"), _numbers, st.integers(0, 3)),
    st.tuples(st.just("broker"), st.integers(2, 3)),
    st.tuples(
        st.just("ask"), st.sampled_from(_VERSIONS), st.booleans(), st.none() | st.lists(_numbers)
    ),
)


@settings(max_examples=60)
@given(st.lists(_changes, max_size=30))
def test_as_if_nothing_were_kept(changes: list[Any]) -> None:
    cluster = _Cluster()
    for change in [*changes, *(("ask", version, False, None) for version in _VERSIONS)]:
        match change:
            case "put", number, count, replicas:
                if (topic := cluster.image.topics.get(f"topic-{number}")) is not None:
                    cluster.image.remove_topic(topic)
                cluster.put(number, count, replicas)
            case "remove", number:
                topic = cluster.image.topics.get(f"topic-{number}")
                if topic is not None:
                    cluster.image.remove_topic(topic)
            case "offline", number, index:
                cluster.partitions.add_offline(f"topic-{number}", index)
            case "online", number, index:
                cluster.partitions.remove(f"topic-{number}", index)
            case "broker", node_id:
                cluster.image.put_broker(BrokerState(node_id, None, ()))
            case "ask", version, operations, numbers:
                names = None if numbers is None else [f"topic-{each}" for each in numbers]
                if version == 0 and not names:
                    names = None
                answer = cluster.answer(version, names=names, operations=operations)
                assert answer == cluster.plain(version, names, operations)


@pytest.fixture
def encoded_topics(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is encoded, one for each topic or partition."""
    names: list[str] = []

    def counted(api: str, version: int, struct: Any) -> bytes:
        names.append(type(struct).__name__)
        return _encoded(api, version, struct)

    _encoded = topic_pieces.encoded
    monkeypatch.setattr(topic_pieces, "encoded", counted)
    return names


def test_what_did_not_change_is_not_encoded_again(encoded_topics: list[str]) -> None:
    cluster = _Cluster()
    for number in range(10):
        cluster.put(number, 3)
    cluster.answer(12, operations=False)
    assert len(encoded_topics) == 40
    cluster.answer(12, operations=False)
    cluster.answer(12, names=["topic-1", "topic-2", "nowhere"], operations=False)
    assert len(encoded_topics) == 40
    cluster.put(10, 1)
    cluster.answer(12, operations=False)
    assert len(encoded_topics) == 42


def test_those_who_ask_meanwhile_share_the_work(encoded_topics: list[str]) -> None:
    cluster = _Cluster()
    for number in range(20):
        cluster.put(number, 100)
    works = [Stepped(cluster.work(12)) for _ in range(8)]
    answers = []
    while works:
        for work in list(works):
            try:
                for _ in range(3):
                    next(work)
            except StopIteration as done:
                answers.append(_bytes(12, done.value))
                works.remove(work)
    assert answers == [cluster.plain(12, None, False)] * 8
    assert len(encoded_topics) == 20 * 101


def test_one_large_topic_gives_way() -> None:
    cluster = _Cluster()
    cluster.put(0, 5_000)
    steps = Stepped(cluster.work(12)).count()
    assert steps > 5_000 / 50


def test_what_was_encoded_during_a_failure_is_not_kept() -> None:
    """A log dir that fails and is back before the answer is complete."""
    cluster = _Cluster()
    cluster.put(0, 64)
    work = Stepped(cluster.work(12))
    next(work)
    cluster.directory.is_readable = False
    next(work)
    cluster.directory.is_readable = True
    work.to_end()
    variant = cluster.topic_pieces.variant(12)
    assert variant.ready(cluster.image.topics["topic-0"]) is None


def test_a_deleted_topic_takes_no_memory() -> None:
    cluster = _Cluster()
    topic = cluster.put(0, 1)
    cluster.answer(12, operations=False)
    cluster.image.remove_topic(topic)
    cluster.topic_pieces.on_change(TopicDeleted(topic))
    variant = cluster.topic_pieces.variant(12)
    assert variant.ready(topic) is None


def test_a_broker_forgets_deleted_topics(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path) as broker:
            topic = await broker.metadata.create_topic("t", ((1,),), {})
            variant = broker.topic_pieces.variant(12)
            to_end(variant.encode(topic))
            assert variant.ready(topic) is not None
            await broker.metadata.delete_topic(topic.topic_id)
            assert variant.ready(topic) is None
            assert broker.topic_pieces.variant(12) is variant

    asyncio.run(scenario())
