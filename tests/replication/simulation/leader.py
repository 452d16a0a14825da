"""The partition as its leader has it, over the real `InSyncReplicas`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from drumlin.metadata.image import PartitionState
from drumlin.metadata.store import IsrWish
from drumlin.replication.isr import InSyncReplicas
from drumlin.storage.leader_epochs import UNDEFINED, EpochEnd

from .disk import Record, SimulatedLog

ACKS_ALL = -1
LAG_MAX_MS = 700
FETCHED_MOST = 8


class FetchRequest(NamedTuple):
    replica_id: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchAnswer(NamedTuple):
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    log_end_offset: int
    records: list[Record]
    diverging: EpochEnd | None = None
    is_out_of_range: bool = False


class Failure(NamedTuple):
    """An error code of the protocol."""

    name: str


FENCED = Failure("FENCED_LEADER_EPOCH")
UNKNOWN_EPOCH = Failure("UNKNOWN_LEADER_EPOCH")
NOT_LEADER = Failure("NOT_LEADER_OR_FOLLOWER")
NOT_ENOUGH = Failure("NOT_ENOUGH_REPLICAS")
NOT_ENOUGH_AFTER_APPEND = Failure("NOT_ENOUGH_REPLICAS_AFTER_APPEND")

Answer = Callable[[object], None]


class Leader:
    """One partition, in one leader epoch.

    Handed in:
        appended: called with each record.
        advanced: called with the high watermark before and now.
        wished: called with what the ISR should be.
    """

    def __init__(
        self,
        node_id: int,
        log: SimulatedLog,
        state: PartitionState,
        now_ms: int,
        min_isr: int,
        is_alive: Callable[[int, int], bool],
        appended: Callable[[Record], None],
        advanced: Callable[[int, int], None],
        wished: Callable[[IsrWish], None],
    ) -> None:
        self.node_id, self.log, self.epoch, self.min_isr = node_id, log, state.leader_epoch, min_isr
        self._appended, self._advanced, self._wished = appended, advanced, wished
        log.start_leader_epoch(state.leader_epoch)
        self.isr = InSyncReplicas(
            node_id, state, log.log_end_offset, now_ms, lambda: LAG_MAX_MS, is_alive
        )
        self._waiting: list[tuple[Record, Answer]] = []

    # -- followers -----------------------------------------------------------------------

    def check_epoch(self, leader_epoch: int) -> Failure | None:
        if leader_epoch == self.epoch:
            return None
        return FENCED if leader_epoch < self.epoch else UNKNOWN_EPOCH

    def fetch(self, request: FetchRequest, now_ms: int) -> FetchAnswer | Failure:
        log = self.log
        failure = self.check_epoch(request.leader_epoch)
        if failure is not None:
            return failure
        answer = FetchAnswer(
            self.epoch, log.high_watermark, log.log_start_offset, log.log_end_offset, []
        )
        diverging = self.divergence(request)
        if diverging is not None:
            return answer._replace(diverging=diverging)
        if not log.log_start_offset <= request.offset <= log.log_end_offset:
            return answer._replace(is_out_of_range=True)
        if not self.isr.fetched(
            request.replica_id,
            request.broker_epoch,
            request.offset,
            request.log_start_offset,
            log.log_end_offset,
            now_ms,
        ):
            return NOT_LEADER
        self.look(now_ms)
        wish = self.isr.growth(log.high_watermark)
        if wish is not None:
            self.wish(wish)
        records = log.read(request.offset, log.log_end_offset, FETCHED_MOST)
        return answer._replace(high_watermark=log.high_watermark, records=records)

    def divergence(self, request: FetchRequest) -> EpochEnd | None:
        """Where a follower's log and ours part, if they do before what it asks for (KIP-595)."""
        if request.last_fetched_epoch == UNDEFINED:
            return None
        end = self.log.end_offset_for_epoch(request.last_fetched_epoch)
        if end.epoch < request.last_fetched_epoch or end.end_offset < request.offset:
            return end
        return None

    # -- the high watermark and the ISR -----------------------------------------------------

    def look(self, now_ms: int) -> None:
        """Advance the high watermark, and answer those who have waited for that."""
        log, before = self.log, self.log.high_watermark
        log.high_watermark = self.isr.high_watermark(before, log.log_end_offset, now_ms)
        if log.high_watermark > before:
            self._advanced(before, log.high_watermark)
        while self._waiting and self._waiting[0][0].offset < log.high_watermark:
            record, answer = self._waiting.pop(0)
            answer(record if self.has_enough() else NOT_ENOUGH_AFTER_APPEND)

    def has_enough(self) -> bool:
        return self.isr.size >= self.min_isr

    def tick(self, now_ms: int) -> None:
        self.look(now_ms)
        wish = self.isr.shrinkage(self.log.log_end_offset, now_ms)
        if wish is not None:
            self.wish(wish)

    def wish(self, wish: IsrWish) -> None:
        self.isr.asked(wish)
        self._wished(wish)

    def agreed(self, state: PartitionState, now_ms: int) -> None:
        self.isr.agreed(state, now_ms)
        self.look(now_ms)

    def refused(self, wish: IsrWish) -> None:
        if self.isr.pending is wish:
            self.isr.refused()

    # -- clients -------------------------------------------------------------------------

    def produce(
        self, key: int, value: int, acks: int, now_ms: int, answer: Answer
    ) -> Record | None:
        if acks == ACKS_ALL and not self.has_enough():
            answer(NOT_ENOUGH)
            return None
        record = self.log.append_as_leader(key, value, self.epoch)
        self._appended(record)
        if acks == ACKS_ALL:
            self._waiting.append((record, answer))
        else:
            answer(record)
        self.look(now_ms)
        return record

    def close(self) -> None:
        """This broker does not lead any more."""
        for _, answer in self._waiting:
            answer(NOT_LEADER)
        self._waiting.clear()
