"""A MariaDB of a test's own, with a binlog, on a free port of the loopback interface.

`DRUMLIN_TEST_MARIADB` names the folder of its programs; else that of Debian is taken. Nothing
happens on import. `Unavailable` says why a machine cannot have one; tests skip with it.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from rig.ports import free_ports
from rig.waiting import wait_until

#: Nothing is shown by waiting for a disk; the tests kill processes, not the machine.
_SETTINGS = {
    "bind-address": "127.0.0.1",
    "server-id": "7",
    "log-bin": "binlog",
    "binlog-format": "ROW",
    "binlog-row-metadata": "FULL",
    "sync-binlog": "0",
    "innodb-flush-method": "nosync",
    "innodb-flush-log-at-trx-commit": "2",  # what is in the binlog outlives a kill in InnoDB, too
    "innodb-buffer-pool-size": "32M",
    "innodb-log-file-size": "8M",
    "skip-name-resolve": "1",
    "max-allowed-packet": "256M",
    "performance-schema": "0",
    "ssl": "0",  # MariaDB 11.4 would make itself a key, which takes long
}


class Unavailable(Exception):
    """There is no MariaDB on this machine."""


def _programs() -> tuple[str, str]:
    named = os.environ.get("DRUMLIN_TEST_MARIADB")
    folders = [f"{named}/bin", f"{named}/scripts"] if named else ["/usr/sbin", "/usr/bin"]
    path = os.pathsep.join(folders)
    server = shutil.which("mariadbd", path=path)
    install = shutil.which("mariadb-install-db", path=path)
    if server is None or install is None:
        raise Unavailable("no MariaDB: apt-get install mariadb-server-core mariadb-client-core")
    return server, install


class Mariadb:
    """One server; it keeps its port and its data when it is started again."""

    def __init__(self, settings: dict[str, str] | None = None) -> None:
        self._server, install = _programs()
        self._settings = {**_SETTINGS, **(settings or {})}
        self.directory = Path(tempfile.mkdtemp(prefix="drumlin-mariadb-"))
        self.data = self.directory / "data"
        # A server that starts removes the temporary tables of all that share its folder for them.
        self._environment = {**os.environ, "TMPDIR": str(self.directory / "tmp")}
        (self.directory / "tmp").mkdir()
        self.port = free_ports(1)[0]
        self.process: subprocess.Popen[bytes] | None = None
        command = [install, "--no-defaults", f"--datadir={self.data}", "--skip-test-db"]
        command += ["--auth-root-authentication-method=normal", *self._as_root()]
        if named := os.environ.get("DRUMLIN_TEST_MARIADB"):
            command.append(f"--basedir={named}")
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, env=self._environment
        )
        if ended.returncode:
            raise Unavailable(f"mariadb-install-db: {ended.stderr}{ended.stdout}".strip()[:500])
        try:
            self._use()
        except BaseException:
            self.close()
            raise

    def _as_root(self) -> list[str]:
        return ["--user=root"] if os.geteuid() == 0 else []

    def _use(self) -> None:
        """Let its operator log in by TCP."""
        statement = "CREATE USER admin@'127.0.0.1'; GRANT ALL ON *.* TO admin@'127.0.0.1'"
        statement += " WITH GRANT OPTION"
        self.start(with_log=False)
        with self.connect(user="root", unix_socket=str(self.directory / "socket")) as connection:
            for each in statement.split("; "):
                connection.cursor().execute(each)
        self.stop()

    def url(self, database: str = "", user: str = "admin") -> str:
        return f"mariadb://{user}@127.0.0.1:{self.port}/{database}"

    def connect(self, **how: Any) -> Any:
        options = {"host": "127.0.0.1", "port": self.port, "user": "admin", "autocommit": True}
        return pymysql.connect(**{**options, "charset": "utf8mb4", **how})

    def start(self, with_log: bool = True) -> None:
        assert self.process is None, "already running"
        command = [self._server, "--no-defaults", *self._as_root(), f"--datadir={self.data}"]
        command += [f"--socket={self.directory / 'socket'}", f"--port={self.port}"]
        settings = self._settings if with_log else {"skip-log-bin": "1", "ssl": "0"}
        command += [f"--{name}={value}" for name, value in settings.items()]
        if named := os.environ.get("DRUMLIN_TEST_MARIADB"):
            command.append(f"--basedir={named}")
        with (self.directory / "mariadb.out").open("ab") as sink:
            self.process = subprocess.Popen(
                command, stdout=sink, stderr=sink, cwd=self.directory, env=self._environment
            )
        wait_until(self._is_ready, "MariaDB to be ready", 60)

    def stop(self) -> None:
        """End it as an operator does: connections are cut, nothing is lost."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash: it recovers at its next start."""
        self._end(signal.SIGKILL)

    def close(self) -> None:
        if self.process is not None:
            self._end(signal.SIGKILL)
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
            said = (self.directory / "mariadb.out").read_text(errors="replace")
            raise AssertionError(f"MariaDB has ended:\n{said[-2000:]}")
        try:
            self.connect(user="nobody").close()
        except pymysql.err.OperationalError as error:
            return error.args[0] != 2003  # it answers, and refuses the user
        return True


@contextlib.contextmanager
def running_mariadb(settings: dict[str, str] | None = None) -> Iterator[Mariadb]:
    """One server for the tests of a block, which are skipped where there can be none."""
    try:
        server = Mariadb(settings)
    except Unavailable as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield server
    finally:
        server.close()
