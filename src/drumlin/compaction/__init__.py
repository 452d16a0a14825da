"""Log compaction: keeping the last record of every key, for ever, on bounded disk.

`records/kernels/survival.py` is the rule, `survivors.py` makes an expression on columns of it.
`pool` has threads that take what is `dirty`; a `round` cleans it, by its `passes`, and hands the
result to the swap in `storage`.
"""

from __future__ import annotations

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept

__all__ = ["NO_DELETE_HORIZON", "is_kept"]
