"""What is done to the cluster: a plan by a seed, and who carries it out.

The plan says what happens when, and to whom by a role; who has the role is found out by then.
"""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kazoo.exceptions import KazooException

from guarantees.cluster.members import NODES, Cluster, Member, States


class Step(NamedTuple):
    """One fault: after a pause, to the broker with a role, for some time."""

    fault: str
    role: str
    pause_s: float
    lasts_s: float


def plan(seed: str, gap_s: tuple[float, float], first: tuple[Step, ...] = ()) -> Iterator[Step]:
    """Steps without an end, the same for the same seed."""
    yield from first
    chance = random.Random(f"{seed} plan")
    while True:
        fault = chance.choice(_FAULTS)
        role = chance.choice(_ROLES)
        yield Step(fault, role, chance.uniform(*gap_s), chance.choice(_LASTS_S))


_ROLES = ("leader", "leader", "controller", "1", "2", "3")
_FAULTS = ("kill",)
_LASTS_S = (0.0, 0.5, 2.0, 5.0)


class Faults(threading.Thread):
    """Carries out a plan until it is told to stop; then everything runs, and is connected."""

    def __init__(self, cluster: Cluster, steps: Iterator[Step], partitions: list[tuple[str, int]]):
        super().__init__(daemon=True, name="faults")
        self.counts: Counter[str] = Counter()
        self.failure: BaseException | None = None
        #: Brokers that led something when they were hit, which is what matters.
        self.leaders_hit = 0
        self.done: list[str] = []
        self._cluster = cluster
        self._steps = steps
        self._partitions = partitions
        self._stopping = threading.Event()
        self._random = random.Random("victims")

    def stop(self) -> None:
        self._stopping.set()
        self.join(180)

    def run(self) -> None:
        try:
            for step in self._steps:
                if self._stopping.wait(step.pause_s):
                    return
                self._carry_out(step)
        except BaseException as failure:
            self.failure = failure

    def _carry_out(self, step: Step) -> None:
        victim = self._victim(step.role)
        leads = sum(state.leader == victim.node_id for state in self._states().values())
        self.done.append(f"{step.fault} {victim.node_id} ({step.role}) for {step.lasts_s} s")
        undo: Callable[[], None] = getattr(self, f"_{step.fault}")(victim)
        self.counts[step.fault] += 1
        self.leaders_hit += leads > 0
        try:
            self._stopping.wait(step.lasts_s)
        finally:
            undo()

    def _victim(self, role: str) -> Member:
        members = self._cluster.members
        node_id = None
        if role == "controller":
            node_id = self._cluster.controller()
        elif role == "leader":
            states = self._states()
            led = [states[at].leader for at in self._partitions if at in states]
            node_id = next((each for each in led if each in members), None)
        else:
            node_id = int(role)
        return members[node_id if node_id in members else self._random.choice(NODES)]

    def _states(self) -> States:
        try:
            return self._cluster.states()
        except KazooException:
            return {}

    # -- faults: each is done at once, and returns what undoes it --------------------------------

    def _kill(self, victim: Member) -> Callable[[], None]:
        victim.kill()
        return victim.start

    def _restart(self, victim: Member) -> Callable[[], None]:
        victim.stop()
        return victim.start

    def _pause(self, victim: Member) -> Callable[[], None]:
        pid = victim.pid
        os.kill(pid, signal.SIGSTOP)
        return lambda: os.kill(pid, signal.SIGCONT)
