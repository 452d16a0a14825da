"""Keeps the low file descriptors in use, as a process with many connections does."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Iterator

#: `select.select` knows none from here on.
_FIRST_HIGH = 1024


@contextlib.contextmanager
def only_high_descriptors() -> Iterator[None]:
    """Whatever is opened within has a descriptor of 1,024 or more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, 4096), hard), hard))
    with contextlib.ExitStack() as held:
        while (descriptor := os.open(os.devnull, os.O_RDONLY)) < _FIRST_HIGH:
            held.callback(os.close, descriptor)
        os.close(descriptor)
        yield
