"""Whether the kernels are there yet, and what brings them in.

Until they are, plain Python serves; if they can't be had (no compiler, no memory for code),
it serves for good, and that is said once in the log.

    cached          a few tens of milliseconds
    brought         likewise: a plan has carried them here (`shipped_code.py`)
    not cached      a child process compiles for some seconds; this one only waits for it
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Generic, TypeVar

if TYPE_CHECKING:
    from drumlin.records.kernels.machine_code import (
        CompactionKernels,
        Kernels,
        ValueKernels,
    )
    from drumlin.records.kernels.shipped_code import ShippedCode

K = TypeVar("K")

_log = logging.getLogger(__name__)
_COMPILE_TIMEOUT_S = 300

#: After so many records a process may expect more.
_RECORDS_WORTH_LOADING = 1000
#: What is cached has been loaded by then, however busy the machine is; a compiler needs longer.
_LOADED_WITHIN_S = 1.0

_records_seen = 0
_brought: dict[str, ShippedCode] = {}


class KernelSet(Generic[K]):
    """The kernels of one object file, loaded once for the process."""

    def __init__(self, name: str, load: Callable[[bytes], K], without: str) -> None:
        """`load` makes functions of machine code, `without` is said where there can't be any."""
        self.name = name
        self._load = load
        self._without = without
        #: The kernels, or None as long as plain Python has to serve.
        self.loaded: K | None = None
        self.has_failed = False  #: plain Python serves for good
        self._lock = threading.Lock()
        self._thread_lock = threading.Lock()  # not to wait for a load
        self._thread: threading.Thread | None = None
        self._begun_s = 0.0

    def require(self) -> K | None:
        """Load the kernels now, waiting for their compilation; None if they can't be had."""
        with self._lock:
            if self.loaded is None and not self.has_failed:
                try:
                    self.loaded = self._load(_code_of(self.name))
                except Exception as error:  # noqa: BLE001  whatever it is, plain Python works
                    self.has_failed = True
                    _log.warning("no fast kernels, %s: %s", self._without, error)
            return self.loaded

    def load_in_background(self) -> None:
        """Start what `require` does in a thread, unless that has been done."""
        with self._thread_lock:
            if self._thread is None:
                self._begun_s = time.monotonic()
                name = f"load-{self.name}"
                thread = threading.Thread(target=self.require, name=name, daemon=True)
                thread.start()  # where the system allows no more, the next caller tries again
                self._thread = thread

    def soon(self) -> K | None:
        """`loaded`, after waiting while they are loaded, but not for a compiler.

        For threads with so much to do that plain Python would hold others up for longer.
        """
        self.load_in_background()
        loading = self._thread
        if self.loaded is None and loading is not None:
            loading.join(max(0.0, self._begun_s + _LOADED_WITHIN_S - time.monotonic()))
        return self.loaded


def _load_record_kernels(code: bytes) -> Kernels:
    # LLVM is not needed by a process that never meets a large batch: imported here.
    from drumlin.records.kernels import machine_code

    return machine_code.load(code)


def _load_compaction_kernels(code: bytes) -> CompactionKernels:
    from drumlin.records.kernels import machine_code

    return machine_code.load_for_compaction(code)


def _load_value_kernels(code: bytes) -> ValueKernels:
    from drumlin.records.kernels import machine_code

    return machine_code.load_for_values(code)


record_kernels: Final = KernelSet("kernels", _load_record_kernels, "records are handled slowly")
compaction_kernels: Final = KernelSet(
    "compaction", _load_compaction_kernels, "logs are cleaned slowly"
)

value_kernels: Final = KernelSet("values", _load_value_kernels, "Avro values cannot be decoded")


def kernels_for(record_count: int) -> Kernels | None:
    """The loaded kernels, for a batch; enough records, and loading begins."""
    global _records_seen
    if record_kernels.loaded is None:
        _records_seen += record_count
        if _records_seen >= _RECORDS_WORTH_LOADING:
            record_kernels.load_in_background()
    return record_kernels.loaded


def bring(code: ShippedCode) -> None:
    """Load kernels from here, once they are wanted, rather than compiled."""
    _brought[code.set_name] = code


def _code_of(set_name: str) -> bytes:
    # Not needed by a process that never meets a large batch: imported here.
    from drumlin.records.kernels import cache

    shipped = _brought.get(set_name)
    brought = None if shipped is None else shipped.find()
    if brought is not None:
        return brought
    path = cache.locate(set_name)
    code = cache.read(path)
    if code is None:
        _compile(set_name, str(path))
        code = cache.read(path)
    if code is None:
        raise RuntimeError(f"{path} can't be read back")
    return code


def _compile(set_name: str, path: str) -> None:
    # A child: compiling needs 200 MB and holds the GIL. It must find what this process finds.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    finished = subprocess.run(  # noqa: S603  our own interpreter and module
        [sys.executable, "-m", "drumlin.records.kernels.compile", set_name, path],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMPILE_TIMEOUT_S,
        check=False,
    )
    if finished.returncode != 0:
        lines = finished.stderr.strip().splitlines()
        raise RuntimeError(lines[-1] if lines else f"exit code {finished.returncode}")
