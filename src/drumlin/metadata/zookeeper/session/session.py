"""A session with ZooKeeper: pipelined reads and transactions. Blocking.

One thread at a time uses the session, and waits for kazoo's threads. A session outlives
connections; when it has expired, the next connection begins a session with another `session_id`. No
decisions are made here.

Reads and commits raise a `ZooKeeperFailure` if ZooKeeper does not answer or denies access, and so
does all code of this store that calls them.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kazoo import exceptions
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import EventType, KazooState, WatchedEvent
from kazoo.security import ACL, CREATOR_ALL_ACL, Permissions

from drumlin.metadata.zookeeper.znodes.layout import is_secret
from drumlin.metadata.zookeeper.znodes.operations import (
    Check,
    Create,
    Delete,
    Operation,
    Replace,
    Transaction,
)
from drumlin.zookeeper.connection import ZooKeeperAway, ZooKeeperFailure, close_client, listens

if TYPE_CHECKING:
    from kazoo.client import KazooClient, TransactionRequest


#: The maximum number of requests in flight.
_PIPELINED: Final = 500
#: The interval of checks for the reason of a missing connection.
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
    """A transaction was refused, because a node is not in the state that an operation expects."""

    def __init__(self, operation: Operation, *, is_missing: bool) -> None:
        super().__init__(f"{operation.path} is not as expected")
        self.operation = operation
        #: Whether the node, or the parent of a node to create, is missing.
        self.is_missing = is_missing


class Node(NamedTuple):
    """A node's data, with the version, which counts replacements."""

    data: bytes
    version: int
    owner: int  # the session of an ephemeral node; 0 if the node is persistent
    transaction: int  # the one in which the node was created
    created_ms: int  # by the clock of ZooKeeper's leader


class Session:
    """A client of ZooKeeper, connected or not."""

    def __init__(self, client: KazooClient, hosts: str, timeout_s: float) -> None:
        self.hosts = hosts
        self._client = client
        #: The ACL of nodes with secrets; other nodes get the client's default ACL.
        self._secret_acl = None if client.default_acl is None else CREATOR_ALL_ACL
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
        """Set callbacks, which are called in kazoo's threads.

        `on_state` is called with True when a connection is established, and with False when it is
        lost; `on_change` with the path of a watched node that has changed. Watches end with a
        connection.
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
        """End `await_change` from another thread, as the session is about to end."""
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
        """Wait for a reconnection, unless the connection was lost long ago.

        Raises:
            ZooKeeperAway: no request was sent.
        """
        left_s = self._left_at + self._timeout_s - time.monotonic()
        if not self._connected.wait(max(0.0, left_s)):
            raise ZooKeeperAway(f"ZooKeeper on {self.hosts} {self._what_it_does()}")

    def _what_it_does(self) -> str:
        """The reason for the missing connection, in words. A server may also refuse this client
        because it has seen changes that the server has not.
        """
        if time.monotonic() - self._looked_at > _LOOK_INTERVAL_S:
            self._listens = any(map(listens, self._client.hosts))
            self._looked_at = time.monotonic()
        if self._listens:
            return "is there, but does not take this broker: it may have lost data, or not be ready"
        return "does not answer"

    # -- reading -----------------------------------------------------------------------------

    def read(self, paths: Sequence[str], *, is_watched: bool = False) -> list[Node | None]:
        """The data of nodes; None, without a watch, for a missing node.

        A watch fires once.
        """
        watcher = self._on_event if is_watched else None
        answers = self._ask(lambda path: self._client.get_async(path, watcher), paths)
        return [
            None if each is None else Node(each[0] or b"", *_facts(each[1])) for each in answers
        ]

    def children(self, path: str, *, is_watched: bool = False) -> list[str]:
        """The names of a node's children; empty, without a watch, if the node does not exist."""
        (names,) = self.children_of([path], is_watched=is_watched)
        return names

    def children_of(self, paths: Sequence[str], *, is_watched: bool = False) -> list[list[str]]:
        """Like `children`, for many nodes."""
        watcher = self._on_event if is_watched else None
        answers = self._ask(lambda path: self._client.get_children_async(path, watcher), paths)
        return [each or [] for each in answers]

    def await_change(self, path: str, timeout_s: float) -> None:
        """Wait until the node has changed or was deleted, at most for `timeout_s`."""
        changed = self._awaited = threading.Event()
        (found,) = self._ask(
            lambda each: self._client.get_async(each, lambda _: changed.set()), [path]
        )
        if found is not None and not self._is_ending:
            changed.wait(timeout_s)
        if self._is_ending:
            raise ZooKeeperAway(f"the session with ZooKeeper on {self.hosts} is about to end")

    def _on_event(self, event: WatchedEvent) -> None:
        # An event without a type is the end of a connection, reported by `on_state`.
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
        """Wait until each earlier request, even an unanswered one, has been applied or can no
        longer be applied.
        """
        self._await_connection()
        self._get(self._client.sync_async("/"), "/")

    # -- writing -----------------------------------------------------------------------------

    def create_all(self, paths: Iterable[str]) -> None:
        """Create these nodes and their parents, if missing."""
        for path in paths:
            self._await_connection()
            acl = self._secret_acl if is_secret(path) else None
            self._get(self._client.ensure_path_async(path, acl), path)

    def close_nodes(self, paths: Sequence[str]) -> list[str]:
        """Let only this client's user change these nodes, and read those with secrets; returns the
        nodes that were open to others.
        """
        is_open = self.open_nodes(paths)
        self._ask(lambda path: self._client.set_acls_async(path, self._acl_of(path)), is_open)
        return is_open

    def open_nodes(self, paths: Sequence[str]) -> list[str]:
        """The nodes that everybody can change, or can read although they have secrets."""
        answers = self._ask(self._client.get_acls_async, paths)
        return [
            path
            for path, answer in zip(paths, answers, strict=True)
            if answer is not None and any(_lets_all(each, path) for each in answer[0])
        ]

    def _acl_of(self, path: str) -> list[ACL]:
        acl: list[ACL] | None = self._secret_acl if is_secret(path) else self._client.default_acl
        assert acl is not None
        return acl

    def commit(self, transaction: Transaction) -> None:
        """Commit a transaction.

        Raises:
            Conflict: nothing was done, as a node is not as expected.
        """
        (outcome,) = self.commit_all([transaction])
        if outcome is not None:
            raise outcome

    def commit_all(self, asked: Sequence[Transaction]) -> list[Conflict | ZooKeeperFailure | None]:
        """Commit transactions, each atomically; returns None or the failure for each."""
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
            self._add(request, each)
        return request.commit_async()

    def _add(self, request: TransactionRequest, operation: Operation) -> None:
        match operation:
            case Create(path, data, is_ephemeral, is_sequence):
                acl = self._secret_acl if is_secret(path) else None
                request.create(path, data, acl, is_ephemeral, is_sequence)
            case Replace(path, data, version):
                request.set_data(path, data, version)
            case Delete(path, version):
                request.delete(path, version)
            case Check(path, version):
                request.check(path, version)

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


def _lets_all(acl: ACL, path: str) -> bool:
    """Whether this ACL gives everybody an access that only brokers may have."""
    is_harmless = acl.perms == Permissions.READ and not is_secret(path)
    return acl.id.scheme == "world" and not is_harmless


#: Errors of operations in a failed transaction that were not its cause.
_FOLLOWING: Final = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)


def _facts(stat: Any) -> tuple[int, int, int, int]:
    return stat.version, stat.ephemeralOwner, stat.czxid, stat.ctime


def _refused(path: str, error: Exception) -> ZooKeeperFailure:
    what = f"{type(error).__name__} {error}".strip()
    return ZooKeeperFailure(f"ZooKeeper refuses {path}: {what}")
