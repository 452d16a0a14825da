"""Log messages about elected leaders that may lack records. Decides nothing."""

from __future__ import annotations

import logging
from typing import Final

from drumlin.metadata.image import PartitionState
from drumlin.metadata.rules.eligible import Election, election, is_nothing_left

_log = logging.getLogger(__name__)

#: Reasons for an unclean election.
BY_CONFIG: Final = "unclean.leader.election.enable says so"
BY_REQUEST: Final = "an operator has asked for it"


def log_election(
    topic: str, before: PartitionState, after: PartitionState, why: str = BY_CONFIG
) -> None:
    """Log an election by which records may be lost; nothing is logged for a clean one."""
    kind = election(before, after)
    if kind is Election.RECOVERY:
        ends = {each.node_id: each.log_end.end_offset for each in before.last_known}
        _log.warning(
            "%s-%d: nobody that was in sync has stopped cleanly, so broker %d leads it, whose log "
            "ends at %d: what was not on the disks when the power failed is lost (log ends of "
            "those that came back: %s)",
            topic,
            after.index,
            after.leader,
            ends[after.leader],
            ends,
        )
    elif kind is Election.UNCLEAN and is_nothing_left(before):
        _log.error(
            "%s-%d: all of its replicas %s have come back without a log, so broker %d leads it "
            "with nothing: what was in it is lost",
            topic,
            after.index,
            list(before.replicas),
            after.leader,
        )
    elif kind is Election.UNCLEAN:
        _log.error(
            "%s-%d: none of its in-sync replicas %s is alive, so broker %d leads it, as %s: "
            "acknowledged records may be lost",
            topic,
            after.index,
            [*before.isr, *before.elr],
            after.leader,
            why,
        )
