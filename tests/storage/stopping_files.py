"""A door to the file system behind which the process ends, at any operation that changes files."""

from __future__ import annotations

from typing import Any

from drumlin.storage.files.files import Files


class Stopped(BaseException):
    """The process is no more."""


class StoppingFiles(Files):
    """Stops before the operation with that number."""

    def __init__(self) -> None:
        super().__init__()
        self.left: int | None = None

    def count(self) -> None:
        if self.left is not None:
            if self.left == 0:
                raise Stopped
            self.left -= 1


for _name in ("create", "write_at", "truncate", "sync", "sync_directory", "rename", "remove"):

    def _counted(self: StoppingFiles, *arguments: Any, _name: str = _name) -> Any:
        self.count()
        return getattr(Files, _name)(self, *arguments)

    setattr(StoppingFiles, _name, _counted)
