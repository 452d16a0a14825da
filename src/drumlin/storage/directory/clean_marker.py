"""`.kafka_cleanshutdown`: the mark of a clean stop, which names the broker epoch that has ended.

A copy of a log dir has it, too. Put back later, the copy lacks what was written since: the epoch
tells, as a broker has a new one each time it registers (KIP-966).
"""

from __future__ import annotations

import json
from typing import Final

from drumlin.storage.files.files import Files

FILE_NAME: Final = ".kafka_cleanshutdown"
#: Of a broker without epochs, or one of which the epoch is not known.
NO_EPOCH: Final = -1


def encode_clean_marker(broker_epoch: int) -> bytes:
    return b'{"version":0,"brokerEpoch":%d}' % broker_epoch


def read_clean_marker(directory: str, files: Files) -> int | None:
    """The broker epoch that it names, NO_EPOCH if that cannot be read; None: there is no marker."""
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        epoch = json.loads(files.read_file(path))["brokerEpoch"]
    except (OSError, ValueError, KeyError, TypeError):
        return NO_EPOCH
    return epoch if type(epoch) is int else NO_EPOCH
