"""Changes of in-sync replicas: leaders request them, the metadata store makes them and reports
back.

Requests of several partitions are sent together: a follower that returns joins thousands of ISRs at
once. A request that fails is repeated at growing intervals, and does not hold up others.
`replication/isr.py` decides on the members of an ISR.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from typing import Final

from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.store.store import MetadataStore
from drumlin.replication.partition import Partition
from drumlin.replication.repeated_lines import RepeatedLines
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

_log = logging.getLogger(__name__)

#: Pause after a refusal: usually a change of the metadata has not arrived here yet.
_AGAIN_S: Final = 0.2
#: Longest pause while the controller is not available; pauses double, beginning with the one above.
_AGAIN_MAX_S: Final = 2.0
#: Codes that mean that the leader's state of the partition is older than that in the metadata.
_OUTDATED: Final = (ErrorCode.fenced_leader_epoch, ErrorCode.invalid_update_version)
#: Codes that leave open whether the change was made.
_UNKNOWN: Final = (ErrorCode.kafka_storage_error, ErrorCode.not_controller)


class IsrChanges:
    """See the module."""

    def __init__(self, metadata: MetadataStore) -> None:
        self._metadata = metadata
        self._requests: dict[Partition, IsrRequest] = {}
        self._task: asyncio.Task[None] | None = None
        #: Changes with an unknown outcome, each with the message that was logged.
        self._unknown: dict[Partition, tuple[IsrRequest, str]] = {}
        self._pause_s = _AGAIN_S
        self._timer: asyncio.TimerHandle | None = None
        self._lines = RepeatedLines(_log)
        #: Members that ISRs have gained and lost since the start, for metrics.
        self.grown = self.shrunk = 0

    def ask_for(self, partition: Partition, request: IsrRequest) -> None:
        self._requests[partition] = request
        self._begin()

    def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
            self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            _log.error("in-sync replicas could not be changed", exc_info=task.exception())

    async def _run(self) -> None:
        try:
            while self._requests:
                asked, self._requests = self._requests, {}
                if await self._ask_all(asked):
                    await asyncio.sleep(_AGAIN_S)
        finally:
            # Cleared in the turn that found no more requests: a request that arrives before
            # `_ended` starts a new task.
            self._task = None

    async def _ask_all(self, asked: Mapping[Partition, IsrRequest]) -> bool:
        """Send all requests; returns whether any was refused."""
        ids = {PartitionId(each.topic_id, each.index): each for each in asked}
        requests = {key: asked[partition] for key, partition in ids.items()}
        before = {key: partition.isr_size for key, partition in ids.items()}
        try:
            answers = await self._metadata.alter_isrs(requests)
        except KafkaError as error:
            answers = dict.fromkeys(requests, error)
        is_refused = False
        for key, answer in answers.items():
            if not isinstance(answer, KafkaError):
                self._count(before[key], len(answer.isr))
            is_refused |= self._take(ids[key], requests[key], answer)
            await give_way()
        self._wait_if_unknown()
        return is_refused

    def _wait_if_unknown(self) -> None:
        """Request changes with unknown outcome again after a pause, or log that none are left."""
        if self._unknown and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._pause_s, self._ask_again)
            self._pause_s = min(2 * self._pause_s, _AGAIN_MAX_S)
        elif not self._unknown and self._pause_s > _AGAIN_S:
            self._pause_s = _AGAIN_S
            _log.warning("in-sync replicas can be changed again, or need not be")

    def _ask_again(self) -> None:
        self._timer = None
        self._unknown = {each: known for each, known in self._unknown.items() if each.is_led}
        for partition, (request, _) in self._unknown.items():
            self._requests.setdefault(partition, request)
        if self._unknown:
            self._begin()
        else:
            self._wait_if_unknown()

    def _count(self, before: int, now: int) -> None:
        """Count the members that an ISR has gained or lost by a change."""
        self.grown += max(now - before, 0)
        self.shrunk += max(before - now, 0)

    def _take(
        self, partition: Partition, request: IsrRequest, answer: PartitionState | KafkaError
    ) -> bool:
        """Handle an answer; returns whether the request was refused."""
        logged = self._unknown.pop(partition, (request, ""))[1]
        if not isinstance(answer, KafkaError):
            if answer.leader_epoch == partition.leader_epoch:
                partition.agreed(answer)
                partition.refused(request)  # has no effect if the change was made
            _log.info("%s: in-sync replicas are %s", partition.name, list(answer.isr))
            return False
        if answer.code in _OUTDATED:
            # The metadata has a newer state of the partition. Until it arrives here, both ISRs
            # count.
            text = f"in-sync replicas have changed otherwise: {answer}"
            self._lines.write(logging.INFO, partition.name, text)
        elif answer.code in _UNKNOWN:
            # The change may have been made: until that is known, both ISRs count.
            text = f"in-sync replicas are not changed yet: {answer}"
            if text != logged:
                self._lines.write(logging.WARNING, partition.name, text)
            if partition.is_led and partition not in self._requests:
                self._unknown[partition] = request, text
            return False
        else:
            text = f"in-sync replicas stay, {answer}"
            self._lines.write(logging.INFO, partition.name, text)
            partition.refused(request)
        return True
