"""The options of a table, and their checks. `Client.table` says what each means."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from drumlin.client import arguments
from drumlin.client.arguments import Decode
from drumlin.client.errors import Undecodable

#: What makes an object of the bytes of a value, or a way by its name.
DecodeValue: TypeAlias = Decode | Callable[[bytes], Any]
#: Where rows go that do not fit into memory.
BeyondMemory: TypeAlias = Literal["disk", "raise"]
#: What is done where the log no longer tells what came after what was read.
WhenLost: TypeAlias = Literal["reload", "raise"]
_DECODERS: Final[dict[str, Callable[[bytes], Any]]] = {"utf8": bytes.decode, "json": json.loads}


class Change(NamedTuple):
    """A key that got another value. `old` and `new` are None where there is none.

    `offset` is that of the record; -1 if the table was loaded again meanwhile.
    """

    key: Any
    old: Any
    new: Any
    partition: int
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """
    Raises:
        TypeError, ValueError: an option cannot have this value.
    """

    partitions: Sequence[int] | None
    decode: DecodeValue | None
    on_change: Callable[[Change], object] | None
    memory_bytes: int
    beyond_memory: BeyondMemory
    folder: str | None
    when_lost: WhenLost

    def __post_init__(self) -> None:
        if not callable(self.decode):
            arguments.decoding(self.decode)
        arguments.callable_or_none("on_change", self.on_change)
        arguments.whole_number("memory_bytes", self.memory_bytes, 1, 2**63 - 1)
        arguments.one_of("beyond_memory", self.beyond_memory, ("disk", "raise"))
        arguments.one_of("when_lost", self.when_lost, ("reload", "raise"))


class Decoder:
    """Keys and values as the user has them."""

    def __init__(self, topic: str, decode: DecodeValue | None) -> None:
        self._topic = topic
        self._decode = _DECODERS[decode] if isinstance(decode, str) else decode
        self._has_text_keys = isinstance(decode, str)

    def key(self, key: bytes) -> Any:
        """
        Raises:
            Undecodable: it is not UTF-8, and is to be.
        """
        if not self._has_text_keys:
            return key
        try:
            return key.decode()
        except ValueError as error:
            raise Undecodable(f"topic {self._topic!r}: the key {key[:100]!r}: {error}") from error

    def value(self, key: bytes, value: bytes | None) -> Any:
        """
        Raises:
            Undecodable: it is not what `decode` says.
        """
        if value is None or self._decode is None:
            return value
        try:
            return self._decode(value)
        except ValueError as error:
            where = f"topic {self._topic!r}: the value of the key {key[:100]!r}"
            raise Undecodable(f"{where}: {error}") from error
