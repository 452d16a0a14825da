"""A request to a Drumlin broker for the first end offset whose state can be read exactly.

The cleaner removes records whose keys have later records. So the state that a log had at an offset
can be read only if no cleaning has read beyond that offset. The broker knows how far its cleanings
have read, and answers a ListOffsets request (version 4 and later) for this timestamp, a number that
no other client sends: `offset` is the first end offset whose state is exact, and `leader_epoch` the
epoch of the leader that answers. `timestamp` is this number, or a smaller number that changes
whenever tombstones or transaction markers are removed: a client that was reading meanwhile may have
read a value, and not its deletion. Apache Kafka answers UNSUPPORTED_VERSION, or, in old versions,
with a record's timestamp, which is never so low.
"""

from __future__ import annotations

from typing import Final

EXACT_FROM: Final = -0x4452_554D  # "DRUM"
#: Replaces the offset until a leader of the log knows again which states are exact.
UNKNOWN_YET: Final = 2**63 - 1
EXACT_FROM_VERSION_MIN: Final = 4
