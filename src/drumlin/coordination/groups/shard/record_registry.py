"""The types of records in `__consumer_offsets`, each declared by the part that owns it.

    key type 0, 1   committed offsets       offset_records.py
    key type 2      classic groups          classic/records.py
    key type 3-8    consumer groups         consumer/records.py
    key type 16     consumer groups         consumer/records.py
    key type 10-15  share groups            groups/share/records.py

Keys of other types belong to protocols that this broker does not serve. Such keys decode to None,
and the records stay in the log unchanged.
"""

from __future__ import annotations

from typing import Final

from drumlin.coordination.groups.classic import records as classic_records
from drumlin.coordination.groups.consumer import records as consumer_records
from drumlin.coordination.groups.every_kind.group_record import GroupRecord, RecordKey, RecordType
from drumlin.coordination.groups.offsets import offset_records
from drumlin.coordination.groups.share import records as share_records
from drumlin.coordination.internal_records.record_schema import number_of

_ALL: Final[tuple[RecordType, ...]] = (
    *offset_records.RECORD_TYPES,
    *classic_records.RECORD_TYPES,
    *consumer_records.RECORD_TYPES,
    *share_records.RECORD_TYPES,
)
_BY_KEY_TYPE: Final = {each.key.key_type: each for each in _ALL}
_BY_KEY_CLASS: Final[dict[type, RecordType]] = {each.key_class: each for each in _ALL}


def type_of(key: RecordKey) -> RecordType:
    return _BY_KEY_CLASS[type(key)]


def decode_key(data: bytes) -> RecordKey | None:
    """The key, or None if this broker does not serve its type.

    Raises:
        UnreadableRecord: the bytes are not a key.
    """
    record_type = _BY_KEY_TYPE.get(number_of(data))
    if record_type is None:
        return None
    key: RecordKey = record_type.key.decode(data)
    return key


def encode_key(key: RecordKey) -> bytes:
    return type_of(key).key.encode(key)


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    key, value = record
    record_type = type_of(key)
    return record_type.key.encode(key), None if value is None else record_type.value.encode(value)
