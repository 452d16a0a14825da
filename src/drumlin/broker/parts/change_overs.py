"""Logs that take no batches while they change over to another log dir, and the requests that wait
for them.

If a batch were refused meanwhile, its producer would send it again after later batches that are
already in flight: their order would change. So requests wait before they append, and so do all
later requests of the connection. If a disk hangs, they are refused soon.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from drumlin.metadata.names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from drumlin.replication.partition import Partition
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.messages import API_KEYS

#: The maximum wait; clients wait longer than this for a response.
_PATIENCE_S: Final = 10.0
#: The requests for which a coordinator writes a record, each with the coordinator's topic.
_WRITING: Final = {
    API_KEYS[api]: topic
    for topic, apis in (
        (
            GROUP_METADATA,
            (
                "join_group",
                "sync_group",
                "leave_group",
                "delete_groups",
                "offset_commit",
                "offset_delete",
                "txn_offset_commit",
                "consumer_group_heartbeat",
                "share_group_heartbeat",
                "alter_share_group_offsets",
                "delete_share_group_offsets",
            ),
        ),
        (
            TRANSACTION_STATE,
            ("init_producer_id", "add_partitions_to_txn", "add_offsets_to_txn", "end_txn"),
        ),
        (
            SHARE_GROUP_STATE,
            (
                "share_fetch",
                "share_acknowledge",
                "initialize_share_group_state",
                "write_share_group_state",
                "delete_share_group_state",
            ),
        ),
    )
    for api in apis
}


class _ChangeOver(NamedTuple):
    over: asyncio.Future[None]
    waited_for_until: float  # in the loop's time


class ChangeOvers:
    """The change-overs of one broker."""

    def __init__(self) -> None:
        self._under_way: dict[PartitionLog, _ChangeOver] = {}

    @contextmanager
    def pausing(self, log: PartitionLog) -> Iterator[None]:
        """A context in which a log refuses batches."""
        loop = asyncio.get_running_loop()
        under_way = _ChangeOver(loop.create_future(), loop.time() + _PATIENCE_S)
        self._under_way[log], log.is_moving = under_way, True
        try:
            yield
        finally:
            log.is_moving = False
            del self._under_way[log]
            under_way.over.set_result(None)

    async def over(self, partition: Partition) -> None:
        """Wait until a partition takes batches again, or for the maximum time."""
        under_way = self._under_way.get(partition.log)
        if under_way is not None:
            timeout_s = under_way.waited_for_until - asyncio.get_running_loop().time()
            await asyncio.wait((under_way.over,), timeout=max(timeout_s, 0))

    def let_begin(self, frame: memoryview, go_on: Callable[[], None]) -> bool:
        """Whether a request may begin; if not, `go_on` is called when it may.

        Called before the request starts, because a coordinator decides, writes and applies in one
        step, and cannot wait in it.
        """
        if not self._under_way:
            return True
        topic = _WRITING.get(int.from_bytes(frame[:2], "big"))
        now = asyncio.get_running_loop().time()
        for log, under_way in self._under_way.items():
            if log.topic == topic and now < under_way.waited_for_until:
                _call_when_over(under_way, go_on)
                return False
        return True


def _call_when_over(under_way: _ChangeOver, go_on: Callable[[], None]) -> None:
    def call(_: object = None) -> None:
        too_late.cancel()
        under_way.over.remove_done_callback(call)
        go_on()

    loop = asyncio.get_running_loop()
    too_late = loop.call_at(under_way.waited_for_until, call)
    under_way.over.add_done_callback(call)
