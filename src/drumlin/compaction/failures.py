"""Exceptions that end a cleaning without a result."""

from __future__ import annotations


class CleaningFailed(Exception):
    """The log contains something that is not a record batch; the message names its position."""


class CleaningStopped(Exception):
    """The pool stops; the interrupted group of segments is unchanged."""


class SegmentGone(Exception):
    """The segment that is being read was removed by retention or a deletion."""


class CleaningPostponed(Exception):
    """There is not enough memory at the moment; the message names the size."""
