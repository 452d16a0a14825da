"""How a process fetches from its leader: what `LeaderFetcher` does, for one partition.

What is to be decided is in the real `FollowedPartition`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from drumlin.replication.followed_partition import FollowedPartition
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError
from replication.simulation.processes.leading import FetchRequest
from replication.simulation.world.network import Connection
from rig.time.stepped import Stepped

if TYPE_CHECKING:
    from drumlin.storage.log.truncation import Truncation
    from replication.simulation.processes.process import BrokerProcess

_IDLE_MS = 40
_BACKOFF_MS = 60


class Fetcher:
    """Of one process. It takes the place of `Fetchers`."""

    def __init__(self, process: BrokerProcess) -> None:
        self._process = process
        self._followed: FollowedPartition | None = None
        self._connection = Connection()

    def follow(self, followed: FollowedPartition) -> None:
        self._followed = followed
        self._connection = Connection()
        self._process.note("follows B{} in epoch {}", followed.leader_id, followed.leader_epoch)
        self._go_on(followed, None if followed.is_busy else followed.begin(), 1)

    def forget(self, *_: object) -> None:
        followed, self._followed = self._followed, None
        if followed is not None:
            followed.interrupt()

    def _later(
        self, followed: FollowedPartition, delay_ms: int, action: Callable[[], None]
    ) -> None:
        self._process.after(delay_ms, lambda: action() if followed is self._followed else None)

    def _go_on(
        self, followed: FollowedPartition, truncation: Truncation | None, delay_ms: int
    ) -> None:
        if truncation is not None:
            self._later(followed, self._disk_ms(), lambda: self._cut(followed, truncation))
        elif not followed.is_busy:
            self._later(followed, delay_ms, lambda: self._fetch(followed))

    def _disk_ms(self) -> int:
        return self._process.world.schedule.delay_ms(4, 120)

    # -- truncations -------------------------------------------------------------------------

    def _cut(self, followed: FollowedPartition, truncation: Truncation) -> None:
        before = followed.log.log_end_offset
        try:
            truncation.prepare()
            if not followed.is_wanted(truncation):
                truncation.abandon()
                return
            assert followed.cut(truncation)
        except KafkaError as error:
            if not truncation.is_cut:
                truncation.abandon()
            followed.give_up(truncation)
            self._process.note("pauses: {}", error)
            self._go_on(followed, None, _BACKOFF_MS)
            return
        self._process.note("truncates {} -> {}", before, followed.log.log_end_offset)
        self._later(followed, self._disk_ms(), lambda: self._finish(followed, truncation))

    def _finish(self, followed: FollowedPartition, truncation: Truncation) -> None:
        truncation.rebuild()
        if followed.is_wanted(truncation):
            followed.finish(truncation)
            self._go_on(followed, None, 1)

    # -- fetches -----------------------------------------------------------------------------

    def _fetch(self, followed: FollowedPartition) -> None:
        process, asked = self._process, followed.position
        if process.has_failed_disk:
            self._go_on(followed, None, _BACKOFF_MS)
            return
        request = FetchRequest(process.node_id, process.broker_epoch, asked)

        def answered(answer: Any) -> None:
            if followed is not self._followed:
                return
            if answer is None:
                self._connection = Connection()
                self._go_on(followed, None, _BACKOFF_MS)
            elif answer.error_code is ErrorCode.offset_out_of_range:
                self._ask_for_offsets(followed, asked, answer.high_watermark)
            elif answer.error_code is not ErrorCode.none:
                self._go_on(followed, None, _BACKOFF_MS)
            else:
                work = Stepped(followed.take(asked, answer, process.now_ms()))
                self._take(followed, work, answer)

        process.world.network.send(
            process,
            self._connection,
            followed.leader_id,
            lambda leader, reply: reply(leader.answer_fetch(request)),
            answered,
        )

    def _take(self, followed: FollowedPartition, work: Any, answer: PartitionFetch) -> None:
        try:
            next(work)
        except StopIteration as done:
            has_more = answer.diverging is not None or len(answer.records) > 0
            self._go_on(followed, done.value, 1 if has_more else _IDLE_MS)
        except KafkaError as error:
            self._process.note("pauses: {}", error)
            self._go_on(followed, None, _BACKOFF_MS)
        else:
            # Even if it is not followed any more: then the work has to see that itself.
            self._process.after(1, lambda: self._take(followed, work, answer))

    def _ask_for_offsets(self, followed: FollowedPartition, asked: Any, committed: int) -> None:
        def answered(offsets: Any) -> None:
            if followed is not self._followed:
                return
            truncation = None
            if isinstance(offsets, tuple):
                with suppress(KafkaError):
                    truncation = followed.reset(asked, *offsets, committed)
            self._go_on(followed, truncation, _BACKOFF_MS)

        self._process.world.network.send(
            self._process,
            self._connection,
            followed.leader_id,
            lambda leader, reply: reply(leader.answer_offsets(asked.leader_epoch)),
            answered,
        )
