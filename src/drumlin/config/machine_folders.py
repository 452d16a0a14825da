"""The folders of the brokers of one machine inside its log dirs."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: The folder in each log dir that contains the folders of all brokers but the first, by id.
FOLDER: Final = ".brokers"


def folder_of(log_dir: str, index: int, node_id: int) -> str:
    """A broker's own folder in a log dir; `index` counts the brokers of the machine from 0."""
    return log_dir if index == 0 else f"{log_dir}/{FOLDER}/{node_id}"


def log_dir_of(folder: str) -> str:
    """The log dir that contains a broker's folder; the first broker's folder is the log dir
    itself.
    """
    path = Path(folder)
    return str(path.parents[1]) if path.parent.name == FOLDER else folder
