"""The other process itself: answers questions on its standard input, within limits of its own.

    python -m drumlin.console.apart.worker

The first message has the registry. It ends when its input does, when an answer takes too long, even
if the console is gone, and when nobody asks for some minutes.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import resource
import select
import signal
from base64 import b64encode
from typing import Any, Final

from drumlin.client.values.errors import DecoderUnavailable, RegistryError, UnknownSchema
from drumlin.client.values.registry import SchemaRegistry
from drumlin.console.apart.messages import HEAD, Message
from drumlin.records.batch.corrupt_record import CorruptRecord

_ANSWER_S: Final = 20.0
_IDLE_S: Final = 300.0
_MEMORY_BYTES: Final = 2 << 30
_INPUT: Final = 0
_TOO_MUCH: Final = "looking into these records takes too much memory"


class Worker:
    """Answers one question after the other."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry
        self._fields: Any = None  # made when it is needed: it loads Arrow

    def answer(self, question: dict[str, Any], data: bytes) -> dict[str, Any]:
        """The answer to a question, or the error as `error` and its `kind`."""
        try:
            return self._answer(question, data)
        except MemoryError:
            return {"error": _TOO_MUCH, "kind": "memory"}
        except (DecoderUnavailable, UnknownSchema) as error:
            return {"error": str(error), "kind": "value"}
        except RegistryError as error:
            return {"error": str(error), "kind": "registry"}
        except (CorruptRecord, ValueError, RecursionError) as error:
            return {"error": str(error) or type(error).__name__, "kind": "value"}

    def _answer(self, question: dict[str, Any], data: bytes) -> dict[str, Any]:
        if question["ask"] == "filter":
            from drumlin.console.apart.matching import matching

            return matching(question, data, None if self._registry is None else self.fields)
        assert self._registry is not None
        if question["ask"] == "encode":
            from drumlin.client.values.json_encoding import encoder_of
            from drumlin.client.values.registry import latest_schema

            schema = latest_schema(self._registry, question["subject"])
            return {"base64": b64encode(encoder_of(schema)(data)).decode()}
        parts, start = [], 0
        for size in question["sizes"]:
            parts.append(data[start : start + size])
            start += size
        return {"fields": self.fields().shown(parts, question["cut_bytes"])}

    def get_ready(self) -> None:
        """Load what loads slowly, which is no part of the time of an answer."""
        with contextlib.suppress(ImportError):  # without Arrow there are filters all the same
            from drumlin.console.apart import matching  # noqa: F401

            if self._registry is not None:
                self.fields()

    def fields(self) -> Any:
        """The decoder of fields."""
        if self._fields is None:
            from drumlin.console.apart.registered_fields import RegisteredFields

            assert self._registry is not None
            self._fields = RegisteredFields(self._registry)
        return self._fields


def main() -> None:
    """Answer until there is nothing left to answer."""
    output = os.dup(1)
    os.dup2(2, 1)  # what a library prints is no answer
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    beginning = _received()
    if beginning is None:
        return
    # From the console, by a pipe that nobody else has.
    worker = Worker(pickle.loads(beginning.data))  # noqa: S301
    worker.get_ready()
    _send(output, {})
    while (message := _received()) is not None:
        signal.setitimer(signal.ITIMER_REAL, _ANSWER_S)  # at its end the process is killed
        answer = worker.answer(message.fields, bytes(message.data))
        _send(output, answer)
        signal.setitimer(signal.ITIMER_REAL, 0)
        if answer.get("kind") == "memory":
            return


def _received() -> Message | None:
    """The next message; None if there will be none, or if nobody asks for long."""
    waiting = select.poll()
    waiting.register(_INPUT, select.POLLIN)
    if not waiting.poll(1000 * _IDLE_S):
        return None
    head = _read(HEAD.size)
    if head is None:
        return None
    size, data_size = HEAD.unpack(head)
    fields, data = _read(size), _read(data_size)
    return None if fields is None or data is None else Message.of(fields, data)


def _read(size: int) -> bytes | None:
    found = bytearray()
    while len(found) < size:
        part = os.read(_INPUT, min(size - len(found), 1 << 20))
        if not part:
            return None
        found += part
    return bytes(found)


def _send(output: int, fields: dict[str, Any]) -> None:
    for part in Message(fields).parts():
        rest = memoryview(part)
        while rest:
            rest = rest[os.write(output, rest) :]


if __name__ == "__main__":
    main()
