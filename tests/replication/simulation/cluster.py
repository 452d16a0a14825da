"""One run: brokers on a ZooKeeper, with clients, while faults happen and after they have ended."""

from __future__ import annotations

import asyncio
import traceback
from asyncio import events
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest.mock import patch

from drumlin.metadata.image import PartitionState
from drumlin.replication import followed_partition

from .clients import Consumer, Producer
from .disk import Disk
from .faults import Fault, draw
from .ledger import Ledger
from .log import SimulatedTruncation
from .network import Network
from .process import MIN_ISR, BrokerProcess, World
from .schedule import Schedule, Violation
from .znodes import ZOOKEEPER, Session, Znodes, ZooKeeper

FAULTS_END_MS = 9_000
#: By then everything must be well again.
LIMIT_MS = 24_000


class Cluster:
    def __init__(self, seed: int, faults: Sequence[Fault], *, is_traced: bool = False) -> None:
        self.schedule = schedule = Schedule(f"run {seed}", is_traced=is_traced)
        source = schedule.random
        count = source.choice((3, 3, 4, 5))
        replicas = source.sample(range(1, count + 1), source.choice((3, 3, 3, count)))
        self.disks = {each: Disk() for each in range(1, count + 1)}
        self.processes: dict[int, BrokerProcess] = {}
        self.network = Network(schedule, self.processes.get)
        self.znodes = Znodes(tuple(replicas), range(1, count + 1))
        self.zookeeper = ZooKeeper(schedule, self.network, self.znodes)
        self.ledger = Ledger(schedule, self.disks, MIN_ISR)
        self.ledger.state = lambda: self.znodes.state
        self._powerless: list[int] = []
        self.ledger.is_dead = self._powerless.__contains__
        self.znodes.on_broker_epoch = self._broker_epoch_begins
        self.znodes.on_state = self._state_changed
        self.znodes.on_live = self._live_changed
        self.world = World(schedule, self.network, self.zookeeper, self.ledger, self._at_moment)
        #: Faults that wait for the worst moment.
        self._traps: dict[str, Fault] = {}
        self._numbers = dict.fromkeys(self.disks, 0)
        self.are_faults_over = False
        self.producers = [Producer(self.world, self._all, 60) for _ in range(2)]
        self.network.loss = source.choice((0.0, 0.0, 0.02, 0.1))
        self.network.doubling = source.choice((0.0, 0.02, 0.3))
        self.zookeeper.slowness = source.choice((0.0, 0.02, 0.2))
        self.zookeeper.loss = source.choice((0.0, 0.0, 0.1))
        for each in self.disks:
            schedule.after(source.randrange(60), partial(self.start, each))
        for producer in self.producers:
            schedule.after(400, producer.run)
        for from_any in (False, True):
            consumer = Consumer(self.world, self._all, from_any=from_any)
            schedule.after(500, consumer.run)
        for fault in faults:
            schedule.at(fault.at_ms, partial(self._go_wrong, fault))
        schedule.at(FAULTS_END_MS, self._heal)

    def _all(self) -> list[BrokerProcess]:
        return list(self.processes.values())

    def run(self) -> None:
        """Until all is well after the faults.

        Raises:
            Violation: a promise was broken.
        """
        self.schedule.run(LIMIT_MS)
        if not self.schedule.is_over:
            why = self._unsettled() or "..."
            self.schedule.note("BROKEN: not well again: {}", why)
            raise Violation(f"not well again: {why}")
        self.ledger.check_equal()

    def _unsettled(self) -> str | None:
        def high_watermark(node_id: int) -> int | None:
            process = self.processes.get(node_id)
            return None if process is None else process.log.high_watermark

        return self.ledger.unsettled(high_watermark)

    # -- news --------------------------------------------------------------------------------

    def _sessions(self) -> list[Session]:
        return [each.session for each in self._all() if each.session and each.is_running]

    def _broker_epoch_begins(self, node_id: int) -> None:
        if node_id in self._powerless:
            self._powerless.remove(node_id)
            self.ledger.look_for_taint()

    def _state_changed(self, state: PartitionState, why: str) -> None:
        self.ledger.state_changed(state, why)
        for session in self._sessions():
            self.zookeeper.tell(session, partial(session.process.take_state, state))

    def _live_changed(self) -> None:
        live = self.znodes.live()
        self.schedule.note("registered are {}", live.epochs)
        for session in self._sessions():
            self.zookeeper.tell(session, partial(session.process.take_live, live))

    # -- processes ---------------------------------------------------------------------------

    def start(self, node_id: int) -> None:
        before = self.processes.get(node_id)
        if before is not None and before.is_running:
            return
        self._numbers[node_id] += 1
        disk = self.disks[node_id]
        process = BrokerProcess(self.world, node_id, self._numbers[node_id], disk)
        self.processes[node_id] = process
        process.start()

    def _start_later(self, node_id: int, extent: float) -> None:
        """Mostly soon; now and then long after its session is over."""
        self.schedule.after(20 + int(3000 * extent**3), partial(self.start, node_id))

    def _heal(self) -> None:
        """The faults are over: everybody comes back, nothing is lost any more."""
        self.schedule.note("the faults are over")
        self.are_faults_over = True
        self.network.heal()
        self.zookeeper.slowness = self.zookeeper.loss = 0.0
        for process in self._all():
            process.paused_until_ms = min(process.paused_until_ms, self.schedule.now_ms)
            if process.session is not None:
                process.session.answers_to_lose = 0
            if not process.is_running:
                self.schedule.after(100, partial(self.start, process.node_id))
        self.schedule.after(2_500, self._look)

    def _look(self) -> None:
        """Producing goes on for a while, then all replicas must come to the same end."""
        is_quiet = not self.producers[0].is_producing
        if is_quiet and self._unsettled() is None:
            self.schedule.is_over = True
        elif not is_quiet and sorted(self.znodes.state.isr) == sorted(self.znodes.state.replicas):
            for producer in self.producers:
                producer.is_producing = False
        self.schedule.after(100, self._look)

    # -- faults ------------------------------------------------------------------------------

    def _at_moment(self, moment: str, process: BrokerProcess, others: tuple[int, ...]) -> None:
        fault = self._traps.pop(moment, None)
        session = process.session
        if fault is None or session is None or self.are_faults_over:
            return
        if fault.other < 0.4:
            self.schedule.note("... whose answer is lost")
            session.answers_to_lose += 1
            if fault.other < 0.2:
                self._expire_session(process, fault)
            return
        self.schedule.note("... which takes long")
        session.last_request_ms = self.schedule.now_ms + int(1200 * fault.extent)
        victims = [each for each in self._all() if each.is_running and each.node_id in others]
        quick = fault._replace(other=fault.victim, extent=fault.extent / 4)
        if moment == "start":
            self.schedule.after(1, partial(self._kill, process, quick))
        elif victims:
            victim = victims[int(fault.victim * len(victims))]
            self.schedule.after(1, partial(self._kill_and_lose_tail, victim, quick))

    def _strike_at_start(self, process: BrokerProcess, fault: Fault) -> None:
        self._traps["start"] = fault

    def _strike_at_wish(self, process: BrokerProcess, fault: Fault) -> None:
        self._traps["wish"] = fault

    def _victim(self, fault: Fault) -> BrokerProcess | None:
        """Often the leader or the controller."""
        running = [each for each in self._all() if each.is_running]
        if not running:
            return None
        choice = fault.victim
        if choice < 0.35:
            running = [each for each in running if each.leader is not None] or running
            choice /= 0.35
        elif choice < 0.5:
            running = [
                each for each in running if each.membership.office_epoch is not None
            ] or running
            choice = (choice - 0.35) / 0.15
        else:
            choice = (choice - 0.5) / 0.5
        return running[int(choice * len(running))]

    def _go_wrong(self, fault: Fault) -> None:
        process = self._victim(fault)
        if process is not None:
            method = "_" + fault.kind.lower().replace(" ", "_")
            getattr(self, method)(process, fault)

    def _may_end_session(self, process: BrokerProcess) -> bool:
        """Not while records are only where a second failure would take them, too."""
        return self.ledger.tainted in ([], [process.node_id])

    def _kill(self, process: BrokerProcess, fault: Fault) -> None:
        if self._may_end_session(process):
            process.end("is killed")
            self._start_later(process.node_id, fault.extent)

    def _kill_and_lose_tail(self, process: BrokerProcess, fault: Fault) -> None:
        disk = process.disk
        before = disk.log_end_offset
        if self._may_lose_tail(process):
            disk.lose_tail(fault.other)
            self._powerless.append(process.node_id)
            self.ledger.tainted.append(process.node_id)
        elif self.znodes.state.isr == (process.node_id,) and self._may_end_session(process):
            disk.lose_from(self.ledger.committed_end, fault.other)  # nobody was promised any of it
        else:
            return
        process.end("is killed")
        self.schedule.note("... and its log ends at {} after {}", disk.log_end_offset, before)
        self._start_later(process.node_id, fault.extent)

    def _may_lose_tail(self, process: BrokerProcess) -> bool:
        """Only while another in-sync replica is there, and will be until this one has left."""
        now_ms, running = self.schedule.now_ms, [each for each in self._all() if each.is_running]
        if self.ledger.tainted or any(each.is_stopping for each in running):
            return False
        isr = None if process.leader is None else process.leader.isr
        if isr is not None and isr.pending is not None:
            return False
        for each in running:
            is_behind = each.live.version != self.znodes.registrations
            member = each.membership
            if member.settling or (member.office_epoch is not None and is_behind):
                return False
        return any(
            each is not process
            and each.node_id in self.znodes.state.isr
            and each.membership.is_registered
            and each.session is not None
            and not each.session.has_expired
            and each.paused_until_ms <= now_ms
            and self.network.cut_until(each.node_id, ZOOKEEPER) <= now_ms
            for each in running
        )

    def _stop(self, process: BrokerProcess, fault: Fault) -> None:
        if self._may_end_session(process) and not process.is_stopping:
            process.stop_cleanly(partial(self._start_later, process.node_id, fault.extent))

    def _other(self, process: BrokerProcess, fault: Fault) -> int:
        others = [each for each in self.disks if each != process.node_id]
        return others[int(fault.other * len(others))]

    def _until(self, fault: Fault) -> int:
        return min(FAULTS_END_MS, self.schedule.now_ms + 100 + int(2500 * fault.extent**2))

    def _cut_one_way(self, process: BrokerProcess, fault: Fault) -> None:
        other = self._other(process, fault)
        self.schedule.note("no way from B{} to {}", other, process)
        self.network.cut(other, process.node_id, self._until(fault))

    def _cut_both_ways(self, process: BrokerProcess, fault: Fault) -> None:
        other, until_ms = self._other(process, fault), self._until(fault)
        self.schedule.note("no way between {} and B{}", process, other)
        self.network.cut(other, process.node_id, until_ms)
        self.network.cut(process.node_id, other, until_ms)

    def _isolate(self, process: BrokerProcess, fault: Fault) -> None:
        self.schedule.note("{} is cut off from all brokers", process)
        for other in self.disks:
            self.network.cut(other, process.node_id, self._until(fault))
            self.network.cut(process.node_id, other, self._until(fault))

    def _cut_from_zookeeper(self, process: BrokerProcess, fault: Fault) -> None:
        if self._may_end_session(process):
            self.schedule.note("{} is cut off from ZooKeeper", process)
            self.network.cut(process.node_id, ZOOKEEPER, self._until(fault))

    def _expire_session(self, process: BrokerProcess, fault: Fault) -> None:
        session = process.session
        if self._may_end_session(process) and session is not None and not session.has_expired:
            self.schedule.note("the session of {} expires", process)
            self.znodes.expire(session)
            if fault.extent > 0.3:
                self.network.cut(process.node_id, ZOOKEEPER, self._until(fault))

    def _lose_answers_of_zookeeper(self, process: BrokerProcess, fault: Fault) -> None:
        if process.session is not None:
            self.schedule.note("answers to {} get lost", process)
            process.session.answers_to_lose = 1 + int(fault.extent * 3)

    def _pause(self, process: BrokerProcess, fault: Fault) -> None:
        if self._may_end_session(process):
            self.schedule.note("{} stands still", process)
            process.paused_until_ms = self._until(fault)

    def _clock(self, process: BrokerProcess, fault: Fault) -> None:
        process.clock_ahead_ms += int((fault.extent - 0.4) * 3000)

    def _move_leader(self, process: BrokerProcess, fault: Fault) -> None:
        """As an operator has it done."""
        state = self.znodes.state
        others = [each for each in state.isr if each != state.leader]
        others = [each for each in others if each in self.znodes.registered]
        if others:
            leader = others[int(fault.other * len(others))]
            moved = replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)
            self.znodes.write_state(moved, state.partition_epoch, {}, "an operator")

    def _swing_leader(self, process: BrokerProcess, fault: Fault) -> None:
        """To another one, and back before all have heard of it."""
        first = self.znodes.state.leader

        def swing_back() -> None:
            state = self.znodes.state
            if first in state.isr and first in self.znodes.registered:
                back = replace(state, leader=first, leader_epoch=state.leader_epoch + 1)
                self.znodes.write_state(back, state.partition_epoch, {}, "an operator")

        self._move_leader(process, fault)
        self.schedule.after(10 + int(200 * fault.extent), swing_back)

    def _flush(self, process: BrokerProcess, fault: Fault) -> None:
        process.disk.flush()

    def _checkpoint(self, process: BrokerProcess, fault: Fault) -> None:
        process.checkpoint()
        process.log.expire()

    def _delete_records(self, process: BrokerProcess, fault: Fault) -> None:
        if process.leader is not None:
            log = process.log
            span = log.high_watermark - log.log_start_offset
            offset = log.log_start_offset + int(span * fault.extent)
            self.ledger.deleted_to = max(self.ledger.deleted_to, offset)
            self.schedule.note("{} deletes records before {}", process, offset)
            process.leader.delete_records_before(offset)

    def _retention(self, process: BrokerProcess, fault: Fault) -> None:
        """Each replica by itself; often nothing is left that is committed."""
        log = process.log
        offset = log.high_watermark
        if fault.other < 0.5:
            offset -= int((log.high_watermark - log.log_start_offset) * fault.extent)
        self.ledger.deleted_to = max(self.ledger.deleted_to, offset)
        self.schedule.note("{} removes records before {}", process, offset)
        log.delete_records_before(offset)
        log.expire()

    def _clean(self, process: BrokerProcess, fault: Fault) -> None:
        self.schedule.note("{} cleans up to {}", process, process.log.high_watermark)
        process.log.clean()


class _Loop:
    """As much of an event loop as a future needs, in simulated time."""

    schedule: Schedule

    def create_future(self) -> asyncio.Future[Any]:
        loop: Any = self
        return asyncio.Future(loop=loop)

    def call_soon(
        self, callback: Callable[..., None], *arguments: Any, context: Any = None
    ) -> None:
        self.schedule.after(0, lambda: callback(*arguments))

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)


@dataclass(frozen=True)
class Outcome:
    seed: int
    violation: str | None
    trace: list[str]
    steps: int
    committed: int
    acknowledged: int


def run(
    seed: int,
    faults: Sequence[Fault] | None = None,
    *,
    is_traced: bool = False,
) -> Outcome:
    """One run from its seed; with other faults, if they are given."""
    faults = draw(seed, FAULTS_END_MS) if faults is None else faults
    violation = None
    loop: Any = _Loop()
    events._set_running_loop(loop)  # futures ask for one
    try:
        with patch.object(followed_partition, "Truncation", SimulatedTruncation):
            cluster = Cluster(seed, faults, is_traced=is_traced)
            loop.schedule = cluster.schedule
            cluster.run()
    except Violation as broken:
        violation = str(broken)
    except Exception:
        violation = traceback.format_exc()
        cluster.schedule.note("BROKEN: {}", violation)
    finally:
        events._set_running_loop(None)
    return Outcome(
        seed,
        violation,
        cluster.schedule.trace,
        cluster.schedule.steps,
        cluster.ledger.committed_end,
        cluster.ledger.acknowledged,
    )
