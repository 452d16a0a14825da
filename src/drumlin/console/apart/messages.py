"""Messages between the console and its other process: a JSON object, and bytes."""

from __future__ import annotations

import json
import struct
from typing import Any, Final, NamedTuple

#: The sizes of the object and of the bytes.
HEAD: Final = struct.Struct(">II")


class Message(NamedTuple):
    """A question or an answer."""

    fields: dict[str, Any]
    data: bytes | memoryview = b""

    def parts(self) -> tuple[bytes, bytes | memoryview]:
        """The bytes to send."""
        fields = json.dumps(self.fields).encode()
        return HEAD.pack(len(fields), len(self.data)) + fields, self.data

    @classmethod
    def of(cls, fields: bytes, data: bytes) -> Message:
        """A message from its parts."""
        return cls(json.loads(fields), data)
