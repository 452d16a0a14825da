"""Compiled loops over records: survey, decode, encode, hash, scan, and compaction's two passes.

`code/` holds the loops, in Python for numba; a child process compiles them once for each
machine (`compile.py`), the result is cached (`cache.py`) and loaded as machine code
(`machine_code.py`). A caller gets its kernel from `loader.py`, and takes a plain path for as
long as that gives None. Importing this package imports neither numba nor llvmlite.
"""

from __future__ import annotations

from drumlin.records.kernels.loader import (
    bring,
    compaction_kernels_if_ready,
    compaction_kernels_soon,
    kernels_for,
    kernels_if_ready,
    load_for_compaction_in_background,
    load_in_background,
    ready,
    require,
    require_for_compaction,
)

__all__ = [
    "bring",
    "compaction_kernels_if_ready",
    "compaction_kernels_soon",
    "kernels_for",
    "kernels_if_ready",
    "load_for_compaction_in_background",
    "load_in_background",
    "ready",
    "require",
    "require_for_compaction",
]
