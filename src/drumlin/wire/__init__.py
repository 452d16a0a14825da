"""Bytes <-> protocol messages. Pure: no file, no socket, no clock."""

from __future__ import annotations

import importlib
import sys


def _import_kio_alone() -> None:
    """Import kio's types as they are where `hypothesis` is not installed.

    Where it is installed, kio imports it to register its types with it. That costs a quarter of a
    second of processor time in each server, command and Spark worker that starts. A process that
    has already loaded it has paid that price, and loses nothing.
    """
    if "hypothesis" in sys.modules:
        return
    absent: dict[str, object] = sys.modules  # type: ignore[assignment]
    absent["hypothesis"] = None  # how an import is told that there is no such module
    try:
        importlib.import_module("kio.static.primitive")
    finally:
        del sys.modules["hypothesis"]


_import_kio_alone()
