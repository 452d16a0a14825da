"""Pools whose threads are all there from the beginning, mostly in processes of their own."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from drumlin.broker.loop.threads import Threads

_START = """
import resource, sys, threading
sys.path[:0] = {paths!r}
from pathlib import Path
from drumlin.ready_threads import ready_threads
"""


def _run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", _START.format(paths=sys.path) + script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_all_threads_are_there() -> None:
    said = _run("""
before = threading.active_count()
pool = ready_threads(20, "x")
print(threading.active_count() - before)
print(pool.submit(lambda: threading.active_count() - before).result())
pool.shutdown()
print(threading.active_count() - before)
""")
    assert said.split() == ["20", "20", "0"]


def test_where_there_may_be_no_more_threads_the_process_can_end() -> None:
    """Threads that have started do not wait for the others for ever."""
    said = _run("""
threading.stack_size(64 << 20)
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
try:
    ready_threads(20, "x")
except RuntimeError:
    print("no more")
""")
    assert said.split() == ["no", "more"]


def _exhausted() -> None:
    next(iter(()))


@pytest.mark.parametrize("kind", ["reading", "computing", "making", "syncing", "administering"])
def test_whoever_awaits_a_thread_hears_of_every_error(kind: str) -> None:
    """asyncio refuses a StopIteration, and would leave who waits for it alone."""

    async def run() -> None:
        threads = Threads()
        try:
            with pytest.raises(RuntimeError, match="StopIteration"):
                await asyncio.wait_for(getattr(threads, kind)(_exhausted), 20)
        finally:
            threads.close()

    asyncio.run(run())
