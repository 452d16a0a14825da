"""Log compaction: keeping the last record of every key, for ever, on bounded disk.

`records/kernels/survival.py` is the rule, `survivors.py` makes an expression on columns of it. One
cleaning goes `cleanable` -> `choice` -> `map_builder` -> `segment_groups` -> `rewriter` -> the swap
in `storage`;
`pool.py` has the threads that do it, and `crew.py` those that help them with compressed batches.
"""

from __future__ import annotations

from drumlin.compaction.survivors import NO_DELETE_HORIZON, is_kept

__all__ = ["NO_DELETE_HORIZON", "is_kept"]
