"""Mistakes that the simulation must find: each is a part of a broker that breaks one rule.

They show what the simulation is worth. None of them is ever in `src`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from drumlin.metadata.image import PartitionState
from drumlin.replication.isr import InSyncReplicas

from . import process
from .cluster import Parts
from .follower import Follower
from .leader import Failure, FetchAnswer, FetchRequest, Leader
from .process import BrokerProcess
from .znodes import Znodes

# -- followers -------------------------------------------------------------------------------


class TruncatesByHighWatermark(Follower):
    """As before KIP-101."""

    def __init__(self, node_id, log, leader, leader_epoch):
        super().__init__(node_id, log, leader, leader_epoch)
        log.truncate_to(log.high_watermark)


class NeverTruncates(Follower):
    def diverged(self, end):
        self.ignores = True

    def last_fetched_epoch(self) -> int:
        return -1 if getattr(self, "ignores", False) else super().last_fetched_epoch()


class TakesAnyAnswer(Follower):
    """Even one to a request that it sent in an epoch that is over."""


# -- leaders ---------------------------------------------------------------------------------


class FencesNobody(Leader):
    def check_epoch(self, leader_epoch: int) -> None:
        return None


class CountsDivergingFetches(Leader):
    def fetch(self, request: FetchRequest, now_ms: int) -> FetchAnswer | Failure:
        self.isr.fetched(
            request.replica_id,
            request.broker_epoch,
            request.offset,
            request.log_start_offset,
            self.log.log_end_offset,
            now_ms,
        )
        self.look(now_ms)
        return super().fetch(request, now_ms)


class AcknowledgesWithoutReplicas(Leader):
    def has_enough(self) -> bool:
        return True


class ForgetsPendingWish(Leader):
    """Takes an answer that was lost for a refusal."""

    def agreed(self, state: PartitionState, now_ms: int) -> None:
        super().agreed(state, now_ms)

    def wish(self, wish):
        self._wished(wish)


# -- metadata --------------------------------------------------------------------------------


class ComparesNothing(Znodes):
    """Changes the ISR, whatever has become of the state since."""

    def check_partition(self, leader_epoch: int, version: int) -> None:
        pass


class AddsAnyProcess(Znodes):
    """Puts brokers into the ISR for what their predecessors had."""

    def check_member(self, node_id: int, broker_epoch: int) -> None:
        pass


class BumpsBlindly(Znodes):
    """A late predecessor ends the broker epoch of its successor."""

    def bump_broker_epoch(self, node_id: int, if_version: int) -> int:
        return super().bump_broker_epoch(node_id, self.broker_epochs[node_id])


class StaysInIsr(BrokerProcess):
    """After an unclean stop, as if nothing could be gone."""

    def leave_isr(self) -> None:
        self._register()


class TakesOldNews(BrokerProcess):
    """Whatever comes last counts."""

    def take_state(self, state: PartitionState) -> None:
        if self.has_joined and self.state is not None:
            self.state = replace(self.state, partition_epoch=-1)
            if self.leader is not None:
                isr = self.leader.isr
                isr.state = replace(isr.state, partition_epoch=-1)
        super().take_state(state)


# -- in the rules themselves -------------------------------------------------------------------


def _leader_alone(self: InSyncReplicas, current: int, leader_end_offset: int, now_ms: float) -> int:
    return leader_end_offset


def _grows_at_high_watermark(self: InSyncReplicas, *arguments: object, **named: object) -> None:
    _initial(self, *arguments, **named)
    self._first_offset = 0


def _agrees_alone(self: InSyncReplicas, wish: object) -> None:
    """The wish counts as soon as it was asked for; the ISR of before does not."""
    _asked(self, wish)
    self.state = replace(self.state, isr=tuple(each for each, _ in wish.isr))


def _forgets_members_to_be(self: InSyncReplicas, wish: object) -> None:
    _asked(self, wish)
    self._pending_ids = frozenset()
    self._is_joining = lambda *_: False


def _keeps_epoch(state: PartitionState, node_id: int) -> PartitionState:
    left = _after_unclean_stop(state, node_id)
    return replace(left, leader_epoch=state.leader_epoch) if left.isr == state.isr else left


def _elects_anybody(state: PartitionState, alive: dict[int, int]) -> PartitionState:
    if state.leader_epoch < 0 or state.leader in alive:
        return _settled(state, alive)
    live = tuple(each for each in reversed(state.replicas) if each in alive)
    if not live:
        return state
    return replace(state, leader=live[0], leader_epoch=state.leader_epoch + 1, isr=live)


_initial, _asked = InSyncReplicas.__init__, InSyncReplicas.asked
_settled, _after_unclean_stop = process.settled, process.after_unclean_stop


@contextmanager
def mistaken(name: str) -> Iterator[Parts]:
    """The parts of a cluster in which that mistake was made."""
    parts = Parts()
    if name in PARTS:
        yield replace(parts, **PARTS[name])
    else:
        target, attribute, mistake = RULES[name]
        with patch.object(target, attribute, mistake):
            yield parts


PARTS = {
    "a follower truncates by high watermark": {"follower_type": TruncatesByHighWatermark},
    "a follower never truncates": {"follower_type": NeverTruncates},
    "a leader fences nobody": {"leader_type": FencesNobody},
    "diverging fetches count": {"leader_type": CountsDivergingFetches},
    "acknowledged without replicas": {"leader_type": AcknowledgesWithoutReplicas},
    "wishes are not pending": {"leader_type": ForgetsPendingWish},
    "the ISR changes without comparing": {"znodes_type": ComparesNothing},
    "the ISR grows by any process": {"znodes_type": AddsAnyProcess},
    "a late predecessor begins a broker epoch": {"znodes_type": BumpsBlindly},
    "a reborn broker stays in the ISR": {"process_type": StaysInIsr},
    "old news count": {"process_type": TakesOldNews},
}
RULES = {
    "the leader alone commits": (InSyncReplicas, "high_watermark", _leader_alone),
    "the ISR grows by the high watermark alone": (
        InSyncReplicas,
        "__init__",
        _grows_at_high_watermark,
    ),
    "a wish counts at once": (InSyncReplicas, "asked", _agrees_alone),
    "members to be do not count": (InSyncReplicas, "asked", _forgets_members_to_be),
    "a reborn leader keeps its epoch": (process, "after_unclean_stop", _keeps_epoch),
    "anybody is elected": (process, "settled", _elects_anybody),
}
