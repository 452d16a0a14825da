"""One run: brokers with their store, and clients, while faults happen and after they have ended.

What differs between the stores is in `on_zookeeper.py` and `on_machine.py`.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Generic, TypeVar

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.rules.eligible import complete, superseded
from replication.simulation.processes.process import MIN_ISR, BrokerProcess, World
from replication.simulation.run.clients import Consumer, Producer
from replication.simulation.run.ledger import Ledger
from replication.simulation.world.disk import Disk
from replication.simulation.world.failing_disks import fail_disk
from replication.simulation.world.faults import Fault
from replication.simulation.world.network import Network
from replication.simulation.world.schedule import Schedule, Violation

FAULTS_END_MS = 9_000
#: By then everything must be well again.
LIMIT_MS = 24_000

P = TypeVar("P", bound=BrokerProcess)


class Cluster(ABC, Generic[P]):
    #: What may happen, and how often.
    kinds: Mapping[str, int]

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        self.schedule = schedule = Schedule(f"run {seed}", is_traced=is_traced)
        source = schedule.random
        count = source.choice((3, 3, 4, 5))
        self.replicas = tuple(source.sample(range(1, count + 1), source.choice((3, 3, 3, count))))
        self.disks = {each: Disk() for each in range(1, count + 1)}
        self.processes: dict[int, P] = {}
        self.network = Network(schedule, self.processes.get)
        self.ledger = Ledger(schedule, self.disks, MIN_ISR)
        self.ledger.state = lambda: self.state
        self._powerless: list[int] = []
        self.ledger.is_dead = self._powerless.__contains__
        self.world = World(schedule, self.network, self.ledger, self.at_moment)
        #: Faults that wait for the worst moment.
        self._traps: dict[str, Fault] = {}
        self._numbers = dict.fromkeys(self.disks, 0)
        self.are_faults_over = False
        self.producers = [Producer(self.world, self.all, 60) for _ in range(2)]
        self.network.loss = source.choice((0.0, 0.0, 0.02, 0.1))
        self.network.doubling = source.choice((0.0, 0.02, 0.3))

    def begin(self, faults: Sequence[Fault]) -> None:
        """Have everything happen that is to happen by itself."""
        schedule = self.schedule
        self.start_all()
        for producer in self.producers:
            schedule.after(400, producer.run)
        for from_any in (False, True):
            consumer = Consumer(self.world, self.all, from_any=from_any)
            schedule.after(500, consumer.run)
        for fault in faults:
            schedule.at(fault.at_ms, partial(self._go_wrong, fault))
        schedule.at(FAULTS_END_MS, self._heal)

    def all(self) -> list[P]:
        return list(self.processes.values())

    def running(self) -> list[P]:
        return [each for each in self.all() if each.is_running]

    # -- what the stores differ in ---------------------------------------------------------------

    @property
    @abstractmethod
    def state(self) -> PartitionState:
        """The partition as it is stored."""

    @abstractmethod
    def start_all(self) -> None: ...

    @abstractmethod
    def come_back(self, node_id: int, extent: float) -> None:
        """A process has ended, and is to be started again."""

    @abstractmethod
    def heal_store(self) -> None: ...

    @abstractmethod
    def deciding(self) -> list[P]:
        """The processes that decide who leads."""

    @abstractmethod
    def may_lead(self) -> list[int]:
        """Who is in sync and alive."""

    @abstractmethod
    def lead(self, leader: int) -> None:
        """Have another broker lead, if it may, as an operator does."""

    def surroundings(self) -> AbstractContextManager[object]:
        """What is to be in place while it runs."""
        return nullcontext()

    def at_moment(self, moment: str, process: BrokerProcess, others: tuple[int, ...]) -> None:
        """See `World`."""

    def broker_epoch_begins(self, node_id: int) -> None:
        """Maybe by the wish of a process that has ended, and knows nothing of what came after."""
        if node_id in self._powerless and self.processes[node_id].is_running:
            self._powerless.remove(node_id)
            self.ledger.look_for_taint()

    # -- the end -----------------------------------------------------------------------------

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

    def _heal(self) -> None:
        """The faults are over: everybody comes back, nothing is lost any more."""
        self.schedule.note("the faults are over")
        self.are_faults_over = True
        self.network.heal()
        for process in self.all():
            process.paused_until_ms = min(process.paused_until_ms, self.schedule.now_ms)
        self.heal_store()
        self.schedule.after(2_500, self._look)

    def _look(self) -> None:
        """Producing goes on for a while, then all replicas must come to the same end."""
        is_quiet = not self.producers[0].is_producing
        if is_quiet and self._unsettled() is None:
            self.schedule.is_over = True
        elif not is_quiet and sorted(self.state.isr) == sorted(self.state.replicas):
            for producer in self.producers:
                producer.is_producing = False
        self.schedule.after(100, self._look)

    # -- faults ------------------------------------------------------------------------------

    def _strike_at_start(self, process: P, fault: Fault) -> None:
        self._traps["start"] = fault

    def _strike_at_wish(self, process: P, fault: Fault) -> None:
        self._traps["wish"] = fault

    def _victim(self, fault: Fault) -> P | None:
        """Often the leader or the controller."""
        running = self.running()
        if not running:
            return None
        choice = fault.victim
        if choice < 0.35:
            running = [each for each in running if each.leader is not None] or running
            choice /= 0.35
        elif choice < 0.5:
            running = self.deciding() or running
            choice = (choice - 0.35) / 0.15
        else:
            choice = (choice - 0.5) / 0.5
        return running[int(choice * len(running))]

    def _go_wrong(self, fault: Fault) -> None:
        process = self._victim(fault)
        if process is not None:
            method = "_" + fault.kind.lower().replace(" ", "_")
            getattr(self, method)(process, fault)

    def may_end(self, process: P) -> bool:
        """Whatever a process has written outlives it."""
        return process.is_running

    def _kill(self, process: P, fault: Fault) -> None:
        if self.may_end(process):
            process.end("is killed")
            self.come_back(process.node_id, fault.extent)

    def _kill_and_lose_tail(self, process: P, fault: Fault) -> None:
        disk = process.disk
        before = disk.log_end_offset
        if self.may_damage(process.node_id):
            disk.lose_tail(fault.other)
            self._is_damaged(process.node_id)
        elif complete(self.state) == {process.node_id} and self.may_end(process):
            disk.lose_from(self.ledger.committed_end, fault.other)  # nobody was promised any of it
        else:
            return
        process.end("is killed")
        self.schedule.note("... and its log ends at {} after {}", disk.log_end_offset, before)
        self.come_back(process.node_id, fault.extent)

    def may_damage(self, node_id: int) -> bool:
        """Not while records are only where a second damage would take them, too.

        Fewer than `MIN_ISR` brokers may lose what they have acknowledged: one, until that is known.
        Who has come back to a leader does not count: that may have said already that it lives, so
        that it is waited for, and nobody else. Nor does a disk that is about to count for nothing.
        Were nobody else left, an operator would have to decide.
        """
        state = self.state if self.state.leader == NO_LEADER else superseded(self.state)
        others = [each for each in complete(state) - {node_id} if not self.disks[each].is_replaced]
        return self.ledger.tainted in ([], [node_id]) and any(map(self.ledger.has_all, others))

    def _is_damaged(self, node_id: int, *, is_told: bool = False) -> None:
        """Until another process of it has begun, it is taken for what it was."""
        self.ledger.is_damaged(node_id, is_told=is_told)
        if node_id not in self._powerless:
            self._powerless.append(node_id)

    def _damage(self, node_id: int, fault: Fault) -> None:
        """Something has happened to the disk of a broker that is down."""
        disk = self.disks[node_id]
        if not self.may_damage(node_id):
            return
        before = disk.log_end_offset
        if fault.other < 0.4:
            disk.lose_tail(fault.extent)
        elif fault.other < 0.7 or disk.copy is None:
            disk.lose_all()
        else:
            disk.put_back()
        is_told = disk.is_lost or (disk.marker is not None and disk.marker >= 0)
        self._is_damaged(node_id, is_told=is_told)
        self.schedule.note("... the log of B{} ends at {} after {}, by {}", node_id,
                           disk.log_end_offset, before, disk.marker)  # fmt: skip

    def _replace_disk(self, process: P, fault: Fault) -> None:
        """Of one that is killed: an empty one takes its place, or a copy."""
        if self.may_damage(process.node_id):
            process.end("is killed")
            self._damage(process.node_id, fault._replace(other=0.4 + fault.other * 0.6))
            self.come_back(process.node_id, fault.extent)

    def _cut_power(self, process: P, fault: Fault) -> None:
        """Of all brokers at once; for one of them that is not all."""
        source = random.Random(fault.extent)
        ended = self.running()
        for each in ended:
            each.end("has no power")
        if fault.other < 0.8:
            self._damage(process.node_id, fault._replace(other=fault.other / 0.8))
        for each in ended:
            self.come_back(each.node_id, source.random())

    def _stop(self, process: P, fault: Fault) -> None:
        if self.may_end(process) and not process.is_stopping:
            process.stop_cleanly(partial(self.come_back, process.node_id, fault.extent))

    def _other(self, process: P, fault: Fault) -> int:
        others = [each for each in self.disks if each != process.node_id]
        return others[int(fault.other * len(others))]

    def _until(self, fault: Fault) -> int:
        return min(FAULTS_END_MS, self.schedule.now_ms + 100 + int(2500 * fault.extent**2))

    def _cut_one_way(self, process: P, fault: Fault) -> None:
        other = self._other(process, fault)
        self.schedule.note("no way from B{} to {}", other, process)
        self.network.cut(other, process.node_id, self._until(fault))

    def _cut_both_ways(self, process: P, fault: Fault) -> None:
        other, until_ms = self._other(process, fault), self._until(fault)
        self.schedule.note("no way between {} and B{}", process, other)
        self.network.cut(other, process.node_id, until_ms)
        self.network.cut(process.node_id, other, until_ms)

    def _isolate(self, process: P, fault: Fault) -> None:
        self.schedule.note("{} is cut off from all brokers", process)
        for other in self.disks:
            self.network.cut(other, process.node_id, self._until(fault))
            self.network.cut(process.node_id, other, self._until(fault))

    def _pause(self, process: P, fault: Fault) -> None:
        if self.may_end(process):
            self.schedule.note("{} stands still", process)
            process.paused_until_ms = self._until(fault)

    def _clock(self, process: P, fault: Fault) -> None:
        process.clock_ahead_ms += int((fault.extent - 0.4) * 3000)

    def _move_leader(self, process: P, fault: Fault) -> None:
        """As an operator has it done."""
        others = [each for each in self.may_lead() if each != self.state.leader]
        if others:
            self.lead(others[int(fault.other * len(others))])

    def _swing_leader(self, process: P, fault: Fault) -> None:
        """To another one, and back before all have heard of it."""
        first = self.state.leader
        self._move_leader(process, fault)
        self.schedule.after(10 + int(200 * fault.extent), lambda: self.lead(first))

    def _flush(self, process: P, fault: Fault) -> None:
        process.disk.flush()

    def _checkpoint(self, process: P, fault: Fault) -> None:
        process.checkpoint()
        process.log.expire()

    def _delete_records(self, process: P, fault: Fault) -> None:
        if process.leader is not None:
            log = process.log
            span = log.high_watermark - log.log_start_offset
            offset = log.log_start_offset + int(span * fault.extent)
            self.ledger.deleted_to = max(self.ledger.deleted_to, offset)
            self.schedule.note("{} deletes records before {}", process, offset)
            process.leader.delete_records_before(offset)

    def _retention(self, process: P, fault: Fault) -> None:
        """Each replica by itself; often nothing is left that is committed."""
        log = process.log
        offset = log.high_watermark
        if fault.other < 0.5:
            offset -= int((log.high_watermark - log.log_start_offset) * fault.extent)
        self.ledger.deleted_to = max(self.ledger.deleted_to, offset)
        self.schedule.note("{} removes records before {}", process, offset)
        log.delete_records_before(offset)
        log.expire()

    def _disk_failure(self, process: P, fault: Fault) -> None:
        fail_disk(process, fault, self._until(fault))

    def _clean(self, process: P, fault: Fault) -> None:
        self.schedule.note("{} cleans up to {}", process, process.log.high_watermark)
        process.log.clean()
