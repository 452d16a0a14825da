"""The kernels of this process, opened on first use.

If the package has no kernels for the processor, the process uses plain Python until it ends, and
logs that once. Cleaning has no plain version: it fails, and the error says why.
"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from drumlin.records.kernels.machine_code import (
    AllKernels,
    CompactionKernels,
    Kernels,
    ValueKernels,
    load,
)

K = TypeVar("K")

_log = logging.getLogger(__name__)
_lock = threading.Lock()


class NoKernels(Exception):
    """No kernels for this machine. The message says why, and what may help."""


class KernelSet(Generic[K]):
    """A group of kernels, loaded on first use."""

    def __init__(self, choose: Callable[[AllKernels], K]) -> None:
        self._choose = choose

    @functools.cached_property
    def loaded(self) -> K | None:
        """The kernels; None if plain Python must be used instead."""
        with _lock:  # logs a failure once
            kernels = _load()
        return None if isinstance(kernels, Exception) else self._choose(kernels)

    def required(self) -> K:
        """The kernels, for work that has no version in plain Python.

        Raises:
            NoKernels: there are no kernels for this machine.
        """
        if self.loaded is None:
            raise NoKernels(str(_load()))
        return self.loaded


@functools.cache
def _load() -> AllKernels | Exception:
    """The kernels, or the error with which loading them failed."""
    try:
        return load()
    except Exception as error:  # noqa: BLE001  whatever it is, plain Python works
        _log.warning("no fast kernels, plain Python handles records slowly: %s", error)
        return error


record_kernels: Final[KernelSet[Kernels]] = KernelSet(lambda kernels: kernels.records)
compaction_kernels: Final[KernelSet[CompactionKernels]] = KernelSet(
    lambda kernels: kernels.compaction
)
value_kernels: Final[KernelSet[ValueKernels]] = KernelSet(lambda kernels: kernels.values)
