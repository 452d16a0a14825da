"""Why a cleaning ended without a result."""

from __future__ import annotations


class CleaningFailed(Exception):
    """Something in the log can't be read as records, with file and position; or nothing can be."""


class CleaningStopped(Exception):
    """The pool stops: the cleaning under way has changed nothing."""


class SegmentGone(Exception):
    """Retention or a deletion has removed the segment that is being read."""


class CleaningPostponed(Exception):
    """There is not enough memory now; the message says how much was asked for."""
