"""Requests about client quotas: checks by Kafka's rules, and the filters of descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from drumlin.addresses import is_address
from drumlin.broker.quotas.entities import CONNECTION_RATE, IP, TYPES, Entity
from drumlin.turns import give_way
from drumlin.wire.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from drumlin.wire.protocol.alter_client_quotas import OpData
    from drumlin.wire.protocol.describe_client_quotas import ComponentData

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
#: The largest value of each key; None if there is none, and the value may be a fraction.
_OF_CLIENTS: Final[Mapping[str, int | None]] = {
    "consumer_byte_rate": 2**63 - 1,
    "producer_byte_rate": 2**63 - 1,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_OF_ADDRESSES: Final[Mapping[str, int | None]] = {CONNECTION_RATE: 2**31 - 1}


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)


class Filter(NamedTuple):
    """The entities that a request wants described: the name of each type, or any name."""

    names: Mapping[str, str | None]
    any_of: frozenset[str]
    #: Whether to leave out entities that have other types as well.
    is_strict: bool

    def matches(self, entity: Entity) -> bool:
        types = self.names.keys() | self.any_of
        if self.is_strict and (not types or len(entity) > len(types)):
            return False
        return types <= entity.keys() and all(
            entity[entity_type] == name for entity_type, name in self.names.items()
        )


async def checked_filter(components: tuple[ComponentData, ...], *, is_strict: bool) -> Filter:
    """
    Raises:
        KafkaError: the filter is not valid.
    """
    names: dict[str, str | None] = {}
    any_of = set()
    seen: set[str] = set()
    for each in components:
        if not each.entity_type:
            raise _invalid("an entity must have a type")
        if each.entity_type in seen:
            raise _invalid(f"entity type {each.entity_type!r} is named more than once")
        if each.entity_type not in TYPES:
            message = f"there is no entity type {each.entity_type!r}"
            raise KafkaError(ErrorCode.unsupported_version, message)
        if each.match_type not in (_EXACT, _DEFAULT, _SPECIFIED):
            raise _invalid(f"there is no match type {each.match_type}")
        if (each.match_type == _EXACT) != (each.match is not None):
            raise _invalid("a name is for an exact match, and for no other")
        if each.match_type == _SPECIFIED:
            any_of.add(each.entity_type)
        else:
            names[each.entity_type] = each.match
        seen.add(each.entity_type)
        await give_way()
    if IP in seen and len(seen) > 1:
        raise _invalid("quotas are for an IP, or for users and client ids")
    return Filter(names, frozenset(any_of), is_strict)


async def checked_changes(entity: Entity, ops: tuple[OpData, ...]) -> dict[str, str | None]:
    """The changes of one entity's quotas, as they are stored; None removes a quota.

    Raises:
        KafkaError: INVALID_REQUEST.
    """
    changes: dict[str, str | None] = {}
    keys = _keys_of(entity)
    seen: set[str] = set()
    for op in ops:
        if op.key in seen:
            raise _invalid(f"key {op.key!r} is named more than once")
        if not op.remove:
            _check_value(keys, op.key, op.value)
            _check_address(entity.get(IP))
        seen.add(op.key)
        if op.key in keys:
            changes[op.key] = None if op.remove else _text(keys[op.key], op.value)
        await give_way()
    return changes


def _keys_of(entity: Entity) -> Mapping[str, int | None]:
    """The keys that a quota of this entity may have."""
    if not entity:
        raise _invalid("a quota is for some entity")
    for entity_type, name in entity.items():
        if entity_type not in TYPES:
            raise _invalid(f"there is no entity type {entity_type!r}")
        if name == "":
            raise _invalid(f"an entity of type {entity_type!r} must have a name")
    if IP not in entity:
        return _OF_CLIENTS
    if len(entity) > 1:
        raise _invalid("quotas are for an IP, or for users and client ids")
    address = entity[IP]
    if address is not None and not _may_be_address(address):
        raise _invalid(f"{address!r} is no IP address, nor a host")
    return _OF_ADDRESSES


def _check_address(address: str | None) -> None:
    if address is not None and not is_address(address):
        raise _invalid(f"{address!r} is no IP address; names of hosts are not looked up here")


def _may_be_address(text: str) -> bool:
    """Whether this may be an IP address; host names are not resolved, as that could take long."""
    return is_address(text) or (not text.isspace() and " " not in text)


def _text(largest: int | None, value: float) -> str:
    """A value as text, in the form that Kafka keeps in ZooKeeper."""
    return repr(value) if largest is None else str(int(value))


def _check_value(keys: Mapping[str, int | None], key: str, value: float) -> None:
    if key not in keys:
        raise _invalid(f"there is no key {key!r} for such an entity")
    if not value > 0:
        raise _invalid(f"{key} must be above 0, not {value:g}")
    largest = keys[key]
    if largest is None:
        return
    if value > largest:
        raise _invalid(f"{key} must be {largest} at most, not {value:g}")
    if value != int(value):
        raise _invalid(f"{key} must be a whole number, not {value:g}")
