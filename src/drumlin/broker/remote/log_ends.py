"""High watermarks of partitions, on any broker: fetched by ListOffsets, without retries.

Requests to one broker are batched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final

from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.peers.partitions import AT_ONCE, by_topic, in_pieces
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
#: The time that somebody waits for who can do without an answer.
_SOON_S: Final = 2.0
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

    async def high_watermarks(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Those of partitions that other brokers lead, without what is not known soon."""
        topics, asked = self._broker.metadata.image.topics, dict[int, list[TopicPartition]]()
        for topic, index in partitions:
            state = None if topic not in topics else topics[topic].partition(index)
            if state is not None and state.leader not in (NO_LEADER, self._broker.node_id):
                asked.setdefault(state.leader, []).append((topic, index))
        questions = {
            asyncio.ensure_future(self._ask(node_id, some)): some
            for node_id, those in asked.items()
            for some in in_pieces(those)
        }
        if not questions:
            return {}
        done, late = await asyncio.wait(questions, timeout=_SOON_S)
        for question in late:
            question.cancel()
        found = {}
        for question in done:
            if question.exception() is None:
                answers = zip(questions[question], question.result(), strict=True)
                found.update({key: offset for key, (code, offset) in answers if not code})
        return found

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
