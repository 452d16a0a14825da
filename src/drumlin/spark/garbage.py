"""Garbage collection in Python workers, where Spark runs a collection after every task.

Traversing Arrow, PySpark and the protocol's schemas each time costs tens of milliseconds, more
than reading a small range or writing a small batch. Modules never become garbage, so they are
frozen. Other objects are frozen along with them, until more modules are loaded.
"""

from __future__ import annotations

import gc
import sys

_modules_spared = 0


def spare_what_is_loaded() -> None:
    """Exempt all objects loaded so far from garbage collection; called at the end of a task.

    Garbage is collected first, instead of the collection that Spark would run next.
    Usually there is nothing to do: a process has loaded all it needs by the end of its first task.
    """
    global _modules_spared
    if len(sys.modules) > _modules_spared:
        gc.unfreeze()  # a program that keeps loading modules must not leak objects that died since
        gc.collect()
        gc.freeze()
        _modules_spared = len(sys.modules)
