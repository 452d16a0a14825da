"""Leader elections requested by an operator (KIP-460): of the preferred leader, or of any. Pure."""

from __future__ import annotations

from collections.abc import Collection

from drumlin.metadata.image import NO_LEADER, PartitionState
from drumlin.metadata.rules.leadership import led_by_any, preferred
from drumlin.wire.error_codes import ErrorCode, KafkaError


def elected(
    state: PartitionState, alive: Collection[int], min_isr: int, *, is_unclean: bool = False
) -> PartitionState:
    """The partition led by its preferred leader or, in an unclean election without a live leader,
    by any live replica.

    An unclean election chooses a replica that is in sync or eligible, if there is one. Otherwise
    records may be lost: it prefers replicas that were complete before an unclean stop, and among
    these the one with the longest log.

    Raises:
        KafkaError: ELECTION_NOT_NEEDED; PREFERRED_LEADER_NOT_AVAILABLE: the preferred leader is not
            alive, or not in sync; ELIGIBLE_LEADERS_NOT_AVAILABLE.
    """
    return _unclean(state, alive, min_isr) if is_unclean else preferred(state, alive, min_isr)


def _unclean(state: PartitionState, alive: Collection[int], min_isr: int) -> PartitionState:
    if state.leader != NO_LEADER and state.leader in alive:
        message = f"broker {state.leader} leads, and is alive"
        raise KafkaError(ErrorCode.election_not_needed, message)
    if not any(each in alive for each in state.replicas):
        message = "none of its replicas is alive"
        raise KafkaError(ErrorCode.eligible_leaders_not_available, message)
    return led_by_any(state, alive, min_isr)
