"""The kernels of this process, which are opened when they are first asked for.

Where the package has none for the processor, plain Python serves for good, and that is said once
in the log. A cleaning has no plain twin: it is refused, and says why.
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
    """There are none for this machine: the message says why, and what may help."""


class KernelSet(Generic[K]):
    """A part of the kernels."""

    def __init__(self, choose: Callable[[AllKernels], K]) -> None:
        self._choose = choose

    @functools.cached_property
    def loaded(self) -> K | None:
        """The kernels; None where plain Python has to serve."""
        with _lock:  # it is said once
            kernels = _load()
        return None if isinstance(kernels, Exception) else self._choose(kernels)

    def required(self) -> K:
        """The kernels, for what nothing else does.

        Raises:
            NoKernels: there are none.
        """
        if self.loaded is None:
            raise NoKernels(str(_load()))
        return self.loaded


@functools.cache
def _load() -> AllKernels | Exception:
    """The kernels, or why there are none."""
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
