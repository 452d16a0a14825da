"""Log compaction: keeping the last record of every key, forever, on bounded disk.

`records/kernels/survival.py` has the rule, `survivors.py` makes it an expression on columns. The
threads of `pool` choose among the logs that are `dirty`; a `round` cleans one of them, by two
`passes`, and hands the result to the segment swap in `storage`.
"""

from __future__ import annotations

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept

__all__ = ["NO_DELETE_HORIZON", "is_kept"]
