"""Requests with one very long array, for each array that the schemas know of an API.

Nothing here knows any API: arrays are found by walking the classes of its versions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from bench.turns.values import Kind, World
from drumlin.broker.apis.served import SERVED
from drumlin.wire.messages import API_KEYS, encode_request
from drumlin.wire.schema.declaration import Field
from drumlin.wire.schema.types import Array, Struct, type_name
from rig.data.messages import fields_there, item_of, payload_class

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
        cls = payload_class(self.api, "request")
        message = _Builder(self, world).message(cls, self.path, self.kind, 0)
        parts = encode_request(self.api, self.version, 1, "bench", message)
        return b"".join(bytes(part) for part in parts)

    @property
    def has_session(self) -> bool:
        return any(
            each in _EPOCHS for each in names_of(payload_class(self.api, "request"), self.version)
        )

    @property
    def needs_share_session(self) -> bool:
        """Whether it needs a share session, which another API begins."""
        names = names_of(payload_class(self.api, "request"), self.version)
        return "share_session_epoch" in names and "max_wait" not in names

    @property
    def needs_producer(self) -> bool:
        return self.kind is Kind.TRANSACTIONAL or _mentions(
            payload_class(self.api, "request"), self.version, "producer_epoch"
        )


_ALSO_SHORTER = (Kind.EXISTING, Kind.UNKNOWN, Kind.TRANSACTIONAL)
_EPOCHS = ("session_epoch", "share_session_epoch", "member_epoch")


def cases(count: int, wanted: tuple[str, ...]) -> Iterator[Case]:
    """The cases of each API, or of those wanted, in its lowest and highest version."""
    for api, versions in sorted(SERVED.items(), key=lambda item: API_KEYS[item[0]]):
        for version in sorted(set(versions)) if not wanted or api in wanted else ():
            cls = payload_class(api, "request")
            for path, field in _arrays(cls, version):
                for kind in Kind:
                    if kind is Kind.TRANSACTIONAL and not _takes_transactions(cls, version, path):
                        continue
                    if kind is Kind.NULL and not field.is_nullable:
                        continue
                    yield Case(api, version, path, kind, count)
                    if kind in _ALSO_SHORTER and count >= 10:
                        # What is refused for its length may be taken when it is shorter.
                        yield Case(api, version, path, kind, count // 10)
            if not any(True for _ in _arrays(cls, version)):
                yield Case(api, version, (), Kind.EXISTING, 1)


def names_of(cls: Any, version: int) -> list[str]:
    return [field.name for field in fields_there(cls, version)]


def _arrays(cls: Any, version: int, above: Path = ()) -> Iterator[tuple[Path, Field]]:
    """Where they are, and what is declared of them."""
    for field in fields_there(cls, version):
        if isinstance(field.type, Array):
            path = (*above, field.name)
            yield path, field
            if isinstance(field.type.of, Struct):
                yield from _arrays(field.type.of.of, version, path)


def _takes_transactions(cls: Any, version: int, path: Path) -> bool:
    """Records that a transaction may hold; where each array is long once, that is enough."""
    names = names_of(cls, version)
    return "transactional_id" in names and _mentions(cls, version, "records") and bool(path)


def _mentions(cls: Any, version: int, name_end: str) -> bool:
    for field in fields_there(cls, version):
        item = item_of(field.type)
        if field.name.endswith(name_end):
            return True
        if isinstance(item, Struct) and _mentions(item.of, version, name_end):
            return True
    return False


def _may_be_none(field: Field) -> bool:
    return field.is_nullable or type_name(field.type) == "uuid"


class _Builder:
    def __init__(self, case: Case, world: World) -> None:
        self._case = case
        self._world = world

    def message(self, cls: Any, path: Path, kind: Kind, index: int, depth: int = 0) -> Any:
        """`path` leads from here to the long array; what is empty or null begins there."""
        is_at_last = depth >= len(self._case.path)
        own_kind = kind if is_at_last or kind not in (Kind.EMPTY, Kind.NULL) else Kind.EXISTING
        fields = {}
        for field in fields_there(cls, self._case.version):
            item, name = item_of(field.type), field.name
            type_ = type_name(item)
            if isinstance(field.type, Array):
                fields[name] = self._array(cls, field, path, kind, depth)
            elif _may_be_none(field) and not self._is_given(name, type_, cls, kind):
                fields[name] = None
            elif isinstance(item, Struct):
                fields[name] = self.message(item.of, (), own_kind, index, depth)
            else:
                fields[name] = self._world.value(cls.__name__, name, type_, own_kind, index)
        return cls(**fields)

    def _is_given(self, name: str, type_: str, cls: Any, kind: Kind) -> bool:
        """Whether a nullable field is given: ids of topics, or names, and the subject."""
        if name == "transactional_id":
            return kind is Kind.TRANSACTIONAL
        if type_ == "uuid":
            names = names_of(cls, self._case.version)
            return "name" not in names and not name.endswith("directory_id")
        return type_ == "records" or name in ("name", "group_id", "member_id", "value")

    def _array(self, cls: Any, field: Field, path: Path, kind: Kind, depth: int) -> Any:
        item, name = item_of(field.type), field.name
        is_long = path == (name,)
        if is_long and kind is Kind.NULL:
            return None
        if path and path[0] != name:
            return self._beside(cls, field, path, kind, depth)
        if not path and depth >= len(self._case.path) and kind is Kind.EMPTY:
            return ()
        if not is_long and depth > 1 and self._world.session_epoch == 0:
            return ()  # a new session has acquired nothing yet that could be acknowledged
        count = self._case.elements if is_long else 1
        if not isinstance(item, Struct):
            own_kind = kind if is_long or kind is not Kind.EMPTY else Kind.EXISTING
            return tuple(
                self._world.value(cls.__name__, name, type_name(item), own_kind, each)
                for each in range(count)
            )
        if kind in (Kind.REPEATED, Kind.EMPTY) and is_long:
            return (self.message(item.of, (), kind, 0, depth + 1),) * count
        return tuple(
            self.message(item.of, path[1:], kind, each, depth + 1) for each in range(count)
        )

    def _beside(self, cls: Any, field: Field, path: Path, kind: Kind, depth: int) -> Any:
        """An array of the request that the long one is not in.

        One that comes before it is as long, if it can be: what is forgotten of a session was named.
        """
        names = names_of(cls, self._case.version)
        if depth or names.index(path[0]) < names.index(field.name):
            return ()
        item = item_of(field.type)
        if not isinstance(item, Struct):
            return ()
        if len(path) > 1 and path[1] in names_of(item.of, self._case.version):
            return (self.message(item.of, path[1:], kind, 0, depth + 1),)
        if len(path) == 1:
            return tuple(
                self.message(item.of, (), kind, each, depth + 1)
                for each in range(self._case.elements)
            )
        return ()
