"""The mirror's rule for one partition: the choice between the offsets of two stores. Pure.

The last change wins, forward or back: a deliberate rewind is a change like an ordinary commit. To
tell a change from a mere difference, the mirror remembers the last offset that both stores had,
with the version of ZooKeeper's node, and its own writes that may or may not have arrived:

- if only one store has changed since, that one counts. A node that was written has changed even if
  its offset is the same; for the broker, only the offset is known;
- if both have changed, the later change counts, by ZooKeeper's mtime and the broker's commit
  timestamp;
- if both have changed, with unknown or equal timestamps, the smaller offset counts, as reading
  records again loses nothing;
- a store without an offset gets the other's: deletions are not mirrored.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple


class Decision(Enum):
    """The decision about one partition."""

    NOTHING = "nothing"
    TO_BROKER = "to the broker"
    TO_ZOOKEEPER = "to ZooKeeper"
    CONFLICT = "conflict"  # both have changed: call `later`


class Node(NamedTuple):
    """ZooKeeper's side: an offset and the version of its node, which counts writes."""

    offset: int
    version: int


@dataclass(slots=True)
class Agreement:
    """The remembered state of one partition."""

    offset: int | None = None  # the last offset that both stores had; None if there was none yet
    version: int | None = None  # the version of the node at that time
    sent_to_zookeeper: set[Node] = field(default_factory=set)  # writes that may still arrive
    sent_to_broker: set[int] = field(default_factory=set)

    def agree(self, offset: int, version: int) -> bool:
        """Note that both stores have this offset; returns whether the agreement has changed."""
        is_known = (self.offset, self.version) == (offset, version)
        if is_known and not self.sent_to_zookeeper and not self.sent_to_broker:
            return False
        self.offset = offset
        self.version = version
        self.sent_to_zookeeper.clear()
        self.sent_to_broker.clear()
        return True


def decide(agreement: Agreement, node: Node | None, broker: int | None) -> Decision:
    """Compare two stores' offsets with the remembered state; None means that a store has none."""
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
        # One store has our copy of the other's offset, and the other was set back since.
        return Decision.TO_BROKER if is_ours_in_broker else Decision.TO_ZOOKEEPER
    return Decision.CONFLICT


def later(
    zookeeper: int, modified_timestamp_ms: int, broker: int, commit_timestamp_ms: int | None
) -> Decision:
    """Decide between two changes; `commit_timestamp_ms` is None if unknown."""
    if commit_timestamp_ms is None or commit_timestamp_ms == modified_timestamp_ms:
        is_zookeeper = zookeeper < broker
    else:
        is_zookeeper = modified_timestamp_ms > commit_timestamp_ms
    return Decision.TO_BROKER if is_zookeeper else Decision.TO_ZOOKEEPER
