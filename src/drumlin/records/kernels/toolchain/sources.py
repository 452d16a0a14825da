"""The libraries of a checkout, and whether they are made of the sources that are there now."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from drumlin.records.kernels.machine_code import LIBRARIES, library_path

_PACKAGE: Final = LIBRARIES.parent
_SOURCES: Final = ("code/*.py", "toolchain/*.py", "*layout.py", "survival.py", "processor.py")
#: What the libraries are made of, in their folder: written last.
_MADE_OF: Final = LIBRARIES / "made-of"


def are_made(digest: str) -> bool:
    """Whether the libraries are those of these sources."""
    return _MADE_OF.is_file() and _MADE_OF.read_text() == digest


def keep(libraries: dict[str, bytes], digest: str) -> None:
    """Put the libraries into their places, each whole: a process may have opened the old one."""
    LIBRARIES.mkdir(exist_ok=True)
    for name, content in libraries.items():
        _replace(library_path(name), content)
    _replace(_MADE_OF, digest.encode())


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


def digest() -> str:
    """Of all that the libraries are made of."""
    found = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in _PACKAGE.glob(pattern)):
        found.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        found.update(source.read_bytes())
    return found.hexdigest()
