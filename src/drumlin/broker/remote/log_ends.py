"""High watermarks of partitions, on any broker: fetched by ListOffsets, without retries.

Requests to one broker are batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.peers.partitions import AT_ONCE, by_topic
from drumlin.broker.peers.peers import not_asked
from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.metadata.image import NO_LEADER
from drumlin.peer.peer_error import PeerError
from drumlin.together import Together
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from drumlin.wire.schema.declaration import Message

_API: Final = "list_offsets"
_LATEST: Final = -1
_CONSUMER: Final = -1
_READ_UNCOMMITTED: Final = 0
_TIMEOUT: Final = timedelta(seconds=30)
_UNKNOWN: Final = (ErrorCode.unknown_server_error, -1)


class LogEnds:
    """High watermarks of partitions that this broker or another one leads."""

    def __init__(self, broker: BrokerData) -> None:
        self._broker = broker
        self._questions = Together(self._ask, lambda it: it, lambda _: 1, AT_ONCE, not_asked)

    async def high_watermark(self, topic: str, index: int) -> int:
        """
        Raises:
            KafkaError: the leader has answered with an error, or cannot be reached.
        """
        broker = self._broker
        of_topic = broker.metadata.image.topics.get(topic)
        state = None if of_topic is None else of_topic.partition(index)
        if state is None or state.leader == broker.node_id:
            return broker.partitions.get(topic, index).high_watermark
        if state.leader == NO_LEADER:
            raise KafkaError(ErrorCode.leader_not_available)
        try:
            code, offset = await self._questions.ask(state.leader, (topic, index))
        except PeerError as error:
            raise KafkaError(ErrorCode.network_exception, str(error)) from error
        if code is not ErrorCode.none:
            raise KafkaError(code)
        return offset

    async def close(self) -> None:
        await self._questions.close()

    async def _ask(
        self, node_id: int, partitions: Sequence[TopicPartition]
    ) -> list[tuple[ErrorCode, int]]:
        response = await self._broker.peers.ask(node_id, "offsets", _API, _request(partitions))
        told = {
            (topic.name, each.partition_index): (each.error_code, each.offset)
            for topic in response.topics
            for each in topic.partitions
        }
        return [told.get(each, _UNKNOWN) for each in partitions]


def _request(partitions: Sequence[TopicPartition]) -> Message:
    topics = [
        ListOffsetsTopic(
            name=name,
            partitions=tuple(
                ListOffsetsPartition(partition_index=index, timestamp=_LATEST) for index in indexes
            ),
        )
        for name, indexes in by_topic(partitions).items()
    ]
    return ListOffsetsRequest(
        replica_id=_CONSUMER,
        isolation_level=_READ_UNCOMMITTED,
        topics=tuple(topics),
        timeout=_TIMEOUT,
    )
