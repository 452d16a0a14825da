"""The memory of the Python workers that a Spark session has started, at its highest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Self

_EVERY_S = 0.05


class WorkerMemory:
    """Looks, while a block runs, at all processes below one, but for virtual machines of Java.

    What several share, as the code of Python, counts once: it is divided among them (PSS).
    """

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
        self._pid = pid
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_EVERY_S):
            self.peak_bytes = max(self.peak_bytes, sum(map(_pss_bytes, _workers(self._pid))))


def _workers(pid: int) -> list[int]:
    parents: dict[int, int] = {}
    java: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = path.read_text().rpartition(")")
        except OSError:  # it ended meanwhile
            continue
        parents[int(path.parent.name)] = int(rest.split()[1])
        if name.endswith("(java"):
            java.add(int(path.parent.name))
    below = {pid}
    while more := {each for each, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted(below - java - {pid})


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:  # it ended meanwhile
        return 0
    return next((int(each.split()[1]) << 10 for each in lines if each.startswith("Pss:")), 0)
