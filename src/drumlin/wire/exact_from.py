"""How a client asks a broker of Drumlin from where on the states of a log are exact.

The cleaner removes records whose keys have later ones. So the state that a log had at an offset can
be read off it only if no cleaning has looked beyond that offset. The broker knows up to where its
cleanings have looked, and tells it to whoever asks ListOffsets (4 and later) for this timestamp, a
number that no other client sends: `offset` is the first end offset whose state is exact, and
`leader_epoch` that of the leader which says so. `timestamp` is this number, or one below it, which
changes whenever tombstones or markers were removed: who was reading meanwhile may have met a value,
and not its deletion. Apache Kafka answers UNSUPPORTED_VERSION, or, in old versions, with a record's
timestamp, which is never as low.
"""

from __future__ import annotations

from typing import Final

EXACT_FROM: Final = -0x4452_554D  # "DRUM"
#: In place of the offset: records are gone, and the leader has not looked since.
UNKNOWN_YET: Final = 2**63 - 1
EXACT_FROM_VERSION_MIN: Final = 4
