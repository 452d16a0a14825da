"""One process of a broker: it follows what the metadata says, leads, fetches, answers.

It holds on to what it knows, as a real one does: it may be dead to all others and not know it. How
it hears of the metadata and changes it is in `zookeeper_process.py` and `machine_process.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drumlin.broker.hosting.followers import Followers
from drumlin.broker.hosting.hosted_partitions import log_end_at
from drumlin.config.topic import LogConfig
from drumlin.metadata.image import NO_LOG, PartitionState, TopicState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.wire.by_hand.fetch_response import PartitionFetch
from drumlin.wire.error_codes import ErrorCode, KafkaError
from replication.simulation.processes.fetching import Fetcher
from replication.simulation.processes.leading import (
    NOT_LEADER,
    Appended,
    FetchRequest,
    answer_fetch,
    answer_offsets,
)
from replication.simulation.run.ledger import Ledger
from replication.simulation.world.disk import Disk
from replication.simulation.world.log import TOPIC, TOPIC_ID, SimulatedLog
from replication.simulation.world.network import Network
from replication.simulation.world.schedule import Schedule

TICK_MS = 250
LAG_MAX_MS = 700
MIN_ISR = 2
CONFIG = LogConfig(min_insync_replicas=MIN_ISR)


@dataclass(frozen=True)
class World:
    """What all processes share."""

    schedule: Schedule
    network: Network
    ledger: Ledger
    #: Called at moments that are the worst for something to go wrong.
    at_moment: Callable[[str, BrokerProcess, tuple[int, ...]], None]


class BrokerProcess(ABC):
    def __init__(self, world: World, node_id: int, number: int, disk: Disk) -> None:
        self.world, self.node_id, self.number, self.disk = world, node_id, number, disk
        self.is_running = True
        self.is_stopping = False
        self.paused_until_ms = 0
        self.clock_ahead_ms = 0
        self.disk_fails_until_ms = 0
        self._marker = disk.marker
        disk.marker = None
        #: In which the process before it was registered last; None: there was none.
        self.epoch_before: int | None = None
        self.log = SimulatedLog(disk, CONFIG, lambda: self.now_ms() / 1000)
        self.log.on_advance = self._advanced
        #: Since the partition's role is that of a leader; before that object says so.
        self._is_leading = False
        self.partitions = PartitionRegistry(lambda *_: True)
        fetcher: Any = Fetcher(self)
        self.followers = Followers(node_id, self.partitions, fetcher)
        self._context = LeaderContext(
            node_id,
            self.is_alive,
            lambda _: None,
            lambda: LAG_MAX_MS,
            self.ask_for_isr,
            self._is_certain,
        )

    def __str__(self) -> str:
        return f"B{self.node_id}.{self.number}"

    # -- the metadata, as this process knows it ------------------------------------------------

    @property
    @abstractmethod
    def state(self) -> PartitionState | None:
        """The partition as it is known here."""

    @property
    @abstractmethod
    def broker_epoch(self) -> int: ...

    @abstractmethod
    def is_alive(self, node_id: int, broker_epoch: int) -> bool: ...

    @abstractmethod
    def ask_for_isr(self, partition: Partition, wish: IsrRequest) -> None: ...

    def _is_certain(self, partition: Partition) -> bool:
        """Whether no other broker can lead by now, as far as this process hears of it."""
        state = self.state
        return state is not None and (state.leader, state.leader_epoch) == (
            self.node_id,
            partition.leader_epoch,
        )

    # -- its life ------------------------------------------------------------------------------

    @property
    def last_epoch(self) -> int:
        """The one that the marker of a clean stop names."""
        return self.broker_epoch

    @property
    def is_current(self) -> bool:
        """Whether it has what the last process of this broker has left, which stopped cleanly."""
        if self.disk.is_lost:
            return False
        return self.epoch_before is None or self.epoch_before == self._marker

    @property
    def found(self) -> Returned:
        """What it has come back with."""
        end_offset, before, marker = self.log.log_end_offset, self.epoch_before, self._marker
        if self.disk.is_lost:
            return Returned(NO_LOG)
        is_copy = marker is not None and before is not None and -1 < marker < before
        return Returned(log_end_at(self.log, end_offset), is_copy=is_copy)

    @property
    def leader(self) -> Partition | None:
        """The partition, if this process believes that it leads it."""
        return next(iter(self.partitions), None)

    @property
    def is_following(self) -> bool:
        return self.partitions.find_followed(TOPIC, 0) is not None

    def now_ms(self) -> int:
        return self.world.schedule.now_ms + self.clock_ahead_ms

    def happens(self, action: Callable[[], None]) -> None:
        """Something reaches this process: not if it is dead, later if it stands still."""
        if not self.is_running:
            return
        schedule = self.world.schedule
        if self.paused_until_ms > schedule.now_ms:
            schedule.at(self.paused_until_ms, lambda: self.happens(action))
        else:
            action()

    def after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.world.schedule.after(delay_ms, lambda: self.happens(action))

    def note(self, text: str, *values: object) -> None:
        self.world.schedule.note("{}: " + text, self, *values)

    def tick(self) -> None:
        """What is done now and then."""
        for partition in self.partitions:
            partition.drop_laggards()

    def end(self, how: str) -> None:
        self.note("{}", how)
        self.is_running = False

    def stopped(self) -> None:
        """The last that a process does which stops cleanly."""
        self.disk.flush()
        self.checkpoint()
        self.disk.close(self.last_epoch)
        self.end("has stopped cleanly")

    def checkpoint(self) -> None:
        self.disk.high_watermark_checkpoint = self.log.high_watermark
        self.disk.log_start_checkpoint = self.log.log_start_offset

    # -- roles -------------------------------------------------------------------------------

    def host(self, state: PartitionState) -> None:
        """As `HostedPartitions` does."""
        if self.node_id not in state.replicas or state.leader_epoch < 0:
            return
        leader = self.leader
        if state.leader == self.node_id:
            if leader is None or state.leader_epoch > leader.leader_epoch:
                self._lead(state, leader)
            else:
                leader.agreed(state)
        else:
            self._is_leading = False
            self.partitions.remove(TOPIC, 0)
            self.followers.follow(TopicState(TOPIC, TOPIC_ID, (state,)), state, self.log)

    def _lead(self, state: PartitionState, leader: Partition | None) -> None:
        log = self.log
        self.note("leads in epoch {}, log {}..{}, ISR {}", state.leader_epoch,
                  log.high_watermark, log.log_end_offset, state.isr)  # fmt: skip
        self._is_leading = True
        self.world.ledger.leads(self, state.leader_epoch)
        if leader is not None:
            leader.begin_leader_epoch(state)
        else:
            self.followers.forget(TOPIC, 0)
            self.partitions.add(Partition(log, state, self._context))

    def _advanced(self, before: int, now: int) -> None:
        if self._is_leading:
            self.note("high watermark {} -> {}", before, now)
            self.world.ledger.exposed(self, before, now)
        else:
            self.world.ledger.follows(self, before, now)

    def appended(self, done: Appended) -> None:
        self.world.ledger.appended(self.log.batches_between(done.offset, done.last_offset + 1)[0])

    @property
    def has_failed_disk(self) -> bool:
        return self.world.schedule.now_ms < self.disk_fails_until_ms

    def answer_fetch(self, request: FetchRequest) -> PartitionFetch:
        if self.leader is None:
            return PartitionFetch(0, NOT_LEADER.code, -1, -1, -1, [], memoryview(b""))
        if self.has_failed_disk:
            code = ErrorCode.kafka_storage_error
            return PartitionFetch(0, code, -1, -1, -1, [], memoryview(b""))
        return answer_fetch(self.leader, request)

    def answer_offsets(self, leader_epoch: int) -> tuple[int, int] | KafkaError:
        if self.leader is None:
            return NOT_LEADER
        return answer_offsets(self.leader, leader_epoch)
