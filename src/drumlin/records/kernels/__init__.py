"""Compiled loops over records: survey, decode, encode, hash, scan, compaction's two passes, values.

`code/` holds the loops, in Python for numba; `toolchain/` makes shared libraries of them when the
package is built, for several kinds of processors (`processor.py`). `machine_code.py` opens the best
one. A caller gets its kernels from `loader.py`; where there are none it takes a plain path, or says
that it cannot do without.
"""

from __future__ import annotations

from drumlin.records.kernels.loader import (
    NoKernels,
    compaction_kernels,
    record_kernels,
    value_kernels,
)

__all__ = ["NoKernels", "compaction_kernels", "record_kernels", "value_kernels"]
