"""Compiled loops over records: survey, decode, encode, hash, scan, compaction's two passes, values.

`code/` holds the loops, in Python for numba; `toolchain/` compiles them into shared libraries when
the package is built, one for each kind of processor in `processor.py`. `machine_code.py` opens the
best one. Callers get the kernels from `loader.py`. Without kernels for the processor, a caller uses
plain Python, or raises an error if it has no such path.
"""

from __future__ import annotations

from drumlin.records.kernels.loader import (
    NoKernels,
    compaction_kernels,
    record_kernels,
    value_kernels,
)

__all__ = ["NoKernels", "compaction_kernels", "record_kernels", "value_kernels"]
