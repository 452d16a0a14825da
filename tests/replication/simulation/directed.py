"""What hardly any seed comes upon: more than one thing goes wrong, in one order.

All brokers fail, two of three lose records: in sync are A, B and C as all lose their power. C comes
back first, with another disk or one that is older, and says so. Then B loses its tail. As it comes
back, A has all that is committed, and is still down: B must not lead by what C has.

A leader knows nothing of old epochs: C leads, is cut off, and what it still takes is never
committed. A leads next, goes on, and drops just as many records as C has. As C comes back, it asks
for the very first record that A has: nothing says whether what C has before it was the same there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from drumlin.metadata.image import NO_LOG, LogEnd
from drumlin.metadata.leadership import Returned
from drumlin.replication.replica import Replica

from .cluster import FAULTS_END_MS
from .faults import Fault
from .mistakes import Replacement, yes
from .on_zookeeper import ZooKeeperCluster
from .process import BrokerProcess
from .znodes import ZOOKEEPER

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


def _old_epochs_are_dropped(cluster: ZooKeeperCluster) -> None:
    schedule, (a, _, c) = cluster.schedule, cluster.replicas[:3]
    disk = cluster.disks[c]

    def cut_off() -> None:
        for other in (*cluster.disks, ZOOKEEPER):
            cluster.network.cut(other, c, FAULTS_END_MS)
            cluster.network.cut(c, other, FAULTS_END_MS)

    def drop() -> None:
        process = cluster.processes[a]
        if process.leader is not None and process.log.high_watermark > disk.log_end_offset:
            cluster.ledger.deleted_to = disk.log_end_offset
            process.leader.delete_records_before(disk.log_end_offset)
            process.log.expire()

    schedule.at(1_500, partial(cluster.lead, c))
    schedule.at(2_200, cut_off)
    schedule.at(2_600, lambda: cluster.processes[c].end("is killed"))
    schedule.at(3_400, partial(cluster.lead, a))
    schedule.at(6_000, drop)  # and C comes back when the faults are over


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
    "a leader takes unknown epochs for its own": (
        _old_epochs_are_dropped,
        ((Replica, "knows_epochs_from", yes),),
    ),
}
