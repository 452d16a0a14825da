"""The warning that names of earlier versions give, beside doing the same as before."""

from __future__ import annotations

import warnings


def was_called(old: str, new: str) -> None:
    """Tell the caller of the calling function that `old` is now spelled `new`."""
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)
