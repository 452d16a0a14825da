"""The warning that names of earlier versions give, beside doing the same as before."""

from __future__ import annotations

import warnings


def warn_of(name: str, successor: str) -> None:
    """Tell the caller of the function that has this name what to call in its place."""
    warnings.warn(f"{name} is {successor} now", DeprecationWarning, stacklevel=3)
