"""Drumlin: a commit-log platform that speaks the Kafka wire protocol."""

import importlib
from typing import TYPE_CHECKING, Any

from drumlin.version import __version__

if TYPE_CHECKING:
    from drumlin import security as security
    from drumlin.client.client import connect as connect

__all__ = ["__version__", "connect", "security"]


def __getattr__(name: str) -> Any:
    # The client needs Arrow; the broker and the command line must not pay for that.
    if name == "connect":
        from drumlin.client.client import connect

        return connect
    if name == "security":
        return importlib.import_module("drumlin.security")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
