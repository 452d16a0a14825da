"""Keys and values that may begin with a schema id: collected while records are shown, then decoded.

What is collected has a limit; who decodes is handed in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeAlias

from drumlin.client.errors import ClientError
from drumlin.console.answers.asking import Answer
from drumlin.records.plain.record import Record

_HEADER_SIZE: Final = 5
_FIELD_BYTES_MAX: Final = 1 << 20
_ALL_BYTES_MAX: Final = 8 << 20
_TOO_LARGE: Final = "too large to be decoded here"

#: For each field its `text` and `schema_id`, or the `error`; texts have at most so many characters.
Decode: TypeAlias = Callable[[Sequence[bytes], int], Awaitable[list[Answer]]]


class BySchema:
    """The fields of one answer. Without a decoder nothing is collected."""

    def __init__(self, decode: Decode | None) -> None:
        self._decode = decode
        self._fields: list[tuple[Answer, str, bytes]] = []
        self._size = 0

    def take(self, row: Answer, record: Record) -> Answer:
        """Collect the fields of a shown record; returns its row."""
        if self._decode is None:
            return row
        for name, field in (("key", record.key), ("value", record.value)):
            if field is None or not is_framed(field):
                continue
            if len(field) > _FIELD_BYTES_MAX or self._size + len(field) > _ALL_BYTES_MAX:
                row[by_schema(name)] = {"error": _TOO_LARGE}
            else:
                self._fields.append((row, name, field))
                self._size += len(field)
        return row

    async def show(self, cut_bytes: int) -> None:
        """Put what was decoded, or why it was not, beside the fields in their rows."""
        if self._decode is None or not self._fields:
            return
        found: Sequence[Answer]
        try:
            found = await self._decode([field for _, _, field in self._fields], cut_bytes)
        except (ValueError, ClientError) as error:
            found = [{"error": str(error)}] * len(self._fields)
        for (row, name, _), shown in zip(self._fields, found, strict=True):
            row[by_schema(name)] = shown


def is_framed(field: bytes) -> bool:
    """Whether a field begins as those with a schema id do: with a zero byte."""
    return len(field) >= _HEADER_SIZE and field[0] == 0


def by_schema(name: str) -> str:
    """The name, in a row, of a field as its schema shows it."""
    return f"{name}_by_schema"
