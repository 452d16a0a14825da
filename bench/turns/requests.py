"""Requests with one very long array, for each array that the schemas know of an API.

Nothing here knows any API: arrays are found by walking the classes of its versions.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.turns.values import Kind, World
from drumlin.broker.apis.served import SERVED
from drumlin.wire.messages import API_KEYS, encode_request, request_shape
from rig.messages import array_item, fields_of, is_array, is_optional, without_none

#: Names of fields, from the request down to the array.
Path = tuple[str, ...]


class Case(NamedTuple):
    """A request to be sent: which of its arrays is long (none: `path` is empty), and what it names.

    Where its version has a session, it is sent again in its next epochs.
    """

    api: str
    version: int
    path: Path
    kind: Kind
    elements: int

    def __str__(self) -> str:
        array = ".".join(self.path) or "(no array)"
        return f"{self.api} v{self.version} {array}, {self.elements:,} {self.kind.value}"

    def frame(self, world: World) -> bytes:
        """The whole request, its length prefix included."""
        entity = request_class(self.api, self.version)
        message = _Builder(self, world).message(entity, self.path, self.kind, 0)
        parts = encode_request(self.api, self.version, 1, "bench", message)
        return b"".join(bytes(part) for part in parts)

    @property
    def has_session(self) -> bool:
        return any(each in _EPOCHS for each in names_of(request_class(self.api, self.version)))

    @property
    def needs_share_session(self) -> bool:
        """Whether it needs a share session, which another API begins."""
        names = names_of(request_class(self.api, self.version))
        return "share_session_epoch" in names and "max_wait" not in names

    @property
    def needs_producer(self) -> bool:
        return self.kind is Kind.TRANSACTIONAL or _mentions(
            request_class(self.api, self.version), "producer_epoch"
        )


_ALSO_SHORTER = (Kind.EXISTING, Kind.UNKNOWN, Kind.TRANSACTIONAL)
_EPOCHS = ("session_epoch", "share_session_epoch", "member_epoch")


def cases(count: int, wanted: tuple[str, ...]) -> Iterator[Case]:
    """The cases of each API, or of those wanted, in its lowest and highest version."""
    for api, versions in sorted(SERVED.items(), key=lambda item: API_KEYS[item[0]]):
        for version in sorted(set(versions)) if not wanted or api in wanted else ():
            entity = request_class(api, version)
            for path, hint in _arrays(entity):
                for kind in Kind:
                    if kind is Kind.TRANSACTIONAL and not _takes_transactions(entity, path):
                        continue
                    if kind is Kind.NULL and not is_optional(hint):
                        continue
                    yield Case(api, version, path, kind, count)
                    if kind in _ALSO_SHORTER and count >= 10:
                        # What is refused for its length may be taken when it is shorter.
                        yield Case(api, version, path, kind, count // 10)
            if not any(True for _ in _arrays(entity)):
                yield Case(api, version, (), Kind.EXISTING, 1)


def request_class(api: str, version: int) -> Any:
    name = "".join(part.capitalize() for part in api.split("_")) + "Request"
    return getattr(request_shape(api, version)._module, name)


def names_of(entity: Any) -> list[str]:
    return [field.name for field, _ in fields_of(entity)]


def _arrays(entity: Any, above: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Where they are, and their types."""
    for field, hint in fields_of(entity):
        item = array_item(hint)
        if is_array(without_none(hint)):
            path = (*above, field.name)
            yield path, hint
            if dataclasses.is_dataclass(item):
                yield from _arrays(item, path)


def _takes_transactions(entity: Any, path: Path) -> bool:
    """Records that a transaction may hold; where each array is long once, that is enough."""
    return "transactional_id" in names_of(entity) and _mentions(entity, "records") and bool(path)


def _mentions(entity: Any, name_end: str) -> bool:
    for field, hint in fields_of(entity):
        item = array_item(hint)
        if field.name.endswith(name_end):
            return True
        if dataclasses.is_dataclass(item) and _mentions(item, name_end):
            return True
    return False


class _Builder:
    def __init__(self, case: Case, world: World) -> None:
        self._case = case
        self._world = world
        self._shape = request_shape(case.api, case.version)

    def message(self, entity: Any, path: Path, kind: Kind, index: int, depth: int = 0) -> Any:
        """`path` leads from here to the long array; what is empty or null begins there."""
        is_at_last = depth >= len(self._case.path)
        own_kind = kind if is_at_last or kind not in (Kind.EMPTY, Kind.NULL) else Kind.EXISTING
        fields = {}
        for number, (field, hint) in enumerate(fields_of(entity)):
            item, name = array_item(hint), field.name
            type_ = field.metadata.get("kafka_type", "")
            if is_array(without_none(hint)):
                fields[name] = self._array(entity, number, name, path, kind, depth)
            elif is_optional(hint) and not self._is_given(name, type_, entity, kind):
                fields[name] = None
            elif dataclasses.is_dataclass(item):
                fields[name] = self.message(item, (), own_kind, index, depth)
            else:
                fields[name] = self._world.value(entity.__name__, name, type_, own_kind, index)
        return self._shape(entity.__name__, **fields)

    @staticmethod
    def _is_given(name: str, type_: str, entity: Any, kind: Kind) -> bool:
        """Whether a nullable field is given: ids of topics, or names, and the subject."""
        if name == "transactional_id":
            return kind is Kind.TRANSACTIONAL
        if type_ == "uuid":
            return "name" not in names_of(entity) and not name.endswith("directory_id")
        return type_ == "records" or name in ("name", "group_id", "member_id", "value")

    def _array(
        self, entity: Any, number: int, name: str, path: Path, kind: Kind, depth: int
    ) -> Any:
        hint = fields_of(entity)[number][1]
        item = array_item(hint)
        is_long = path == (name,)
        if is_long and kind is Kind.NULL:
            return None
        if path and path[0] != name:
            return self._beside(entity, name, path, kind, depth)
        if not path and depth >= len(self._case.path) and kind is Kind.EMPTY:
            return ()
        if not is_long and depth > 1 and self._world.session_epoch == 0:
            return ()  # a new session has acquired nothing yet that could be acknowledged
        count = self._case.elements if is_long else 1
        if not dataclasses.is_dataclass(item):
            type_ = fields_of(entity)[number][0].metadata.get("kafka_type", "")
            own_kind = kind if is_long or kind is not Kind.EMPTY else Kind.EXISTING
            return tuple(
                self._world.value(entity.__name__, name, type_, own_kind, each)
                for each in range(count)
            )
        if kind in (Kind.REPEATED, Kind.EMPTY) and is_long:
            return (self.message(item, (), kind, 0, depth + 1),) * count
        return tuple(self.message(item, path[1:], kind, each, depth + 1) for each in range(count))

    def _beside(self, entity: Any, name: str, path: Path, kind: Kind, depth: int) -> Any:
        """An array of the request that the long one is not in.

        One that comes before it is as long, if it can be: what is forgotten of a session was named.
        """
        names = names_of(entity)
        if depth or names.index(path[0]) < names.index(name):
            return ()
        item = {field.name: array_item(hint) for field, hint in fields_of(entity)}[name]
        known = names_of(item) if dataclasses.is_dataclass(item) else []
        if len(path) > 1 and path[1] in known:
            return (self.message(item, path[1:], kind, 0, depth + 1),)
        if len(path) == 1 and known:
            return tuple(
                self.message(item, (), kind, each, depth + 1) for each in range(self._case.elements)
            )
        return ()
