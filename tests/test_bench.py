"""What a benchmark leaves as its result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from rig.waiting import wait_until

_ROOT = Path(__file__).parents[1]


def _running_in(directory: Path) -> list[int]:
    """Processes that were told to work there."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            is_there = f"{directory}/".encode() in each.read_bytes()
        except OSError:
            continue  # it has ended
        if is_there:
            found.append(int(each.parent.name))
    return found


def test_a_benchmark_that_is_ended_leaves_neither_its_broker_nor_its_files(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench", "turns", "--rows", "api_versions"]
    path = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
    bench = subprocess.Popen(
        [*command, "--directory", str(tmp_path)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: bool(_running_in(tmp_path)), "its broker", 60)
        bench.terminate()
        assert bench.wait(60) == 128 + signal.SIGTERM
        assert not _running_in(tmp_path)
        assert not list(tmp_path.iterdir())
    finally:
        bench.kill()
        bench.wait()
        for pid in _running_in(tmp_path):
            os.kill(pid, signal.SIGKILL)
