"""The Python source of compiled record schemas: what an encoder's lines are made of.

It knows of expressions and their forms for `struct`, and nothing of schemas.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

from drumlin.coordination.internal_records.record_fields import compact_string, legacy_string
from drumlin.wire.uvarint import uvarint

#: Structs that are packed together. `struct` caches a format for each number of them.
_STRUCTS_AT_ONCE: Final = 64


def _pack_structs(forms: str, items: Sequence[tuple[Any, ...]]) -> bytes:
    """There may be thousands: packed one by one, field by field, they take ten times as long."""
    return b"".join(
        struct.pack(">" + forms * len(some), *chain.from_iterable(some))
        for first in range(0, len(items), _STRUCTS_AT_ONCE)
        if (some := items[first : first + _STRUCTS_AT_ONCE])
    )


class EncoderCode:
    """The body of an encoder. It appends to `parts`; a run of fixed-size fields is one part."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self._names = 0
        self._indent = 1
        self._run: list[tuple[str, str]] = []
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "compact_string": compact_string,
            "legacy_string": legacy_string,
            "pack": struct.pack,
            "pack_structs": _pack_structs,
            "uvarint": uvarint,
        }

    def new_name(self) -> str:
        self._names += 1
        return f"v{self._names}"

    def line(self, text: str) -> None:
        self._flush()
        self.lines.append("    " * self._indent + text)

    def fixed(self, form: str, value: str) -> None:
        self._run.append((form, value))

    def part(self, expression: str) -> None:
        self.line(f"add({expression})")

    def length(self, value: str) -> None:
        """The length of an array or bytes."""
        if self.flexible:
            self.part(f"uvarint(len({value}) + 1)")
        else:
            self.fixed("i", f"len({value})")

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """What is emitted meanwhile is indented below `head`."""
        self.line(head)
        self._indent += 1
        yield
        self._flush()
        self._indent -= 1

    def constant(self, value: Any) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def _flush(self) -> None:
        if not self._run:
            return
        forms = struct.Struct(">" + "".join(form for form, _ in self._run))
        values = [value for _, value in self._run]
        self._run = []
        if all(value.lstrip("-").isdigit() for value in values):
            self.part(repr(forms.pack(*map(int, values))))
        else:
            self.part(f"{self.constant(forms.pack)}({', '.join(values)})")
