"""The offsets that old high-level consumers keep in ZooKeeper.

    /consumers/<group>/offsets/<topic>/<partition>   the next offset to read, in ASCII digits
    /consumers/<group>/ids/<consumer>                ephemeral: a live consumer
    /consumers/<group>/owners/<topic>/<partition>    ephemeral: the owner of the partition

Owns these paths and all access to them. Never decides what to write. Calls block, and only one
thread at a time may make them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from drumlin.zookeeper.connection import ZooKeeperAway, ZooKeeperFailure
from drumlin.zookeeper.nodes import number_in_name

if TYPE_CHECKING:
    from kazoo.client import KazooClient

CONSUMERS: Final = "/consumers"
_OFFSET_MAX: Final = 2**63 - 1
_DIGITS_MAX: Final = 19
#: The maximum number of requests in flight.
_PIPELINED: Final = 500
_SHOWN_MAX: Final = 40
#: Called in kazoo's thread with an event, whose `path` is the node that has changed.
Watch = Callable[[Any], None]
#: A topic and the index of a partition.
Place = tuple[str, int]
#: A caller's own type of place.
_Place = TypeVar("_Place", bound=Place)
ANY_VERSION: Final = -1
ABSENT: Final = -2

#: The reasons why a node was not written, in words.
REMOVED: Final = "it was removed in the meantime"
CHANGED: Final = "it was changed in the meantime"
NOT_ALLOWED: Final = "ZooKeeper does not allow it"


class ZooKeeperOffset(NamedTuple):
    """An offset, with the metadata of its node."""

    offset: int
    version: int
    modified_timestamp_ms: int  # by the clock of ZooKeeper's leader


class OffsetNodes(NamedTuple):
    """The contents of offset nodes; `unreadable` describes nodes without a valid offset."""

    offsets: dict[Place, ZooKeeperOffset]
    unreadable: dict[Place, str]


def can_have_group(group: str) -> bool:
    """Whether a group's name can be a node's name."""
    return bool(group) and "/" not in group and "\0" not in group and group not in (".", "..")


def group_path(group: str) -> str:
    """The node of a group.

    Raises:
        ZooKeeperFailure: no node can have this name.
    """
    if not can_have_group(group):
        raise ZooKeeperFailure(f"no group in ZooKeeper can be called {group!r}")
    return f"{CONSUMERS}/{group}"


def offset_path(group: str, place: Place) -> str:
    """The node of a partition's offset. Raises like `group_path`."""
    return f"{group_path(group)}/offsets/{place[0]}/{place[1]}"


def parse_offset(data: bytes) -> int | None:
    """The offset in a node; None if the content is not an offset."""
    text = data.strip()
    if not text.isdigit() or len(text) > _DIGITS_MAX or int(text) > _OFFSET_MAX:
        return None
    return int(text)


class ConsumerOffsets:
    """Access to the nodes below `/consumers`.

    All calls raise ZooKeeperAway if the connection or session is lost, or there is no answer in
    time, and ZooKeeperFailure if ZooKeeper refuses the request.
    """

    def __init__(self, client: KazooClient, name: str, *, timeout_ms: int) -> None:
        self.name = name
        self.notes: list[str] = []
        self.client = client
        self._timeout_s = timeout_ms / 1000

    def check_connected(self) -> None:
        """Refuse while there is no connection, as kazoo would queue requests until there is one.

        Raises:
            ZooKeeperAway: there is no connection.
        """
        if not self.client.connected:
            raise ZooKeeperAway(f"ZooKeeper {self.name} is not connected")

    def sync(self) -> None:
        """Catch up with all clients' writes so far, as a server may lag behind others."""
        self._get(self.client.sync_async("/"), ())

    def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children; empty, without a watch, if the node does not exist."""
        return self._answers([self.client.get_children_async(path, watch)], default=[])[0] or []

    def owned_partitions(self, group: str) -> list[Place]:
        """The partitions that consumers of the group have claimed."""
        return self._partitions_below(f"{group_path(group)}/owners")

    def partitions(self, group: str, watch: Watch | None = None) -> list[Place]:
        """The partitions that have an offset node."""
        return self._partitions_below(f"{group_path(group)}/offsets", watch)

    def _partitions_below(self, path: str, watch: Watch | None = None) -> list[Place]:
        found = []
        for topic in sorted(self.children(path, watch)):
            for name in self.children(f"{path}/{topic}", watch):
                partition = number_in_name(name)
                if partition is not None:
                    found.append((topic, partition))
                else:
                    self.notes.append(f"{path}/{topic}/{name}: no partition, left alone")
        return sorted(found)

    def read_nodes(
        self, group: str, places: Iterable[Place], watch: Watch | None = None
    ) -> OffsetNodes:
        """Read the offset nodes of these partitions; omits partitions without a node."""
        found = OffsetNodes({}, {})
        places = list(places)
        for start in range(0, len(places), _PIPELINED):
            some = places[start : start + _PIPELINED]
            asked = [self.client.get_async(offset_path(group, place), watch) for place in some]
            for place, answer in zip(some, self._answers(asked, default=None), strict=True):
                offset = None if answer is None else parse_offset(answer[0])
                if offset is not None:
                    stat = answer[1]
                    found.offsets[place] = ZooKeeperOffset(offset, stat.version, stat.mtime)
                elif answer is not None:
                    what = f"{answer[0][:_SHOWN_MAX]!r} is no offset"
                    found.unreadable[place] = f"{offset_path(group, place)}: {what}"
        return found

    def write_nodes(
        self, group: str, offsets: Mapping[_Place, tuple[int, int]]
    ) -> dict[_Place, str]:
        """Write offsets, each with the expected version of its node, `ANY_VERSION` or `ABSENT`.

        Returns the refusals: nodes that have changed, or that may not be written.
        """
        refused: dict[_Place, str] = {}
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
                return REMOVED
            created = self.client.create_async(path, b"%d" % offset, makepath=True)
            return self._end_write(path, offset, ABSENT, created)
        except (BadVersionError, NodeExistsError):
            return CHANGED
        except NoAuthError:
            return NOT_ALLOWED
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
        """Wait for an answer; `expected` errors are raised unchanged.

        Raises:
            ZooKeeperAway: the connection or the session was lost, or there is no answer in time.
            ZooKeeperFailure: ZooKeeper refuses the request.
        """
        from kazoo import exceptions
        from kazoo.handlers.threading import KazooTimeoutError

        try:
            return result.get(timeout=self._timeout_s)
        except expected:
            raise
        except KazooTimeoutError:
            raise ZooKeeperAway(f"ZooKeeper {self.name} does not answer") from None
        except (
            exceptions.ConnectionLoss,
            exceptions.ConnectionClosedError,
            exceptions.SessionExpiredError,
            exceptions.OperationTimeoutError,
        ) as error:
            what = type(error).__name__
            raise ZooKeeperAway(f"ZooKeeper {self.name} is unavailable ({what})") from None
        except exceptions.KazooException as error:
            what = f"{type(error).__name__} {error}".strip()
            raise ZooKeeperFailure(f"ZooKeeper {self.name} refuses: {what}") from error
