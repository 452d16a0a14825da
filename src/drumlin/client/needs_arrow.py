"""The error if Arrow is needed, but not installed.

Arrow is four fifths of an installation, and most of a client works without it: topics, offsets,
groups, transactions and single records. So it is imported only in calls that need it, and this
module explains a failed import. Must import neither Arrow nor numpy.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Final

PACKAGES: Final = ("numpy", "pyarrow")
NO_ARROW: Final = "tables of records need pyarrow and numpy: pip install pyarrow numpy"


def has_arrow() -> bool:
    """Whether Arrow can be used. This imports Arrow, as the caller is about to use it."""
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
    """Explain failed imports of Arrow.

    Raises:
        ModuleNotFoundError: pyarrow or numpy is not installed; the message has the remedy.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in PACKAGES:
            raise
        raise ModuleNotFoundError(NO_ARROW, name=error.name) from None
