"""Values that the driver sends to executors: by name, and only within one version of drumlin.

Pickle writes a dataclass with slots as a list of values. An executor whose version has one field
more would assign them to the wrong fields, without an error. So the values travel with their
names and with the version.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any

from drumlin.version import __version__


class VersionMismatch(RuntimeError):
    """The driver and an executor run different versions of drumlin."""


class Portable:
    """Base of the dataclasses that are sent to executors. One may contain another."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]  # subclasses are dataclasses
        values = {field.name: getattr(self, field.name) for field in fields}
        # The class is sent by name: a version that lacks it must still report the mismatch.
        return arrive, (__version__, type(self).__module__, type(self).__qualname__, values)


def arrive(version: str, module: str, name: str, values: dict[str, Any]) -> Any:
    """The value as it was sent.

    Raises:
        VersionMismatch: another version of drumlin sent it.
    """
    if version != __version__:
        raise VersionMismatch(
            f"the driver runs drumlin {version} and this executor drumlin {__version__}: "
            "install the same version on both"
        )
    return getattr(importlib.import_module(module), name)(**values)
