"""The warning of deprecated names, which otherwise work as before."""

from __future__ import annotations

import warnings


def was_called(old: str, new: str) -> None:
    """Warn the caller of the calling function that `old` is now `new`."""
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=3)
