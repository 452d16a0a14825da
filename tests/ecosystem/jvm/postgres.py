"""A PostgreSQL of Debian's, whose changes can be followed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rig.brokers.process import BrokerProcess
from rig.jvm.jars import Unavailable
from rig.ports import free_ports
from rig.waiting import wait_until

#: It does not run as root.
_USER = "postgres"


class Postgres(BrokerProcess):
    """One database; `data` is a new folder that the user owns."""

    def __init__(self, binaries: Path, data: Path, output: Path) -> None:
        super().__init__(output)
        self.port = free_ports(1)[0]
        self._binaries, self._data = binaries, data

    def start(self) -> None:
        initdb = [str(self._binaries / "initdb"), "-A", "trust", "-U", _USER, "-N"]
        subprocess.run(
            [*_as_user(), *initdb, "-D", str(self._data)], check=True, capture_output=True
        )
        where = ["-D", str(self._data), "-k", str(self._data)]
        what = ["-c", "wal_level=logical", "-c", "listen_addresses=127.0.0.1"]
        command = [str(self._binaries / "postgres"), *where, *what, "-p", str(self.port)]
        self.launch([*_as_user(), *command])
        wait_until(self._is_ready, "PostgreSQL")

    def close(self) -> None:
        """At once, but after all of its processes: their folder goes then."""
        if self.process is not None:
            self._signal(signal.SIGQUIT, 60.0)

    @property
    def version(self) -> str:
        return self.sql("show server_version")[0][0].split()[0]

    def sql(self, statements: str) -> list[list[str]]:
        """The rows that come of it."""
        done = self._psql(statements)
        assert done.returncode == 0, done.stderr
        return [line.split("|") for line in done.stdout.splitlines()]

    def _is_ready(self) -> bool:
        self.fail_if_ended()
        return self._psql("select 1").returncode == 0

    def _psql(self, statements: str) -> subprocess.CompletedProcess[str]:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", _USER]
        how = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]
        command = [str(self._binaries / "psql"), *where, *how, "-c", statements]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def _as_user() -> list[str]:
    if os.geteuid():
        return []
    return ["setpriv", f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups"]


@contextmanager
def running_postgres(folder: Path) -> Iterator[Postgres]:
    """
    Raises:
        Unavailable: it is not installed.
    """
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        raise Unavailable("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory() as data:
        if not os.geteuid():
            shutil.chown(data, _USER, _USER)
        database = Postgres(found[-1].parent, Path(data), folder / "postgres.out")
        try:
            database.start()
            yield database
        finally:
            database.close()
