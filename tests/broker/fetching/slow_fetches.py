"""Fetches answered in the simplest way: all partitions are read each time, by the schema.

What `broker/fetching/` answers is held against it. It waits for nothing.
"""

from __future__ import annotations

from typing import Any

from drumlin.broker.start.broker import Broker
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import ZERO, encode_response, parse_request, parse_request_header
from rig.data.messages import response_shape

_READ_COMMITTED = 1
_LEADERS_FROM = 16
_MISLED = ("not_leader_or_follower", "fenced_leader_epoch")
Key = tuple[Any, int]


class SlowFetches:
    """Answers requests, and remembers one session."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.remembered: dict[Key, Any] = {}
        self.told: dict[Key, tuple[int, int]] = {}

    def answer(self, frame: bytes | memoryview, session_id: int = 0) -> bytes:
        """What is to come for a request; `session_id` is what it gets, or has."""
        header = parse_request_header(frame)
        self.version = version = header.api_version
        request = parse_request("fetch", version, frame, header.size)
        self.shape = response_shape("fetch", version)
        wanted = {
            (topic.topic_id if version >= 13 else topic.topic, part.partition): part
            for topic in request.topics
            for part in topic.partitions
        }
        epoch = getattr(request, "session_epoch", -1)
        if epoch == 0:
            self.remembered, self.told = {}, {}
        if epoch >= 0:
            self.remembered |= wanted
            for topic in request.forgotten_topics_data:
                for index in topic.partitions:
                    key = (topic.topic_id if version >= 13 else topic.topic, index)
                    self.remembered.pop(key, None)
                    self.told.pop(key, None)
            wanted = self.remembered
        answers = self._read(request, wanted)
        if epoch >= 0:
            answers = {
                key: answer
                for key, answer in answers.items()
                if self._is_news(key, answer) or epoch == 0
            }
        return self._encode(
            header.correlation_id,
            answers,
            session_id if epoch >= 0 else 0,
            is_consumer=self._replica_id(request) < 0,
        )

    def _is_news(self, key: Key, answer: Any) -> bool:
        now = answer.high_watermark, getattr(answer, "log_start_offset", -1)
        before = self.told.get(key, (-1, -1))
        failed = answer.error_code is not ErrorCode.none
        self.told[key] = (-1, now[1]) if failed else now
        diverging = getattr(answer, "diverging_epoch", None)
        parts = diverging is not None and diverging.epoch >= 0
        return now != before or bool(answer.records) or failed or parts

    def _read(self, request: Any, wanted: dict[Key, Any]) -> dict[Key, Any]:
        left = min(request.max_bytes, self.broker.config.fetch_max_bytes)
        answers, is_first = {}, True
        for key, part in wanted.items():
            answer = answers[key] = self._read_one(key, part, request, left, is_first)
            left = max(0, left - len(answer.records))
            is_first = is_first and not answer.records
        return answers

    def _read_one(self, key: Key, part: Any, request: Any, left: int, is_first: bool) -> Any:
        topic, index = key
        isolation_level = request.isolation_level
        try:
            if self.version >= 13:
                topic = self.broker.name_of_topic(topic)
            partition = self.broker.partitions.get(topic, index)
        except KafkaError as error:
            is_unknown = error.code.name.startswith("unknown_topic")
            return self._failed(index, error.code, () if is_unknown else None)
        try:
            if self._replica_id(request) >= 0:
                raise KafkaError(ErrorCode.not_leader_or_follower)
            partition.check_leader_epoch(max(-1, getattr(part, "current_leader_epoch", -1)))
            more = {}
            last_fetched = getattr(part, "last_fetched_epoch", -1)
            if last_fetched >= 0:
                epoch, end = partition.log.end_offset_for_epoch(last_fetched)
                if epoch < 0:
                    raise KafkaError(ErrorCode.offset_out_of_range)
                if epoch != last_fetched or end < part.fetch_offset:
                    more["diverging_epoch"] = self.shape(
                        "EpochEndOffset", epoch=epoch, end_offset=end
                    )
            aborted, records = None, b""
            if not more:
                slices = partition.read(
                    part.fetch_offset,
                    min(part.partition_max_bytes, left),
                    isolation_level,
                    minimum_one_batch=is_first,
                    may_block=True,
                ).slices
                records = slices[0].read() if slices else b""
                if isolation_level == _READ_COMMITTED:
                    aborted = self._aborted(partition, part, slices if records else ())
        except KafkaError as error:
            return self._failed(index, error.code, None, partition)
        return self.shape(
            "PartitionData",
            partition_index=index,
            error_code=ErrorCode.none,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log_start_offset,
            aborted_transactions=aborted,
            records=records,
            **more,
        )

    def _replica_id(self, request: Any) -> int:
        if self.version >= 15:
            return int(request.replica_state.replica_id)
        return int(request.replica_id)

    def _aborted(self, partition: Any, part: Any, slices: Any) -> tuple[Any, ...]:
        if not slices:
            return ()
        found = partition.log.aborted_in(slices[0], part.fetch_offset, partition.last_stable_offset)
        return tuple(
            self.shape(
                "AbortedTransaction", producer_id=each.producer_id, first_offset=each.first_offset
            )
            for each in found
        )

    def _failed(self, index: int, code: ErrorCode, aborted: Any, led: Any = None) -> Any:
        """An error, of a partition that is led here or is not; who has gone astray is told that."""
        more = {}
        if led is not None and code.name in _MISLED and self.version >= _LEADERS_FROM:
            state = self.broker.metadata.image.topics[led.topic].partition(led.index)
            leader = {"leader_id": self.broker.node_id, "leader_epoch": state.leader_epoch}
            more["current_leader"] = self.shape("LeaderIdAndEpoch", **leader)
        return self.shape(
            "PartitionData",
            partition_index=index,
            error_code=code,
            high_watermark=-1,
            last_stable_offset=-1,
            log_start_offset=-1,
            aborted_transactions=aborted,
            records=b"",
            **more,
        )

    def _endpoints(self, answers: dict[Key, Any]) -> dict[str, Any]:
        """Where this broker is, if an answer names it."""
        if not any(
            getattr(getattr(each, "current_leader", None), "leader_id", -1) >= 0
            for each in answers.values()
        ):
            return {}
        (endpoint,) = self.broker.metadata.image.brokers[self.broker.node_id].endpoints
        where = {"host": endpoint.host, "port": endpoint.port, "rack": None}
        return {
            "node_endpoints": (self.shape("NodeEndpoint", node_id=self.broker.node_id, **where),)
        }

    def _encode(
        self, number: int, answers: dict[Key, Any], session_id: int, *, is_consumer: bool
    ) -> bytes:
        topics: list[tuple[Any, list[Any]]] = []
        for (topic, _), answer in answers.items():
            if not topics or topics[-1][0] != topic:
                topics.append((topic, []))
            topics[-1][1].append(answer)
        responses = tuple(
            self.shape(
                "FetchableTopicResponse", topic=topic, topic_id=topic, partitions=tuple(partitions)
            )
            for topic, partitions in topics
        )
        response = self.shape(
            "FetchResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            session_id=session_id,
            responses=responses,
            **self._endpoints(answers) if is_consumer else {},
        )
        return b"".join(encode_response("fetch", self.version, number, response))
