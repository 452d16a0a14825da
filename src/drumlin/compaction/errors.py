"""Why a cleaning ended without a result."""

from __future__ import annotations


class CleaningFailed(Exception):
    """Something in the log cannot be read as records; the message names file and position."""


class CleaningStopped(Exception):
    """The pool stops: nothing was changed by what was begun."""


class SegmentGone(Exception):
    """Retention, or somebody else, has removed the segment that is being read."""


class CleaningPostponed(Exception):
    """There is no memory for it now; the message says how much was asked for."""
