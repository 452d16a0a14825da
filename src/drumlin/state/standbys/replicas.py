"""The stores of a process: for the partitions that it owns, and for its standby partitions.

A thread keeps the standby stores up to date with the changelog. At any time a store is used either
by this thread or by the processor. This module must never affect what is committed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from drumlin.client.errors import ClientError
from drumlin.state.disk_store import Folder, StoreFailed
from drumlin.state.stores import MemoryStore, Store

if TYPE_CHECKING:
    from drumlin.state.changelog import Changelog, End

_log = logging.getLogger(__name__)

#: The pause between two updates of the standby stores.
_TICK_S: Final = 0.1
#: The pause after an error.
_PAUSE_S: Final = 1.0
#: How long a replica is kept after it is no longer assigned.
_KEPT_S: Final = 60.0


class Replicas:
    """Opens and closes stores, in a folder or in memory."""

    def __init__(
        self, folder: str | os.PathLike[str] | None, name: str, follower: Changelog | None = None
    ) -> None:
        """
        Args:
            folder: the folder of the stores; None: stores are in memory.
            name: the name of the changelog.
            follower: the changelog, used only by the thread; None: no standby stores here.

        Raises:
            StateRefused, StoreFailed: as from `Folder`.
        """
        self._folder = None if folder is None else Folder(os.fspath(folder), name)
        self._follower = follower
        self._changed = threading.Condition()
        self._owned: dict[int, Store | None] = {}
        self._followed: dict[int, Store] = {}
        self._wanted: frozenset[int] = frozenset()
        #: The time at which each partition was last a standby partition, or given back.
        self._wanted_s: dict[int, float] = {}
        self._busy_with: int | None = None
        self._is_closed = False
        #: The changelog offset that each closed file has reached, by partition.
        self._left = {} if self._folder is None else self._folder.offsets()
        self._thread: threading.Thread | None = None
        if follower is not None:
            self._thread = threading.Thread(
                target=self._run, name=f"drumlin-standby {name}", daemon=True
            )
            self._thread.start()

    # -- for the processor ---------------------------------------------------------------

    def take(self, partition: int) -> Store:
        """Own a partition from now on. Returns its store, with its previous contents."""
        with self._changed:
            self._owned[partition] = None
            while self._busy_with == partition:
                self._changed.wait()
            store = self._followed.pop(partition, None)
        store = self._opened(partition) if store is None else store
        self._owned[partition] = store
        return store

    def give_back(self, partition: int) -> None:
        """Stop owning a partition. Its store is kept, if this process may become its standby."""
        with self._changed:
            store = self._owned.pop(partition, None)
            if store is not None and self._follower is not None:
                self._followed[partition] = store
                self._wanted_s[partition] = time.monotonic()
                return
        if store is not None:
            self._close(partition, store)

    def close(self) -> None:
        """Close all stores, and keep their files."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        for partition, store in [*self._owned.items(), *self._followed.items()]:
            if store is not None:
                self._close(partition, store)
        self._owned.clear()
        self._followed.clear()
        if self._folder is not None:
            self._folder.close()
        if self._follower is not None:
            self._follower.close()

    # -- for the assignor ----------------------------------------------------------------

    def offsets(self) -> dict[int, int]:
        """The changelog offset that each local replica has reached, by partition."""
        with self._changed:
            found = dict(self._left)
            stores = [*self._followed.items(), *self._owned.items()]
        for partition, store in stores:
            checkpoint = None if store is None else store.checkpoint
            if checkpoint is not None:
                found[partition] = checkpoint.offset
        return found

    def follow(self, partitions: frozenset[int]) -> None:
        """Be a standby for exactly these partitions from now on."""
        with self._changed:
            self._wanted = partitions if self._follower is not None else frozenset()

    # -- the thread ----------------------------------------------------------------------

    def _run(self) -> None:
        assert self._follower is not None
        told = ""
        while not self._is_closed:
            pause_s = _TICK_S
            try:
                self._drop_unwanted()
                self._follow_all(self._follower)
                told = ""
            except Exception as error:  # noqa: BLE001 - a standby must not stop its process
                pause_s = _PAUSE_S
                if str(error) != told:
                    told = str(error)
                    _log.warning("updating standby stores from the changelog failed: %s", error)
            with self._changed:
                if not self._is_closed:
                    self._changed.wait(pause_s)

    def _drop_unwanted(self) -> None:
        """Close the standby stores that have not been assigned for a while.

        In a rebalance a replica may be unassigned for a moment before its process owns it.
        """
        now_s = time.monotonic()
        with self._changed:
            self._wanted_s |= dict.fromkeys(self._wanted, now_s)
            unwanted = [
                each for each in self._followed if self._wanted_s.get(each, 0) < now_s - _KEPT_S
            ]
            stores = {each: self._followed.pop(each) for each in unwanted}
        for partition, store in stores.items():
            self._close(partition, store)

    def _follow_all(self, follower: Changelog) -> None:
        wanted = sorted(self._wanted - self._owned.keys())
        ends = follower.ends(wanted) if wanted else {}
        failure: Exception | None = None
        for partition in wanted:
            try:
                self._follow_one(follower, partition, ends[partition])
            except Exception as error:  # noqa: BLE001 - update the others first
                failure = error
        if failure is not None:
            raise failure

    def _follow_one(self, follower: Changelog, partition: int, end: End) -> None:
        with self._changed:
            if self._is_closed or partition in self._owned:
                return
            self._busy_with = partition
            store = self._followed.pop(partition, None)
        try:
            store = self._opened(partition) if store is None else store
            follower.follow(partition, store, end, lambda: self._is_closed)
        except BaseException as error:
            # Errors from brokers do not damage a store.
            is_broken = isinstance(error, StoreFailed) or not isinstance(error, ClientError)
            if store is not None and is_broken:
                self._close(partition, store)
                store = None
            raise
        finally:
            with self._changed:
                self._busy_with = None
                if store is not None:
                    self._followed[partition] = store
                self._changed.notify_all()

    # -- stores --------------------------------------------------------------------------

    def _opened(self, partition: int) -> Store:
        self._left.pop(partition, None)
        return MemoryStore() if self._folder is None else self._folder.store(partition)

    def _close(self, partition: int, store: Store) -> None:
        checkpoint = store.checkpoint
        store.close()
        if self._folder is not None and checkpoint is not None:
            self._left[partition] = checkpoint.offset
