"""What hardly any seed comes upon, about who leads and who is in sync.

In each of them A leads, B and C follow; whoever else follows does nothing that matters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from drumlin.metadata.image import PartitionState
from replication.simulation.processes.leading import FetchRequest
from replication.simulation.processes.process import LAG_MAX_MS
from replication.simulation.run.cluster import FAULTS_END_MS
from replication.simulation.run.on_machine import MachineCluster
from replication.simulation.run.on_zookeeper import ZooKeeperCluster
from replication.simulation.world.disk import Disk
from replication.simulation.world.faults import Fault
from replication.simulation.world.log import TOPIC
from replication.simulation.world.znodes import ZOOKEEPER

#: Less than a session lasts that nobody hears of.
_SHORT_MS = 500


def when(cluster: ZooKeeperCluster, is_so: Callable[[], object], then: Callable[[], None]) -> None:
    """Do something in the very millisecond in which something has come true."""
    if is_so():
        then()
    elif cluster.schedule.now_ms < FAULTS_END_MS:
        cluster.schedule.after(1, partial(when, cluster, is_so, then))


def _cut(cluster: ZooKeeperCluster, one: int, other: int, for_ms: int) -> None:
    until_ms = cluster.schedule.now_ms + for_ms
    cluster.network.cut(one, other, until_ms)
    cluster.network.cut(other, one, until_ms)


def old_epochs_are_dropped(cluster: ZooKeeperCluster) -> None:
    """C leads, is cut off, and what it still takes is never committed. A leads next, goes on, and
    drops just as many records as C has. As C comes back, it asks for the very first record that A
    has: nothing says whether what C has before it was the same there."""
    schedule, (a, _, c) = cluster.schedule, cluster.replicas[:3]
    disk = cluster.disks[c]

    def cut_off() -> None:
        for other in (*cluster.disks, ZOOKEEPER):
            _cut(cluster, c, other, FAULTS_END_MS)

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


def a_fetch_arrives_late(cluster: ZooKeeperCluster) -> None:
    """A stands still as C leads, which has less: B follows it there. Then A leads again, and gets
    what B has asked of it before, when it still had more."""
    schedule, (a, b, c) = cluster.schedule, cluster.replicas[:3]
    late: list[FetchRequest] = []

    def lead_elsewhere() -> None:
        follower = cluster.processes[b]
        followed = follower.partitions.find_followed(TOPIC, 0)
        if followed is not None:
            position = followed.position  # type: ignore[attr-defined]
            late.append(FetchRequest(b, follower.broker_epoch, position))
        cluster.processes[a].paused_until_ms = schedule.now_ms + _SHORT_MS
        cluster.lead(c)

    def lead_again() -> None:
        for other in (a, c):
            _cut(cluster, b, other, 900)
        cluster.lead(a)
        epoch = cluster.state.leader_epoch
        when(cluster, lambda: _leads_in(cluster, a, epoch), arrive)

    def arrive() -> None:
        for request in late:
            cluster.processes[a].answer_fetch(request)

    schedule.at(1_500, partial(cluster.lead, a))
    schedule.at(2_000, partial(_cut, cluster, a, c, 600))
    schedule.at(2_300, lead_elsewhere)
    schedule.at(2_600, lead_again)


def _leads_in(cluster: ZooKeeperCluster, node_id: int, epoch: int) -> bool:
    leader = cluster.processes[node_id].leader
    return leader is not None and leader.leader_epoch == epoch


def _damage_unmissed(
    cluster: ZooKeeperCluster, node_id: int, damage: Callable[[Disk], None]
) -> None:
    """A broker fails and comes back before the others, which stand still, miss it; and is to lead
    as soon as it is registered."""
    process, disk = cluster.processes[node_id], cluster.disks[node_id]
    if not cluster.may_damage(node_id) or process.session is None:
        return
    for each in cluster.running():
        if each is not process:
            each.paused_until_ms = cluster.schedule.now_ms + _SHORT_MS
    process.end("has no power")
    damage(disk)
    cluster._is_damaged(node_id, is_told=disk.marker is not None)
    cluster.znodes.expire(process.session)
    cluster.start(node_id)
    is_registered = partial(cluster.znodes.registered.get, node_id)
    when(cluster, is_registered, partial(cluster.lead, node_id))


def a_session_ends_as_it_begins(cluster: ZooKeeperCluster) -> None:
    """B loses its tail, and comes back. Its session ends at once; in the next one it must leave the
    ISR as it would have done in the first."""
    schedule, (a, b, _) = cluster.schedule, cluster.replicas[:3]

    def fail() -> None:
        process = cluster.processes[b]
        _damage_unmissed(cluster, b, partial(Disk.lose_tail, choice=0.3))
        session = cluster.processes[b].session
        if session is not None and cluster.processes[b] is not process:
            cluster.znodes.expire(session)

    schedule.at(1_500, partial(cluster.lead, a))
    schedule.at(3_000, fail)


def a_copy_is_put_back(cluster: ZooKeeperCluster) -> None:
    """B comes back with what it had at an earlier clean stop, of which the copy has the marker."""
    schedule, (a, b, _) = cluster.schedule, cluster.replicas[:3]

    def stop() -> None:
        cluster.processes[b].stop_cleanly(partial(cluster.come_back, b, 0.0))

    def fail() -> None:
        if cluster.disks[b].copy is not None:
            _damage_unmissed(cluster, b, Disk.put_back)

    schedule.at(1_500, partial(cluster.lead, a))
    schedule.at(2_000, stop)
    schedule.at(4_000, fail)


def a_member_falls_behind_at_once(cluster: ZooKeeperCluster) -> None:
    """C comes into the ISR, of which A does not hear, and is cut off from A just then. By A's clock
    that is so long ago that A need not wait for one that is only about to come in."""
    schedule, (a, _, c) = cluster.schedule, cluster.replicas[:3]
    is_watched = False

    def state_changed(state: PartitionState, who: str) -> None:
        nonlocal is_watched
        session = cluster.processes[a].session
        if is_watched and c in state.isr and state.leader == a and session is not None:
            is_watched = False
            _cut(cluster, a, c, _SHORT_MS)
            _cut(cluster, a, ZOOKEEPER, _SHORT_MS)
            session.answers_to_lose += 1
            cluster.processes[a].clock_ahead_ms += LAG_MAX_MS
        cluster._state_changed(state, who)

    def watch() -> None:
        nonlocal is_watched
        is_watched = c not in cluster.state.isr
        cluster.start(c)

    cluster.znodes.on_state = state_changed
    schedule.at(1_500, partial(cluster.lead, a))
    schedule.at(2_000, lambda: cluster.processes[c].stop_cleanly(lambda: None))
    schedule.at(3_000, watch)


def a_member_to_be_loses_its_tail(cluster: ZooKeeperCluster) -> None:
    """A asks for C to come into the ISR, which takes long. C dies meanwhile, and is another process
    with less when that is decided."""
    schedule, (a, _, c) = cluster.schedule, cluster.replicas[:3]

    def come_back() -> None:
        cluster._traps["wish"] = Fault(0, "", 0.0, 0.9, 0.9)
        cluster.start(c)
        process = cluster.processes[c]
        when(cluster, lambda: not process.is_running, partial(_cut, cluster, a, c, 2_500))

    schedule.at(1_500, partial(cluster.lead, a))
    schedule.at(2_000, lambda: cluster.processes[c].stop_cleanly(lambda: None))
    schedule.at(3_000, come_back)


def a_leader_ends_that_has_just_committed(cluster: ZooKeeperCluster) -> None:
    """C is not in the ISR, and has all but what A has committed last. Who leads next has that, and
    does not know yet that it is committed."""
    schedule, (a, _, c) = cluster.schedule, cluster.replicas[:3]
    others = [each for each in cluster.replicas if each != a]

    def log_of(node_id: int) -> tuple[int, int]:
        log = cluster.processes[node_id].log
        return log.log_end_offset, log.high_watermark

    def fall_behind() -> None:
        _cut(cluster, a, c, 1_200)
        when(cluster, lambda: c not in cluster.state.isr, let_catch_up)

    def let_catch_up() -> None:
        cluster.network.heal()
        _cut(cluster, a, ZOOKEEPER, _SHORT_MS)  # so that it does not get into the ISR
        when(cluster, lambda: log_of(c)[0] == log_of(a)[0], commit_without_it)

    def commit_without_it() -> None:
        _cut(cluster, a, c, FAULTS_END_MS)
        end_offset = log_of(c)[0]
        when(cluster, lambda: log_of(a)[1] > end_offset, end)

    def end() -> None:
        cluster.processes[a].end("is killed")
        until_ms = schedule.now_ms + 2_500
        for node_id in others:
            if node_id != c:
                cluster.network.cut(node_id, c, until_ms)  # C asks, and hears nothing
            for other in others:
                if c not in (node_id, other):
                    cluster.network.cut(node_id, other, until_ms)

    schedule.at(1_500, partial(cluster.lead, a))
    schedule.at(2_500, fall_behind)


def two_lead_at_once(cluster: MachineCluster) -> None:
    """Of one machine: B is to lead, and C as well, in the same moment."""
    for node_id in cluster.replicas[1:3]:
        cluster.schedule.at(1_500, partial(cluster.lead, node_id))
