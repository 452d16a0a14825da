"""A session with ZooKeeper: reads and transactions, many on their way at once. Blocking.

Used by one thread at a time, which waits for kazoo's. A session outlives connections; when it has
expired, the next connection has another one, with another `session_id`. Never decides anything.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState

from drumlin.metadata.zookeeper.znodes.operations import Check, Create, Delete, Replace
from drumlin.zookeeper.connection import (
    ZooKeeperAway,
    ZooKeeperFailure,
    close_client,
    listens,
)

if TYPE_CHECKING:
    from kazoo.client import KazooClient, TransactionRequest
    from kazoo.protocol.states import WatchedEvent

    from drumlin.metadata.zookeeper.znodes.operations import Operation, Transaction

#: How many requests may be on their way at once.
_PIPELINED: Final = 500
#: While there is no connection, how often it is looked why.
_LOOK_INTERVAL_S: Final = 5.0
_GONE: Final = (
    exceptions.ConnectionLoss,
    exceptions.ConnectionClosedError,
    exceptions.SessionExpiredError,
    exceptions.OperationTimeoutError,
    KazooTimeoutError,
)
_CONFLICTS: Final = (
    exceptions.BadVersionError,
    exceptions.NodeExistsError,
    exceptions.NoNodeError,
    exceptions.NotEmptyError,
)


class Conflict(Exception):
    """A transaction was refused, as a node is not what this operation takes it for."""

    def __init__(self, operation: Operation, *, is_missing: bool) -> None:
        super().__init__(f"{operation.path} is not as expected")
        self.operation = operation
        #: The node, or for a new one what is to be above it.
        self.is_missing = is_missing


class Node(NamedTuple):
    """What a node holds, and how many times that was replaced."""

    data: bytes
    version: int
    owner: int  # the session that it lives as long as; 0: any
    transaction: int  # in which it was created
    created_ms: int  # by the clock of ZooKeeper's leader


class Session:
    """One client of ZooKeeper, connected now or later."""

    def __init__(self, client: KazooClient, hosts: str, timeout_s: float) -> None:
        self.hosts = hosts
        self._client = client
        self._timeout_s = timeout_s
        self._connected = threading.Event()
        self._awaited = threading.Event()
        self._is_ending = False
        self._left_at = time.monotonic()
        self._listens, self._looked_at = False, -math.inf
        self._on_state: Callable[[bool], None] | None = None
        self._on_change: Callable[[str], None] | None = None
        client.add_listener(self._take_state)
        if client.connected:
            self._connected.set()

    def tell(self, on_state: Callable[[bool], None], on_change: Callable[[str], None]) -> None:
        """Have listeners called, in kazoo's threads.

        With whether there is a connection when it is made or lost; and with the path of a node
        that was read with a watch and has changed. Watches end with a connection.
        """
        self._on_state, self._on_change = on_state, on_change

    @property
    def session_id(self) -> int:
        known = self._client.client_id
        return 0 if known is None else int(known[0])

    @property
    def is_connected(self) -> bool:
        return self._connected.is_set()

    def stop_waiting(self) -> None:
        """From another thread: let `await_change` end, as the session is about to."""
        self._is_ending = True
        self._awaited.set()

    def close(self) -> None:
        self._on_state = self._on_change = None
        close_client(self._client)

    def _take_state(self, state: str) -> None:
        is_connected = state == KazooState.CONNECTED
        if is_connected:
            self._connected.set()
        elif self._connected.is_set():
            self._left_at = time.monotonic()
            self._connected.clear()
        if self._on_state is not None:
            self._on_state(is_connected)

    def _await_connection(self) -> None:
        """Wait for a lost connection, but not for one that was lost long ago.

        Raises:
            ZooKeeperAway: nothing was asked for.
        """
        left_s = self._left_at + self._timeout_s - time.monotonic()
        if not self._connected.wait(max(0.0, left_s)):
            raise ZooKeeperAway(f"ZooKeeper on {self.hosts} {self._what_it_does()}")

    def _what_it_does(self) -> str:
        """Why there is no connection. A ZooKeeper refuses who has seen more than it has."""
        if time.monotonic() - self._looked_at > _LOOK_INTERVAL_S:
            self._listens = any(map(listens, self._client.hosts))
            self._looked_at = time.monotonic()
        if self._listens:
            return "is there, but does not take this broker: it may have lost data, or not be ready"
        return "does not answer"

    # -- reading -----------------------------------------------------------------------------

    def read(self, paths: Sequence[str], *, is_watched: bool = False) -> list[Node | None]:
        """What these nodes hold; None, and no watch, for one that does not exist.

        Of a change of those that are watched is told once.

        Raises:
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        watcher = self._on_event if is_watched else None
        answers = self._ask(lambda path: self._client.get_async(path, watcher), paths)
        return [
            None if each is None else Node(each[0] or b"", *_facts(each[1])) for each in answers
        ]

    def children(self, path: str, *, is_watched: bool = False) -> list[str]:
        """Names below a node; none, and no watch, where it does not exist."""
        (names,) = self.children_of([path], is_watched=is_watched)
        return names

    def children_of(self, paths: Sequence[str], *, is_watched: bool = False) -> list[list[str]]:
        """The same, for many nodes."""
        watcher = self._on_event if is_watched else None
        answers = self._ask(lambda path: self._client.get_children_async(path, watcher), paths)
        return [each or [] for each in answers]

    def await_change(self, path: str, timeout_s: float) -> None:
        """Return when the node is gone or has changed, or after that time.

        Raises:
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        changed = self._awaited = threading.Event()
        (found,) = self._ask(
            lambda each: self._client.get_async(each, lambda _: changed.set()), [path]
        )
        if found is not None and not self._is_ending:
            changed.wait(timeout_s)
        if self._is_ending:
            raise ZooKeeperAway(f"the session with ZooKeeper on {self.hosts} is about to end")

    def _on_event(self, event: WatchedEvent) -> None:
        # One without a type is the end of a connection, which is told elsewhere.
        if event.type != EventType.NONE and self._on_change is not None:
            self._on_change(event.path)

    def _ask(self, ask: Callable[[str], Any], paths: Sequence[str]) -> list[Any]:
        answers: list[Any] = []
        for start in range(0, len(paths), _PIPELINED):
            self._await_connection()
            some = paths[start : start + _PIPELINED]
            asked = [ask(path) for path in some]
            answers += [self._get(*each) for each in zip(asked, some, strict=True)]
        return answers

    def _get(self, result: Any, path: str) -> Any:
        try:
            return result.get(timeout=self._timeout_s)
        except exceptions.NoNodeError:
            return None
        except _GONE as error:
            raise self._away(error) from None
        except exceptions.KazooException as error:
            raise _refused(path, error) from error

    def sync(self) -> None:
        """Have all that was asked for before be seen by what is read from now on, or not be done.

        Raises:
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        self._await_connection()
        self._get(self._client.sync_async("/"), "/")

    # -- writing -----------------------------------------------------------------------------

    def create_all(self, paths: Iterable[str]) -> None:
        """Create these nodes, and those above them, where they are missing.

        Raises:
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        for path in paths:
            self._await_connection()
            self._get(self._client.ensure_path_async(path), path)

    def commit(self, transaction: Transaction) -> None:
        """Do all of it, or nothing.

        Raises:
            Conflict: nothing of it was done, as a node is not as expected.
            ZooKeeperFailure: ZooKeeper is away, or does not let us.
        """
        (outcome,) = self.commit_all([transaction])
        if outcome is not None:
            raise outcome

    def commit_all(self, asked: Sequence[Transaction]) -> list[Conflict | ZooKeeperFailure | None]:
        """Do each of them, or nothing of it; which of them were refused, and why."""
        outcomes: list[Conflict | ZooKeeperFailure | None] = []
        for start in range(0, len(asked), _PIPELINED):
            some = asked[start : start + _PIPELINED]
            try:
                self._await_connection()
            except ZooKeeperAway as error:
                outcomes += [error] * len(some)
                continue
            results = [self._begin(each) for each in some]
            outcomes += [self._end(*each) for each in zip(results, some, strict=True)]
        return outcomes

    def _begin(self, transaction: Transaction) -> Any:
        request = self._client.transaction()
        for each in transaction:
            _add(request, each)
        return request.commit_async()

    def _end(self, result: Any, transaction: Transaction) -> Conflict | ZooKeeperFailure | None:
        try:
            answers = result.get(timeout=self._timeout_s)
        except _GONE as error:
            return self._away(error)
        except exceptions.KazooException as error:
            return _refused(transaction[0].path, error)
        for operation, answer in zip(transaction, answers, strict=True):
            if isinstance(answer, _CONFLICTS):
                is_missing = isinstance(answer, exceptions.NoNodeError)
                return Conflict(operation, is_missing=is_missing)
            if isinstance(answer, Exception) and not isinstance(answer, _FOLLOWING):
                return _refused(operation.path, answer)
        return None

    def _away(self, error: Exception) -> ZooKeeperAway:
        what = type(error).__name__
        return ZooKeeperAway(f"ZooKeeper on {self.hosts} does not answer ({what})")


#: How those operations fail that are not to blame.
_FOLLOWING: Final = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)


def _add(request: TransactionRequest, operation: Operation) -> None:
    match operation:
        case Create(path, data, is_ephemeral, is_sequence):
            request.create(path, data, ephemeral=is_ephemeral, sequence=is_sequence)
        case Replace(path, data, version):
            request.set_data(path, data, version)
        case Delete(path, version):
            request.delete(path, version)
        case Check(path, version):
            request.check(path, version)


def _facts(stat: Any) -> tuple[int, int, int, int]:
    return stat.version, stat.ephemeralOwner, stat.czxid, stat.ctime


def _refused(path: str, error: Exception) -> ZooKeeperFailure:
    what = f"{type(error).__name__} {error}".strip()
    return ZooKeeperFailure(f"ZooKeeper refuses {path}: {what}")
