"""Rows as documents of OpenSearch: their ids, their contents and their versions. Pure.

A document has the object `drumlin` with the row's partition and version. A value that is a JSON
object adds its fields; any other value is in `drumlin.value` as text, or in `drumlin.bytes` if it
is not UTF-8.

OpenSearch refuses a write whose version is lower than the document's. Versions grow with the
partition's term, and within a term with each batch of writes:

    23 bits  term
    26 bits  batch
    14 bits  partition
"""

from __future__ import annotations

import base64
import json
from typing import Any, Final, NamedTuple

from drumlin.serving.target import Cell, TargetRefused

#: The field that values must not have, as documents use it.
OURS: Final = "drumlin"
BATCH_MAX: Final = (1 << 26) - 1
_TERM_MAX: Final = (1 << 23) - 1
_PARTITION_BITS: Final = 14
_BATCH_BITS: Final = 26
#: The prefix of ids for keys that cannot be ids themselves.
_ENCODED: Final = "base64:"
_ID_BYTES_MAX: Final = 512


class Version(NamedTuple):
    """A version; term 0 means that another program has written the document."""

    term: int
    batch: int
    partition: int

    @classmethod
    def parse(cls, number: int) -> Version:
        partition = number & ((1 << _PARTITION_BITS) - 1)
        batch = number >> _PARTITION_BITS & BATCH_MAX
        return cls(number >> _PARTITION_BITS + _BATCH_BITS, batch, partition)

    def __int__(self) -> int:
        if self.term > _TERM_MAX or self.partition >> _PARTITION_BITS:
            raise TargetRefused(
                f"OpenSearch: partition {self.partition} in term {self.term}: a version has room "
                f"for partitions to {(1 << _PARTITION_BITS) - 1} and terms to {_TERM_MAX}"
            )
        return (self.term << _BATCH_BITS | self.batch) << _PARTITION_BITS | self.partition


def id_of(key: Cell) -> str:
    """The id of a key's document: the key itself if that is text, otherwise its Base64.

    Raises:
        TargetRefused: the id is too long.
    """
    name = _text(key)
    if name is None or name == "" or name.startswith(_ENCODED):
        data = key.encode() if isinstance(key, str) else key
        name = _ENCODED + base64.urlsafe_b64encode(data).decode()
    if len(name) > _ID_BYTES_MAX // 4 and len(name.encode()) > _ID_BYTES_MAX:
        raise TargetRefused(
            f"OpenSearch: the key {key[:100]!r} gives an id of {len(name.encode())} bytes; "
            f"{_ID_BYTES_MAX} fit"
        )
    return name


def document_of(key: Cell, value: Cell, partition: int, version: int) -> str:
    """The document of a row, as JSON.

    Raises:
        TargetRefused: the value has the field `drumlin`.
    """
    ours: dict[str, Any] = {"partition": partition, "version": version}
    if isinstance(value, str):  # text stays text
        ours["value"] = value
        return json.dumps({OURS: ours})
    fields = _fields_of(value)
    if fields is not None:
        if OURS in fields:
            raise TargetRefused(
                f"OpenSearch: the value of the key {key[:100]!r} has a field {OURS!r}"
            )
        try:
            return json.dumps({**fields, OURS: ours}, allow_nan=False)
        except ValueError:
            pass  # a number that is too large for a double
    text = _text(value)
    if text is not None:
        ours["value"] = text
    else:
        ours["bytes"] = base64.b64encode(value).decode()
    return json.dumps({OURS: ours})


def _fields_of(value: bytes) -> dict[str, Any] | None:
    """The fields of a JSON object; None: the value is something else."""
    if not value.lstrip().startswith(b"{"):
        return None
    try:
        found = json.loads(value.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _text(cell: Cell) -> str | None:
    if isinstance(cell, str):
        return cell
    try:
        return cell.decode()
    except ValueError:
        return None
