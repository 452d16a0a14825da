"""Errors that stop a capture, with messages for its operator."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """Something must be fixed before this capture can continue. Nothing is lost."""


class CaptureRefused(CaptureError):
    """The capture cannot begin; the message lists each problem with its cure."""


class CaptureReplaced(CaptureError):
    """Another capture of the same name has started; this one must stop writing."""


class DatabaseLost(CaptureError, ConnectionError):
    """The database cannot be reached, or a connection to it broke. A retry may succeed."""


class DatabaseChanged(DatabaseLost):
    """A statement's tables or slot were changed meanwhile. A retry reads the catalog again."""


class DatabaseRefused(CaptureError):
    """The database has returned an error that a retry does not cure."""
