"""Garbage collection in a Python worker does not go through what is loaded for good."""

from __future__ import annotations

import subprocess
import sys
import textwrap

_WORKER = textwrap.dedent("""
    import gc, sys, weakref
    from drumlin.spark import garbage

    class Ring:
        def __init__(self):
            self.itself = self

    dropped = weakref.ref(Ring())
    import drumlin.client.client
    garbage.spare_what_is_loaded()
    assert dropped() is None, "what was garbage is collected first"
    first = gc.get_freeze_count()
    assert first > 10_000 and len(gc.get_objects()) < 1_000
    of_a_task = Ring()
    import html.parser
    garbage.spare_what_is_loaded()
    dropped = weakref.ref(of_a_task)
    del of_a_task
    first = gc.get_freeze_count()
    made_later = [[] for _ in range(5_000)]
    garbage.spare_what_is_loaded()
    assert gc.get_freeze_count() <= first, "once is enough"
    import xmlrpc.client
    garbage.spare_what_is_loaded()
    assert gc.get_freeze_count() > first, "unless more was loaded"
    assert dropped() is None, "what was alive before and is no more is collected then"
    dropped = weakref.ref(Ring())
    gc.collect()
    assert dropped() is None, "what comes later is collected as ever"
    print("all is well")
""")


def test_what_is_loaded_is_spared() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _WORKER], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.strip() == "all is well", ran.stderr
