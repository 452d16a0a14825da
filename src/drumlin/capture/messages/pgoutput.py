"""The messages of PostgreSQL's output plugin `pgoutput`, protocol version 1.

`decode` parses one payload, and keeps no state between payloads. Column values are text as the
server has sent it; `drumlin.capture.values` converts them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final, Literal, NamedTuple, TypeAlias

from drumlin.capture.messages.frames import EPOCH_US, Malformed

_U16: Final = struct.Struct(">H")
_I32: Final = struct.Struct(">i")
_U32: Final = struct.Struct(">I")
_BEGIN: Final = struct.Struct(">qqI")
_COMMIT: Final = struct.Struct(">Bqqq")
_TRUNCATE: Final = struct.Struct(">IB")

_KEY_FLAG: Final = 1


class Unchanged(Enum):
    """Stands for a large value that the server did not send, as the update did not change it."""

    TOAST = "unchanged"


UNCHANGED: Final = Unchanged.TOAST
Value: TypeAlias = str | Literal[Unchanged.TOAST] | None
Row: TypeAlias = list[Value]
Identity = Literal["d", "n", "f", "i"]


class Begin(NamedTuple):
    """The start of a transaction, committed at `commit_lsn`, at `time_us` since 1970."""

    commit_lsn: int
    time_us: int
    xid: int


class Commit(NamedTuple):
    """The end of a transaction. The next one begins at `end_lsn` or later."""

    commit_lsn: int
    end_lsn: int
    time_us: int


class Origin(NamedTuple):
    """The transaction was replicated from another server."""

    lsn: int
    name: str


class Column(NamedTuple):
    """A column of a relation at the time of the changes."""

    name: str
    type_oid: int
    modifier: int
    is_key: bool


class Relation(NamedTuple):
    """A table's description, sent before its first change and again after it was altered."""

    oid: int
    schema: str
    name: str
    identity: Identity
    columns: tuple[Column, ...]


class Type(NamedTuple):
    """A type that is not built in."""

    oid: int
    schema: str
    name: str


class Insert(NamedTuple):
    """A new row."""

    oid: int
    new: Row


class Update(NamedTuple):
    """A changed row.

    `old` is the old key, with nulls in all other columns, if the key has changed; or the whole old
    row, if the table's replica identity is full; or else None.
    """

    oid: int
    old: Row | None
    new: Row


class Delete(NamedTuple):
    """A deleted row: only its key, or the whole row if the replica identity is full."""

    oid: int
    old: Row


class Truncate(NamedTuple):
    """Tables that one statement has truncated."""

    oids: tuple[int, ...]


Message: TypeAlias = Begin | Commit | Origin | Relation | Type | Insert | Update | Delete | Truncate


def decode(payload: bytes) -> Message:
    """Decode a message.

    Raises:
        Malformed: the bytes are not a message of protocol version 1, or too few or too many.
    """
    reader = _Reader(memoryview(payload))
    kind = reader.kind()
    read = _READERS.get(kind)
    if read is None:
        raise Malformed(f"a message of kind {kind!r}, which protocol version 1 does not have")
    try:
        message = read(reader)
    except (struct.error, IndexError):
        raise Malformed(f"a message of kind {kind!r} is cut short") from None
    except UnicodeDecodeError as error:
        raise Malformed(f"a message of kind {kind!r} has text that is not UTF-8: {error}") from None
    if reader.position != len(reader.data):
        raise Malformed(f"a message of kind {kind!r} is longer than what it holds")
    return message


class _Reader:
    """Reads the fields of a message in order."""

    __slots__ = ("data", "position")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.position = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        fields = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return fields

    def number(self, layout: struct.Struct) -> int:
        (found,) = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return int(found)

    def byte(self) -> int:
        found = self.data[self.position]
        self.position += 1
        return found

    def kind(self) -> bytes:
        if self.position >= len(self.data):
            raise Malformed("a message is cut short")
        self.position += 1
        return bytes(self.data[self.position - 1 : self.position])

    def text(self) -> str:
        """A string that ends with a zero byte."""
        rest = bytes(self.data[self.position :])
        end = rest.find(0)
        if end < 0:
            raise IndexError
        self.position += end + 1
        return rest[:end].decode()

    def row(self) -> Row:
        """TupleData: a value for each column."""
        data, position = self.data, self.position + 2
        (count,) = _U16.unpack_from(data, self.position)
        values: Row = []
        for _ in range(count):
            kind = data[position]
            position += 1
            if kind == 116:  # t: as text
                (size,) = _I32.unpack_from(data, position)
                position += 4
                if size < 0 or position + size > len(data):
                    raise IndexError
                values.append(str(data[position : position + size], "utf-8"))
                position += size
            elif kind == 110:  # n
                values.append(None)
            elif kind == 117:  # u
                values.append(UNCHANGED)
            else:
                raise Malformed(f"a value of kind {chr(kind)!r}, which was not asked for")
        self.position = position
        return values


def _begin(reader: _Reader) -> Begin:
    commit_lsn, time, xid = reader.unpack(_BEGIN)
    return Begin(commit_lsn, time + EPOCH_US, xid)


def _commit(reader: _Reader) -> Commit:
    _, commit_lsn, end_lsn, time = reader.unpack(_COMMIT)
    return Commit(commit_lsn, end_lsn, time + EPOCH_US)


def _origin(reader: _Reader) -> Origin:
    lsn = struct.unpack_from(">q", reader.data, reader.position)[0]
    reader.position += 8
    return Origin(lsn, reader.text())


def _relation(reader: _Reader) -> Relation:
    oid, schema, name = reader.number(_U32), reader.text(), reader.text()
    identity = reader.kind().decode("latin-1")
    if identity not in ("d", "n", "f", "i"):
        raise Malformed(f"table {schema}.{name} has the replica identity {identity!r}")
    columns = []
    for _ in range(reader.number(_U16)):
        flags, column = reader.byte(), reader.text()
        type_oid, modifier = reader.number(_U32), reader.number(_I32)
        columns.append(Column(column, type_oid, modifier, bool(flags & _KEY_FLAG)))
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))  # type: ignore[arg-type]


def _type(reader: _Reader) -> Type:
    return Type(reader.number(_U32), reader.text() or "pg_catalog", reader.text())


def _insert(reader: _Reader) -> Insert:
    oid = reader.number(_U32)
    _expect(reader, b"N")
    return Insert(oid, reader.row())


def _update(reader: _Reader) -> Update:
    oid, kind = reader.number(_U32), reader.kind()
    old = None
    if kind in (b"K", b"O"):
        old = reader.row()
        _expect(reader, b"N")
    elif kind != b"N":
        raise Malformed(f"an update with a row of kind {kind!r}")
    return Update(oid, old, reader.row())


def _delete(reader: _Reader) -> Delete:
    oid, kind = reader.number(_U32), reader.kind()
    if kind not in (b"K", b"O"):
        raise Malformed(f"a delete with a row of kind {kind!r}")
    return Delete(oid, reader.row())


def _truncate(reader: _Reader) -> Truncate:
    count, _ = reader.unpack(_TRUNCATE)  # and CASCADE, RESTART IDENTITY
    if count > (len(reader.data) - reader.position) // _U32.size:
        raise IndexError
    return Truncate(tuple(reader.number(_U32) for _ in range(count)))


def _expect(reader: _Reader, kind: bytes) -> None:
    found = reader.kind()
    if found != kind:
        raise Malformed(f"a row of kind {found!r} in place of {kind!r}")


_READERS: Final[dict[bytes, Callable[[_Reader], Message]]] = {
    b"B": _begin,
    b"C": _commit,
    b"O": _origin,
    b"R": _relation,
    b"Y": _type,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
}
