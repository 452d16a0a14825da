"""Memory for kernels: what is in it when it grows, and that no thread waits for it meanwhile."""

from __future__ import annotations

import sys
import threading

import pytest

from drumlin.coordination.internal_records import unlocked_memory
from drumlin.coordination.internal_records.unlocked_memory import Memory

_MIB = 1 << 20
_CALLS_MAX = 300_000


def test_what_was_there_stays_when_it_grows() -> None:
    memory = Memory()
    memory.begin(_MIB)
    assert memory.view[:_MIB] == bytes(_MIB)
    memory.view[:3] = b"abc"
    memory.view[_MIB - 3 : _MIB] = b"xyz"
    memory.grow(64 * _MIB)
    assert len(memory.view) == 64 * _MIB
    assert (memory.view[:3], memory.view[_MIB - 3 : _MIB]) == (b"abc", b"xyz")
    memory.begin(_MIB)
    assert memory.view[:_MIB] == bytes(_MIB)


@pytest.mark.parametrize("name", ["_clear_allocate", "_reallocate", "_free"])
def test_others_go_on_meanwhile(name: str) -> None:
    """While it is allocated, enlarged or given back, any thread may have the interpreter's lock."""
    function = getattr(unlocked_memory, name)
    arguments = {"_clear_allocate": (_MIB, 1), "_reallocate": (None, _MIB), "_free": (None,)}
    interval_s, went_on, noticed = sys.getswitchinterval(), threading.Event(), []

    def call_again_and_again() -> None:
        for _ in range(_CALLS_MAX):
            address = function(*arguments[name])
            if address:
                unlocked_memory._free(address)
            if went_on.is_set():
                noticed.append(True)
                return

    sys.setswitchinterval(1000)  # no thread has to let the lock go
    try:
        calling = threading.Thread(target=call_again_and_again)
        calling.start()
        went_on.set()
        calling.join()
    finally:
        sys.setswitchinterval(interval_s)
    assert noticed
