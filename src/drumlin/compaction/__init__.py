"""Log compaction: keeping the last record of every key, forever, on bounded disk.

`records/kernels/survival.py` has the rule, which `survivors.py` turns into an expression on
columns. The threads of `pool` choose among the `dirty` logs. A `round` cleans one of these logs in
two `passes`, and gives the result to the segment swap in `storage`.
"""

from __future__ import annotations

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept

__all__ = ["NO_DELETE_HORIZON", "is_kept"]
