"""`run`: one run, from its seed, on one of the stores."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

from drumlin.replication import followed_partition
from replication.simulation.run.cluster import FAULTS_END_MS
from replication.simulation.run.on_machine import MachineCluster
from replication.simulation.run.on_zookeeper import ZooKeeperCluster
from replication.simulation.world.copying import SimulatedChangeOver, SimulatedCopy
from replication.simulation.world.failing_disks import disk_failures
from replication.simulation.world.faults import Fault, draw
from replication.simulation.world.log import SimulatedTruncation
from replication.simulation.world.loops import Loop
from replication.simulation.world.schedule import Crash, Violation

ON_ZOOKEEPER, ON_MACHINE = "zookeeper", "machine"
_CLUSTERS: dict[str, type[ZooKeeperCluster | MachineCluster]] = {
    ON_ZOOKEEPER: ZooKeeperCluster,
    ON_MACHINE: MachineCluster,
}


@dataclass(frozen=True)
class Outcome:
    seed: int
    violation: str | None
    crashed: bool  # the violation is an error that nobody expects, and no broken promise
    trace: list[str]
    steps: int
    committed: int
    acknowledged: int


def faults_of(seed: int, store: str) -> list[Fault]:
    drawn = draw(seed, _CLUSTERS[store].kinds, FAULTS_END_MS)
    return sorted(drawn + disk_failures(seed, FAULTS_END_MS))


def run(
    seed: int,
    faults: Sequence[Fault] | None = None,
    *,
    store: str = ON_ZOOKEEPER,
    is_traced: bool = False,
    direct: Callable[[Any], None] = lambda _: None,
) -> Outcome:
    """One run from its seed; with other faults, if they are given.

    direct: gets the cluster, and has more happen to it.
    """
    faults = faults_of(seed, store) if faults is None else faults
    violation, crashed = None, False
    with ExitStack() as stack:
        stack.enter_context(patch.object(followed_partition, "Truncation", SimulatedTruncation))
        stack.enter_context(patch.object(followed_partition, "LogCopy", SimulatedCopy))
        cluster = _CLUSTERS[store](seed, is_traced=is_traced)
        change_over = partial(SimulatedChangeOver, cluster.ledger)
        stack.enter_context(patch.object(followed_partition, "ChangeOver", change_over))
        stack.enter_context(Loop(cluster.schedule).running())  # futures ask for one
        stack.enter_context(cluster.surroundings())
        try:
            cluster.begin(faults)
            direct(cluster)
            cluster.run()
        except Violation as broken:
            violation, crashed = str(broken), isinstance(broken, Crash)
        except Exception:
            violation, crashed = traceback.format_exc(), True
            cluster.schedule.note("BROKEN: {}", violation)
        finally:
            cluster.schedule.close()
    return Outcome(
        seed,
        violation,
        crashed,
        cluster.schedule.trace,
        cluster.schedule.steps,
        cluster.ledger.committed_end,
        cluster.ledger.acknowledged,
    )
