"""What no seed comes upon: all brokers fail, two of three lose records, and return in one order.

In sync are A, B and C as all lose their power. C comes back first, with another disk or one that is
older, and says so. Then B loses its tail. As it comes back, A has all that is committed, and is
still down: B must not lead by what C has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from drumlin.metadata.image import NO_LOG, LogEnd
from drumlin.metadata.leadership import Returned

from .faults import Fault
from .mistakes import Replacement
from .on_zookeeper import ZooKeeperCluster
from .process import BrokerProcess

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


#: What happens, and the mistake with which that breaks a promise.
DIRECTED: dict[str, tuple[Callable[[ZooKeeperCluster], None], tuple[Replacement, ...]]] = {
    "no log counts as a short log": (
        partial(_in_that_order, how=_REPLACED),
        ((BrokerProcess, "found", property(_empty)),),
    ),
    "a copy is as good as a crash": (
        partial(_in_that_order, how=_PUT_BACK),
        ((BrokerProcess, "found", property(_crashed)),),
    ),
}
