"""Who looks into records for the console: a few processes, so that nobody waits for one question.

A record that takes its process long is looked into by that one only. Processes are started when
all others are at work, and end by themselves when nobody asks.
"""

from __future__ import annotations

import asyncio
import contextlib
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final

from drumlin.client.values.registry import SchemaRegistry
from drumlin.console.answers.asking import Answer
from drumlin.console.apart.process import Process

#: Each may take much memory.
_PROCESSES_MAX: Final = 4


class Apart:
    """The processes that look into records; with a registry, by its schemas."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry
        self._free = asyncio.Semaphore(_PROCESSES_MAX)
        self._all: list[Process] = []
        self._idle: list[Process] = []  # the one that has worked last comes last, and is taken

    @property
    def has_registry(self) -> bool:
        return self._registry is not None

    async def decode(self, fields: Sequence[bytes], cut_bytes: int) -> list[Answer]:
        """For each field that begins with a schema id its `text` as JSON, or the `error`."""
        sizes = [len(each) for each in fields]
        question = {"ask": "decode", "sizes": sizes, "cut_bytes": cut_bytes}
        found: list[Answer] = (await self._ask(question, b"".join(fields)))["fields"]
        return found

    async def encode(self, subject: str, data: bytes) -> bytes:
        """JSON as a value of the latest schema of a subject.

        Raises:
            ValueError: it does not fit the schema, or there is none.
        """
        answer = await self._ask({"ask": "encode", "subject": subject}, data)
        return b64decode(answer["base64"])

    async def filter(self, question: Mapping[str, Any], records: bytes | memoryview) -> Answer:
        """The records in fetched bytes for which conditions are true; see `filtering.py`."""
        return await self._ask({"ask": "filter", **question}, records)

    @contextlib.asynccontextmanager
    async def ended(self) -> AsyncIterator[None]:
        """End all processes at the end of this."""
        try:
            yield
        finally:
            await asyncio.gather(*(each.end() for each in self._all))

    async def _ask(self, question: dict[str, Any], data: bytes | memoryview) -> Answer:
        """The answer of a process that has nothing to do."""
        async with self._free:
            process = self._idle.pop() if self._idle else self._new()
            try:
                return await process.ask(question, data)
            finally:
                self._idle.append(process)

    def _new(self) -> Process:
        process = Process(self._registry)
        self._all.append(process)
        return process
