"""The admin socket, which only the broker's operator can reach: a Unix socket in the first log dir.

Other users cannot connect, nor can a process that may not enter the dir. A broker locks its dir, so
a socket found at start-up was left by a broker that has ended.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

FILE_NAME: Final = "drumlin-admin.sock"
#: The longest path in a socket's address, without the terminating zero.
_PATH_BYTES_MAX: Final = 107


def bind_admin_socket(directory: Path) -> socket.socket:
    """A socket in `directory` that replaces an existing one; it does not accept connections yet.

    Raises:
        OSError: the socket cannot be created.
    """
    sock = bind_private(directory / FILE_NAME)
    sock.setblocking(False)
    return sock


def bind_private(path: Path) -> socket.socket:
    """A socket at `path` for this user alone, which replaces an existing one.

    Raises:
        OSError: the socket cannot be created.
    """
    path.unlink(missing_ok=True)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with short_path(path) as short:
            sock.bind(short)
        path.chmod(0o600)
    except BaseException:
        sock.close()
        raise
    return sock


def connect_to_admin_socket(directory: Path, timeout_s: float) -> socket.socket:
    """A connection to the broker that runs on `directory`.

    Raises:
        OSError: `FileNotFoundError` or `ConnectionRefusedError` where no broker runs.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        with short_path(directory / FILE_NAME) as short:
            sock.connect(short)
    except BaseException:
        sock.close()
        raise
    return sock


def remove_admin_socket(directory: Path) -> None:
    """Remove the socket, if it is there."""
    with contextlib.suppress(OSError):
        (directory / FILE_NAME).unlink(missing_ok=True)


@contextlib.contextmanager
def short_path(path: Path) -> Iterator[str]:
    """A path to the socket that fits into a socket address, however deep the directory is."""
    if len(os.fsencode(path)) <= _PATH_BYTES_MAX:
        yield str(path)
        return
    descriptor = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{path.name}"
    finally:
        os.close(descriptor)
