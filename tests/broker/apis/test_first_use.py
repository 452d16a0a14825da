"""The first request of an API and version: no other client waits for its imports."""

from __future__ import annotations

import asyncio
import errno
import importlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.apis import first_use as first_use_module
from drumlin.broker.apis.first_use import FirstUse
from drumlin.turns import TURN_S
from drumlin.wire.messages import API_KEYS, encode_request, parse_response
from drumlin.wire.schema import decoder, encoder
from rig.data.messages import build

_SCRIPT = """
import asyncio, importlib, sys, threading
from pathlib import Path
sys.path[:0] = {paths!r}
from broker.apis.test_first_use import asked_on_loop
asyncio.run(asked_on_loop(Path({data!r})))
"""


async def asked_on_loop(data: Path) -> None:
    """Ask for several APIs; fails if the loop's thread imports or compiles any of it."""
    async with running(data) as broker:
        (listener,) = broker.listeners
        frames = [
            b"".join(encode_request(api, version, number, "tester", build(api, version, fields)))
            for number, (api, version, fields) in enumerate(_REQUESTS)
        ]
        loop_thread = threading.get_ident()
        guilty: list[str] = []
        _watch(guilty, loop_thread)
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"".join(frames))  # pipelined: each waits for the one before it
        bodies = [
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            for _ in frames
        ]
        writer.close()
    assert not guilty, guilty
    for number, (body, (api, version, _)) in enumerate(zip(bodies, _REQUESTS, strict=True)):
        assert parse_response(api, version, body)[0] == number


_REQUESTS: list[tuple[str, int, dict[str, Any]]] = [
    ("metadata", 9, {"topics": []}),
    ("list_groups", 2, {}),
    ("list_groups", 2, {}),
    ("describe_groups", 3, {"groups": ["nobody"]}),
    ("delete_groups", 1, {"groups_names": ["nobody"]}),
    ("describe_cluster", 0, {}),
]


def _watch(guilty: list[str], loop_thread: int) -> None:
    """Note what the loop's thread imports or compiles, from now on."""
    import_module = importlib.import_module

    def importing(name: str, package: str | None = None) -> ModuleType:
        if threading.get_ident() == loop_thread and name not in sys.modules:
            guilty.append(f"imports {name}")
        return import_module(name, package)

    importlib.import_module = importing  # type: ignore[assignment]
    for module in (decoder, encoder):
        compile_class: Any = module._Compiler.compile

        def compiling(self: Any, compile_class: Any = compile_class) -> Any:
            if threading.get_ident() == loop_thread:
                guilty.append(f"compiles {self._cls.__name__}")
            return compile_class(self)

        module._Compiler.compile = compiling  # type: ignore[method-assign]


def test_the_first_request_of_a_version_is_prepared_in_a_thread(tmp_path: Path) -> None:
    """In a process of its own, where nothing is imported yet."""
    script = _SCRIPT.format(paths=sys.path, data=str(tmp_path / "data"))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_connection_that_ends_while_it_waits_for_it_harms_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            (listener,) = broker.listeners
            frame = b"".join(
                encode_request("list_groups", 1, 7, "tester", build("list_groups", 1, {}))
            )
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(frame)
            await writer.drain()
            writer.transport.abort()
            reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            writer.write(frame)
            size = int.from_bytes(await reader.readexactly(4), "big")
            assert parse_response("list_groups", 1, await reader.readexactly(size))[0] == 7
            writer.close()

    asyncio.run(run())
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_a_thousand_that_waited_for_it_do_not_go_on_in_one_turn() -> None:
    async def run() -> None:
        broker: Any = SimpleNamespace(threads=SimpleNamespace(making=asyncio.to_thread))
        first_use = FirstUse(broker.threads)
        frame = memoryview(API_KEYS["list_groups"].to_bytes(2, "big") + b"\0\0")
        went_on = 0

        def go_on() -> None:
            nonlocal went_on
            went_on += 1
            ends_at = time.monotonic() + TURN_S / 20
            while time.monotonic() < ends_at:
                pass

        assert not any(first_use.is_prepared(frame, go_on) for _ in range(1000))
        before = 0
        async with asyncio.timeout(20):
            while went_on < 1000:
                await asyncio.sleep(0)
                assert went_on - before <= 21
                before = went_on
        assert first_use.is_prepared(frame, go_on)

    asyncio.run(run())


def test_without_a_descriptor_for_its_code_a_request_waits(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment no module can be read; then it is answered, and the log has said it once."""
    attempts = 0
    prepare = first_use_module._prepare

    def short(api: str, version: int) -> None:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise OSError(errno.EMFILE, "Too many open files", f"{api}.py")
        prepare(api, version)

    monkeypatch.setattr(first_use_module, "_prepare", short)

    async def run() -> None:
        broker: Any = SimpleNamespace(threads=SimpleNamespace(making=asyncio.to_thread))
        frame = memoryview(API_KEYS["list_groups"].to_bytes(2, "big") + b"\0\0")
        went_on = asyncio.Event()
        first_use = FirstUse(broker.threads)
        assert not first_use.is_prepared(frame, went_on.set)
        async with asyncio.timeout(20):
            await went_on.wait()
        assert attempts == 3

    asyncio.run(run())
    (said,) = caplog.records
    assert "list_groups v0 waits for a descriptor" in said.message
    assert said.exc_info is None


def test_a_broker_that_stops_waits_for_no_descriptor(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for its code is forgotten, before the threads that would read it are gone."""
    attempted = threading.Event()

    def short(api: str, version: int) -> None:
        attempted.set()
        raise OSError(errno.EMFILE, "Too many open files", f"{api}.py")

    async def run() -> None:
        async with running(tmp_path) as broker:
            monkeypatch.setattr(first_use_module, "_prepare", short)
            (listener,) = broker.listeners
            _, writer = await asyncio.open_connection("127.0.0.1", listener.port)
            request = build("list_groups", 1, {})
            writer.write(b"".join(encode_request("list_groups", 1, 7, "tester", request)))
            await asyncio.to_thread(attempted.wait)
            writer.close()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            await asyncio.wait(left, timeout=20)

    asyncio.run(run())
    assert not [each for each in caplog.records if each.exc_info]
