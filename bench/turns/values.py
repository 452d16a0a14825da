"""What stands in a request's fields: chosen by their names and types, whatever the API.

A request is to be taken seriously where it can be, so what it names is there (or is not, if that
is asked for), and its other fields have values that ordinary clients send.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, Final, TypeVar

from drumlin.records.plain.record import Record, encode_batch

_Value = TypeVar("_Value")
_EXISTING_CONFIG: Final = "retention.ms"
#: What a text is about, by a part of its field's name or of its structure's: the first that fits.
_SUBJECTS: Final = (
    "config",
    "protocol",
    "transactional",
    "group",
    "coordinator_key",
    "member",
    "state",
    "type",
    "topic",
)
_BY_ITSELF: Final = "topic"  # what else has a name
_PARTITIONS: Final = ("partition", "partition_index", "partitions", "partition_indexes", "index")
_PLACES: Final = ("first_offset", "last_offset")
_INTEGERS: Final[Mapping[str, int]] = {
    "acks": 1,
    "max_bytes": 50 << 20,
    "partition_max_bytes": 1 << 20,
    "min_bytes": 0,
    "max_records": 500,
    "batch_size": 500,
    "timestamp": -1,
    "replica_id": -1,
    "replica_epoch": -1,
    "current_leader_epoch": -1,
    "last_fetched_epoch": -1,
    "committed_leader_epoch": -1,
    "log_start_offset": -1,
    "num_partitions": -1,
    "replication_factor": -1,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "resource_type": 2,
    "endpoint_type": 1,
    "response_partition_limit": 2000,
    "duration_filter": -1,
    "acknowledge_types": 1,
    "delivery_count": 1,
    "count": 2,
    "broker_ids": 1,
}
_MILLISECONDS: Final[Mapping[str, int]] = {"max_wait": 100, "retention_time": -1}
_USUAL_MS: Final = 30_000


class Kind(Enum):
    """What the elements of an array name."""

    EXISTING = "existing"
    UNKNOWN = "unknown"
    REPEATED = "repeated"
    EMPTY = "empty"
    TRANSACTIONAL = "in a transaction"
    NULL = "null"


@dataclasses.dataclass
class World:
    """What the broker holds, and the client. `names`: by subject; the first one is large."""

    names: Mapping[str, Sequence[str]]
    topic_ids: Sequence[uuid.UUID]
    partitions: int  # of the first topic; the others have one
    producer_id: int = -1
    producer_epoch: int = -1
    session_id: int = 0
    session_epoch: int = 0
    member_id: str = ""  # another one for each case
    is_to_create: bool = False  # what is unknown is so from its first one on

    def value(self, entity: str, field: str, type_: str, kind: Kind, index: int) -> Any:
        """What the field of a structure is to say, in the element of that index."""
        if kind is Kind.EMPTY:
            return _EMPTY.get(type_, 0)
        if type_ == "string":
            return self._text(entity, field, kind, index)
        if type_ == "uuid":
            is_unknown = kind is Kind.UNKNOWN and index
            return uuid.UUID(int=index) if is_unknown else self._one_of(self.topic_ids, kind, index)
        if type_.startswith("timedelta"):
            return datetime.timedelta(milliseconds=_MILLISECONDS.get(field, _USUAL_MS))
        if type_ == "bool":
            return field.startswith(("include", "require", "transaction_result", "committed"))
        if type_ in ("bytes", "records"):
            return self._batch(kind) if type_ == "records" else bytes(8)
        return self._integer(field, kind, index)

    def _text(self, entity: str, field: str, kind: Kind, index: int) -> str:
        if field == "value":
            return "60000"
        if field == "member_id" and "group" not in entity.lower():
            return self.member_id
        is_resource = field == "resource_name"  # of the type that topics are
        subject = _subject(field) or (not is_resource and _subject(entity.lower())) or _BY_ITSELF
        if subject == "group" and "share" in entity.lower():
            subject = "share_group"
        if kind is Kind.UNKNOWN and (index or self.is_to_create):
            return f"no-{subject}-{self.member_id[:8]}-{index}"
        return self._one_of(self.names[subject], kind, index)

    @staticmethod
    def _one_of(some: Sequence[_Value], kind: Kind, index: int) -> _Value:
        return some[0 if kind is Kind.REPEATED else index % len(some)]

    def _integer(self, field: str, kind: Kind, index: int) -> int:
        if field.endswith("producer_id"):
            return self.producer_id
        if field.endswith("producer_epoch"):
            return self.producer_epoch
        if field in ("session_id", "session_epoch", "share_session_epoch", "member_epoch"):
            return self.session_id if field == "session_id" else self.session_epoch
        if field in _PARTITIONS or field in _PLACES:
            if kind is Kind.REPEATED:
                return 0
            is_there = kind is not Kind.UNKNOWN or not index or field in _PLACES
            return index % self.partitions if is_there else self.partitions + index
        return _INTEGERS.get(field, 0)

    def _batch(self, kind: Kind) -> bytes:
        records = [Record(0, 1_700_000_000_000, None, b"value")]
        if kind is not Kind.TRANSACTIONAL:
            return bytes(encode_batch(records))
        return bytes(
            encode_batch(
                records,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                base_sequence=0,
                is_transactional=True,
            )
        )


_EMPTY: Final[Mapping[str, Any]] = {
    "string": "",
    "bytes": b"",
    "records": None,
    "uuid": None,
    "bool": False,
    "timedelta_i32": datetime.timedelta(0),
    "timedelta_i64": datetime.timedelta(0),
}


def names(
    topics: Sequence[str],
    groups: Sequence[str],
    share_groups: Sequence[str],
    transactional_id: str,
) -> dict[str, Any]:
    """The names in a world, by subject."""
    return {
        "config": [_EXISTING_CONFIG, "segment.bytes", "cleanup.policy"],
        "protocol": ["range"],
        "transactional": [transactional_id],
        "group": groups,
        "share_group": share_groups,
        "coordinator_key": groups,
        "member": [str(uuid.UUID(int=each)) for each in range(1, 1000)],
        "state": ["Empty", "Stable"],
        "type": ["classic", "share"],
        "topic": topics,
    }


def _subject(name: str) -> str | None:
    return next((each for each in _SUBJECTS if each in name), None)
