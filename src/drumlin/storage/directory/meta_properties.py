"""The file `meta.properties` of a log dir, which names its broker and cluster."""

from __future__ import annotations

import secrets
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.storage.files.files import Files

FILE_NAME: Final = "meta.properties"
_VERSION: Final = "1"
_READABLE_VERSIONS: Final = ("0", _VERSION)


class MetaProperties(NamedTuple):
    """The fields of version 1; version 0, of ZooKeeper clusters, has no directory id."""

    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


def new_directory_id() -> str:
    """A random id in Kafka's text form."""
    return encode_uuid(uuid4())


def new_cluster_id() -> str:
    return encode_uuid(UUID(bytes=secrets.token_bytes(16)))


def encode_meta_properties(meta: MetaProperties) -> bytes:
    fields = {
        "cluster.id": meta.cluster_id,
        "directory.id": meta.directory_id,
        "node.id": meta.node_id,
        "version": _VERSION,
    }
    lines = [f"{key}={value}" for key, value in fields.items() if value is not None]
    return ("#\n" + "\n".join(lines) + "\n").encode()


def decode_meta_properties(content: bytes) -> MetaProperties:
    """The fields of the file, whether Drumlin or Kafka wrote it.

    Raises:
        ValueError: a number is malformed, or the version is unknown.
    """
    fields: dict[str, str] = {}
    for line in content.decode().splitlines():
        key, separator, value = line.partition("=")
        if separator and not line.startswith(("#", "!")):
            fields[key.strip()] = value.strip().replace("\\", "")
    version = fields.get("version", _VERSION)
    if version not in _READABLE_VERSIONS:
        raise ValueError(f"its version is {version!r}, and only 0 and 1 are supported")
    node_id = fields.get("node.id", fields.get("broker.id"))
    return MetaProperties(
        cluster_id=fields.get("cluster.id"),
        node_id=None if node_id is None else int(node_id),
        directory_id=fields.get("directory.id"),
    )


def read_meta_properties(path: str, files: Files) -> MetaProperties | None:
    """The file of a log dir; None if it has none yet.

    Raises:
        ValueError: the file is malformed.
    """
    try:
        return decode_meta_properties(files.read_file(f"{path}/{FILE_NAME}"))
    except FileNotFoundError:
        return None
