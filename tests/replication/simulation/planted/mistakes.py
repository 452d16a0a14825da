"""Mistakes that the simulation must find: each breaks one rule of replication in one part.

They show what the simulation is worth. None of them is ever in `src`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest.mock import patch

from drumlin.broker.fetch_sessions import partition_read
from drumlin.broker.fetch_sessions.partition_read import PartitionRead
from drumlin.broker.hosting import isr_changes
from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules import isr_requests
from drumlin.metadata.rules.isr_requests import IsrRequest, check_request
from drumlin.metadata.rules.leadership import settled
from drumlin.replication import followed_partition
from drumlin.replication.divergence import Cut, Extent, cut_after
from drumlin.replication.followed_partition import FollowedPartition
from drumlin.replication.isr import InSyncReplicas
from drumlin.replication.partition import Partition
from drumlin.replication.replica import Replica
from drumlin.wire.error_codes import KafkaError
from replication.simulation.processes import membership, zookeeper_process
from replication.simulation.processes.isr_requests import IsrRequests
from replication.simulation.processes.membership import Membership
from replication.simulation.processes.zookeeper_process import ZooKeeperProcess
from replication.simulation.world.znodes import Znodes

#: An object, one of its attributes, and what takes its place.
Replacement = tuple[object, str, Any]


def _nothing(*_: object, **__: object) -> None:
    return None


def _no(*_: object) -> bool:
    return False


def _yes(*_: object, **__: object) -> bool:
    return True


# -- followers and leaders -------------------------------------------------------------------

_begin_to_follow = FollowedPartition.__init__


def _cut_at_high_watermark(
    self: FollowedPartition, log: Any, leader_id: int, leader_epoch: int
) -> None:
    """As before KIP-101."""
    log.truncate_to(log.high_watermark)
    _begin_to_follow(self, log, leader_id, leader_epoch)


def _follow_unseen(self: PartitionRead, partition: Partition, wanted: Any) -> None:
    """Count a fetch without looking whether the follower has what we have."""
    _, _, fetch_offset, _, log_start_offset, _ = wanted
    with suppress(KafkaError):
        partition.follower_fetched(
            self._replica_id, self._replica_epoch, fetch_offset, log_start_offset
        )


def _read_unseen(self: PartitionRead, partition: Partition, wanted: Any, *, may_block: bool) -> Any:
    """Send what is asked for, without looking for where the logs part."""
    return _look(self, partition, (*wanted[:3], -1, *wanted[4:]), may_block=may_block)


_look = PartitionRead.look


def _keep_unknown(own: Any, extent: Extent, leaders: Any, leaders_start: int) -> Cut:
    """Keep what was deleted in the leader's log as if it had been the same there."""
    del leaders_start
    return cut_after(own, extent._replace(start=-1), leaders, -1)


# -- in-sync replicas ------------------------------------------------------------------------

_begin_isr, _asked, _agreed = InSyncReplicas.__init__, InSyncReplicas.asked, InSyncReplicas.agreed


def _leader_alone(_: InSyncReplicas, current: int, leader_end_offset: int, now_ms: float) -> int:
    return leader_end_offset


def _begin_anywhere(self: InSyncReplicas, *arguments: Any) -> None:
    """A member need not have what is from before the leader epoch."""
    _begin_isr(self, *arguments)
    self.first_offset = 0


def _count_at_once(self: InSyncReplicas, wish: IsrRequest) -> None:
    """The ISR of before counts no more."""
    _asked(self, wish)
    self.state = replace(self.state, isr=tuple(each for each, _ in wish.isr))


def _agree_to_anything(self: InSyncReplicas, state: PartitionState, now_ms: float) -> None:
    self.state = replace(self.state, partition_epoch=-1)
    _agreed(self, state, now_ms)


def _forget_members_to_be(self: InSyncReplicas, wish: IsrRequest) -> None:
    _asked(self, wish)
    self._pending_ids = frozenset()


_take = IsrRequests._take


def _take_silence_for_refusal(
    self: IsrRequests, partition: Partition, wish: IsrRequest, answer: Any
) -> None:
    if getattr(answer, "code", None) in isr_changes._UNKNOWN:
        partition.refused(wish)
    _take(self, partition, wish, answer)


# -- metadata --------------------------------------------------------------------------------


def check_no_process(
    wish: IsrRequest, state: PartitionState, leader: int, alive: Mapping[int, int]
) -> None:
    check_request(wish, state, leader, dict(wish.isr))


def _begin_blindly(self: Znodes, node_id: int, if_version: int) -> int:
    return self.bump(node_id)


def _register_at_once(self: Membership, is_clean: bool) -> None:
    self._register(is_clean)


def _join_at_once(self: Membership, is_clean: bool) -> None:
    self._process.joined()


_begin_session = ZooKeeperProcess._begin_session


def _begin_session_cleanly(self: ZooKeeperProcess, *, is_clean: bool) -> None:
    _begin_session(self, is_clean=is_clean or self.session is not None)


def _begun_last(self: ZooKeeperProcess) -> int:
    """Of a clean stop: the last of which there was an answer."""
    return self.broker_epoch


MISTAKES: dict[str, tuple[Replacement, ...]] = {
    "a follower truncates to its high watermark": (
        (FollowedPartition, "__init__", _cut_at_high_watermark),
    ),
    "a leader does not say where logs part": (
        (PartitionRead, "look", _read_unseen),
        (partition_read, "_diverging", _nothing),
    ),
    "a follower keeps what its leader has deleted": (
        (Partition, "has_in_sync", _yes),  # else the leader does not leave it to the follower
        (followed_partition, "cut_after", _keep_unknown),
    ),
    "fetches count whatever the follower has": ((PartitionRead, "follow", _follow_unseen),),
    "a leader takes unknown epochs for its own": ((Replica, "knows_epochs_from", _yes),),
    "a leader fences nobody": ((Replica, "check_leader_epoch", _nothing),),
    "acknowledged without enough replicas": ((Partition, "is_under_min_isr", property(_no)),),
    "the leader alone commits": ((InSyncReplicas, "high_watermark", _leader_alone),),
    "the ISR grows by the high watermark alone": ((InSyncReplicas, "__init__", _begin_anywhere),),
    "a wish counts at once": ((InSyncReplicas, "asked", _count_at_once),),
    "members to be do not count": ((InSyncReplicas, "asked", _forget_members_to_be),),
    "silence is taken for a refusal": ((IsrRequests, "_take", _take_silence_for_refusal),),
    "a request is not compared with the state": ((isr_requests, "check_request", _nothing),),
    "the ISR grows by any process": (
        (isr_requests, "check_request", check_no_process),
        (Znodes, "check_member", _nothing),
    ),
    "a late predecessor begins a broker epoch": ((Znodes, "begin_broker_epoch", _begin_blindly),),
    "a reborn broker stays in the ISR": ((Membership, "prepare", _register_at_once),),
    "a reborn leader keeps its epoch": ((Membership, "advance", _join_at_once),),
    "a new session makes a broker clean": (
        (ZooKeeperProcess, "_begin_session", _begin_session_cleanly),
    ),
    "a clean stop names an epoch that may be over": (
        (ZooKeeperProcess, "last_epoch", property(_begun_last)),
    ),
    "old news count": (
        (zookeeper_process, "is_newer", _yes),
        (InSyncReplicas, "agreed", _agree_to_anything),
    ),
    "anybody is elected": ((membership, "settled", partial(settled, may_be_unclean=True)),),
}


@contextmanager
def mistaken(mistake: Iterable[Replacement]) -> Iterator[None]:
    """While one rule is broken."""
    with ExitStack() as stack:
        for target, attribute, replacement in mistake:
            stack.enter_context(patch.object(target, attribute, replacement))
        yield
