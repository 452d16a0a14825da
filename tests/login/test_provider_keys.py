"""The keys of a provider of tokens: read in the background, and never waited for in vain."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from drumlin.broker.login.provider_keys import ProviderKeys
from rig.servers.token_signer import TokenSigner
from rig.waiting import eventually

_LONG_S = 3600.0


@functools.cache
def _jwks(name: str) -> str:
    return TokenSigner(name, ord(name)).jwks()


@pytest.fixture(scope="module", autouse=True)
def _made() -> None:
    """Make the keys before, as that takes a while."""
    for name in "ab":
        _jwks(name)


class Provider:
    """Answers with the key of this name, with an error for "", and not at all while silent."""

    def __init__(self, name: str) -> None:
        self.name, self.is_silent = name, False
        self.asked, self.answered = 0, 0
        self._goes_on = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                if provider.is_silent:
                    provider._goes_on.wait()
                    return
                self.send_response(200 if provider.name else 500)
                self.end_headers()
                self.wfile.write(_jwks(provider.name).encode() if provider.name else b"")
                provider.answered += 1

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def keys(self, refresh_s: float = _LONG_S, backoff_s: float = 0.01) -> ProviderKeys:
        return ProviderKeys(
            f"http://127.0.0.1:{self.server.server_port}/", refresh_s, backoff_s, 2 * backoff_s
        )

    def end(self) -> None:
        self._goes_on.set()
        self.server.shutdown()
        self.server.server_close()


@contextlib.contextmanager
def _provider(name: str) -> Iterator[Provider]:
    provider = Provider(name)
    threading.Thread(target=provider.server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield provider
    finally:
        provider.end()


def test_a_provider_that_falls_silent_makes_no_login_wait() -> None:
    async def run() -> None:
        with _provider("a") as provider:
            keys = provider.keys(refresh_s=0.05)
            assert await keys.find("a")
            provider.is_silent = True
            await eventually(lambda: provider.asked > provider.answered)
            async with asyncio.timeout(0):  # it does not wait at all
                assert await keys.find("a")
                assert await keys.find(None), "the only one"

    asyncio.run(run())


def test_other_keys_are_found_in_time() -> None:
    async def run() -> None:
        with _provider("a") as provider:
            keys = provider.keys(refresh_s=0.05)
            assert await keys.find("a")
            provider.name = "b"
            await eventually(lambda: keys.find("b"))
            assert not await keys.find("a")

    asyncio.run(run())


def test_a_key_that_is_not_known_is_asked_for_once() -> None:
    async def run() -> None:
        with _provider("a") as provider:
            keys = provider.keys()
            assert await keys.find("a")
            assert provider.asked == 1
            provider.name = "b"
            assert await keys.find("b"), "the provider has exchanged its keys"
            assert provider.asked == 2
            for number in range(100):
                assert not await keys.find(f"made up {number}")
            assert provider.asked == 2

    asyncio.run(run())


def test_keys_count_while_no_others_can_be_read() -> None:
    async def run() -> None:
        with _provider("a") as provider:
            keys = provider.keys(refresh_s=0.02)
            assert await keys.find("a")
            provider.name = ""
            asked = provider.asked
            await eventually(lambda: provider.asked > asked + 3)
            assert await keys.find("a")
            provider.name = "b"
            await eventually(lambda: keys.find("b"))

    asyncio.run(run())


def test_a_provider_that_comes_later_than_the_broker() -> None:
    async def run() -> None:
        with _provider("") as provider:
            keys = provider.keys()
            assert not await keys.find("a")
            provider.name = "a"
            await eventually(lambda: keys.find("a"))

    asyncio.run(run())
