"""Why a capture cannot go on, in words for who runs it."""

from __future__ import annotations


class CaptureError(RuntimeError):
    """Something has to be mended before this capture can go on. Nothing is lost by it."""


class CaptureRefused(CaptureError):
    """What was found does not let it begin, each with what mends it."""


class CaptureReplaced(CaptureError):
    """Another capture of the same name has begun; this one must not write any more."""
