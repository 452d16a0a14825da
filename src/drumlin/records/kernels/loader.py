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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumlin.records.kernels.machine_code import CompactionKernels, Kernels
    from drumlin.records.kernels.shipped_code import ShippedCode

_log = logging.getLogger(__name__)
_COMPILE_TIMEOUT_S = 300

#: After so many records a process may expect more.
_RECORDS_WORTH_LOADING = 1000
#: What is cached has been loaded by then, however busy the machine is; a compiler needs longer.
_LOADED_WITHIN_S = 1.0

_records_seen = 0
_lock = threading.Lock()
_compaction_lock = threading.Lock()
_kernels: Kernels | None = None
_failed = False
_brought: ShippedCode | None = None
_compaction_kernels: CompactionKernels | None = None
_compaction_failed = False
_background_lock = threading.Lock()  # not to wait for a load
_background: threading.Thread | None = None
_compaction_background: threading.Thread | None = None
_compaction_begun_s = 0.0


def kernels_if_ready() -> Kernels | None:
    """The kernels, or None as long as plain Python has to serve."""
    return _kernels


def kernels_for(record_count: int) -> Kernels | None:
    """Like `kernels_if_ready`, for a batch; enough of them, and loading begins."""
    global _records_seen
    if _kernels is None:
        _records_seen += record_count
        if _records_seen >= _RECORDS_WORTH_LOADING:
            load_in_background()
    return _kernels


def ready() -> bool:
    return _kernels is not None


def bring(code: ShippedCode) -> None:
    """Load kernels from here, once they are wanted, rather than compiled."""
    global _brought
    _brought = code


def require() -> Kernels | None:
    """Load the kernels now, waiting for their compilation; None if they can't be had."""
    global _kernels, _failed
    with _lock:
        if _kernels is None and not _failed:
            try:
                code = _code_of("kernels")
                from drumlin.records.kernels import machine_code

                _kernels = machine_code.load(code)
            except Exception as error:  # noqa: BLE001  whatever it is, plain Python works
                _failed = True
                _log.warning("no fast kernels, records are handled slowly: %s", error)
        return _kernels


def compaction_kernels_if_ready() -> CompactionKernels | None:
    """The kernels of compaction, or None as long as plain Python has to serve."""
    return _compaction_kernels


def require_for_compaction() -> CompactionKernels | None:
    """Like `require`, for the kernels of compaction."""
    global _compaction_kernels, _compaction_failed
    with _compaction_lock:
        if _compaction_kernels is None and not _compaction_failed:
            try:
                code = _code_of("compaction")
                from drumlin.records.kernels import machine_code

                _compaction_kernels = machine_code.load_for_compaction(code)
            except Exception as error:  # noqa: BLE001  as above
                _compaction_failed = True
                _log.warning("no fast kernels, logs are cleaned slowly: %s", error)
        return _compaction_kernels


def load_for_compaction_in_background() -> None:
    """Start what `require_for_compaction` does in a thread, unless that has been done."""
    global _compaction_background, _compaction_begun_s
    with _background_lock:
        if _compaction_background is None:
            _compaction_begun_s = time.monotonic()
            _compaction_background = _started(require_for_compaction, "load-compaction-kernels")


def compaction_kernels_soon() -> CompactionKernels | None:
    """Like `compaction_kernels_if_ready`; waits while they are loaded, but not for a compiler.

    For threads with so much to do that plain Python would hold others up for longer.
    """
    load_for_compaction_in_background()
    loading = _compaction_background
    if _compaction_kernels is None and loading is not None:
        loading.join(max(0.0, _compaction_begun_s + _LOADED_WITHIN_S - time.monotonic()))
    return _compaction_kernels


def load_in_background() -> None:
    """Start what `require` does in a thread, unless that has been done."""
    global _background
    with _background_lock:
        if _background is None:
            _background = _started(require, "load-kernels")


def _started(target: Callable[[], object], name: str) -> threading.Thread:
    thread = threading.Thread(target=target, name=name, daemon=True)
    thread.start()
    return thread


def _code_of(set_name: str) -> bytes:
    # Not needed by a process that never meets a large batch: imported here.
    from drumlin.records.kernels import cache

    brought = None if _brought is None else _brought.find(set_name)
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
