"""Processes of a proof: found by the session that they belong to, stopped, killed."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import NamedTuple


class Process(NamedTuple):
    """One that belongs to a session of ours."""

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

    def kill(self) -> bool:
        return self.send(signal.SIGKILL)

    def send(self, number: signal.Signals) -> bool:
        """Whether it was there still."""
        try:
            os.kill(self.process_id, number)
        except ProcessLookupError:
            return False
        return True


def living(sessions: AbstractSet[int]) -> Iterator[Process]:
    """Daemons of Python lead groups of their own, so the session is what tells."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if state != "Z" and int(session) in sessions:
                command = path.with_name("cmdline").read_text(errors="replace")
                yield Process(int(path.parent.name), command)


def kill_another_executor() -> bool:
    """One of our session that did not start us: what it keeps of a shuffle is gone with it."""
    ours, process_id = set(), os.getpid()
    while process_id > 1:
        ours.add(process_id)
        stat = Path(f"/proc/{process_id}/stat").read_text()
        process_id = int(stat.rpartition(")")[2].split()[1])
    others = (each for each in living({os.getsid(0)}) if each.is_executor)
    other = next((each for each in others if each.process_id not in ours), None)
    return other is not None and other.kill()


def kill_own_session() -> None:
    """Kill all processes of this session, as if the machine had stopped; the caller goes last."""
    for each in living({os.getsid(0)}):
        if each.process_id != os.getpid():
            each.kill()
    os.kill(os.getpid(), signal.SIGKILL)
