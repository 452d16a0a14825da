"""Records of Kafka's internal topics as plain values.

Owns which topic's folder holds which kind of record; the formats belong to the coordinators.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, Final

from drumlin.coordination.groups.shard import record_registry
from drumlin.coordination.internal_records.record_schema import UnreadableRecord
from drumlin.coordination.share.state import records as share_state
from drumlin.coordination.transactions import records as transactions
from drumlin.metadata.names import GROUP_METADATA, SHARE_GROUP_STATE, TRANSACTION_STATE
from drumlin.records.plain.record import Record
from drumlin.storage.files.partition_names import parse_directory_name

#: Decodes key and value of a record; None if its type is unknown.
Decode = Callable[[bytes, bytes | None], dict[str, Any] | None]


def decoder_for(path: Path) -> Decode | None:
    """The decoder of this segment's records; None for an ordinary topic."""
    found = parse_directory_name(path.absolute().parent.name)
    return None if found is None else _DECODERS.get(found[0])


def decoded(decode: Decode, record: Record) -> dict[str, Any] | None:
    """Key and value of a record, decoded; None if the record has no known type."""
    if record.key is None:
        return None
    try:
        return decode(bytes(record.key), None if record.value is None else bytes(record.value))
    except UnreadableRecord as error:
        return {"unreadable": str(error)}


def _of_groups(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    read = record_registry.decode_key(key)
    if read is None:
        return None
    schema = record_registry.type_of(read).value
    return _described(read, None if value is None else schema.decode(value))


def _of_transactions(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    transactional_id = transactions.decode_key(key)
    if transactional_id is None:
        return None
    state = None if value is None else transactions.decode_value(value)
    return {"type": "Transaction", "key": transactional_id, "value": _plain(state)}


def _of_share_state(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    found = share_state.decode_key(key)
    if found is None:
        return None
    read, is_snapshot = found
    schema = share_state.SNAPSHOT if is_snapshot else share_state.UPDATE
    return _described(read, None if value is None else schema.decode(value))


_DECODERS: Final[dict[str, Decode]] = {
    GROUP_METADATA: _of_groups,
    TRANSACTION_STATE: _of_transactions,
    SHARE_GROUP_STATE: _of_share_state,
}


def _described(key: object, value: object) -> dict[str, Any]:
    return {"type": type(key).__name__, "key": _plain(key), "value": _plain(value)}


def _plain(value: Any) -> Any:
    """Named tuples and dataclasses as dictionaries, all the way down."""
    if isinstance(value, enum.Enum):
        return value.name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: _plain(getattr(value, name)) for name in names}
    if hasattr(value, "_asdict"):
        return {name: _plain(each) for name, each in value._asdict().items()}
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, AbstractSet):
        return sorted(map(_plain, value), key=str)
    return value
