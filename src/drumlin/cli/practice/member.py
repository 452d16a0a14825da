"""One process of the cluster: its start, its readiness and its end.

A process that ends without a command has crashed. The crash is reported, and the process is
not restarted: a practice cluster is there to show what a crash does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from drumlin.cli.terminal.output import Failure

_CHILD: Final = Path(__file__).with_name("child.py")
_START_TIMEOUT_S: Final = 120.0
_STOP_TIMEOUT_S: Final = 60.0
_LOOKED_AT_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Program:
    """The command that a member runs."""

    name: str
    log_file: Path
    #: Returns the command line; called at each start.
    command: Callable[[], Sequence[str]]
    #: Waits until a started process serves; takes the process's standard output.
    ready: Callable[[asyncio.StreamReader], Awaitable[None]]
    #: Environment variables in addition to those of this process.
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"broker {self.name}" if self.name.isdecimal() else "ZooKeeper"


class Member:
    """Starts, stops and kills one program; one operation at a time, in order of the calls.

    `on_change` is called after each start and each end of a process, `on_crash` after an end
    without a command.
    """

    def __init__(
        self,
        program: Program,
        on_change: Callable[[], None],
        on_crash: Callable[[Program, str], None],
    ) -> None:
        self.program = program
        self._on_change = on_change
        self._on_crash = on_crash
        self._turn = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._is_to_end = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    async def start(self) -> bool:
        """Start the process, and wait until it serves; False if it runs already.

        Raises:
            Failure: the process ended, or did not serve in time and was killed.
            OSError: there is no such program, or no space for its log.
        """
        async with self._turn:
            if self._process is not None:
                return False
            log = self.program.log_file
            log_size_before = log.stat().st_size if log.exists() else 0
            process = await self._launch()
            try:
                await self._until_ready(process, log_size_before)
            except BaseException:
                await self._end(signal.SIGKILL)
                raise
            return True

    async def stop(self) -> bool:
        """Ask the process to end, and wait; False if it does not run.

        Raises:
            Failure: the process did not end in time, and was killed.
        """
        async with self._turn:
            return await self._end(signal.SIGTERM)

    async def kill(self) -> bool:
        """`kill -9`, even during a start; False if no process runs."""
        was_running = self._process is not None
        self.kill_now()
        async with self._turn:
            return await self._end(signal.SIGKILL) or was_running

    def kill_now(self) -> None:
        """`kill -9`, without waiting for another operation to end."""
        if self._process is not None:
            self._is_to_end = True
            _send(self._process, signal.SIGKILL)

    async def _launch(self) -> asyncio.subprocess.Process:
        with self.program.log_file.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(_CHILD), str(os.getpid())),
                *self.program.command(),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                env={**os.environ, **self.program.environment},
                start_new_session=True,  # Ctrl-C is for us; we stop them in order
            )
        self._process, self._is_to_end = process, False
        self._watcher = asyncio.create_task(self._watch(process))
        self._on_change()
        return process

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self._process = None
        self._on_change()
        if not self._is_to_end:
            self._on_crash(self.program, _how(code))

    async def _until_ready(self, process: asyncio.subprocess.Process, log_size_before: int) -> None:
        self._is_to_end = True  # an end during the start is reported by `start`
        assert process.stdout is not None
        ready = asyncio.ensure_future(self.program.ready(process.stdout))
        ended = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait(
                (ready, ended), timeout=_START_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if ended.done():
                why = self._last_line(log_size_before, ended.result())
                raise Failure(f"{self.program.title} did not start: {why}")
            if not ready.done():
                raise Failure(
                    f"{self.program.title} was not ready after {_START_TIMEOUT_S:g} s: "
                    f"see {self.program.log_file}"
                )
            ready.result()
            self._is_to_end = False
        finally:
            for each in (ready, ended):
                each.cancel()

    async def _end(self, number: signal.Signals) -> bool:
        process, watcher = self._process, self._watcher
        if process is None or watcher is None:
            return False
        self._is_to_end = True
        _send(process, number)
        done, _ = await asyncio.wait((watcher,), timeout=_STOP_TIMEOUT_S)
        if done:
            return True
        _send(process, signal.SIGKILL)
        await asyncio.wait((watcher,))
        title = self.program.title
        raise Failure(f"{title} did not stop within {_STOP_TIMEOUT_S:g} s, and was killed")

    def _last_line(self, log_size_before: int, code: int) -> str:
        """The reason for an exit: a program that gives up logs the reason in its last line."""
        with self.program.log_file.open("rb") as log:
            log.seek(max(log_size_before, log.seek(0, os.SEEK_END) - _LOOKED_AT_BYTES))
            lines = log.read(_LOOKED_AT_BYTES).decode("utf-8", "replace").splitlines()
        written = [line.strip() for line in lines if line.strip()]
        why = _text_of(written[-1]) if written else _how(code)
        return f"{why} (see {self.program.log_file})"


def _text_of(line: str) -> str:
    """What a line of a log says, in either form (`broker/log_lines/forms.py`)."""
    with contextlib.suppress(ValueError):
        fields = json.loads(line)
        if isinstance(fields, dict) and isinstance(fields.get("message"), str):
            return str(fields["message"])
    return line.removeprefix("drumlin server: ")


def _send(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    # Not `process.send_signal`: it would reap the process before asyncio sees the exit code.
    with contextlib.suppress(ProcessLookupError):
        os.kill(process.pid, number)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
