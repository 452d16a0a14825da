"""`drumlin server --brokers N` as a subprocess, with the processes of its brokers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import psutil

from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.ports import adjacent_free_ports
from rig.waiting import wait_until

#: As many as a test may start it with.
_PORTS: int = 4
_WORKER = "drumlin.broker.machine.worker"


class MachineServer(DrumlinServer):
    """One server of several brokers on one data directory, each time with as many as it likes."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self.port = adjacent_free_ports(_PORTS)
        self.brokers = 1

    @property
    def addresses(self) -> str:
        """Of all brokers, for a client."""
        return ",".join(f"127.0.0.1:{self.port + each}" for each in range(self.brokers))

    def start_brokers(self, brokers: int, timeout_s: float = 180.0) -> None:
        """Start with so many, and wait until all of them serve."""
        self.brokers = brokers
        said_before = len(self.said())
        self.launch(self.command(brokers))
        self.await_ready_line(re.escape(self.addresses.replace(",", ", ")), said_before, timeout_s)

    def command(self, brokers: int) -> list[str]:
        return [*server_command(self.data, self.port, self.settings), "--brokers", str(brokers)]

    def workers(self) -> dict[int, psutil.Process]:
        """The processes of the brokers, by their ids."""
        found = {}
        for process in psutil.Process(self.pid).children():
            try:
                line = process.cmdline()
            except psutil.Error:
                continue
            if _WORKER in line:
                found[int(line[line.index(_WORKER) + 1])] = process
        return found

    def kill_workers(self, node_ids: Iterable[int]) -> Callable[[], None]:
        """`kill -9` for some brokers; what is returned waits until they are ready again."""
        before = {each: self._times_ready(each) for each in node_ids}
        workers = self.workers()
        for node_id in before:
            workers[node_id].kill()

        def await_them() -> None:
            for node_id, times in before.items():
                wait_until(
                    lambda node_id=node_id, times=times: self._times_ready(node_id) > times,  # type: ignore[misc]
                    f"broker {node_id} to be ready again",
                    60.0,
                )

        return await_them

    def _times_ready(self, node_id: int) -> int:
        return self.said().count(f"broker {node_id} is ready again")


def await_end(processes: Mapping[int, psutil.Process], timeout_s: float = 90.0) -> float:
    """Wait until none of them runs; after how long that was so. One that waits for its parent to
    take notice of its end has ended."""
    began = time.monotonic()

    def have_ended() -> bool:
        return not any(map(_runs, processes.values()))

    wait_until(have_ended, "the end of all processes", timeout_s)
    return time.monotonic() - began


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
