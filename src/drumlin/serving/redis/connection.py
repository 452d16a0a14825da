"""A connection to Redis, on which whole exchanges of commands and replies are retried."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from drumlin.serving.redis.commands import Part

T = TypeVar("T")

NO_REDIS: Final = "a store in Redis needs redis: pip install redis"
_RETRIES: Final = 8
_TIMEOUT_S: Final = 30.0


class RedisConnection:
    """One connection. Used by one thread."""

    def __init__(self, url: str, password: str | None) -> None:
        """
        Raises:
            ModuleNotFoundError: redis is not installed; the message says what to do.
            OSError: Redis cannot be reached, or refuses the login.
        """
        try:
            from redis import ConnectionError, Redis, TimeoutError  # noqa: A004
            from redis.backoff import ExponentialBackoff, NoBackoff
            from redis.exceptions import RedisError
            from redis.retry import Retry
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(NO_REDIS, name=error.name) from None
        given: dict[str, Any] = {} if password is None else {"password": password}
        self._failures = RedisError
        self._breaks = (ConnectionError, TimeoutError)
        self._retry = Retry(ExponentialBackoff(cap=5, base=0.1), _RETRIES, self._breaks)
        # It connects now, without a retry, so that a wrong address fails at once.
        self._redis: Any = self._told(
            lambda: Redis.from_url(
                url,
                single_connection_client=True,
                socket_timeout=_TIMEOUT_S,
                retry=Retry(NoBackoff(), 0),  # whole exchanges are retried
                **given,
            )
        )

    def call(self, *words: Any) -> Any:
        """The reply to a command, which must be safe to repeat.

        Raises:
            OSError: as from `run`.
        """
        return self.run(lambda: self._redis.execute_command(*words))

    def run(self, exchange: Callable[[], T]) -> T:
        """Run an exchange, again from its beginning if the connection breaks.

        Raises:
            OSError: Redis has refused a command, or is unreachable for too long.
        """

        def whole() -> T:
            try:
                return exchange()
            except BaseException:
                # Replies may be outstanding, and keys watched.
                self._redis.connection.disconnect()
                raise

        return self._told(lambda: self._retry.call_with_retry(whole, lambda _: None))

    def ask(self, count: int, *parts: Part) -> list[Any]:
        """Send `count` commands, and return their replies. Called in an exchange."""
        connection = self._redis.connection
        connection.send_packed_command(_joined(parts))
        replies: list[Any] = []
        failures: list[Exception] = []
        for _ in range(count):
            try:
                replies.append(connection.read_response())
            except self._breaks:
                raise
            except self._failures as error:
                failures.append(error)
        if failures:
            raise failures[0]  # later errors only say that the transaction was discarded
        return replies

    def close(self) -> None:
        self._redis.close()

    def _told(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except self._failures as error:
            raise OSError(f"Redis: {error}") from error


def _joined(parts: tuple[Part, ...]) -> list[Part]:
    """The parts, with small adjacent ones joined."""
    joined: list[Part] = []
    small: list[bytes] = []
    for each in parts:
        if isinstance(each, bytes):
            small.append(each)
        else:
            joined += [b"".join(small), each]
            small.clear()
    return [*joined, b"".join(small)]
