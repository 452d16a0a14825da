"""One process of a broker: registering, following what the metadata says, leading, fetching.

It holds on to what it knows, as a real one does: it may be dead to all others and not know it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from drumlin.metadata.zookeeper.leadership import settled

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.store import IsrWish

from .disk import SimulatedLog
from .follower import Follower
from .leader import NOT_LEADER, Failure, FetchAnswer, FetchRequest, Leader
from .ledger import Ledger
from .network import Connection, Network
from .schedule import Schedule
from .znodes import Expired, Live, Lost, Session, ZooKeeper

TICK_MS = 250
IDLE_MS = 40
BACKOFF_MS = 60


@dataclass(frozen=True)
class World:
    """What all processes share."""

    schedule: Schedule
    network: Network
    zookeeper: ZooKeeper
    ledger: Ledger
    min_isr: int
    #: What of a broker may be replaced by a part with a mistake in it.
    leader_type: type[Leader]
    follower_type: type[Follower]


class BrokerProcess:
    def __init__(self, world: World, node_id: int, number: int, log: SimulatedLog) -> None:
        self.world, self.node_id, self.number, self.log = world, node_id, number, log
        self.is_running = True
        self.is_stopping = False
        self.paused_until_ms = 0
        self.clock_ahead_ms = 0
        self.was_clean = log.was_clean
        self.session: Session | None = None
        self.broker_epoch = -1
        self.is_registered = False
        #: Since then it follows the metadata; before, it may still have to leave the ISR.
        self.has_joined = False
        self.state: PartitionState | None = None
        self.live = Live(-1, {})
        self.office_epoch: int | None = None
        #: How many elections are on their way to ZooKeeper.
        self.settling = 0
        self.leader: Leader | None = None
        self.follower: Follower | None = None
        self.connection = Connection()

    def __str__(self) -> str:
        return f"B{self.node_id}.{self.number}"

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
        expired: Callable[[], None] | None = None,
    ) -> None:
        """Have a transaction made in the session of now; a new session begins where it is over."""
        session = self.session
        assert session is not None

        def come_back(answer: Any) -> None:
            if session is not self.session:
                return  # the new session has begun with everything anew
            if isinstance(answer, Expired):
                self.join(self.has_joined or self.was_clean)
            else:
                answered(answer)

        self.world.zookeeper.submit(session, transaction, come_back)

    # -- becoming a broker of the cluster ----------------------------------------------------

    def start(self) -> None:
        self.note("starts, {}", "after a clean stop" if self.was_clean else "after an unclean stop")
        self.join(self.was_clean)
        self.after(TICK_MS, self._tick)

    def join(self, was_clean: bool) -> None:
        """In a new session: a new broker epoch, out of the ISR, then register."""
        self.session = self.world.zookeeper.open_session(self)
        self.is_registered = False
        self.office_epoch = None
        self.settling = 0
        self.live = Live(-1, {})
        self._bump(was_clean)

    def _bump(self, was_clean: bool) -> None:
        def answered(answer: Any) -> None:
            if not isinstance(answer, int):
                self.after(BACKOFF_MS, lambda: self._bump(was_clean))
                return
            self.broker_epoch = answer
            if was_clean:
                self._register()
            else:
                self.leave_isr()

        znodes = self.world.zookeeper.znodes

        def bump(version: Any) -> None:
            if isinstance(version, Lost):
                answered(version)
            else:
                self.submit(lambda: znodes.bump_broker_epoch(self.node_id, version), answered)

        self.submit(lambda: znodes.broker_epochs[self.node_id], bump)

    def leave_isr(self) -> None:
        """Records may be gone that this broker had: it is not in sync, unless nobody else is."""
        znodes = self.world.zookeeper.znodes

        def answered(answer: Any) -> None:
            if not isinstance(answer, PartitionState):
                self.after(BACKOFF_MS, self.leave_isr)
                return
            left = after_unclean_stop(answer, self.node_id)
            if left == answer:
                self._register()
                return
            self.submit(
                lambda: znodes.write_state(
                    left, answer.partition_epoch, f"{self} has stopped uncleanly"
                ),
                lambda done: (
                    self._register()
                    if isinstance(done, PartitionState)
                    else self.after(BACKOFF_MS, self.leave_isr)
                ),
            )

        self.submit(lambda: znodes.state, answered)

    def _register(self) -> None:
        znodes, session = self.world.zookeeper.znodes, self.session
        assert session is not None

        def register() -> None:
            if znodes.registered.get(self.node_id, (None, 0))[0] is not session:
                znodes.register(session, self.node_id, self.broker_epoch)

        def answered(answer: Any) -> None:
            if answer is not None:
                self.after(BACKOFF_MS, self._register)
                return
            self.is_registered = self.has_joined = True
            self.log.was_clean = False
            self.note("is registered, broker epoch {}", self.broker_epoch)
            self.read_all()

        self.submit(register, answered)

    def read_all(self) -> None:
        """Read what was missed."""
        znodes = self.world.zookeeper.znodes

        def answered(answer: Any) -> None:
            if isinstance(answer, tuple):
                self.take_live(answer[1])
                self.take_state(answer[0])
                if self.leader is not None and self.leader.isr.pending is not None:
                    self._submit_wish(self.leader, self.leader.isr.pending)
            else:
                self.after(BACKOFF_MS, self.read_all)

        self.submit(lambda: (znodes.state, znodes.live()), answered)

    # -- metadata ----------------------------------------------------------------------------

    def is_alive(self, node_id: int, broker_epoch: int) -> bool:
        return broker_epoch in (-1, self.live.epochs.get(node_id, -2)) and (
            node_id in self.live.epochs
        )

    def take_live(self, live: Live) -> None:
        if live.version > self.live.version:
            self.live = live
            self._settle()

    def take_state(self, state: PartitionState) -> None:
        """A state of the partition is known; maybe not the newest."""
        if not self.has_joined:
            return
        if self.state is not None and state.partition_epoch <= self.state.partition_epoch:
            return
        self.state = state
        if state.leader_epoch < 0:
            pass
        elif state.leader == self.node_id:
            self._lead(state)
        else:
            self._follow(state)
        self._settle()

    def _lead(self, state: PartitionState) -> None:
        self.follower = None
        if self.leader is not None and self.leader.epoch == state.leader_epoch:
            self.leader.agreed(state, self.now_ms())
            return
        self._stop_leading()
        log, ledger = self.log, self.world.ledger
        self.note("leads in epoch {}, log {}..{}, ISR {}", state.leader_epoch,
                  log.high_watermark, log.log_end_offset, state.isr)  # fmt: skip
        ledger.leads(self, state.leader_epoch, log)
        self.leader = self.world.leader_type(
            self.node_id,
            log,
            state,
            self.now_ms(),
            self.world.min_isr,
            self.is_alive,
            ledger.appended,
            self._advanced,
            self._wish,
        )
        self.leader.look(self.now_ms())

    def _advanced(self, before: int, now: int) -> None:
        self.note("high watermark {} -> {}", before, now)
        self.world.ledger.exposed(self, before, now, self.log)

    def _stop_leading(self) -> None:
        leader, self.leader = self.leader, None
        if leader is not None:
            leader.close()

    def _follow(self, state: PartitionState) -> None:
        self._stop_leading()
        if state.leader == NO_LEADER or self.node_id not in state.replicas:
            self.follower = None
        elif self.follower is None or self.follower.epoch != state.leader_epoch:
            self.note("follows B{} in epoch {}", state.leader, state.leader_epoch)
            self.follower = self.world.follower_type(
                self.node_id, self.log, state.leader, state.leader_epoch
            )
            self.connection = Connection()
            self._fetch(self.follower)

    # -- the leader's wishes -------------------------------------------------------------------

    def _wish(self, wish: IsrWish) -> None:
        self.note("wants the ISR {}", wish.isr)
        self._submit_wish(self.leader, wish)

    def _submit_wish(self, leader: Leader | None, wish: IsrWish) -> None:
        znodes = self.world.zookeeper.znodes

        def again() -> None:
            if leader is not None and leader is self.leader and leader.isr.pending is wish:
                self._submit_wish(leader, wish)

        def answered(answer: Any) -> None:
            if isinstance(answer, PartitionState):
                self.take_state(answer)
            elif isinstance(answer, Lost):
                self.after(BACKOFF_MS, again)
            else:
                self._learn(leader, wish)

        if self.is_registered:
            self.submit(
                lambda: znodes.alter_isr(
                    self.node_id, wish.leader_epoch, wish.partition_epoch, wish.isr
                ),
                answered,
            )
        else:
            self.after(BACKOFF_MS, again)

    def _learn(self, leader: Leader | None, wish: IsrWish) -> None:
        """The wish was refused: see whether something is newer that we do not know."""
        znodes = self.world.zookeeper.znodes

        def answered(answer: Any) -> None:
            if isinstance(answer, PartitionState):
                self.take_state(answer)
                if leader is not None:
                    leader.refused(wish)
            else:
                self.after(BACKOFF_MS, lambda: self._learn(leader, wish))

        self.submit(lambda: znodes.state, answered)

    # -- fetching ----------------------------------------------------------------------------

    def _fetch(self, follower: Follower) -> None:
        if follower is not self.follower:
            return
        request = follower.request(self.broker_epoch)

        def answered(answer: object) -> None:
            if follower is not self.follower:
                return
            delay_ms = BACKOFF_MS
            if answer is None:
                self.connection = Connection()
            elif isinstance(answer, FetchAnswer):
                before = self.log.log_end_offset
                follower.answered(request, answer)
                if self.log.log_end_offset < before:
                    self.note("truncates {} -> {}", before, self.log.log_end_offset)
                has_more = answer.records or answer.diverging
                delay_ms = 1 if has_more else IDLE_MS
            self.after(delay_ms, lambda: self._fetch(follower))

        self.world.network.send(
            self,
            self.connection,
            follower.leader,
            lambda process, reply: reply(process.fetched(request)),
            answered,
        )

    def fetched(self, request: FetchRequest) -> FetchAnswer | Failure:
        if self.leader is None:
            return NOT_LEADER
        return self.leader.fetch(request, self.now_ms())

    # -- chores, office, end -------------------------------------------------------------------

    def _tick(self) -> None:
        if self.leader is not None:
            self.leader.tick(self.now_ms())
        if self.is_registered:
            self._seek_office()
            self._settle()
            znodes = self.world.zookeeper.znodes
            self.submit(lambda: znodes.controller, lambda _: None)  # as a ping
        self.after(TICK_MS, self._tick)

    def _seek_office(self) -> None:
        znodes, session = self.world.zookeeper.znodes, self.session
        if self.office_epoch is not None or session is None:
            return

        def take() -> int:
            return znodes.controller_epoch if znodes.controller is session else (
                znodes.take_office(session)
            )  # fmt: skip

        def answered(answer: Any) -> None:
            if isinstance(answer, int) and self.office_epoch is None:
                self.note("is controller in epoch {}", answer)
                self.office_epoch = answer
                self.read_all()

        self.submit(take, answered)

    def _settle(self) -> None:
        """As the controller, see that the partition is led by a broker that is alive."""
        office_epoch, state = self.office_epoch, self.state
        if office_epoch is None or state is None or self.live.version < 0:
            return
        after = settled(state, self.live.epochs)
        if after == state:
            return
        znodes = self.world.zookeeper.znodes

        def answered(answer: Any) -> None:
            self.settling -= 1
            if not isinstance(answer, Lost):
                self.read_all()

        self.settling += 1
        self.submit(lambda: znodes.settle(after, state.partition_epoch, office_epoch), answered)

    def stop_cleanly(self, ended: Callable[[], None]) -> None:
        """Hand over, make the log durable, end."""
        znodes = self.world.zookeeper.znodes
        self.is_stopping = True

        def hand_over() -> None:
            state, me = znodes.state, self.node_id
            others = tuple(each for each in state.isr if each != me and each in znodes.registered)
            if others and me in state.isr:
                leader = state.leader if state.leader in others else others[0]
                epoch = state.leader_epoch + (state.leader != leader)
                after = replace(state, leader=leader, leader_epoch=epoch, isr=others)
                znodes.write_state(after, state.partition_epoch, f"{self} stops")

        def answered(answer: Any) -> None:
            if isinstance(answer, Lost):
                self.after(BACKOFF_MS, ask)
                return
            self.log.flush()
            self.log.checkpoint()
            self.log.was_clean = True
            self.end("has stopped cleanly")
            assert self.session is not None
            znodes.expire(self.session)
            ended()

        def ask() -> None:
            self.submit(hand_over, answered)

        if self.is_registered:
            ask()
        else:
            self.is_stopping = False

    def end(self, how: str) -> None:
        self.note("{}", how)
        self.is_running = False


def after_unclean_stop(state: PartitionState, node_id: int) -> PartitionState:
    """What a broker makes of the partition that may have lost records of it."""
    if node_id not in state.isr:
        return state
    others = tuple(each for each in state.isr if each != node_id)
    if not others:  # what is gone may have been seen: a new epoch is how others find out
        return replace(state, leader_epoch=state.leader_epoch + 1)
    leader = NO_LEADER if state.leader == node_id else state.leader
    epoch = state.leader_epoch + (state.leader == node_id)
    return replace(state, isr=others, leader=leader, leader_epoch=epoch)
