"""Log compaction: keeping the last record of every key, for ever, on bounded disk.

`records/kernels/survival.py` is the rule, `survivors.py` the same for columns. One cleaning goes
`cleanable` -> `choice` -> `map_building` -> `grouping` -> `rewriting` -> the swap in `storage`;
`pool.py` has the threads that do it, and `crew.py` those that help them with compressed batches.
"""

from __future__ import annotations

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept

__all__ = ["NO_DELETE_HORIZON", "is_kept"]
