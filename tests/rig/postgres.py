"""A PostgreSQL of a test's own, with logical replication, on a free port of the loopback interface.

That of Debian is taken, or else the one that comes with the package `pgserver`. Nothing happens on
import. `Unavailable` says why a machine cannot have one; tests skip with it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.ports import free_ports
from rig.waiting import wait_until

_DEBIAN = Path("/usr/lib/postgresql")
#: Nothing is shown by waiting for a disk; the tests kill processes, not the machine.
_SETTINGS = {
    "wal_level": "logical",
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_wal_senders": "8",
    "max_replication_slots": "8",
    "wal_sender_timeout": "20s",
    "autovacuum": "off",
    "log_min_messages": "fatal",
}


class Unavailable(Exception):
    """There is no PostgreSQL on this machine."""


def _programs() -> Path:
    for version in sorted(_DEBIAN.glob("*/bin"), key=_version_of, reverse=True):
        if (version / "initdb").exists():
            return version
    found = importlib.util.find_spec("pgserver")
    if found is not None and found.origin is not None:
        programs = Path(found.origin).parent / "pginstall" / "bin"
        if (programs / "initdb").exists():
            return programs
    raise Unavailable("no PostgreSQL: apt-get install postgresql, or pip install pgserver")


def _version_of(programs: Path) -> int:
    name = programs.parent.name
    return int(name) if name.isdecimal() else 0


def _user() -> dict[str, Any]:
    """Whom it runs as: PostgreSQL refuses to be started by root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise Unavailable("PostgreSQL does not run as root, and there is no other user")


class Postgres:
    """One server; it keeps its port and its data when it is started again."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self._programs, self._user = _programs(), _user()
        self._settings = {**_SETTINGS, **(settings or {})}
        # Not in pytest's folder, which other users may not enter.
        self.directory = Path(tempfile.mkdtemp(prefix="drumlin-postgres-"))
        if self._user:
            os.chown(self.directory, self._user["user"], self._user["group"])
        self.data = self.directory / "data"
        self.port = free_ports(1)[0]
        self.process: subprocess.Popen[bytes] | None = None
        self._run("initdb", "-D", self.data, "-U", "admin", "-A", "trust", "-E", "UTF8", "-N")

    def url(self, database: str = "postgres", user: str = "admin") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        assert self.process is None, "already running"
        command = [self._programs / "postgres", "-D", self.data, "-p", str(self.port)]
        command += ["-k", self.directory]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with (self.directory / "postgres.out").open("ab") as sink:
            self.process = subprocess.Popen(
                command, stdout=sink, stderr=sink, cwd=self.directory, **self._user
            )
        wait_until(self._is_ready, "PostgreSQL to be ready")

    def stop(self) -> None:
        """End it at once, as a careful operator may: connections are cut, nothing is lost."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """As a crash: it recovers at its next start."""
        self._end(signal.SIGQUIT)

    def restart(self) -> None:
        self.stop()
        self.start()

    def close(self) -> None:
        if self.process is not None:
            self._end(signal.SIGQUIT)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        process = self.process
        assert process is not None, "not running"
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.process = None

    def _is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            said = (self.directory / "postgres.out").read_text(errors="replace")
            raise AssertionError(f"PostgreSQL has ended:\n{said[-2000:]}")
        command = [self._programs / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(command, check=False).returncode == 0

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self._programs / program), *map(str, arguments)]
        ended = subprocess.run(
            command, capture_output=True, text=True, cwd=self.directory, check=False, **self._user
        )
        if ended.returncode:
            raise Unavailable(f"{program}: {ended.stderr.strip()[-500:]}")


@contextlib.contextmanager
def running_postgres(settings: dict[str, str] | None = None) -> Iterator[Postgres]:
    """One server for the tests of a block, which are skipped where there can be none."""
    try:
        server = Postgres(settings)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield server
    finally:
        server.close()
