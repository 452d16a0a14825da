"""Where the libraries of kernels are, and whether they are those of the sources beside them.

In a package there are no sources beside them. In a checkout those may have changed since: then the
libraries must not be used, as both sides of a call may have another idea of its tables.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parent
_SOURCES: Final = ("code/*.py", "toolchain/*.py", "*layout.py", "survival.py", "processor.py")

LIBRARIES: Final = _PACKAGE / "libraries"
#: What the libraries of a checkout are made of; a package has no such file.
MADE_OF: Final = LIBRARIES / "made-of"


def library_path(variant_name: str) -> Path:
    """The file for processors of a kind."""
    return LIBRARIES / f"{variant_name}.so"


def are_outdated() -> bool:
    """Whether this is a checkout, and its libraries are made of other sources."""
    return MADE_OF.exists() and not are_made_of(digest())


def are_made_of(sources: str) -> bool:
    """Whether the libraries of a checkout are made of the sources with this digest."""
    return MADE_OF.exists() and MADE_OF.read_text() == sources


def digest() -> str:
    """Of all that the libraries are to be made of."""
    found = hashlib.sha256()
    for source in sorted(path for pattern in _SOURCES for path in _PACKAGE.glob(pattern)):
        found.update(source.relative_to(_PACKAGE).as_posix().encode() + b"\0")
        found.update(source.read_bytes())
    return found.hexdigest()
