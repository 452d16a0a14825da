"""One process of a broker: it follows what the metadata says, leads, fetches, answers.

It holds on to what it knows, as a real one does: it may be dead to all others and not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drumlin.broker.followers import Followers
from drumlin.config.topic import LogConfig
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.metadata.leadership import handed_over
from drumlin.metadata.zookeeper.partition_states import _is_newer
from drumlin.replication.partition import LeaderContext, Partition
from drumlin.replication.partition_registry import PartitionRegistry
from drumlin.wire.errors import KafkaError
from drumlin.wire.fetch_response import PartitionFetch

from .disk import Disk
from .fetching import Fetcher
from .isr_requests import IsrRequests
from .leading import NOT_LEADER, Appended, FetchRequest, answer_fetch, answer_offsets
from .ledger import Ledger
from .log import TOPIC, TOPIC_ID, SimulatedLog
from .membership import BACKOFF_MS, Membership
from .network import Network
from .rewriting import rewrite
from .schedule import Schedule
from .znodes import Expired, Live, Lost, Session, ZooKeeper

TICK_MS = 250
LAG_MAX_MS = 700
MIN_ISR = 2
CONFIG = LogConfig(min_insync_replicas=MIN_ISR)


@dataclass(frozen=True)
class World:
    """What all processes share."""

    schedule: Schedule
    network: Network
    zookeeper: ZooKeeper
    ledger: Ledger
    #: Called at moments that are the worst for something to go wrong.
    at_moment: Callable[[str, BrokerProcess, tuple[int, ...]], None]


class BrokerProcess:
    def __init__(self, world: World, node_id: int, number: int, disk: Disk) -> None:
        self.world, self.node_id, self.number, self.disk = world, node_id, number, disk
        self.is_running = True
        self.is_stopping = False
        self.paused_until_ms = 0
        self.clock_ahead_ms = 0
        self.was_clean = disk.was_clean
        self.log = SimulatedLog(disk, CONFIG, lambda: self.now_ms() / 1000)
        self.log.on_advance = self._advanced
        #: Since the partition's role is that of a leader; before that object says so.
        self._is_leading = False
        self.session: Session | None = None
        self.membership = Membership(self)
        #: Since then it follows the metadata; before, it may still have to leave the ISR.
        self.has_joined = False
        self.state: PartitionState | None = None
        self.live = Live(-1, {})
        self.partitions = PartitionRegistry(lambda *_: True)
        fetcher: Any = Fetcher(self)
        self.followers = Followers(self.partitions, fetcher)
        self.isr_requests = IsrRequests(self)
        self._context = LeaderContext(
            node_id,
            self._is_alive,
            lambda _: None,
            lambda: LAG_MAX_MS,
            self.isr_requests.ask_for,
            self._is_certain,
        )
        self._untold: list[PartitionState] = []

    def __str__(self) -> str:
        return f"B{self.node_id}.{self.number}"

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

    def submit(
        self,
        transaction: Callable[[], Any],
        answered: Callable[[Any], None],
        *,
        is_write: bool = False,
    ) -> None:
        """Have a transaction made; where the session is over, a new one begins."""
        session = self.session
        assert session is not None

        def come_back(answer: Any) -> None:
            if isinstance(answer, Expired):
                if session is self.session:
                    self.note("learns that its session has expired")
                    self._begin_session(is_clean=self.has_joined or self.was_clean)
                answer = Lost()
            answered(answer)

        self.world.zookeeper.submit(session, transaction, come_back, is_write=is_write)

    # -- its life ----------------------------------------------------------------------------

    def start(self) -> None:
        self.note("starts, {}", "after a clean stop" if self.was_clean else "after an unclean stop")
        self._begin_session(is_clean=self.was_clean)
        self.after(TICK_MS, self._tick)

    def _begin_session(self, *, is_clean: bool) -> None:
        self.session = self.world.zookeeper.open_session(self)
        self.live = Live(-1, self.live.epochs)
        self.membership.join(is_clean=is_clean)

    def joined(self) -> None:
        """It is registered, and what is not in order is left."""
        if not self.has_joined and self.state is not None:
            self._tell_later(self.state)
        self.has_joined = True
        self.disk.was_clean = False
        self.read_all()

    def _tick(self) -> None:
        for partition in self.partitions:
            partition.drop_laggards()
        self.membership.seek_office()
        self.membership.settle()
        if self.session is not None:
            self.submit(lambda: None, lambda _: None)  # a heartbeat
        self.after(TICK_MS, self._tick)

    def stop_cleanly(self, ended: Callable[[], None]) -> None:
        """Hand over, make the log durable, end."""
        if not self.membership.is_registered or not self.has_joined:
            return
        self.is_stopping = True

        def begun(has_begun: bool) -> None:
            if has_begun:
                rewrite(
                    self,
                    lambda state, alive: handed_over(state, self.node_id, alive),
                    self.membership.check,
                    f"{self}, stopping",
                    lambda _: end(),
                )
            else:
                end()

        def end() -> None:
            self.disk.flush()
            self.checkpoint()
            self.disk.was_clean = True
            self.end("has stopped cleanly")
            if self.session is not None:
                self.world.zookeeper.znodes.expire(self.session)
            ended()

        self.membership.begin_last_epoch(begun)

    def end(self, how: str) -> None:
        self.note("{}", how)
        self.is_running = False

    def checkpoint(self) -> None:
        self.disk.high_watermark_checkpoint = self.log.high_watermark
        self.disk.log_start_checkpoint = self.log.log_start_offset

    # -- metadata ----------------------------------------------------------------------------

    def read_all(self) -> None:
        """Read what was missed."""
        znodes = self.world.zookeeper.znodes

        def answered(answer: Any) -> None:
            if isinstance(answer, tuple):
                self.take_live(answer[1])
                self.take_state(answer[0])
                self.membership.settle()
            else:
                self.after(BACKOFF_MS, self.read_all)

        self.submit(lambda: (znodes.state, znodes.live()), answered)

    def _is_alive(self, node_id: int, broker_epoch: int) -> bool:
        epoch = self.live.epochs.get(node_id)
        return epoch is not None and broker_epoch in (-1, epoch)

    def _is_certain(self, partition: Partition) -> bool:
        """Whether no other broker can lead by now, as far as this process hears of it."""
        state = self.state
        return state is not None and (state.leader, state.leader_epoch) == (
            self.node_id,
            partition.leader_epoch,
        )

    def take_live(self, live: Live) -> None:
        if live.version > self.live.version:
            self.live = live
            self.membership.settle()

    def take_state(self, state: PartitionState) -> None:
        """The image has a state of the partition, if that is newer; what hosts it is told later."""
        if self.state is None or _is_newer(state, self.state):
            self.state = state
            if self.has_joined:
                self._tell_later(state)
            self.membership.settle()

    def _tell_later(self, state: PartitionState) -> None:
        self._untold.append(state)
        if len(self._untold) == 1:
            self.after(self.world.schedule.delay_ms(2, 300), self._tell)

    def when_told(self, action: Callable[[], None]) -> None:
        """Once all that the image shows now has been followed."""
        if self._untold:
            self.after(5, lambda: self.when_told(action))
        else:
            action()

    def _tell(self) -> None:
        self._host(self._untold[0])
        del self._untold[0]
        if self._untold:
            self.after(self.world.schedule.delay_ms(2, 300), self._tell)

    # -- roles -------------------------------------------------------------------------------

    def _host(self, state: PartitionState) -> None:
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

    def answer_fetch(self, request: FetchRequest) -> PartitionFetch:
        if self.leader is None:
            return PartitionFetch(0, NOT_LEADER.code, -1, -1, -1, [], memoryview(b""))
        return answer_fetch(self.leader, request)

    def answer_offsets(self, leader_epoch: int) -> tuple[int, int] | KafkaError:
        if self.leader is None:
            return NOT_LEADER
        return answer_offsets(self.leader, leader_epoch)
