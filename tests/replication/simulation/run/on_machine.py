"""One run on a machine with several brokers: any of them dies, or the one that owns the store."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from unittest.mock import patch

from drumlin import turns
from drumlin.broker.machine import workers
from drumlin.metadata.embedded import sqlite
from drumlin.metadata.image import PartitionId, PartitionState
from drumlin.metadata.rules.decisions import Alive, TopicRules
from drumlin.metadata.shared import channel
from replication.simulation.processes.machine import Machine, StoredFile
from replication.simulation.processes.machine_process import MachineProcess
from replication.simulation.processes.process import BrokerProcess
from replication.simulation.run.cluster import Cluster
from replication.simulation.world.faults import Fault
from replication.simulation.world.schedule import Schedule, Violation

#: What may happen, and how often.
KINDS = {
    "kill": 5,
    "kill and lose tail": 6,
    "replace disk": 3,
    "cut power": 3,
    "kill machine": 2,
    "stop": 3,
    "stop machine": 2,
    "cut one way": 4,
    "cut both ways": 3,
    "isolate": 3,
    "pause": 3,
    "pause machine": 2,
    "slow channel": 4,
    "strike at wish": 3,
    "strike at start": 2,
    "strike at change": 2,
    "clock": 2,
    "move leader": 3,
    "swing leader": 3,
    "flush": 6,
    "checkpoint": 3,
    "delete records": 2,
    "clean": 2,
}
#: Before a process that has died again and again is started once more.
_PAUSE_S = 0.4


class MachineCluster(Cluster[MachineProcess]):
    kinds = KINDS

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        super().__init__(seed, is_traced=is_traced)
        self._file = StoredFile(self.replicas)
        self._state = PartitionState(0, self.replicas[0], 0, self.replicas, self.replicas)
        self._epochs: dict[int, int] = {}
        #: With the next stop of the machine.
        self._loses_disk: Fault | None = None
        self.machine: Machine
        #: All that ever were: what they have left undone is not to end while the run lasts.
        self._past: list[object] = []

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        with ExitStack() as stack:
            stack.enter_context(patch.object(sqlite, "Database", lambda _: self._file))
            stack.enter_context(patch.object(sqlite, "ready_threads", lambda *_: _NoThreads()))
            stack.enter_context(patch.object(turns, "time", _Turns()))
            stack.enter_context(patch.object(turns._turn, "ends_at", -math.inf))
            stack.enter_context(patch.object(workers, "_LAST_PAUSE_S", _PAUSE_S))
            stack.enter_context(patch.object(channel, "_log", _Strict(self.schedule)))
            yield

    @property
    def state(self) -> PartitionState:
        return self._state

    # -- news --------------------------------------------------------------------------------

    def _state_changed(self, state: PartitionState) -> None:
        self._state = state
        self.ledger.state_changed(state, "the store")
        fault = self._traps.pop("change", None)
        if fault is not None and not self.are_faults_over:
            self.schedule.note("... which not all are to hear")
            self.schedule.after(1 + int(200 * fault.extent**2), self._end_machine)

    def _brokers_changed(self) -> None:
        epochs = {
            each.node_id: each.epoch for each in self.machine.authority.image.brokers.values()
        }
        self.schedule.note("registered are {}", epochs)
        begun = [each for each, epoch in epochs.items() if self._epochs.get(each) != epoch]
        self._epochs = epochs
        for each in begun:
            self.broker_epoch_begins(each)

    # -- processes ---------------------------------------------------------------------------

    def start_all(self) -> None:
        self._start_machine()

    def _start_machine(self) -> None:
        self.schedule.note("the machine starts")
        schedule, node_ids = self.schedule, list(self.disks)
        self.machine = Machine(
            schedule, node_ids, self._start, self._state_changed, self._brokers_changed, self._ended
        )
        self._past.append(self.machine)

    def _start(self, node_id: int) -> MachineProcess:
        self._numbers[node_id] += 1
        process = MachineProcess(self.world, node_id, self._numbers[node_id], self.disks[node_id])
        self.processes[node_id] = process
        self._past.append(process)
        return process

    def _ended(self) -> None:
        """All brokers end with the one that has started them."""
        for each in self.running():
            each.end("ends with the machine")
        fault, self._loses_disk = self._loses_disk, None
        if fault is not None:
            self._lose_disk(fault)
        self.schedule.after(self.schedule.random.randrange(20, 600), self._start_machine)

    def come_back(self, node_id: int, extent: float) -> None:
        """Who has started it starts it again."""

    def heal_store(self) -> None:
        self.machine.paused_until_ms = min(self.machine.paused_until_ms, self.schedule.now_ms)
        for ends in self.machine.pipes.values():
            for end in ends:
                end.slow_until_ms = 0

    def deciding(self) -> list[MachineProcess]:
        return []

    def may_lead(self) -> list[int]:
        if not self.machine.is_running or not self.machine.is_ready:
            return []
        return [each for each in self.state.isr if each in self.machine.authority.image.brokers]

    def lead(self, leader: int) -> None:
        if leader not in self.may_lead():
            return
        states, task = self.machine.authority.controller._states, self.machine.loop.create_task

        def decide(
            _: PartitionId, state: PartitionState, __: TopicRules, alive: Alive
        ) -> PartitionState:
            if leader not in state.isr or leader not in alive:
                return state
            return replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)

        async def change() -> None:
            await states.rewrite(decide, lambda _: True)

        self.machine.happens(lambda: self._past.append(task(change())))

    # -- faults ------------------------------------------------------------------------------

    def at_moment(self, moment: str, process: BrokerProcess, others: tuple[int, ...]) -> None:
        fault = self._traps.pop(moment, None)
        if fault is None or self.are_faults_over:
            return
        assert isinstance(process, MachineProcess)
        delay_ms = 1 + int(60 * fault.extent)
        quick = fault._replace(other=fault.victim)
        if moment == "wish":
            self.schedule.note("... which takes long")
            process.end_of_pipe.hold(int(1200 * fault.extent))
        victims = [each for each in self.running() if each.node_id in others]
        if fault.other < 0.1:
            self.schedule.after(delay_ms, lambda: self._kill_machine(process, quick))
        elif moment == "start" or fault.other < 0.3 or not victims:
            self.schedule.after(delay_ms, lambda: self._kill_if_running(process, quick))
        else:
            victim = victims[int(fault.victim * len(victims))]
            self.schedule.after(delay_ms, lambda: self._lose_tail_if_running(victim, quick))

    def _kill_if_running(self, process: MachineProcess, fault: Fault) -> None:
        if process.is_running:
            self._kill(process, fault)

    def _lose_tail_if_running(self, process: MachineProcess, fault: Fault) -> None:
        if process.is_running:
            self._kill_and_lose_tail(process, fault)

    def _kill_machine(self, process: MachineProcess, fault: Fault) -> None:
        self._end_machine()

    def _end_machine(self) -> None:
        if self.machine.is_running:
            self.machine.end("is killed")

    def _strike_at_change(self, process: MachineProcess, fault: Fault) -> None:
        self._traps["change"] = fault

    def _stop_machine(self, process: MachineProcess, fault: Fault) -> None:
        if self.machine.is_running:
            self.schedule.note("the machine is to stop")
            self._loses_disk = fault if fault.other < 0.7 else None
            self.machine.stop()

    def _cut_power(self, process: MachineProcess, fault: Fault) -> None:
        if self.machine.is_running:
            self._loses_disk = fault if fault.other < 0.8 else None
            self.machine.end("has no power")

    def _lose_disk(self, fault: Fault) -> None:
        """Of a broker while all are down."""
        self._damage(self.replicas[int(fault.victim * len(self.replicas))], fault)

    def _pause_machine(self, process: MachineProcess, fault: Fault) -> None:
        self.schedule.note("the machine's first process stands still")
        self.machine.paused_until_ms = self._until(fault)

    def _slow_channel(self, process: MachineProcess, fault: Fault) -> None:
        ends = self.machine.pipes.get(process.node_id, ())
        for end in ends:
            end.slow_until_ms = self._until(fault)


class _NoThreads:
    """A loop in simulated time does their work."""

    def shutdown(self) -> None: ...


class _Turns:
    """Time as `give_way` sees it: some turns are over before the work is done."""

    _now = 0.0

    def monotonic(self) -> float:
        self._now += turns.TURN_S / 5
        return self._now


class _Strict:
    """A log in which nothing is to stand."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def exception(self, text: str, *values: object) -> None:
        error = sys.exc_info()[1]
        broken = error if isinstance(error, Violation) else Violation(f"{text % values}: {error!r}")
        self._schedule.break_off(broken)
