"""Compiled loops over records: survey, decode, encode, hash, scan, compaction's two passes, values.

`code/` holds the loops, in Python for numba; a child process compiles them once for each
machine (`compile.py`), the result is cached (`cache.py`) and loaded as machine code
(`machine_code.py`). A caller gets its kernel from `loader.py`, and takes a plain path for as
long as there is none. Importing this package imports neither numba nor llvmlite.
"""

from __future__ import annotations

from drumlin.records.kernels.loader import (
    bring,
    compaction_kernels,
    kernels_for,
    record_kernels,
    value_kernels,
)

__all__ = ["bring", "compaction_kernels", "kernels_for", "record_kernels", "value_kernels"]
