"""The limits of one kind, and the one among them that applies to a client. Pure."""

from __future__ import annotations

import enum
from hashlib import blake2b
from typing import Final, NamedTuple, TypeAlias

from drumlin.broker.quotas.entities import CLIENT_ID, USER, Entity


class Other(enum.Enum):
    """The part of an owner that is not a name."""

    #: The default, for each name that has no limit of its own.
    DEFAULT = enum.auto()
    #: The owner has no name of this type: all names share the limit.
    NONE = enum.auto()


#: A user and a client id.
Owner: TypeAlias = tuple[str | Other, str | Other]
_DEFAULT: Final = Other.DEFAULT
_NONE: Final = Other.NONE


def shortened(owner: Owner) -> Owner:
    """An owner by names that are not long."""
    return _short(owner[0]), _short(owner[1])


def _short(name: str | Other) -> str | Other:
    if isinstance(name, Other) or len(name) <= _NAME_MAX:
        return name
    return "\0" + blake2b(name.encode(errors="surrogatepass"), digest_size=32).hexdigest()


class Limit(NamedTuple):
    """A limit, and those who share it: a user, all who use a client id, or a user's client."""

    bound: float
    shared_by: Owner


_UNKNOWN: Final = Limit(0.0, ("", ""))
#: Clients whose limits are cached.
_FOUND_MAX: Final = 10_000
#: Longer names are not cached, and those of owners are replaced by their hash.
_NAME_MAX: Final = 256


class ClientLimits:
    """The limits of one kind, by their owners."""

    def __init__(self) -> None:
        self._bounds: dict[Owner, float] = {}
        self._found: dict[tuple[str, str], Limit | None] = {}  # a cache

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def put(self, entity: Entity, bound: float | None) -> None:
        """Set the limit of an entity; None removes it."""
        self._found.clear()
        owner = _part(entity, USER), _part(entity, CLIENT_ID)
        if bound is None:
            self._bounds.pop(owner, None)
        else:
            self._bounds[owner] = bound

    def find(self, user: str, client_id: str) -> Limit | None:
        """The limit of a client: the first that exists in Kafka's order."""
        if not self._bounds:
            return None
        client = (user, client_id)
        found = self._found.get(client, _UNKNOWN)
        if found is _UNKNOWN:
            found = self._first(user, client_id)
            if len(client_id) <= _NAME_MAX:
                if len(self._found) >= _FOUND_MAX:
                    self._found.clear()
                self._found[client] = found
        return found

    def _first(self, user: str, client_id: str) -> Limit | None:
        bounds = self._bounds
        both, of_user, of_client = (user, client_id), (user, _NONE), (_NONE, client_id)
        order: tuple[tuple[Owner, Owner], ...] = (
            (both, both),
            ((user, _DEFAULT), both),
            (of_user, of_user),
            ((_DEFAULT, client_id), both),
            ((_DEFAULT, _DEFAULT), both),
            ((_DEFAULT, _NONE), of_user),
            (of_client, of_client),
            ((_NONE, _DEFAULT), of_client),
        )
        for owner, shared_by in order:
            bound = bounds.get(owner)
            if bound is not None:
                return Limit(bound, shared_by)
        return None


def _part(entity: Entity, entity_type: str) -> str | Other:
    if entity_type not in entity:
        return _NONE
    name = entity[entity_type]
    return _DEFAULT if name is None else name
