"""Spark's own cluster on two hosts of the loopback.

Spark puts no twin of a task on the host where the first attempt runs, and the workers of
`local-cluster` are all on one host. So speculation needs two.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rig.jvm.java import spark_environment
from rig.ports import free_ports
from rig.waiting import wait_until
from spark.sink_proof.processes import living

_TESTS = Path(__file__).parents[2]
_HOSTS = ("127.0.0.1", "127.0.0.2")
#: Two for each driver, as there may be one that sleeps.
_CORES = 2


class StandaloneCluster:
    """A master and two workers, each a session of processes. Executors belong to the workers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_ports(1)[0]
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://{_HOSTS[0]}:{self._port}"

    @property
    def sessions(self) -> set[int]:
        return {each.pid for each in self._processes}

    def start(self) -> None:
        master = ["--port", str(self._port), "--webui-port", "0"]
        self._launch("master.Master", _HOSTS[0], master)
        wait_until(lambda: "New state: ALIVE" in self._said(), "Spark's master", 60)
        for host in _HOSTS:
            work = ["--work-dir", str(self._folder / "work"), "--webui-port", "0"]
            size = ["--cores", str(_CORES), "--memory", "2g"]
            self._launch("worker.Worker", host, [*size, *work, self.url])
        registered = "Registering worker"
        wait_until(lambda: self._said().count(registered) >= len(_HOSTS), "Spark's workers", 60)

    def close(self) -> None:
        """Leave nothing running."""
        for each in living(self.sessions):
            each.kill()
        for process in self._processes:
            process.wait()
        wait_until(lambda: not list(living(self.sessions)), "Spark's cluster to end")

    def _said(self) -> str:
        return (self._folder / "cluster.out").read_text(errors="replace")

    def _launch(self, name: str, host: str, arguments: list[str]) -> None:
        path = os.pathsep.join([str(_TESTS), os.environ.get("PYTHONPATH", "")])
        environment = {
            **os.environ,
            **spark_environment(),
            "PYTHONPATH": path,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        command = [str(Path(environment["SPARK_HOME"], "bin", "spark-class"))]
        command += [f"org.apache.spark.deploy.{name}", "--host", host, *arguments]
        with (self._folder / "cluster.out").open("ab") as sink:
            self._processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    env=environment,
                    cwd=self._folder,
                    start_new_session=True,
                )
            )
