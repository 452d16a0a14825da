"""Mistakes about brokers that come back, by their own disks or not: found on both stores.

Each breaks one rule of who may lead besides the ISR. That a replica without a log, or with an
older one, counts for nothing shows where three fail in the right order: see `directed.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.rules import decisions, eligible, leadership
from drumlin.metadata.rules.leadership import Returned
from drumlin.replication.partition import Partition
from replication.simulation.planted.mistakes import Replacement
from replication.simulation.processes import membership
from replication.simulation.processes.process import BrokerProcess

_with_isr = eligible.with_isr


def _in_favour_of_the_dead(
    state: PartitionState, node_id: int, _: Returned, alive: Collection[int], min_isr: int
) -> PartitionState:
    """Leave the ISR unless nobody else is in it, and be forgotten."""
    rest = tuple(each for each in state.isr if each != node_id)
    if node_id not in state.isr or not rest:
        return state
    live = [each for each in rest if each in alive]
    leader = state.leader
    if leader == node_id:
        leader = live[0] if live else NO_LEADER
    return _with_isr(state, rest, leader, min_isr, gone=(node_id,))


def _first_come(state: PartitionState, alive: Collection[int], min_isr: int) -> int:
    """One that is back is enough."""
    del min_isr
    back = [each for each in eligible.remembered(state) if each in alive]
    return back[0] if back else NO_LEADER


def _in_their_order(state: PartitionState, some: Collection[int]) -> int:
    """Whatever their logs have."""
    return next(each for each in state.replicas if each in some)


def _keep_eligible(state: PartitionState, *arguments: Any, gone: object = ()) -> PartitionState:
    """Whoever was eligible once, whether it comes back as it was or not."""
    del gone
    return _with_isr(state, *arguments)


def _eligible_for_ever(state: PartitionState, *arguments: Any, **how: Any) -> PartitionState:
    """Those who left stay eligible while others commit; and no leader looks."""
    after = _with_isr(state, *arguments, **how)
    gone = how.get("gone", ())
    stay = {*state.isr, *state.elr}.difference(after.isr, gone)
    return replace(after, elr=tuple(each for each in state.replicas if each in stay))


def _by_isr_alone(self: Any) -> bool:
    return self.isr is not None and self.isr.size < self._needed_replicas()


def _marked(self: BrokerProcess) -> bool:
    """There is a marker: nobody reads it."""
    return not self.disk.is_lost and (self.epoch_before is None or self._marker is not None)


def _everywhere(name: str, mistake: Any) -> tuple[Replacement, ...]:
    """In all modules that have it by this name."""
    modules = (leadership, eligible, decisions, membership)
    return tuple((each, name, mistake) for each in modules if hasattr(each, name))


RECOVERY_MISTAKES: dict[str, tuple[Replacement, ...]] = {
    "a broker leaves in favour of the dead": _everywhere("returned", _in_favour_of_the_dead),
    "the marker of a clean stop is not read": ((BrokerProcess, "is_current", property(_marked)),),
    "one that is back is enough": ((eligible, "_recovered", _first_come),),
    "nobody compares logs": ((eligible, "_longest", _in_their_order),),
    "whoever comes back uncleanly stays eligible": _everywhere("with_isr", _keep_eligible),
    "others commit beside those that are eligible": (
        *_everywhere("with_isr", _eligible_for_ever),
        (Partition, "is_under_min_isr", property(_by_isr_alone)),
    ),
}
