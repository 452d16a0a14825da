"""Why a cleaning ended without a result."""

from __future__ import annotations


class CleaningFailed(Exception):
    """Something in the log cannot be read as records; the message names file and position."""


class CleaningStopped(Exception):
    """The pool stops, or the log is gone: nothing was changed by what was begun."""
