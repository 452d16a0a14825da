"""Which of two stores' offsets counts, for one partition: the rule of the mirror. Pure.

The last change wins, whether it went forward or back: a deliberate rewind is no less a change
than an ordinary commit. To know a change from a value that merely differs, the mirror
remembers the offset that both stores had last, with the version of ZooKeeper's node, and what it
has written itself without knowing whether it arrived:

- only one store was changed since: that one counts. A node that was written has changed, even
  if its offset is the same; a broker only shows the offset;
- both were: the later change counts, by ZooKeeper's mtime and the broker's commit timestamp;
- both were, and there are no timestamps, or they are the same: the smaller offset counts, as
  reading again loses nothing;
- a store that has no offset takes the other's: a deletion is not carried over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Decision(Enum):
    """What to do about one partition."""

    NOTHING = "nothing"
    TO_BROKER = "to the broker"
    TO_ZOOKEEPER = "to ZooKeeper"
    CONFLICT = "conflict"  # both have changed: ask `later`


class Node(NamedTuple):
    """ZooKeeper's side: an offset and how often its node was written."""

    offset: int
    version: int


@dataclass(slots=True)
class Agreement:
    """What is remembered of one partition."""

    offset: int | None = None  # both stores had it; None before they were ever equal
    version: int | None = None  # of the node then
    sent_to_zookeeper: set[Node] = field(default_factory=set)  # may have arrived, or may still
    sent_to_broker: set[int] = field(default_factory=set)

    def agree(self, offset: int, version: int) -> bool:
        """Both have this offset now; says whether that is news."""
        is_known = (self.offset, self.version) == (offset, version)
        if is_known and not self.sent_to_zookeeper and not self.sent_to_broker:
            return False
        self.offset = offset
        self.version = version
        self.sent_to_zookeeper.clear()
        self.sent_to_broker.clear()
        return True


def decide(agreement: Agreement, node: Node | None, broker: int | None) -> Decision:
    """Compare two stores' offsets with what is remembered; None: the store has none."""
    if node is None:
        return Decision.NOTHING if broker is None else Decision.TO_ZOOKEEPER
    if node.offset == broker:
        return Decision.NOTHING
    if broker is None:
        return Decision.TO_BROKER
    is_ours_in_zookeeper = node in agreement.sent_to_zookeeper
    is_ours_in_broker = broker in agreement.sent_to_broker
    was_written = node.offset != agreement.offset or agreement.version != node.version
    zookeeper_changed = was_written and not is_ours_in_zookeeper
    broker_changed = broker != agreement.offset and not is_ours_in_broker
    if zookeeper_changed != broker_changed:
        return Decision.TO_BROKER if zookeeper_changed else Decision.TO_ZOOKEEPER
    if not zookeeper_changed and is_ours_in_zookeeper != is_ours_in_broker:
        # One holds what we wrote on behalf of the other, which has gone back since.
        return Decision.TO_BROKER if is_ours_in_broker else Decision.TO_ZOOKEEPER
    return Decision.CONFLICT


def later(
    zookeeper: int, modified_timestamp_ms: int, broker: int, commit_timestamp_ms: int | None
) -> Decision:
    """Which of two changes counts; `commit_timestamp_ms` is None where it cannot be had."""
    if commit_timestamp_ms is None or commit_timestamp_ms == modified_timestamp_ms:
        is_zookeeper = zookeeper < broker
    else:
        is_zookeeper = modified_timestamp_ms > commit_timestamp_ms
    return Decision.TO_BROKER if is_zookeeper else Decision.TO_ZOOKEEPER
