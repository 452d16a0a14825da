"""What no seed comes upon: all brokers fail, two of three lose records, and return in one order.

In sync are A, B and C as all lose their power. C comes
back first, with another disk or one that is older, and says so. Then B loses its tail. As it comes
back, A has all that is committed, and is still down: B must not lead by what C has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from drumlin.metadata.image import NO_LOG, LogEnd
from drumlin.metadata.rules.leadership import Returned
from replication.simulation.planted.machine_mistakes import MACHINE_MISTAKES
from replication.simulation.planted.mistakes import MISTAKES, Replacement
from replication.simulation.planted.recovery_mistakes import RECOVERY_MISTAKES
from replication.simulation.processes.process import BrokerProcess
from replication.simulation.run import directed_isr
from replication.simulation.run.on_zookeeper import ZooKeeperCluster
from replication.simulation.run.runs import ON_MACHINE, ON_ZOOKEEPER
from replication.simulation.world.faults import Fault

#: See `Cluster._damage`.
_TAIL, _REPLACED, _PUT_BACK = 0.0, 0.5, 0.9


def _damage(cluster: ZooKeeperCluster, node_id: int, how: float) -> None:
    cluster._damage(node_id, Fault(0, "", 0.0, how, 0.5))


def _in_that_order(cluster: ZooKeeperCluster, how: float) -> None:
    schedule, (_, b, c) = cluster.schedule, cluster.replicas[:3]

    def copy_and_go_on() -> None:
        cluster.processes[c].stop_cleanly(partial(cluster.come_back, c, 0.0))

    def cut_power() -> None:
        for process in cluster.running():
            process.end("has no power")
        _damage(cluster, c, how)

    schedule.at(1_500, copy_and_go_on)
    schedule.at(4_500, cut_power)
    schedule.at(4_600, partial(cluster.start, c))
    schedule.at(6_800, partial(_damage, cluster, b, _TAIL))
    schedule.at(6_900, partial(cluster.start, b))  # and the others when the faults are over


_found: Any = BrokerProcess.found


def _empty(self: BrokerProcess) -> Returned:
    found: Returned = _found.fget(self)
    return Returned(LogEnd(-1, 0)) if found.log_end == NO_LOG else found


def _crashed(self: BrokerProcess) -> Returned:
    return replace(_found.fget(self), is_copy=False)


class Order(NamedTuple):
    """What happens on a store, and the mistake with which that breaks a promise."""

    direct: Callable[[Any], None]
    mistake: tuple[Replacement, ...]
    store: str = ON_ZOOKEEPER


DIRECTED: dict[str, Order] = {
    "no log counts as a short log": Order(
        partial(_in_that_order, how=_REPLACED),
        ((BrokerProcess, "found", property(_empty)),),
    ),
    "a copy is as good as a crash": Order(
        partial(_in_that_order, how=_PUT_BACK),
        ((BrokerProcess, "found", property(_crashed)),),
    ),
    **{
        name: Order(direct, MISTAKES[name])
        for name, direct in {
            "a leader takes unknown epochs for its own": directed_isr.old_epochs_are_dropped,
            "a leader fences nobody": directed_isr.a_fetch_arrives_late,
            "a new session makes a broker clean": directed_isr.a_session_ends_as_it_begins,
            "members to be do not count": directed_isr.a_member_falls_behind_at_once,
            "silence is taken for a refusal": directed_isr.a_member_falls_behind_at_once,
            "the ISR grows by any process": directed_isr.a_member_to_be_loses_its_tail,
            "the ISR grows by the high watermark alone": (
                directed_isr.a_leader_ends_that_has_just_committed
            ),
        }.items()
    },
    "the marker of a clean stop is not read": Order(
        directed_isr.a_copy_is_put_back,
        RECOVERY_MISTAKES["the marker of a clean stop is not read"],
    ),
    "changes are decided side by side": Order(
        directed_isr.two_lead_at_once,
        MACHINE_MISTAKES["changes are decided side by side"],
        ON_MACHINE,
    ),
}
