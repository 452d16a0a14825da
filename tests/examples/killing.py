"""Kills a worker of Spark's once, at the worst moment, and lets its second attempt pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame


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


def killed_while_reading(read: Callable[..., DataFrame], mark: Path) -> Callable[..., DataFrame]:
    """Makes the stream that `read` makes; a worker dies when it has passed on a task's records."""

    def reading(*arguments: Any) -> DataFrame:
        stream = read(*arguments)
        return stream.mapInArrow(killed_once(iter, mark), stream.schema)

    return reading
