"""A PostgreSQL of your own for as long as a `with` block lasts: Debian's, or that of `pgserver`."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from local_broker import free_ports

_START_TIMEOUT_S = 60
_DEBIAN = Path("/usr/lib/postgresql")
#: What a capture needs; and what it keeps goes with the demo, so no disk is waited for.
_SETTINGS = ("wal_level=logical", "listen_addresses=127.0.0.1", "fsync=off")


class Unavailable(Exception):
    """There is no PostgreSQL that could run here."""


@contextlib.contextmanager
def local_postgres(folder: Path) -> Iterator[str]:
    """Start it on a free port of this machine, tell the URL of a database, stop it.

    Raises:
        Unavailable: there is none, or it does not run here.
    """
    programs, user = _programs(), _user()
    data = folder / "postgres"
    data.mkdir()
    if user:
        folder.chmod(0o711)  # so that the other user gets at its own folder, and at no other one
        os.chown(data, user["user"], user["group"])
    log = data / "server.log"
    _init(programs, data / "data", user)
    (port,) = free_ports(1)
    command = [str(programs / "postgres"), "-D", str(data / "data"), "-k", str(data)]
    for setting in _SETTINGS:
        command += ["-c", setting]
    with log.open("wb") as output:
        server = subprocess.Popen(  # noqa: S603 - our own server
            [*command, "-p", str(port)], stdout=output, stderr=output, cwd=data, **user
        )
    try:
        _wait_until_ready(programs, server, port, log)
        yield f"postgresql://demo@127.0.0.1:{port}/postgres"
    finally:
        server.terminate()  # waits for clients; there are none
        server.wait(_START_TIMEOUT_S)


def _programs() -> Path:
    found = sorted(_DEBIAN.glob("*/bin"), key=_version_of, reverse=True)
    if on_path := shutil.which("initdb"):
        found.append(Path(on_path).resolve().parent)
    package = importlib.util.find_spec("pgserver")
    if package is not None and package.origin is not None:
        found.append(Path(package.origin).parent / "pginstall" / "bin")
    for programs in found:
        if (programs / "initdb").is_file() and (programs / "postgres").is_file():
            return programs
    raise Unavailable("there is none: apt-get install postgresql, or pip install pgserver")


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
    raise Unavailable("it does not run as root, and there is no other user")


def _init(programs: Path, data: Path, user: dict[str, Any]) -> None:
    command = [str(programs / "initdb"), "-D", str(data), "-U", "demo", "-A", "trust"]
    try:
        made = subprocess.run(  # noqa: S603
            [*command, "-E", "UTF8", "--no-sync", "--locale=C"],
            capture_output=True,
            text=True,
            cwd=data.parent,
            check=False,
            **user,
        )
    except PermissionError as error:
        raise Unavailable(f"it does not run as root, and no other user may: {error}") from None
    if made.returncode:
        raise Unavailable(f"initdb: {made.stderr.strip()}")


def _wait_until_ready(
    programs: Path, server: subprocess.Popen[bytes], port: int, log: Path
) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    asked = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
    while subprocess.run(asked, check=False).returncode:  # noqa: S603
        if server.poll() is not None or time.monotonic() > deadline:
            raise Unavailable(f"it did not start:\n{log.read_text(errors='replace')}")
        time.sleep(0.05)
