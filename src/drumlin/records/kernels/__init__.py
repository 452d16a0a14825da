"""Compiled loops over records: survey, decode, encode, hash, scan, compaction's two passes, values.

`code/` holds the loops, in Python for numba; `toolchain/` makes shared libraries of them when the
package is built, for several kinds of processors (`processor.py`). `machine_code.py` opens the best
one. A caller gets its kernels from `loader.py`, and takes a plain path where there are none.
"""

from __future__ import annotations

from drumlin.records.kernels.loader import compaction_kernels, record_kernels, value_kernels

__all__ = ["compaction_kernels", "record_kernels", "value_kernels"]
