"""The file `.kafka_cleanshutdown`, which marks a clean shutdown and names the broker epoch.

A copy of a log dir includes the file. If it is restored later, it lacks records written since: the
broker epoch shows that, as a broker gets a new one at each registration (KIP-966).
"""

from __future__ import annotations

import json
from typing import Final

from drumlin.storage.files.files import Files

FILE_NAME: Final = ".kafka_cleanshutdown"
#: The epoch of a broker without epochs, or with an unknown one.
NO_EPOCH: Final = -1


def encode_clean_marker(broker_epoch: int) -> bytes:
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def read_clean_marker(directory: str, files: Files) -> int | None:
    """The broker epoch in the marker, NO_EPOCH if it cannot be read; None without a marker."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        epoch = json.loads(files.read_file(path))["brokerEpoch"]
    except (OSError, ValueError, KeyError, TypeError):
        return NO_EPOCH
    return epoch if type(epoch) is int else NO_EPOCH
