"""Exceptions that end a cleaning without a result."""

from __future__ import annotations


class CleaningFailed(Exception):
    """A log has invalid data, not record batches, at a position; or the kernels are missing."""


class CleaningStopped(Exception):
    """The pool stops; the interrupted group of segments is unchanged."""


class SegmentGone(Exception):
    """The segment that is being read was removed by retention or a deletion."""


class CleaningPostponed(Exception):
    """There is not enough memory at the moment; the message names the needed size."""
