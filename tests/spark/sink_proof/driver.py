"""The driver's program and all that Spark starts for it, as a session of processes to be killed."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from rig.java import spark_environment
from rig.waiting import wait_until

_TESTS = Path(__file__).parents[2]


class Process(NamedTuple):
    """One that belongs to the program's session."""

    process_id: int
    command: str

    @property
    def is_executor(self) -> bool:
        return "CoarseGrainedExecutorBackend" in self.command

    @property
    def is_driver_jvm(self) -> bool:
        return "org.apache.spark.deploy.SparkSubmit" in self.command

    @property
    def is_worker(self) -> bool:
        """A Python that runs tasks, plans or commits; or the one that starts those."""
        return "pyspark" in self.command and "java" not in self.command.split("\0")[0]


class Driver:
    """Starts the program, again and again; knows which processes are its own."""

    def __init__(self, arguments: list[str], output: Path) -> None:
        self._arguments = arguments
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None
        self._sessions: set[int] = set()
        #: How often it has ended with an error without having been killed by us.
        self.failures = 0
        self._is_killed = False

    def start(self) -> None:
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        environment = {
            "PYTHONPATH": path,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "127.0.0.1",
            **spark_environment(),
        }
        command = [sys.executable, "-m", "spark.sink_proof.program", *self._arguments]
        with self._output.open("ab") as sink:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **environment},
                cwd=self._output.parent,
                start_new_session=True,
            )
        self._sessions.add(self._process.pid)
        self._is_killed = False

    def said(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def is_through(self) -> bool:
        """Whether it has ended by itself with all done; one that has ended otherwise is started."""
        assert self._process is not None
        code = self._process.poll()
        if code is None:
            return False
        if code == 0:
            return True
        self.failures += not self._is_killed
        self.start()
        return False

    def kill(self) -> bool:
        """The whole machine of the driver, as it were: all that it ever started."""
        killed = [self._kill(each) for each in self._living()]
        self._is_killed = True
        assert self._process is not None
        self._process.wait()
        return any(killed)

    def kill_jvm(self) -> bool:
        """The driver alone: what it started finds out by itself, and may work on meanwhile."""
        self._is_killed = True
        killed = [self._kill(each) for each in self._living() if each.is_driver_jvm]
        return any(killed)

    def kill_executor(self, chance: random.Random) -> bool:
        return self._kill_one([each for each in self._living() if each.is_executor], chance)

    def kill_worker(self, chance: random.Random) -> bool:
        return self._kill_one([each for each in self._living() if each.is_worker], chance)

    def close(self) -> None:
        """Leave nothing running."""
        if self._process is not None:
            self.kill()
            wait_until(lambda: not list(self._living()), "the driver's processes to end")

    def _kill_one(self, victims: list[Process], chance: random.Random) -> bool:
        return bool(victims) and self._kill(chance.choice(victims))

    def _kill(self, process: Process) -> bool:
        try:
            os.kill(process.process_id, signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def _living(self) -> Iterator[Process]:
        """Daemons of Python lead groups of their own, so the session is what tells."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
                if state != "Z" and int(session) in self._sessions:
                    command = path.with_name("cmdline").read_text(errors="replace")
                    yield Process(int(path.parent.name), command)
