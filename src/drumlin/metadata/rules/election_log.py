"""Log messages about elected leaders that may lack records. Makes no decisions."""

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
    """Log an election that may lose records; a clean election is not logged."""
    kind = election(before, after)
    if kind is Election.RECOVERY:
        ends = {each.node_id: each.log_end.end_offset for each in before.last_known}
        _log.warning(
            "%s-%d: no in-sync replica has stopped cleanly, so broker %d is elected: its log ends "
            "at %d: records that were on no disk when the power failed are lost (log ends of the "
            "returned replicas: %s)",
            topic,
            after.index,
            after.leader,
            ends[after.leader],
            ends,
        )
    elif kind is Election.UNCLEAN and is_nothing_left(before):
        _log.error(
            "%s-%d: all of its replicas %s have returned without a log, so broker %d is elected "
            "with an empty one: all records are lost",
            topic,
            after.index,
            list(before.replicas),
            after.leader,
        )
    elif kind is Election.UNCLEAN:
        _log.error(
            "%s-%d: none of its in-sync replicas %s is alive, so broker %d is elected, as %s: "
            "acknowledged records may be lost",
            topic,
            after.index,
            [*before.isr, *before.elr],
            after.leader,
            why,
        )
