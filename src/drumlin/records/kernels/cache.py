"""Where machine code is kept between processes, and how it is told from anything else.

A file is named after all that its content depends on, so nothing is ever out of date. It is
replaced as a whole and carries its own digest, so a partial file is never run. Its folder belongs
to this user alone: another user who could write there could make this process run any code.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import stat
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata, resources
from pathlib import Path
from typing import Final, NamedTuple

_DIGEST_SIZE: Final = 32
_KEY_LENGTH: Final = 16


class Kept(NamedTuple):
    """Machine code in the cache, and which processor it is for."""

    processor: str
    code: bytes
    made_at: float


def locate(set_name: str) -> Path:
    """The file for this processor, a set of kernels and these versions of their compiler.

    It may not exist yet; then it can be written.
    """
    name = f"{_prefix(set_name)}{processor_key()}.o"
    for folder in _folders():
        path = folder / name
        if _is_safe(folder) and (path.exists() or os.access(folder, os.W_OK)):
            return path
    # Nothing is writable, or another user has the name: this process compiles for itself.
    return Path(tempfile.mkdtemp(prefix="drumlin-")) / name


def kept(set_name: str) -> Iterator[Kept]:
    """The cached code for any processor, of these versions of the sources and the compiler."""
    prefix = _prefix(set_name)
    for folder in _folders():
        if not _is_safe(folder):
            continue
        for path in folder.glob(f"{prefix}*.o"):
            code = read(path)
            if code is not None:
                yield Kept(path.stem.removeprefix(prefix), code, path.stat().st_mtime)


def read(path: Path) -> bytes | None:
    """The machine code in a file; None if the file is missing or damaged."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    return unseal(content)


def write(path: Path, code: bytes) -> None:
    """Put the file in its place, whole."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(seal(code))
    partial.replace(path)


def seal(code: bytes) -> bytes:
    """Machine code, preceded by its digest."""
    return hashlib.sha256(code).digest() + code


def unseal(content: bytes) -> bytes | None:
    """The machine code; None if it is not whole."""
    digest, code = content[:_DIGEST_SIZE], content[_DIGEST_SIZE:]
    return code if hashlib.sha256(code).digest() == digest else None


@functools.cache
def sources_key() -> str:
    """A digest of the kernels' sources, and of how their callers call them."""
    digest = hashlib.sha256()
    for source in sorted(_sources(), key=lambda each: each.name):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:_KEY_LENGTH]


@functools.cache
def processor_key() -> str:
    """A key for this processor's name and features, and for the format of object files here.

    Needs LLVM to find them.
    """
    from drumlin.records.kernels import machine_code

    return _key(sys.platform, platform.machine(), *machine_code.processor())


@functools.cache
def _prefix(set_name: str) -> str:
    versions = (platform.python_version(), metadata.version("numba"), metadata.version("llvmlite"))
    return f"{set_name}-{sources_key()}-{_key(*versions)}-"


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_KEY_LENGTH]


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
