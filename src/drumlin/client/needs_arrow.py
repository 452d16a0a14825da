"""The error where Arrow is needed and not installed.

Arrow is four fifths of an installation, and most of what a client does goes without it: topics,
offsets, groups, transactions and records one by one. So it is imported by what needs it, when that
is called, and this explains why it cannot be. Must import neither Arrow nor numpy.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Final

PACKAGES: Final = ("numpy", "pyarrow")
NO_ARROW: Final = "tables of records need pyarrow and numpy: pip install pyarrow numpy"


def has_arrow() -> bool:
    """Whether it can be used. This loads it: the caller is about to use it."""
    try:
        for each in PACKAGES:
            importlib.import_module(each)
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        return False
    return True


@contextlib.contextmanager
def needing_arrow() -> Iterator[None]:
    """Around imports.

    Raises:
        ModuleNotFoundError: pyarrow or numpy is not installed; the message says what to do.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        raise ModuleNotFoundError(NO_ARROW, name=error.name) from None
