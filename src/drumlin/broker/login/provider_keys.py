"""The public keys of a provider of tokens, read in the background: once there are keys, no login
waits for a provider that does not answer.

A thread reads them when the broker starts, after each `refresh_s`, and when a token names an
unknown key, as after a key rotation: but at most every 10 s, whatever strangers send. While they
cannot be read, those that were read last are used.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import threading
import time
import urllib.request
from collections.abc import Mapping
from typing import Final

import jwt

_log = logging.getLogger(__name__)

_FETCH_TIMEOUT_S: Final = 10
_KEYS_BYTES_MAX: Final = 1 << 20
_CHUNK_BYTES: Final = 1 << 16
#: Least time between two readings because of tokens that name an unknown key.
_EXPEDITED_S: Final = 10.0
#: Longest wait of a token for an unknown key, or for the first keys when the broker starts.
_WAIT_S: Final = 1.0
#: Errors caused by malformed tokens and keys: not all of them are the library's own.
UNREADABLE: Final = (
    jwt.PyJWTError,
    AttributeError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
#: The kinds of keys, and the algorithms for each.
FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
_Keys = dict[str | None, jwt.PyJWK]


class ProviderKeys:
    """The keys at one URL (http, https or file), by their ids."""

    def __init__(self, url: str, refresh_s: float, backoff_s: float, backoff_max_s: float) -> None:
        """Begins to read. `backoff_s`: pause after a failure; it doubles up to `backoff_max_s`."""
        self._url = url
        self._refresh_s, self._backoff_s, self._backoff_max_s = refresh_s, backoff_s, backoff_max_s
        self._loop = asyncio.get_running_loop()
        self._keys: _Keys = {}
        #: Done when the next reading has ended.
        self._next: asyncio.Future[None] = self._loop.create_future()
        self._expedited_at_s = float("-inf")
        self._is_wanted = threading.Event()
        threading.Thread(target=self._keep_reading, name="token-keys", daemon=True).start()

    async def find(self, key_id: str | None) -> jwt.PyJWK | None:
        """The key with this id; for a token that names none, the only key."""
        key = self._found(key_id)
        if key is None and (not self._keys or self._expedite()):
            await asyncio.wait({self._next}, timeout=_WAIT_S)
            key = self._found(key_id)
        return key

    def _found(self, key_id: str | None) -> jwt.PyJWK | None:
        key = self._keys.get(key_id)
        if key is None and key_id is None and len(self._keys) == 1:
            (key,) = self._keys.values()
        return key

    def _expedite(self) -> bool:
        """Read soon, unless an early reading was requested less than `_EXPEDITED_S` ago."""
        now = time.monotonic()
        if now - self._expedited_at_s < _EXPEDITED_S:
            return False
        self._expedited_at_s = now
        if self._next.done():
            self._next = self._loop.create_future()
        self._is_wanted.set()
        return True

    def _take(self, keys: _Keys | None) -> None:
        if keys is not None:
            self._keys = keys
        if not self._next.done():
            self._next.set_result(None)

    # -- in the thread -----------------------------------------------------------------

    def _keep_reading(self) -> None:
        """Read again and again, until the loop is closed."""
        pause_s, failures = self._refresh_s, 0
        with contextlib.suppress(RuntimeError):  # the loop is closed
            while True:
                keys = self._read(is_first_failure=failures == 0)
                self._loop.call_soon_threadsafe(self._take, keys)
                if keys is None:
                    pause_s = min(self._backoff_s * 2.0 ** min(failures, 30), self._backoff_max_s)
                    failures += 1
                else:
                    if failures:
                        _log.info("the keys of tokens are read again from %s", self._url)
                    pause_s, failures = self._refresh_s, 0
                self._is_wanted.wait(min(pause_s, threading.TIMEOUT_MAX))
                self._is_wanted.clear()

    def _read(self, *, is_first_failure: bool) -> _Keys | None:
        try:
            return read_keys(self._url)
        except (OSError, *UNREADABLE) as error:
            if is_first_failure:
                _log.error("the keys of tokens cannot be read from %s: %s", self._url, error)
            return None


def read_keys(url: str) -> _Keys:
    """The keys for signatures at a URL, by their ids. Blocks, for a limited time.

    Raises:
        OSError, or one of `UNREADABLE`: they cannot be read.
    """
    text, ends_at_s = b"", time.monotonic() + _FETCH_TIMEOUT_S
    with urllib.request.urlopen(url, timeout=_FETCH_TIMEOUT_S) as answer:  # noqa: S310  an operator's
        while chunk := answer.read1(_CHUNK_BYTES):
            text += chunk
            if len(text) > _KEYS_BYTES_MAX:
                raise ValueError("too much for a set of keys")
            if time.monotonic() > ends_at_s:
                raise TimeoutError(f"they have not come in {_FETCH_TIMEOUT_S} s")
    found: _Keys = {}
    for each in jwt.PyJWKSet.from_dict(json.loads(text)).keys:
        if each.public_key_use in (None, "sig") and each.key_type in FAMILIES:
            found[each.key_id] = each
    return found
