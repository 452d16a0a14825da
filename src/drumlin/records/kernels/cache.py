"""Where machine code is kept between processes, and how it is told from anything else.

A file is named after all that its content depends on, so nothing is ever out of date; it is
replaced as a whole and carries its own digest, so nobody runs half of one. Its folder belongs
to this user alone: whoever could write there could have us run anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import stat
import tempfile
from importlib import metadata, resources
from pathlib import Path
from typing import Final

from drumlin.records.kernels import machine_code

_DIGEST_SIZE: Final = 32


def locate(set_name: str) -> Path:
    """The file for this processor, a set of kernels and these versions of their compiler.

    It may not exist yet; then it can be written.
    """
    name = f"{set_name}-{_key()}.o"
    for folder in _folders():
        path = folder / name
        if _is_safe(folder) and (path.exists() or os.access(folder, os.W_OK)):
            return path
    # Nothing is writable, or someone else has the name: this process compiles for itself.
    return Path(tempfile.mkdtemp(prefix="drumlin-")) / name


def read(path: Path) -> bytes | None:
    """The machine code in a file; None if there is none that is whole."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    digest, code = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    return code if hashlib.sha256(code).digest() == digest else None


def write(path: Path, code: bytes) -> None:
    """Put the file in its place, whole."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(hashlib.sha256(code).digest() + code)
    partial.replace(path)


def _key() -> str:
    digest = hashlib.sha256()
    versions = (platform.python_version(), metadata.version("numba"), metadata.version("llvmlite"))
    for part in (*versions, platform.machine(), *machine_code.processor()):
        digest.update(f"{part}\n".encode())
    for source in sorted(_sources(), key=lambda each: each.name):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:24]


def _sources() -> list[resources.abc.Traversable]:
    package = resources.files("drumlin.records.kernels")
    files = [*package.iterdir(), *package.joinpath("code").iterdir()]
    return [each for each in files if each.name.endswith(".py")]


def _folders() -> list[Path]:
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return [Path(base) / "drumlin", Path(tempfile.gettempdir()) / f"drumlin-{os.geteuid()}"]


def _is_safe(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        folder.mkdir(mode=0o700, parents=True)
    try:
        found = folder.lstat()
    except OSError:
        return False
    return (
        stat.S_ISDIR(found.st_mode)
        and found.st_uid in (0, os.geteuid())
        and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    )
