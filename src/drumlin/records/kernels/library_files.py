"""The files of the kernels' libraries, and the check that they match the sources.

An installed package has no sources of kernels. In a checkout, a source may have changed since the
libraries were compiled. Such libraries must not be used: a caller and a kernel might disagree on
the layout of a table.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent
_SOURCES: Final = ("code/*.py", "toolchain/*.py", "*layout.py", "survival.py", "processor.py")

LIBRARIES: Final = _PACKAGE / "libraries"
#: Holds the digest of the sources of a checkout's libraries; a package has no such file.
MADE_OF: Final = LIBRARIES / "made-of"


def library_path(variant_name: str) -> Path:
    """The library for one variant of processor."""
    return LIBRARIES / f"{variant_name}.so"


def are_outdated() -> bool:
    """Whether this is a checkout whose sources have changed since its libraries were compiled."""
    return MADE_OF.exists() and not are_made_of(digest())


def are_made_of(sources: str) -> bool:
    """Whether the libraries of this checkout were compiled from the sources with this digest."""
    return MADE_OF.exists() and MADE_OF.read_text() == sources


def digest() -> str:
    """The digest of all sources of the libraries, as they are now."""
    found = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in _PACKAGE.glob(pattern)):
        found.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        found.update(source.read_bytes())
    return found.hexdigest()
