"""The file `partition.metadata`, which names the topic id of a partition folder.

A topic that was deleted and created again with the same name has another id.
"""

from __future__ import annotations

import base64
import logging
from typing import Final
from uuid import UUID

from drumlin.storage.files.files import Files

_logger = logging.getLogger(__name__)

#: For a folder without a topic id.
NO_TOPIC_ID: Final = UUID(int=0)
FILE_NAME: Final = "partition.metadata"
_VERSION: Final = "0"


def encode_uuid(value: UUID) -> str:
    """Encode an id in Kafka's text form: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def decode_uuid(text: str) -> UUID:
    """Decode the text form of `encode_uuid`.

    Raises:
        ValueError: the text is not 16 bytes in base64.
    """
    return UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def encode_partition_metadata(topic_id: UUID) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {encode_uuid(topic_id)}".encode()


def decode_partition_metadata(content: bytes) -> UUID:
    """The topic id.

    Raises:
        ValueError: the file is not a `partition.metadata` of version 0.
    """
    fields = dict(line.split(": ", 1) for line in content.decode("ascii").split("\n") if line)
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        raise ValueError("not a partition.metadata of version 0")
    return decode_uuid(fields["topic_id"])


def read_topic_id(path: str, files: Files) -> UUID:
    """The topic id in a partition folder; `NO_TOPIC_ID` if it is missing or unreadable.

    Raises:
        OSError: the device fails.
    """
    try:
        return decode_partition_metadata(files.read_file(f"{path}/{FILE_NAME}"))
    except FileNotFoundError:
        return NO_TOPIC_ID
    except ValueError as error:
        _logger.warning("%s/%s is ignored: %s", path, FILE_NAME, error)
        return NO_TOPIC_ID
