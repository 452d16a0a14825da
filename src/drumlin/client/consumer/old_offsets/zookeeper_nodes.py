"""A group's offsets in ZooKeeper, for the event loop: a separate thread makes the blocking calls.

Connects at the first call. Only the results of calls pass from that thread to the loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from drumlin.client.errors import OffsetStoreFailed, OffsetStoreUnreachable
from drumlin.client.topic_partition import TopicPartition, by_partition
from drumlin.zookeeper.access import access_in
from drumlin.zookeeper.connection import ZooKeeperAway, ZooKeeperFailure, close_client, connect
from drumlin.zookeeper.consumer_offsets import (
    CHANGED,
    REMOVED,
    ConsumerOffsets,
    ZooKeeperOffset,
    group_path,
    offset_path,
)

T = TypeVar("T")
#: Offsets to write, and the versions that their nodes must have.
Versioned = Mapping[TopicPartition, tuple[int, int]]

_log = logging.getLogger(__name__)

_SESSION_TIMEOUT_MS: Final = 10_000
_CLOSING_S: Final = 5.0


class ZooKeeperNodes:
    """The nodes. Calls raise OffsetStoreFailed, or OffsetStoreUnreachable if unanswered."""

    def __init__(
        self, hosts: str, properties: Mapping[str, str], group: str, timeout_ms: int
    ) -> None:
        self._hosts = hosts
        self._properties = properties
        self._group = group
        self._timeout_ms = min(timeout_ms, _SESSION_TIMEOUT_MS)
        self._thread = ThreadPoolExecutor(1, "drumlin-offsets")
        self._offsets: ConsumerOffsets | None = None  # used by that thread only

    async def read(
        self, places: Collection[TopicPartition], *, is_exact: bool
    ) -> dict[TopicPartition, ZooKeeperOffset]:
        """The stored offsets. With `is_exact` the server first catches up (`sync`)."""

        def read(offsets: ConsumerOffsets) -> dict[TopicPartition, ZooKeeperOffset]:
            if is_exact:
                offsets.sync()
            found = offsets.read_nodes(self._group, places)
            for what in found.unreadable.values():
                # A different start offset could skip records.
                raise OffsetStoreFailed(f"ZooKeeper {self._hosts} {what}")
            return by_partition(found.offsets)

        return await self._run(read)

    async def write(self, offsets: Versioned) -> None:
        """Write offsets to nodes that have the given versions; the error names a refused one."""
        refused = await self._run(lambda nodes: nodes.write_nodes(self._group, offsets))
        # Permanent failures are raised first: they must not be retried.
        for place, why in sorted(refused.items(), key=lambda each: each[1] in (CHANGED, REMOVED)):
            where = f"ZooKeeper {self._hosts} {offset_path(self._group, place)}"
            message = f"not committed: {where}: {why}"
            raise OffsetStoreFailed(message, may_pass=why in (CHANGED, REMOVED))

    async def close(self) -> None:
        """End the session, or let it expire."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(_CLOSING_S):
                await loop.run_in_executor(self._thread, self._close)
        except TimeoutError:
            _log.warning("the session with ZooKeeper %s is not closed", self._hosts)
        finally:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self, call: Callable[[ConsumerOffsets], T]) -> T:
        def run() -> T:
            offsets = self._connected()
            offsets.check_connected()
            return call(offsets)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, run)
        except ZooKeeperAway as error:
            raise OffsetStoreUnreachable(self._message(error)) from error
        except ZooKeeperFailure as error:
            raise OffsetStoreFailed(self._message(error)) from error

    def _message(self, error: ZooKeeperFailure) -> str:
        return f"offsets in ZooKeeper's {group_path(self._group)}/offsets: {error}"

    def _connected(self) -> ConsumerOffsets:
        if self._offsets is None:
            client = connect(
                self._hosts,
                session_timeout_ms=_SESSION_TIMEOUT_MS,
                connection_timeout_ms=self._timeout_ms,
                access=access_in(self._properties),
            )
            self._offsets = ConsumerOffsets(client, self._hosts, timeout_ms=self._timeout_ms)
        return self._offsets

    def _close(self) -> None:
        offsets, self._offsets = self._offsets, None
        if offsets is not None:
            close_client(offsets.client)
