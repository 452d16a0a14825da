"""One run on a ZooKeeper: sessions expire, answers get lost, any broker may be the controller."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from drumlin.metadata.image import PartitionState
from replication.simulation.processes.process import BrokerProcess
from replication.simulation.processes.zookeeper_process import ZooKeeperProcess
from replication.simulation.run.cluster import Cluster
from replication.simulation.world.faults import Fault
from replication.simulation.world.znodes import ZOOKEEPER, Session, Znodes, ZooKeeper

#: What may happen, and how often.
KINDS = {
    "kill": 5,
    "kill and lose tail": 6,
    "replace disk": 3,
    "cut power": 3,
    "stop": 3,
    "cut one way": 4,
    "cut both ways": 3,
    "isolate": 3,
    "cut from ZooKeeper": 3,
    "expire session": 4,
    "lose answers of ZooKeeper": 3,
    "pause": 3,
    "strike at wish": 3,
    "strike at start": 2,
    "clock": 2,
    "move leader": 3,
    "swing leader": 3,
    "flush": 6,
    "checkpoint": 3,
    "delete records": 2,
    "clean": 2,
}


class ZooKeeperCluster(Cluster[ZooKeeperProcess]):
    kinds = KINDS

    def __init__(self, seed: int, *, is_traced: bool = False) -> None:
        super().__init__(seed, is_traced=is_traced)
        source = self.schedule.random
        self.znodes = Znodes(self.replicas, range(1, len(self.disks) + 1))
        self.znodes.on_broker_epoch = self.broker_epoch_begins
        self.znodes.on_state = self._state_changed
        self.znodes.on_live = self._live_changed
        self.zookeeper = ZooKeeper(self.schedule, self.network, self.znodes)
        self.zookeeper.slowness = source.choice((0.0, 0.02, 0.2))
        self.zookeeper.loss = source.choice((0.0, 0.0, 0.1))

    @property
    def state(self) -> PartitionState:
        return self.znodes.state

    # -- news --------------------------------------------------------------------------------

    def _sessions(self) -> list[Session]:
        return [each.session for each in self.running() if each.session]

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

    def start_all(self) -> None:
        for each in self.disks:
            self.schedule.after(self.schedule.random.randrange(60), partial(self.start, each))

    def start(self, node_id: int) -> None:
        before = self.processes.get(node_id)
        if before is not None and before.is_running:
            return
        self._numbers[node_id] += 1
        process = ZooKeeperProcess(
            self.world, self.zookeeper, node_id, self._numbers[node_id], self.disks[node_id]
        )
        self.processes[node_id] = process
        process.start()

    def come_back(self, node_id: int, extent: float) -> None:
        """Mostly soon; now and then long after its session is over."""
        self.schedule.after(20 + int(3000 * extent**3), partial(self.start, node_id))

    def heal_store(self) -> None:
        self.zookeeper.slowness = self.zookeeper.loss = 0.0
        for process in self.all():
            if process.session is not None:
                process.session.answers_to_lose = 0
            if not process.is_running:
                self.schedule.after(100, partial(self.start, process.node_id))

    def deciding(self) -> list[ZooKeeperProcess]:
        return [each for each in self.running() if each.membership.office_epoch is not None]

    def may_lead(self) -> list[int]:
        return [each for each in self.state.isr if each in self.znodes.registered]

    def lead(self, leader: int) -> None:
        state = self.state
        if leader in self.may_lead():
            led = replace(state, leader=leader, leader_epoch=state.leader_epoch + 1)
            self.znodes.write_state(led, state.partition_epoch, {}, "an operator")

    # -- faults ------------------------------------------------------------------------------

    def at_moment(self, moment: str, process: BrokerProcess, others: tuple[int, ...]) -> None:
        fault = self._traps.pop(moment, None)
        assert isinstance(process, ZooKeeperProcess)
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
        victims = [each for each in self.running() if each.node_id in others]
        quick = fault._replace(other=fault.victim, extent=fault.extent / 4)
        if moment == "start":
            self.schedule.after(1, partial(self._kill, process, quick))
        elif victims:
            victim = victims[int(fault.victim * len(victims))]
            self.schedule.after(1, partial(self._kill_and_lose_tail, victim, quick))

    def _cut_from_zookeeper(self, process: ZooKeeperProcess, fault: Fault) -> None:
        if self.may_end(process):
            self.schedule.note("{} is cut off from ZooKeeper", process)
            self.network.cut(process.node_id, ZOOKEEPER, self._until(fault))

    def _expire_session(self, process: ZooKeeperProcess, fault: Fault) -> None:
        session = process.session
        if self.may_end(process) and session is not None and not session.has_expired:
            self.schedule.note("the session of {} expires", process)
            self.znodes.expire(session)
            if fault.extent > 0.3:
                self.network.cut(process.node_id, ZOOKEEPER, self._until(fault))

    def _lose_answers_of_zookeeper(self, process: ZooKeeperProcess, fault: Fault) -> None:
        if process.session is not None:
            self.schedule.note("answers to {} get lost", process)
            process.session.answers_to_lose = 1 + int(fault.extent * 3)
