"""The contents of a backup: its files with their sizes and digests, in a file beside them.

That file is written last, so a folder without it is no whole backup.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple

from drumlin.cli.terminal.output import Failure
from drumlin.version import __version__

FILE_NAME: Final = "drumlin-backup.json"
_FORMAT: Final = 1


class FileContents(NamedTuple):
    size_bytes: int
    sha256: str


class Contents(NamedTuple):
    """A backup. `files`: by their paths below its folder."""

    taken_ms: int
    cluster_id: str
    files: dict[str, FileContents]

    @property
    def size_bytes(self) -> int:
        return sum(each.size_bytes for each in self.files.values())

    @property
    def logs(self) -> int:
        """The number of partitions' logs."""
        return len(
            {each.parent for each in map(PurePosixPath, self.files) if each.suffix == ".log"}
        )

    def encode(self) -> str:
        files = {
            path: {"bytes": each.size_bytes, "sha256": each.sha256}
            for path, each in sorted(self.files.items())
        }
        said = {
            "format": _FORMAT,
            "drumlin": __version__,
            "taken_ms": self.taken_ms,
            "cluster_id": self.cluster_id,
            "files": files,
        }
        return json.dumps(said, indent=1) + "\n"


def read_contents(folder: Path) -> Contents:
    """The contents of the backup in a folder.

    Raises:
        Failure: there is no whole backup, or one of a newer version.
    """
    path = folder / FILE_NAME
    try:
        said = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise Failure(f"{folder} is no whole backup: it has no {FILE_NAME}") from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise Failure(f"{path} is not JSON: {error}") from None
    if not isinstance(said, dict) or type(said.get("format")) is not int:
        raise Failure(f"{path} does not say what is in a backup")
    if said["format"] != _FORMAT:
        raise Failure(
            f"{path} has format {said['format']}, of Drumlin {said.get('drumlin')}; "
            f"this is {__version__}, which knows format {_FORMAT}"
        )
    try:
        files = {_path(name): _file(each) for name, each in said["files"].items()}
        return Contents(int(said["taken_ms"]), str(said["cluster_id"]), files)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Failure(f"{path} does not say what is in a backup: {error!r}") from None


def _path(name: str) -> str:
    """A path that leads to nothing outside of the backup."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise ValueError(f"{name!r} is no path below the backup")
    return name


def _file(said: Any) -> FileContents:
    size_bytes, sha256 = said["bytes"], said["sha256"]
    if type(size_bytes) is not int or not isinstance(sha256, str):
        raise TypeError(said)
    return FileContents(size_bytes, sha256)
