"""What ZooKeeper has of a partition and of the brokers, and how processes reach it.

Transactions happen one after the other. Those of one session come in the order in which they were
sent. An answer may be lost after its transaction was made. A session may expire while its process
knows nothing of that; news comes late, and out of order between brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from drumlin.metadata.image import PartitionState

from .network import Network
from .schedule import Schedule

if TYPE_CHECKING:
    from .process import BrokerProcess

#: The place of ZooKeeper in the network.
ZOOKEEPER = -2
SESSION_TIMEOUT_MS = 600


class Refused(Exception):
    """The transaction was not made: something has another version than was thought."""


class Lost:
    """What a process gets in place of an answer: it does not know whether it was made."""


class Expired:
    """What a process gets in place of an answer: its session is over."""


class Live:
    """Which brokers are registered, as of one moment: id -> broker epoch."""

    def __init__(self, version: int, epochs: dict[int, int]) -> None:
        self.version = version
        self.epochs = epochs


class Session:
    def __init__(self, process: BrokerProcess) -> None:
        self.process = process
        self.has_expired = False
        self.last_request_ms = 0
        self.last_answer_ms = 0
        #: When a process that is silent since then is given up.
        self.heard_ms = 0
        self.answers_to_lose = 0


class Znodes:
    """The nodes themselves. Each method is a transaction."""

    def __init__(self, replicas: tuple[int, ...], brokers: range) -> None:
        self.state = PartitionState(0, -1, -1, replicas, ())
        self.broker_epochs = dict.fromkeys(brokers, 0)
        self.registered: dict[int, tuple[Session, int]] = {}
        self.registrations = 0
        self.controller: Session | None = None
        self.controller_epoch = 0
        #: Called with each new state, and what made it.
        self.on_state: Callable[[PartitionState, str], None] = lambda *_: None
        self.on_broker_epoch: Callable[[int], None] = lambda _: None
        self.on_live: Callable[[], None] = lambda: None

    def live(self) -> Live:
        return Live(self.registrations, {key: epoch for key, (_, epoch) in self.registered.items()})

    def write_state(self, state: PartitionState, if_version: int, why: str) -> PartitionState:
        if self.state.partition_epoch != if_version:
            raise Refused
        return self._put_state(state, why)

    def _put_state(self, state: PartitionState, why: str) -> PartitionState:
        self.state = replace(state, partition_epoch=self.state.partition_epoch + 1)
        self.on_state(self.state, why)
        return self.state

    def alter_isr(
        self, node_id: int, leader_epoch: int, version: int, isr: tuple[tuple[int, int], ...]
    ) -> PartitionState:
        """What a leader wishes, if the members that it adds are those that it knows."""
        self.check_partition(leader_epoch, version)
        for each, epoch in isr:
            if each not in self.state.isr:
                self.check_member(each, epoch)
        members = tuple(each for each, _ in isr)
        return self._put_state(replace(self.state, isr=members), f"leader {node_id}")

    def check_partition(self, leader_epoch: int, version: int) -> None:
        if (self.state.leader_epoch, self.state.partition_epoch) != (leader_epoch, version):
            raise Refused

    def check_member(self, node_id: int, broker_epoch: int) -> None:
        if self.broker_epochs[node_id] != broker_epoch:
            raise Refused

    def bump_broker_epoch(self, node_id: int, if_version: int) -> int:
        """Begin a broker epoch.

        A predecessor's may arrive late, and must not end the one that its successor has begun.
        """
        if self.broker_epochs[node_id] != if_version:
            raise Refused
        self.broker_epochs[node_id] += 1
        self.on_broker_epoch(node_id)
        return self.broker_epochs[node_id]

    def register(self, session: Session, node_id: int, epoch: int) -> None:
        if node_id in self.registered or self.broker_epochs[node_id] != epoch:
            raise Refused
        self.registered[node_id] = session, epoch
        self.registrations += 1
        self.on_live()

    def take_office(self, session: Session) -> int:
        if self.controller is not None:
            raise Refused
        self.controller = session
        self.controller_epoch += 1
        return self.controller_epoch

    def settle(self, state: PartitionState, if_version: int, controller_epoch: int) -> None:
        if self.controller_epoch != controller_epoch:
            raise Refused
        self.write_state(state, if_version, f"controller of epoch {controller_epoch}")

    def expire(self, session: Session) -> None:
        session.has_expired = True
        if self.controller is session:
            self.controller = None
        node_id = session.process.node_id
        if self.registered.get(node_id, (None, 0))[0] is session:
            del self.registered[node_id]
            self.registrations += 1
            self.on_live()


class ZooKeeper:
    """The way to the znodes."""

    def __init__(self, schedule: Schedule, network: Network, znodes: Znodes) -> None:
        self._schedule = schedule
        self._network = network
        self.znodes = znodes
        self.slowness = 0.0
        self.loss = 0.0

    def open_session(self, process: BrokerProcess) -> Session:
        session = Session(process)
        session.heard_ms = self._schedule.now_ms
        self._watch(session)
        return session

    def _watch(self, session: Session) -> None:
        """Expire a session whose process is dead, stopped, or cut off for too long."""
        if session.has_expired:
            return
        now_ms, process = self._schedule.now_ms, session.process
        is_heard = (
            process.is_running
            and process.paused_until_ms <= now_ms
            and self._network.cut_until(process.node_id, ZOOKEEPER) <= now_ms
        )
        if is_heard:
            session.heard_ms = now_ms
        elif now_ms - session.heard_ms > SESSION_TIMEOUT_MS:
            self._schedule.note("ZooKeeper expires the session of {}", process)
            self.znodes.expire(session)
            return
        self._schedule.after(100, lambda: self._watch(session))

    def submit(
        self, session: Session, transaction: Callable[[], Any], answered: Callable[[Any], None]
    ) -> None:
        """Have a transaction made; its result, `Refused`, `Lost` or `Expired` comes back."""
        schedule, process = self._schedule, session.process
        cut_until_ms = self._network.cut_until(process.node_id, ZOOKEEPER)
        if cut_until_ms > schedule.now_ms or schedule.chance(self.loss):
            schedule.after(80, lambda: process.happens(lambda: answered(Lost())))
            return
        arrives = max(session.last_request_ms, schedule.now_ms + self._delay_ms())
        session.last_request_ms = arrives

        def happen() -> None:
            answer: Any
            if session.has_expired:
                answer = Expired()
            else:
                try:
                    answer = transaction()
                except Refused as refusal:
                    answer = refusal
            if session.answers_to_lose and not isinstance(answer, Expired):
                session.answers_to_lose -= 1
                answer = Lost()
            back = max(session.last_answer_ms, schedule.now_ms + self._delay_ms())
            session.last_answer_ms = back
            schedule.at(back, lambda: process.happens(lambda: answered(answer)))

        schedule.at(arrives, happen)

    def _delay_ms(self) -> int:
        if self._schedule.chance(self.slowness):
            return self._schedule.random.randrange(1200)
        return self._schedule.delay_ms(8, 60)

    def tell(self, session: Session, told: Callable[[], None]) -> None:
        """News for a process: it comes late, and in any order, as long as its session lasts."""
        delay_ms = self._schedule.delay_ms(30, 800)
        cut_until_ms = self._network.cut_until(session.process.node_id, ZOOKEEPER)
        at_ms = max(self._schedule.now_ms, cut_until_ms) + delay_ms
        self._schedule.at(
            at_ms, lambda: None if session.has_expired else session.process.happens(told)
        )
