"""Spark in the process of a command: its start, its end, and the signals in between.

SIGINT and SIGTERM end a command with one line and no stack traces at any moment: while Spark
starts, they end it at once; later the first one sets an event, and a second one ends it at once.
No process of Spark's survives the command.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

import click

from drumlin.cli.app import EXIT_INTERRUPTED
from drumlin.cli.terminal import output

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: All cores of this machine; a task is tried four times, as on a cluster.
_HERE: Final = "--master local[*,4] pyspark-shell"
_SETTINGS: Final = {"spark.ui.showConsoleProgress": "false", "spark.sql.session.timeZone": "UTC"}
#: How long the JVM may take to remove its temporary files.
_END_S: Final = 10.0


class SparkRun:
    """A command that uses Spark, in the main thread."""

    def __init__(self, command: str) -> None:
        self._command = command
        #: Set by the first signal after Spark has started.
        self.stop = threading.Event()
        self._has_started = False
        self._is_quiet = False

    @contextmanager
    def session(self) -> Iterator[SparkSession]:
        """A session that ends with the context.

        Raises:
            click.exceptions.Exit, output.Failure: a signal has ended it, with the exit code of
                Ctrl-C.
        """
        self._catch_signals()
        try:
            spark = self._started()
            try:
                yield spark
            finally:
                self._quiet()
                _stop(spark)
        except KeyboardInterrupt:
            self._quiet()
            raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
        except Exception as error:
            if not self.stop.is_set():
                raise
            # The error's text is not used: a JVM error asks the JVM for it, which may have ended.
            raise output.Failure(
                "ended in the middle of a batch, which the next run lands", EXIT_INTERRUPTED
            ) from error
        finally:
            _end_children()

    def _started(self) -> SparkSession:
        from pyspark.sql import SparkSession

        from drumlin.spark.java import ensure_java
        from drumlin.spark.session import configure

        ensure_java()
        os.environ.setdefault("PYSPARK_SUBMIT_ARGS", _HERE)
        builder = configure(SparkSession.builder.appName(self._command))
        for name, value in _SETTINGS.items():
            builder = builder.config(name, value)
        with self._heard():
            spark = builder.getOrCreate()
        # Replace Spark's signal handler, and its report that the JVM has ended.
        self._catch_signals()
        server = getattr(spark.sparkContext, "_accumulatorServer", None)
        if server is not None:
            server.handle_error = lambda *_: None
        self._has_started = True
        return spark

    def _catch_signals(self) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._signalled)

    def _signalled(self, number: int, _: object) -> None:
        self._quiet()
        name = f"{self._command}: {signal.Signals(number).name}"
        if not self._has_started:
            output.note(f"{name}: ended before anything was landed")
        elif self.stop.is_set():
            output.note(f"{name}: ended at once; the next run goes on where the target is")
        else:
            output.note(f"{name}: stopping after this batch")
            self.stop.set()
            return
        raise KeyboardInterrupt

    def _quiet(self) -> None:
        """Discard all further output of Spark, its workers and its client."""
        self._is_quiet = True
        logging.disable(logging.CRITICAL)

    @contextmanager
    def _heard(self) -> Iterator[None]:
        """Pass on the output of processes that start inside the block, until `_quiet`."""
        ours, (read, write) = os.dup(2), os.pipe()
        relay = threading.Thread(target=self._relay, args=(read, os.dup(ours)), daemon=True)
        relay.start()
        before, sys.stderr = sys.stderr, _text(ours)
        os.dup2(write, 2)
        os.close(write)
        try:
            yield
        finally:
            os.dup2(ours, 2)
            sys.stderr.flush()
            sys.stderr = before
            os.close(ours)

    def _relay(self, read: int, write: int) -> None:
        while data := os.read(read, 65536):
            if not self._is_quiet:
                with contextlib.suppress(OSError):
                    os.write(write, data)


def _text(descriptor: int) -> TextIO:
    return os.fdopen(descriptor, "w", buffering=1, closefd=False, errors="backslashreplace")


def _stop(spark: SparkSession) -> None:
    from py4j.protocol import Py4JError

    with contextlib.suppress(OSError, Py4JError):  # it has ended
        spark.stop()


def _end_children() -> None:
    """End the JVM, even one that has just started and cannot notice this process's end itself."""
    waiting = _children()
    for each in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGTERM)
    until_s = time.monotonic() + _END_S
    while waiting and time.monotonic() < until_s:
        waiting = {each for each in waiting if not _has_ended(each)}
        time.sleep(0.02)
    for each in waiting:
        with contextlib.suppress(ProcessLookupError):
            os.kill(each, signal.SIGKILL)


def _children() -> set[int]:
    found: set[int] = set()
    for each in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended, or an old kernel
            found |= set(map(int, each.read_text().split()))
    return found


def _has_ended(process: int) -> bool:
    try:
        return os.waitpid(process, os.WNOHANG)[0] != 0
    except ChildProcessError:  # another thread has waited for it
        return True
