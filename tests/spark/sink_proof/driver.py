"""The driver's program and all that Spark starts for it, as sessions of processes to be killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from rig.jvm.java import spark_environment
from rig.waiting import wait_until
from spark.sink_proof.processes import Process, living

_TESTS = Path(__file__).parents[2]
_CURRENT = "driver.pid"


def is_current(folder: Path) -> bool:
    """Asked by a program: whether no other was started since."""
    return (folder / _CURRENT).read_text() == str(os.getpid())


class Driver:
    """Starts the program, again and again; knows which processes are its own.

    `elsewhere`: sessions of a cluster, whose executors and workers are its own as well.
    """

    def __init__(self, arguments: list[str], output: Path, elsewhere: AbstractSet[int]) -> None:
        self._arguments = arguments
        self._output = output
        self._elsewhere = frozenset(elsewhere)
        self._programs: list[subprocess.Popen[bytes]] = []
        self._asleep: list[Process] = []
        #: How often it has ended with an error without having been killed.
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
            program = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env={**os.environ, **environment},
                cwd=self._output.parent,
                start_new_session=True,
            )
        self._programs.append(program)
        (self._output.parent / _CURRENT).write_text(str(program.pid))
        self._is_killed = False

    def said(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    def is_through(self) -> bool:
        """Whether it has ended by itself with all done; one that has ended otherwise is started."""
        code = self._program.poll()
        if code is None:
            return False
        if code == 0:
            return True
        # Who is killed so, and not by us, was killed from within: see `sabotage`.
        self.failures += not self._is_killed and code != -signal.SIGKILL
        self.start()
        return False

    # -- what befalls it from outside; each tells whether it has met anybody --------------------

    def kill(self) -> bool:
        """The whole machine of the driver, as it were: all that it ever started."""
        killed = [each.kill() for each in self._living()]
        self._is_killed = True
        for program in self._programs:
            program.wait()
        return any(killed)

    def kill_jvm(self) -> bool:
        """What the JVM has started finds out by itself, and may work on meanwhile."""
        self._is_killed = True
        killed = [each.kill() for each in self._living() if each.is_driver_jvm]
        return any(killed)

    def kill_program(self) -> bool:
        """Its JVM works on until it finds out, while the next driver starts."""
        self._is_killed = True
        self._program.kill()
        self._program.wait()
        return True

    def kill_executor(self, chance: random.Random) -> bool:
        return _kill_one([each for each in self._everywhere() if each.is_executor], chance)

    def kill_worker(self, chance: random.Random) -> bool:
        return _kill_one([each for each in self._everywhere() if each.is_worker], chance)

    def replace(self) -> bool:
        """It falls asleep, is taken for dead, and another one is started beside it."""
        self._asleep = list(living({self._program.pid}))
        stopped = [each.send(signal.SIGSTOP) for each in self._asleep]
        self.start()
        return any(stopped)

    def wake(self) -> None:
        """The one that was replaced continues where it was."""
        for each in self._asleep:
            each.send(signal.SIGCONT)

    def close(self) -> None:
        """Leave nothing running."""
        if self._programs:
            self.kill()
            wait_until(lambda: not list(self._living()), "the driver's processes to end")

    @property
    def starts(self) -> int:
        return len(self._programs)

    @property
    def _program(self) -> subprocess.Popen[bytes]:
        return self._programs[-1]

    def _living(self) -> Iterator[Process]:
        return living({each.pid for each in self._programs})

    def _everywhere(self) -> Iterator[Process]:
        return living({each.pid for each in self._programs} | self._elsewhere)


def _kill_one(victims: list[Process], chance: random.Random) -> bool:
    return bool(victims) and chance.choice(victims).kill()
