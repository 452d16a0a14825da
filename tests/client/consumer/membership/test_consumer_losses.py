"""A member that is thrown out of its group while a commit of its is still being repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

import drumlin
from drumlin.client.consumer.assignors.subscription import encode_assignment
from drumlin.client.errors import CommitFailed
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import ZERO
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.data.messages import Shape

PLACE = ("t", 0)
WAIT_MS = 20_000


class Group:
    """A coordinator whose member gets partition 0 in each generation; it is led by another."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.generation = 0
        self.code = ErrorCode.none  # of heartbeats
        self.commit_code = ErrorCode.coordinator_load_in_progress
        self.commits: list[int] = []
        self._port = broker.port
        for name in ["find_coordinator", "join_group", "sync_group", "heartbeat", "leave_group"]:
            broker.script(name, getattr(self, name))
        broker.script("offset_commit", self.offset_commit)
        broker.script("offset_fetch", self.offset_fetch)
        broker.script("fetch", lambda shape, request: Silence())

    def find_coordinator(self, shape: Shape, request: Any) -> Any:
        where = {"node_id": 1, "host": "127.0.0.1", "port": self._port}
        found = shape(
            "Coordinator", key="g", error_code=ErrorCode.none, error_message=None, **where
        )
        return shape("FindCoordinatorResponse", throttle_time=ZERO, coordinators=(found,))

    def join_group(self, shape: Shape, request: Any) -> Any:
        self.generation += 1
        self.code = ErrorCode.none
        return shape(
            "JoinGroupResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            generation_id=self.generation,
            protocol_type="consumer",
            protocol_name="range",
            leader="another",
            skip_assignment=False,
            member_id=f"m-{self.generation}",
            members=(),
        )

    def sync_group(self, shape: Shape, request: Any) -> Any:
        return shape(
            "SyncGroupResponse",
            throttle_time=ZERO,
            error_code=ErrorCode.none,
            protocol_type="consumer",
            protocol_name="range",
            assignment=encode_assignment([PLACE]),
        )

    def heartbeat(self, shape: Shape, request: Any) -> Any:
        return shape("HeartbeatResponse", throttle_time=ZERO, error_code=self.code)

    def leave_group(self, shape: Shape, request: Any) -> Any:
        return shape(
            "LeaveGroupResponse", throttle_time=ZERO, error_code=ErrorCode.none, members=()
        )

    def offset_commit(self, shape: Shape, request: Any) -> Any:
        if self.commit_code is ErrorCode.none:
            self.commits.append(request.generation_id_or_member_epoch)
        each = shape(
            "OffsetCommitResponsePartition", partition_index=0, error_code=self.commit_code
        )
        topic = shape("OffsetCommitResponseTopic", name="t", partitions=(each,))
        return shape("OffsetCommitResponse", throttle_time=ZERO, topics=(topic,))

    def offset_fetch(self, shape: Shape, request: Any) -> Any:
        each = shape(
            "OffsetFetchResponsePartitions",
            partition_index=0,
            committed_offset=0,
            committed_leader_epoch=-1,
            metadata="",
            error_code=ErrorCode.none,
        )
        topic = shape("OffsetFetchResponseTopics", name="t", partitions=(each,))
        group = shape(
            "OffsetFetchResponseGroup", group_id="g", topics=(topic,), error_code=ErrorCode.none
        )
        return shape("OffsetFetchResponse", throttle_time=ZERO, groups=(group,))


def test_what_was_lost_meanwhile_is_not_committed_as_another_member() -> None:
    with ScriptedBroker({"t": 1}) as broker:
        group = Group(broker)
        events: list[str] = []
        options: dict[str, Any] = {"heartbeat_interval_ms": 10, "commit_interval_ms": None}
        with (
            drumlin.connect(broker.address, retry_backoff_ms=2) as client,
            client.consumer(
                "t",
                group="g",
                on_assigned=lambda places: events.append("assigned"),
                on_lost=lambda places: events.append("lost"),
                **options,
            ) as consumer,
        ):

            def poll_until(is_so: Callable[[], bool]) -> None:
                end = time.monotonic() + WAIT_MS / 1000
                while not is_so():
                    assert time.monotonic() < end, events
                    consumer.poll(10)

            poll_until(lambda: events == ["assigned"])
            commit = consumer.commit_async({PLACE: 7})
            poll_until(lambda: bool(broker.asked("offset_commit")))
            group.code = ErrorCode.unknown_member_id
            poll_until(lambda: events == ["assigned", "lost", "assigned"])
            group.commit_code = ErrorCode.none  # another member may have gone on to 100
            # It depends on when it comes again: as a member, or while it is none.
            with pytest.raises(CommitFailed, match=r"partition 0 was revoked|is not a member"):
                commit.result(WAIT_MS / 1000)
            assert group.commits == []
            consumer.commit({PLACE: 8})
            assert group.commits == [2]
