"""What ZooKeeper has of a partition and of the brokers, and how processes reach it.

Transactions happen one after the other. Those of one session come in the order in which they were
sent. An answer may be lost after its transaction was made. A session may expire while its process
knows nothing of that; news comes late, and out of order between brokers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.leadership import never_led
from replication.simulation.world.network import Network
from replication.simulation.world.schedule import Schedule

if TYPE_CHECKING:
    from replication.simulation.processes.zookeeper_process import ZooKeeperProcess

#: The place of ZooKeeper in the network.
ZOOKEEPER = -2
SESSION_TIMEOUT_MS = 600


class Conflict(Exception):
    """The transaction was not made: something is not as was thought."""


class Fenced(Conflict):
    """Its writer is not what it thinks to be."""


class Lost:
    """What a process gets in place of an answer: it does not know whether it was made."""


class Expired:
    """What a process gets in place of an answer: its session is over."""


class Live(NamedTuple):
    """Which brokers are registered, as of one moment: id -> broker epoch."""

    version: int
    epochs: dict[int, int]


class Session:
    def __init__(self, process: ZooKeeperProcess) -> None:
        self.process = process
        self.has_expired = False
        self.last_request_ms = 0
        self.last_answer_ms = 0
        #: When a process that is silent since then is given up.
        self.heard_ms = 0
        #: Of the next ones to transactions that change something.
        self.answers_to_lose = 0


class Znodes:
    """The nodes themselves. Each method is a transaction, or part of one."""

    def __init__(self, replicas: tuple[int, ...], brokers: range) -> None:
        self.state = replace(never_led(0, replicas), partition_epoch=0)
        self.broker_epochs = dict.fromkeys(brokers, 0)
        self.registered: dict[int, Session] = {}
        self.registrations = 0
        self.controller: Session | None = None
        self.controller_epoch = 0
        #: Called with each new state, and who made it.
        self.on_state: Callable[[PartitionState, str], None] = lambda *_: None
        self.on_broker_epoch: Callable[[int], None] = lambda _: None
        self.on_live: Callable[[], None] = lambda: None

    # -- brokers -------------------------------------------------------------------------

    def live(self) -> Live:
        epochs = {each: self.broker_epochs[each] for each in self.registered}
        return Live(self.registrations, epochs)

    def begin_broker_epoch(self, node_id: int, if_version: int) -> int:
        """By compare-and-set, and while nobody is registered: a predecessor's may arrive late."""
        if node_id in self.registered or self.broker_epochs[node_id] != if_version:
            raise Conflict
        return self.bump(node_id)

    def bump(self, node_id: int) -> int:
        self.broker_epochs[node_id] += 1
        self.on_broker_epoch(node_id)
        return self.broker_epochs[node_id]

    def check_epoch(self, node_id: int, epoch: int) -> None:
        if self.broker_epochs[node_id] != epoch:
            raise Fenced

    def check_broker(self, node_id: int, epoch: int) -> None:
        self.check_epoch(node_id, epoch)
        if node_id not in self.registered:
            raise Fenced

    def register(self, session: Session, node_id: int, epoch: int) -> None:
        self.check_epoch(node_id, epoch)
        if node_id in self.registered:
            raise Conflict
        self.registered[node_id] = session
        self.registrations += 1
        self.on_live()

    def withdraw(self, node_id: int) -> None:
        if self.registered.pop(node_id, None) is not None:
            self.registrations += 1
            self.on_live()

    def expire(self, session: Session) -> None:
        session.has_expired = True
        if self.controller is session:
            self.controller = None
        if self.registered.get(session.process.node_id) is session:
            self.withdraw(session.process.node_id)

    # -- the controller ------------------------------------------------------------------

    def take_office(self, session: Session) -> int:
        if self.controller is None:
            self.controller = session
            self.controller_epoch += 1
        elif self.controller is not session:
            raise Conflict
        return self.controller_epoch

    def check_controller(self, controller_epoch: int) -> None:
        if self.controller_epoch != controller_epoch:
            raise Fenced

    # -- the state of the partition ------------------------------------------------------

    def write_state(
        self, after: PartitionState, if_version: int, relied_on: Mapping[int, int], why: str
    ) -> PartitionState:
        """By compare-and-set; those who come in must be what they are taken for."""
        self.check_version(if_version)
        for node_id, epoch in relied_on.items():
            self.check_member(node_id, epoch)
        self.state = replace(after, partition_epoch=self.state.partition_epoch + 1)
        self.on_state(self.state, why)
        return self.state

    def check_version(self, version: int) -> None:
        if self.state.partition_epoch != version:
            raise Conflict

    def check_member(self, node_id: int, epoch: int) -> None:
        if self.broker_epochs[node_id] != epoch or node_id not in self.registered:
            raise Conflict


class ZooKeeper:
    """The way to the znodes."""

    def __init__(self, schedule: Schedule, network: Network, znodes: Znodes) -> None:
        self._schedule = schedule
        self._network = network
        self.znodes = znodes
        self.slowness = 0.0
        self.loss = 0.0

    def open_session(self, process: ZooKeeperProcess) -> Session:
        session = Session(process)
        session.heard_ms = self._schedule.now_ms
        self._watch(session)
        return session

    def _watch(self, session: Session) -> None:
        """Expire a session whose process is dead, stands still, or is cut off for too long."""
        if session.has_expired:
            return
        now_ms, process = self._schedule.now_ms, session.process
        is_heard = (
            process.is_running
            and process.session is session
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
        self,
        session: Session,
        transaction: Callable[[], Any],
        answered: Callable[[Any], None],
        *,
        is_write: bool = False,
    ) -> None:
        """Have a transaction made; its result, a `Conflict`, `Lost` or `Expired` comes back."""
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
                except Conflict as conflict:
                    answer = conflict
            if is_write and session.answers_to_lose and not isinstance(answer, Expired):
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
