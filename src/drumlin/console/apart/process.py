"""A process as the console sees it: started at its first question, one question at a time.

It is ended when an answer takes too long, and ends by itself when nobody asks for some minutes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
from typing import Any, Final

from drumlin.client.values.errors import RegistryError
from drumlin.client.values.registry import SchemaRegistry
from drumlin.console.answers.asking import Answer
from drumlin.console.apart.messages import HEAD, Message

_ANSWER_S: Final = 10.0
_START_S: Final = 20.0
_ANSWER_BYTES_MAX: Final = 64 << 20
_COMMAND: Final = ("-P", "-m", "drumlin.console.apart.worker")
#: Python itself, numpy and Arrow start threads at will: one is enough here.
_ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class TooMuch(ValueError):
    """What was to be looked into takes too much time or memory."""


class Process:
    """A process that looks into records; with a registry, by its schemas."""

    def __init__(self, registry: SchemaRegistry | None) -> None:
        self._registry = registry
        self._process: asyncio.subprocess.Process | None = None

    async def ask(self, question: dict[str, Any], data: bytes | memoryview) -> Answer:
        """An answer; asks once more if the process has ended by itself, as nobody asked.

        Nobody asks anything else meanwhile.

        Raises:
            TooMuch: there is no answer in time, or the process has failed at it.
            ValueError, RegistryError: the answer is this error.
        """
        answer = None
        if self._process is not None:
            answer = await self._answer(self._process, Message(question, data), _ANSWER_S)
        if answer is None:
            started = await self._started()
            answer = await self._answer(started, Message(question, data), _ANSWER_S)
        if answer is None:
            raise TooMuch("the process that looks into these records has failed at it")
        if "error" not in answer:
            return answer
        if answer["kind"] == "registry":
            raise RegistryError(answer["error"])
        raise (TooMuch if answer["kind"] == "memory" else ValueError)(answer["error"])

    async def _started(self) -> asyncio.subprocess.Process:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            *_COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=os.environ | _ENVIRONMENT,
            start_new_session=True,  # Ctrl-C is for the console, which ends it
        )
        beginning = Message({}, pickle.dumps(self._registry))
        if await self._answer(self._process, beginning, _START_S) is None:
            raise TooMuch("the process that looks into records does not start")
        assert self._process is not None
        return self._process

    async def _answer(
        self,
        process: asyncio.subprocess.Process,
        message: Message,
        seconds: float,
    ) -> Answer | None:
        """The answer; None if the process has ended. It is ended if it may still be at it."""
        is_done = False
        try:
            async with asyncio.timeout(seconds):
                answer = await _exchange(process, message)
            is_done = answer is not None
        except TimeoutError:
            raise TooMuch("looking into these records takes too long") from None
        finally:
            if not is_done:
                await asyncio.shield(self.end())
        return answer

    async def end(self) -> None:
        """End the process, if it runs; another question starts another one."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with the compiler that it may have started
        await process.communicate()


async def _exchange(process: asyncio.subprocess.Process, message: Message) -> Answer | None:
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for part in message.parts():
            process.stdin.write(part)
        await process.stdin.drain()
        size, extra = HEAD.unpack(await process.stdout.readexactly(HEAD.size))
        if size > _ANSWER_BYTES_MAX or extra:
            return None
        return Message.of(await process.stdout.readexactly(size), b"").fields
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
