"""Does to the cluster what a plan says. In the end everything runs, and is connected."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from kazoo.exceptions import KazooException

from drumlin.zookeeper.connection import ZooKeeperFailure
from guarantees.cluster.members import NODES, Cluster, Member, States
from guarantees.cluster.plans import Step
from rig.fault_injection.injector import DISK, Call
from rig.fault_injection.network import ZOOKEEPER, Way, both_ways
from rig.waiting import wait_until

Undo = Callable[[], None]
#: Of clocks that were set: less than deletions are kept for, or for more than anything is kept.
_SHIFTS_MS: Final = (-1_200_000, -30_000, 30_000, 1_200_000, 400 * 86_400_000)
#: For a cluster to be whole before a disk is lost, and to be led after a power cut.
_WHOLE_S: Final = 20.0
_LED_S: Final = 30.0


class Faults(threading.Thread):
    """Carries out a plan until it is told to stop."""

    def __init__(self, cluster: Cluster, steps: Iterator[Step], partitions: list[tuple[str, int]]):
        super().__init__(daemon=True, name="faults")
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None
        #: Faults that hit a broker which led something of the data.
        self.leaders_hit = 0
        self.done: list[str] = []
        self.complaints: list[str] = []
        #: A client sets it when it asks for a commit: the moment at which a kill hurts most.
        self.commit_asked = threading.Event()
        self._cluster = cluster
        self._steps = steps
        self._partitions = partitions
        self._stopping = threading.Event()
        self._random = random.Random("victims")

    def stop(self) -> None:
        self._stopping.set()
        self.join(300)

    def run(self) -> None:
        try:
            for step in self._steps:
                if self._stopping.wait(step.pause_s):
                    return
                self._carry_out(step)
        except BaseException as failure:
            self.failure = failure

    def _carry_out(self, step: Step) -> None:
        """Do it, wait, and undo it; what concerns the network first, as brokers start with it."""
        victim = self._victim(step.role)
        undone: list[Undo] = []
        try:
            self._do(step, step.fault, victim, undone)
            self._stopping.wait(step.lasts_s / 2)
            if step.also is not None:
                others = [each for each in self._cluster.members.values() if each is not victim]
                self._do(step, step.also, self._random.choice(others), undone)
            self._stopping.wait(step.lasts_s / 2)
        finally:
            for undo in sorted(undone, key=lambda each: isinstance(each, _Start)):
                undo()

    def _do(self, step: Step, fault: str, victim: Member, undone: list[Undo]) -> None:
        leads = {at for at, state in self.states().items() if state.leader == victim.node_id}
        self.done.append(f"{self._cluster.now()} {step}: {fault} broker {victim.node_id}")
        undone.append(getattr(self, f"_do_{fault}")(victim, step))
        self.counts[fault] += 1
        self.leaders_hit += bool(leads.intersection(self._partitions))

    def _victim(self, role: str) -> Member:
        members = self._cluster.members
        node_id = None
        if role == "controller":
            node_id = self._cluster.controller()
        elif role == "leader":
            states = self.states()
            led = [states[at].leader for at in self._partitions if at in states]
            node_id = next((each for each in led if each in members), None)
        return members[node_id if node_id in members else self._random.choice(NODES)]

    def states(self) -> States:
        try:
            return self._cluster.states()
        except (KazooException, ZooKeeperFailure):
            return {}

    # -- faults: each is done at once, and returns what undoes it --------------------------------

    def _do_kill(self, victim: Member, _: Step) -> Undo:
        if self._random.random() < 0.5:
            self.commit_asked.clear()
            self.commit_asked.wait(1.0)
            self._stopping.wait(self._random.uniform(0, 0.01))
        victim.kill()
        return _Start([victim])

    def _do_kill_all(self, _: Member, step: Step) -> Undo:
        victims = list(self._cluster.members.values())
        self._random.shuffle(victims)
        for each in victims:
            each.kill()
            self._stopping.wait(self._random.choice((0, 0, 0.5)))
        self._random.shuffle(victims)
        return _Start(victims)

    def _do_power_cut(self, victim: Member, _: Step) -> Undo:
        """All end at once; the victim comes back last, when the others need it no more."""
        may_lose = self._random.random() < 0.5 and self._is_whole()
        led = self.states()
        members = list(self._cluster.members.values())
        for each in members:
            each.kill()
        if may_lose:
            victim.lose_disk()
        first = [each for each in members if each is not victim]
        self._random.shuffle(first)
        return _PowerReturns(self, first, victim, led)

    def _do_replace_disk(self, victim: Member, step: Step) -> Undo:
        """Its disk is lost, and it comes back with an empty one: one at a time, as is promised."""
        if not self._is_whole():
            return self._do_kill(victim, step)
        victim.kill()
        victim.lose_disk()
        return _Start([victim])

    def _do_restore_copy(self, victim: Member, step: Step) -> Undo:
        """The power fails, and on the victim comes back what was copied at a clean stop before."""
        if not self._is_whole():
            return self._do_kill(victim, step)
        victim.stop()
        copy = victim.copy_disk()
        victim.start()
        self._stopping.wait(step.lasts_s / 2)
        may_lose = self._is_whole()
        members = list(self._cluster.members.values())
        for each in members:
            each.kill()
        if may_lose:
            victim.restore_disk(copy)
        return _Start([victim, *(each for each in members if each is not victim)])

    def _is_whole(self) -> bool:
        """Whether all replicas are in sync: only then a disk may be lost."""
        try:
            self._cluster.await_whole(_WHOLE_S)
        except (AssertionError, KazooException, ZooKeeperFailure):
            return False
        return True

    def _do_starve(self, victim: Member, _: Step) -> Undo:
        """No descriptors are left to it."""
        starving = contextlib.ExitStack()
        starving.enter_context(victim.starved())
        return starving.close

    def _do_stop(self, victim: Member, _: Step) -> Undo:
        victim.stop()
        return _Start([victim])

    def _do_roll(self, victim: Member, step: Step) -> Undo:
        """All brokers, one after the other, beginning with the victim."""
        first = victim.node_id - NODES[0]
        for node_id in NODES[first:] + NODES[:first]:
            member = self._cluster.members[node_id]
            member.stop()
            self._stopping.wait(step.lasts_s / 10)
            member.start()
            if self._stopping.wait(step.lasts_s / 5):
                break
        return lambda: None

    def _do_pause(self, victim: Member, _: Step) -> Undo:
        pid = victim.pid
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)

    def _do_kill_zookeeper(self, _: Member, step: Step) -> Undo:
        self._cluster.zookeeper.kill()
        return self._cluster.zookeeper.start

    def _do_fill_disk(self, victim: Member, _: Step) -> Undo:
        filler = victim.fill_disk()
        return lambda: filler.unlink(missing_ok=True)

    def _do_fail_disk(self, victim: Member, _: Step) -> Undo:
        """All that the device is asked for fails, or only reading does."""
        victim.fail_disk(self._random.choice((DISK, {Call.READ})))
        return _healing(victim)

    def _do_flap_disk(self, victim: Member, step: Step) -> Undo:
        """The device works again for a moment, as a dying one does; first it may only not read."""
        victim.fail_disk({Call.READ})
        for _ in range(self._random.randrange(1, 4)):
            self._stopping.wait(self._random.choice((0.2, 2.0, 5.0)))
            victim.fail_disk(DISK)
            self._stopping.wait(self._random.choice((0.5, 6.0)))
            victim.injector.heal()
            self._stopping.wait(self._random.choice((0.1, 0.5, 3.0)))
        victim.fail_disk(DISK)
        return _healing(victim)

    def _do_shift_clock(self, victim: Member, _: Step) -> Undo:
        victim.injector.shift_clock(self._random.choice(_SHIFTS_MS))
        return lambda: victim.injector.shift_clock(0)

    # -- faults of the network --------------------------------------------------------------------

    def _do_cut_peers(self, victim: Member, step: Step) -> Undo:
        """Nobody hears of it, nor it of anybody, but ZooKeeper and clients."""
        return self._cut([*self._ways_in(victim), *self._ways_out(victim)], step)

    def _do_cut_in(self, victim: Member, step: Step) -> Undo:
        return self._cut(self._ways_in(victim), step)

    def _do_cut_out(self, victim: Member, step: Step) -> Undo:
        return self._cut(self._ways_out(victim), step)

    def _do_cut_pair(self, victim: Member, step: Step) -> Undo:
        """Two of the brokers do not hear of each other."""
        return self._cut(both_ways(victim.end, self._random.choice(self._others(victim))), step)

    def _do_cut_zookeeper(self, victim: Member, step: Step) -> Undo:
        """It is cut from ZooKeeper alone."""
        return self._cut(both_ways(victim.end, ZOOKEEPER), step)

    def _do_cut_to_zookeeper(self, victim: Member, step: Step) -> Undo:
        return self._cut([(victim.end, ZOOKEEPER)], step)

    def _do_cut_from_zookeeper(self, victim: Member, step: Step) -> Undo:
        return self._cut([(ZOOKEEPER, victim.end)], step)

    def _do_isolate(self, victim: Member, step: Step) -> Undo:
        """Only clients reach it."""
        ways = [*self._ways_in(victim), *self._ways_out(victim)]
        return self._cut([*ways, *both_ways(victim.end, ZOOKEEPER)], step)

    def _cut(self, ways: Iterable[Way], step: Step) -> Undo:
        network, known = self._cluster.network, list(ways)
        network.cut(known)
        return lambda: network.heal(known, breaks=step.breaks)

    def _others(self, victim: Member) -> list[str]:
        return [each.end for each in self._cluster.members.values() if each is not victim]

    def _ways_in(self, victim: Member) -> list[Way]:
        return [(each, victim.end) for each in self._others(victim)]

    def _ways_out(self, victim: Member) -> list[Way]:
        return [(victim.end, each) for each in self._others(victim)]


def _healing(victim: Member) -> Undo:
    def heal() -> None:
        victim.injector.heal()

    return heal


class _Start:
    """Starts brokers again, in this order."""

    def __init__(self, members: list[Member]) -> None:
        self._members = members

    def __call__(self) -> None:
        for each in self._members:
            if not each.is_running:
                each.start()


class _PowerReturns(_Start):
    """Starts those that come first, and the last when they lead whatever they both have."""

    def __init__(self, faults: Faults, first: list[Member], last: Member, led: States) -> None:
        super().__init__([*first, last])
        self._faults = faults
        self._first = first
        node_ids = {each.node_id for each in first}
        self._wanted = {at for at, state in led.items() if node_ids <= set(state.isr)}

    def __call__(self) -> None:
        for each in self._first:
            each.start()
        node_ids = {each.node_id for each in self._first}

        def unled() -> set[tuple[str, int]]:
            states = self._faults.states()
            return {at for at in self._wanted & states.keys() if states[at].leader not in node_ids}

        try:
            wait_until(lambda: not unled(), "the first brokers to lead", _LED_S)
        except AssertionError:
            self._faults.complaints.append(f"not led after a power cut: {sorted(unled())}")
        super().__call__()
