"""ZooKeeper as the store of offsets that the first high-level consumers used.

    /consumers/<group>/offsets/<topic>/<partition>   the next offset to read, in ASCII digits
    /consumers/<group>/ids/<consumer>                ephemeral: a consumer that runs
    /consumers/<group>/owners/<topic>/<partition>    ephemeral: the consumer of this partition

Owns these paths and all that is done with them through kazoo. Never decides what to write. Calls
block; they may be made from any one thread at a time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from drumlin.client.committed_offsets import OffsetAndMetadata
from drumlin.client.offsets import TopicPartition
from drumlin.metadata.zookeeper.access import access_in
from drumlin.metadata.zookeeper.connection import (
    ZooKeeperAway,
    ZooKeeperFailure,
    close_client,
    connect,
)
from drumlin.metadata.zookeeper.layout import parse_partition
from drumlin.migration.errors import StoreError, StoreUnavailable
from drumlin.migration.stores import Positions, Refusals

if TYPE_CHECKING:
    from kazoo.client import KazooClient

_ROOT: Final = "/consumers"
_OFFSET_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = 19
#: How many requests may be on their way at once.
_PIPELINED: Final = 500
#: Called in kazoo's thread with an event whose `path` says what has changed.
Watch = Callable[[Any], None]
ANY_VERSION: Final = -1
ABSENT: Final = -2


class ZooKeeperOffset(NamedTuple):
    """An offset as its node has it."""

    offset: int
    version: int
    modified_timestamp_ms: int  # by the clock of ZooKeeper's leader


def open_client(
    hosts: str,
    properties: Mapping[str, str] = MappingProxyType({}),
    *,
    session_timeout_ms: int = 10_000,
) -> KazooClient:
    """Connect to "host:port,host:port/chroot".

    `properties` may say how to encrypt, and who we are, with the keys of a broker.

    Raises:
        StoreError: kazoo is not installed, or there is no such chroot.
        StoreUnavailable: there is no answer.
    """
    try:
        return connect(
            hosts,
            session_timeout_ms=session_timeout_ms,
            connection_timeout_ms=session_timeout_ms,
            access=access_in(properties),
        )
    except ZooKeeperAway as error:
        raise StoreUnavailable(str(error)) from None
    except ZooKeeperFailure as error:
        raise StoreError(str(error)) from None


@contextlib.contextmanager
def connected(
    hosts: str,
    properties: Mapping[str, str] = MappingProxyType({}),
    session_timeout_ms: int = 10_000,
) -> Iterator[KazooClient]:
    """The same, for as long as the block lasts."""
    client = open_client(hosts, properties, session_timeout_ms=session_timeout_ms)
    try:
        yield client
    finally:
        close_client(client)


def can_have_group(group: str) -> bool:
    """Whether a node can have this name."""
    return bool(group) and "/" not in group and "\0" not in group and group not in (".", "..")


def group_path(group: str) -> str:
    """
    Raises:
        StoreError: no node can have this name.
    """
    if not can_have_group(group):
        raise StoreError(f"no group in ZooKeeper can be called {group!r}")
    return f"{_ROOT}/{group}"


def offset_path(group: str, place: TopicPartition) -> str:
    return f"{group_path(group)}/offsets/{place[0]}/{place[1]}"


def parse_offset(data: bytes) -> int | None:
    """The offset in a node; None where there is none."""
    text = data.strip()
    if not text.isdigit() or len(text) > _DIGITS_MAX or int(text) > _OFFSET_MAX:
        return None
    return int(text)


def _count(each: Collection[object], name: str) -> str:
    return f"{len(each)} {name}{'s' if len(each) != 1 else ''}"


class ZooKeeperStore:
    """Offsets below `/consumers`."""

    def __init__(self, client: KazooClient, name: str, *, timeout_ms: int = 10_000) -> None:
        self.name = name
        self.notes: list[str] = []
        self.client = client
        self._timeout_s = timeout_ms / 1000

    # -- as a store ------------------------------------------------------------------------

    def groups(self) -> list[str]:
        return sorted(self.children(_ROOT))

    def read(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        found = self.read_nodes(group, self.partitions(group))
        return {place: OffsetAndMetadata(each.offset) for place, each in found.items()}

    def write(self, group: str, positions: Positions) -> Refusals:
        wanted = {place: (each.offset, ANY_VERSION) for place, each in positions.items()}
        return self.write_nodes(group, wanted)

    def live_consumers(self, group: str) -> str | None:
        consumers = self.children(f"{group_path(group)}/ids")
        owned = self.owned_partitions(group)
        if not consumers and not owned:
            return None
        return f"{_count(consumers, 'consumer')}, {_count(owned, 'owned partition')}"

    # -- nodes -----------------------------------------------------------------------------

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Names below a node; none, and no watch, where it does not exist."""
        return self._answers([self.client.get_children_async(path, watch)], default=[])[0] or []

    def owned_partitions(self, group: str) -> list[TopicPartition]:
        """The partitions that a consumer of the group has claimed."""
        return self._partitions_below(f"{group_path(group)}/owners")

    def partitions(self, group: str, watch: Watch | None = None) -> list[TopicPartition]:
        """The partitions that have a node for an offset."""
        return self._partitions_below(f"{group_path(group)}/offsets", watch)

    def _partitions_below(self, path: str, watch: Watch | None = None) -> list[TopicPartition]:
        found = []
        for topic in sorted(self.children(path, watch)):
            for name in self.children(f"{path}/{topic}", watch):
                partition = parse_partition(name)
                if partition is not None:
                    found.append((topic, partition))
                else:
                    self.notes.append(f"{path}/{topic}/{name}: no partition, left alone")
        return sorted(found)

    def read_nodes(
        self, group: str, places: Iterable[TopicPartition], watch: Watch | None = None
    ) -> dict[TopicPartition, ZooKeeperOffset]:
        """The offsets of these partitions; those without a readable one are left out."""
        found = {}
        places = list(places)
        for start in range(0, len(places), _PIPELINED):
            some = places[start : start + _PIPELINED]
            asked = [self.client.get_async(offset_path(group, place), watch) for place in some]
            for place, answer in zip(some, self._answers(asked, default=None), strict=True):
                offset = None if answer is None else parse_offset(answer[0])
                if offset is not None:
                    stat = answer[1]
                    found[place] = ZooKeeperOffset(offset, stat.version, stat.mtime)
                elif answer is not None:
                    path = offset_path(group, place)
                    self.notes.append(f"{path}: {answer[0][:40]!r} is no offset, left alone")
        return found

    def write_nodes(
        self, group: str, offsets: Mapping[TopicPartition, tuple[int, int]]
    ) -> Refusals:
        """Write offsets into nodes that have the version given, or `ANY_VERSION` or are `ABSENT`.

        Gives what was refused: a node that has changed, or may not be written.
        """
        refused: Refusals = {}
        places = list(offsets)
        for start in range(0, len(places), _PIPELINED):
            some = places[start : start + _PIPELINED]
            results = [self._begin_write(offset_path(group, p), *offsets[p]) for p in some]
            for place, result in zip(some, results, strict=True):
                complaint = self._end_write(offset_path(group, place), *offsets[place], result)
                if complaint is not None:
                    refused[place] = complaint
        return refused

    def _begin_write(self, path: str, offset: int, version: int) -> Any:
        data = b"%d" % offset
        if version == ABSENT:
            return self.client.create_async(path, data, makepath=True)
        return self.client.set_async(path, data, version)

    def _end_write(self, path: str, offset: int, version: int, result: Any) -> str | None:
        from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError

        expected = (BadVersionError, NoAuthError, NodeExistsError, NoNodeError)
        try:
            self._get(result, expected)
        except NoNodeError:
            if version != ANY_VERSION:
                return "it was removed meanwhile"
            created = self.client.create_async(path, b"%d" % offset, makepath=True)
            return self._end_write(path, offset, ABSENT, created)
        except (BadVersionError, NodeExistsError):
            return "it was changed meanwhile"
        except NoAuthError:
            return "ZooKeeper does not allow it"
        return None

    def _answers(self, asked: list[Any], default: Any) -> list[Any]:
        from kazoo.exceptions import NoNodeError

        answers = []
        for result in asked:
            try:
                answers.append(self._get(result, (NoNodeError,)))
            except NoNodeError:
                answers.append(default)
        return answers

    def _get(self, result: Any, expected: tuple[type[Exception], ...]) -> Any:
        """Wait for an answer; errors that are `expected` are raised as they are.

        Raises:
            StoreUnavailable: the connection or the session was lost, or there is no answer in time.
            StoreError: ZooKeeper refuses.
        """
        from kazoo import exceptions
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            return result.get(timeout=self._timeout_s)
        except expected:
            raise
        except KazooTimeoutError:
            raise StoreUnavailable(f"ZooKeeper {self.name} does not answer") from None
        except (
            exceptions.ConnectionLoss,
            exceptions.ConnectionClosedError,
            exceptions.SessionExpiredError,
            exceptions.OperationTimeoutError,
        ) as error:
            what = type(error).__name__
            raise StoreUnavailable(f"ZooKeeper {self.name} is not there ({what})") from None
        except exceptions.KazooException as error:
            what = f"{type(error).__name__} {error}".strip()
            raise StoreError(f"ZooKeeper {self.name} refuses: {what}") from error
