"""Garbage collection in Python workers: Spark collects after whatever it has had a worker do.

Going through Arrow, PySpark and the protocol's schemas each time costs tens of milliseconds, more
than reading a small range or writing a small batch. None of that is ever garbage; what a task had
beside it may be, so that is looked at again whenever more was loaded.
"""

from __future__ import annotations

import gc
import sys

_modules_spared = 0


def spare_what_is_loaded() -> None:
    """Take all that is loaded by now out of garbage collection. For the end of a task.

    What is garbage now is collected before, in place of what Spark would do next. Mostly there is
    nothing to do: a process has loaded all it needs at the end of its first task.
    """
    global _modules_spared
    if len(sys.modules) > _modules_spared:
        gc.unfreeze()  # programs that load modules all the time are not to leak: see what died
        gc.collect()
        gc.freeze()
        _modules_spared = len(sys.modules)
