"""Kills a worker of Spark's once, at the worst moment, and lets its second attempt pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any


def killed_once(function: Callable[..., Iterator[Any]], mark: Path) -> Callable[..., Iterator[Any]]:
    """A task's function, all of whose work is done when its process dies, with nothing said of it.

    `mark` is there afterwards. What is defined here goes to workers by value.
    """

    def dying(*arguments: Any) -> Iterator[Any]:
        import os
        import signal

        results = list(function(*arguments))
        if results and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from results

    return dying
