"""A broker's process on ZooKeeper: what it does in its session, and what it is told there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import handed_over
from drumlin.metadata.zookeeper.states.partition_states import is_newer
from drumlin.replication.partition import Partition
from replication.simulation.processes.isr_requests import IsrRequests
from replication.simulation.processes.membership import BACKOFF_MS, Membership
from replication.simulation.processes.process import MIN_ISR, TICK_MS, BrokerProcess, World
from replication.simulation.processes.rewriting import rewrite
from replication.simulation.world.disk import Disk
from replication.simulation.world.znodes import Expired, Live, Lost, Session, ZooKeeper


class ZooKeeperProcess(BrokerProcess):
    state: PartitionState | None = None

    def __init__(
        self, world: World, zookeeper: ZooKeeper, node_id: int, number: int, disk: Disk
    ) -> None:
        super().__init__(world, node_id, number, disk)
        self.zookeeper = zookeeper
        self.session: Session | None = None
        self.membership = Membership(self)
        #: Since then it follows the metadata; before, it may still have to leave the ISR.
        self.has_joined = False
        self.live = Live(-1, {})
        self._isr_requests = IsrRequests(self)
        self._untold: list[PartitionState] = []
        self.epoch_before = zookeeper.znodes.broker_epochs[node_id] or None

    @property
    def broker_epoch(self) -> int:
        return self.membership.broker_epoch

    @property
    def last_epoch(self) -> int:
        return self.membership.last_epoch

    def is_alive(self, node_id: int, broker_epoch: int) -> bool:
        epoch = self.live.epochs.get(node_id)
        return epoch is not None and broker_epoch in (-1, epoch)

    def ask_for_isr(self, partition: Partition, wish: IsrRequest) -> None:
        self._isr_requests.ask_for(partition, wish)

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
                    self._begin_session(is_clean=self.has_joined or self.is_current)
                answer = Lost()
            answered(answer)

        self.zookeeper.submit(session, transaction, come_back, is_write=is_write)

    # -- its life ----------------------------------------------------------------------------

    def start(self) -> None:
        self.note("starts, {}", "after a clean stop" if self.is_current else self.found)
        self._begin_session(is_clean=self.is_current)
        self.after(TICK_MS, self._tick)

    def _begin_session(self, *, is_clean: bool) -> None:
        self.session = self.zookeeper.open_session(self)
        self.live = Live(-1, self.live.epochs)
        self.membership.join(is_clean=is_clean)

    def joined(self) -> None:
        """It is registered, and what is not in order is left."""
        if not self.has_joined and self.state is not None:
            self._tell_later(self.state)
        self.has_joined = True
        self.disk.was_clean = self.disk.is_lost = self.disk.is_replaced = False
        self.read_all()

    def _tick(self) -> None:
        self.tick()
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
                    lambda state, alive: handed_over(state, self.node_id, alive, MIN_ISR),
                    self.membership.check,
                    f"{self}, stopping",
                    lambda _: end(),
                )
            else:
                end()

        def end() -> None:
            self.stopped()
            if self.session is not None:
                self.zookeeper.znodes.expire(self.session)
            ended()

        self.membership.begin_last_epoch(begun)

    # -- metadata ----------------------------------------------------------------------------

    def read_all(self) -> None:
        """Read what was missed."""
        znodes = self.zookeeper.znodes

        def answered(answer: Any) -> None:
            if isinstance(answer, tuple):
                self.take_live(answer[1])
                self.take_state(answer[0])
                self.membership.settle()
            else:
                self.after(BACKOFF_MS, self.read_all)

        self.submit(lambda: (znodes.state, znodes.live()), answered)

    def take_live(self, live: Live) -> None:
        if live.version > self.live.version:
            self.live = live
            self.membership.settle()

    def take_state(self, state: PartitionState) -> None:
        """The image has a state of the partition, if that is newer; what hosts it is told later."""
        if self.state is None or is_newer(state, self.state):
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
        self.host(self._untold[0])
        del self._untold[0]
        if self._untold:
            self.after(self.world.schedule.delay_ms(2, 300), self._tell)
