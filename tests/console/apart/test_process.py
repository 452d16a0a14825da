"""The processes that look into records: whatever happens to it, the console goes on."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

import pytest

from drumlin.client.values.errors import DecoderUnavailable, RegistryError
from drumlin.client.values.framing import header
from drumlin.client.values.registry import SchemaRegistry
from drumlin.console.apart import process
from drumlin.console.apart.process import TooMuch
from drumlin.console.apart.processes import Apart
from drumlin.console.apart.worker import Worker
from drumlin.records.plain.record import Record, encode_batch
from rig.servers.schema_registry import RegistryRig, running_registry

pytestmark = pytest.mark.deep

_QUESTION: dict[str, Any] = {"where": ["key=k"], "aborted": [], "span": [0, 9], "partition": 0}
_QUESTION |= {"limit": 9, "cut_bytes": 99}
_RECORDS = bytes(encode_batch([Record(0, 1, b"k", b"v")]))


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test in a loop of its own."""

    @functools.wraps(test)
    def run(*arguments: Any, **named: Any) -> None:
        asyncio.run(test(*arguments, **named))

    return run


async def _looks(apart: Apart) -> bool:
    return (await apart.filter(_QUESTION, _RECORDS))["looked"] == 1


def _process_ids(apart: Apart) -> list[int]:
    """The processes that run, the one that has worked last at the end."""
    return [each._process.pid for each in apart._idle if each._process is not None]


@in_loop
async def test_there_are_few_of_them_which_are_gone_at_the_end() -> None:
    apart = Apart(None)
    async with apart.ended():
        assert await _looks(apart)
        first = _process_ids(apart)
        assert await _looks(apart)
        assert _process_ids(apart) == first, "one is enough for one question after the other"
        assert all(await asyncio.gather(*(_looks(apart) for _ in range(9))))
        found = _process_ids(apart)
        assert len(found) == 4
    for each in found:
        with pytest.raises(ProcessLookupError):
            os.kill(each, 0)


@in_loop
async def test_another_follows_one_that_has_ended() -> None:
    apart = Apart(None)
    async with apart.ended():
        assert await _looks(apart)
        os.kill(_process_ids(apart)[-1], signal.SIGKILL)
        assert await _looks(apart)


class _SlowRig(RegistryRig):
    """A registry that takes its time."""

    def answer(self, method: str, path: str, body: bytes) -> Any:
        time.sleep(2.0)
        return super().answer(method, path, body)


@in_loop
async def test_what_takes_too_long_is_ended_while_the_loop_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_ANSWER_S", 1.0)
    with running_registry() as registry:
        registry.__class__ = _SlowRig
        apart = Apart(SchemaRegistry(registry.url))
        async with apart.ended():
            turns = 0

            async def turning() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0.01)
                    turns += 1

            task = asyncio.create_task(turning())
            with pytest.raises(TooMuch, match="too long"):
                await apart.decode([header(1) + b"x"], 10)
            task.cancel()
            assert turns > 20
            assert not _process_ids(apart)
            monkeypatch.undo()
            assert await _looks(apart)


@in_loop
async def test_nobody_waits_for_what_takes_another_long() -> None:
    apart = Apart(None)
    async with apart.ended():
        assert all(await asyncio.gather(_looks(apart), _looks(apart)))
        held = _process_ids(apart)[-1]
        os.kill(held, signal.SIGSTOP)
        slow = asyncio.create_task(_looks(apart))
        await asyncio.sleep(0)
        assert await _looks(apart)
        assert not slow.done()
        os.kill(held, signal.SIGCONT)
        assert await slow


@in_loop
async def test_a_question_that_nobody_waits_for_leaves_no_answer_behind() -> None:
    apart = Apart(None)
    async with apart.ended():
        assert await _looks(apart)
        asked = asyncio.create_task(apart.filter(_QUESTION | {"where": ["key=other"]}, _RECORDS))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert (await apart.filter(_QUESTION, _RECORDS))["rows"]


def test_a_missing_package_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise DecoderUnavailable("Protobuf needs a package")

    worker = Worker(None)
    monkeypatch.setattr(worker, "_answer", fail)
    assert worker.answer(_QUESTION, _RECORDS)["error"] == "Protobuf needs a package"


def test_what_takes_too_much_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise MemoryError

    worker = Worker(None)
    monkeypatch.setattr(worker, "_answer", fail)
    assert worker.answer(_QUESTION, _RECORDS)["kind"] == "memory"


@in_loop
async def test_errors_come_as_they_are() -> None:
    with running_registry() as registry:
        apart = Apart(SchemaRegistry(registry.url))
        async with apart.ended():
            with pytest.raises(ValueError, match="Subject"):
                await apart.encode("absent", b"{}")
            registry.add("text", {"type": "string"})
            assert await apart.encode("text", b'"x"') == header(1) + b"\2x"
            with pytest.raises(ValueError, match="does not fit the schema"):
                await apart.encode("text", b"1")
            with pytest.raises(ValueError, match=r"CRC|corrupt|damaged"):
                await apart.filter(_QUESTION, _RECORDS[:-1] + b"x")
            registry.login = "u:p"
            with pytest.raises(RegistryError, match="401"):
                await apart.encode("text", b'"x"')
