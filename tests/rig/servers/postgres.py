"""A PostgreSQL of a test's own, with logical replication, on a free port of the loopback interface.

`DRUMLIN_TEST_POSTGRES` names the folder of its programs; else that of Debian is taken, or the one
that comes with the package `pgserver`. Others come from Maven, by their version. Nothing happens on
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
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest

from rig.jvm import jars
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
    if named := os.environ.get("DRUMLIN_TEST_POSTGRES"):
        return Path(named)
    for version in sorted(_DEBIAN.glob("*/bin"), key=_version_of, reverse=True):
        if (version / "initdb").exists():
            return version
    found = importlib.util.find_spec("pgserver")
    if found is not None and found.origin is not None:
        programs = Path(found.origin).parent / "pginstall" / "bin"
        if (programs / "initdb").exists():
            return programs
    raise Unavailable("no PostgreSQL: apt-get install postgresql, or pip install pgserver")


def programs_of(version: str) -> Path:
    """The folder with the programs of a version, which is fetched once.

    Raises:
        Unavailable: this machine cannot have them.
    """
    try:
        libs = Path(jars.jar_folder("postgres-jars", version))
    except jars.Unavailable as error:
        raise Unavailable(str(error)) from None
    programs = libs.parent / "programs"
    if not programs.exists():
        (jar,) = libs.glob("embedded-postgres-binaries-*.jar")
        with tempfile.TemporaryDirectory(dir=libs.parent) as folder, zipfile.ZipFile(jar) as packed:
            (name,) = (each for each in packed.namelist() if each.endswith(".txz"))
            with packed.open(name) as archive, tarfile.open(fileobj=archive, mode="r:xz") as found:
                found.extractall(f"{folder}/programs", filter="tar")
            with contextlib.suppress(OSError):  # another process was quicker
                Path(folder, "programs").rename(programs)
    return programs / "bin"


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

    def __init__(
        self,
        settings: dict[str, str] | None = None,
        version: str | None = None,
        copied: Path | None = None,
    ) -> None:
        self._version = version
        self.programs = _programs() if version is None else programs_of(version)
        self._user = _user()
        self.settings = {**_SETTINGS, **(settings or {})}
        # Not in pytest's folder, which other users may not enter.
        self.directory = Path(tempfile.mkdtemp(prefix="drumlin-postgres-"))
        if self._user:
            os.chown(self.directory, self._user["user"], self._user["group"])
        self.data = self.directory / "data"
        self.port = free_ports(1)[0]
        self.process: subprocess.Popen[bytes] | None = None
        if copied is None:
            self._run("initdb", "-D", self.data, "-U", "admin", "-A", "trust", "-E", "UTF8", "-N")
        else:
            self._run("cp", "-a", copied, self.data, folder=Path("/bin"))

    def standby(self, slot: str, **settings: str) -> Self:
        """A standby of this server, which must not be running now. It follows by a slot."""
        address = f"host=127.0.0.1 port={self.port} user=admin dbname=postgres"
        more = {"primary_conninfo": address, "primary_slot_name": slot, **settings}
        found = type(self)({**self.settings, **more}, self._version, self.data)
        (found.data / "standby.signal").touch()
        return found

    def url(self, database: str = "postgres", user: str = "admin") -> str:
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        assert self.process is None, "already running"
        command = [self.programs / "postgres", "-D", self.data, "-p", str(self.port)]
        command += ["-k", self.directory]
        for name, value in self.settings.items():
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
        with contextlib.suppress(psycopg.OperationalError):
            psycopg.connect(self.url(), connect_timeout=5).close()
            return True
        return False

    def _run(self, program: str, *arguments: object, folder: Path | None = None) -> None:
        command = [str((folder or self.programs) / program), *map(str, arguments)]
        ended = subprocess.run(
            command, capture_output=True, text=True, cwd=self.directory, check=False, **self._user
        )
        if ended.returncode:
            raise Unavailable(f"{program}: {ended.stderr.strip()[-500:]}")


@contextlib.contextmanager
def running_postgres(
    settings: dict[str, str] | None = None, version: str | None = None
) -> Iterator[Postgres]:
    """One server for the tests of a block, which are skipped where there can be none."""
    try:
        server = Postgres(settings, version)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield server
    finally:
        server.close()
