"""The picture of ZooKeeper's offsets stays true, also when the session ends."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from drumlin.migration.zookeeper import ZooKeeperStore, open_client
from drumlin.migration.zookeeper_follower import ZooKeeperFollower
from drumlin.zookeeper.connection import close_client
from migration.old_consumers import OldStore
from rig.waiting import wait_until

pytestmark = pytest.mark.zookeeper


class Followed:
    """A follower that counts how often it was woken, and what it has asked for."""

    def __init__(self, address: str) -> None:
        self.woken = threading.Event()
        self.client = open_client(address)
        self.store = ZooKeeperStore(self.client, address)
        self.follower = ZooKeeperFollower(self.store, self.woken.set)

    def offsets(self, group: str) -> dict[tuple[str, int], int]:
        return {place: each.offset for place, each in self.follower.offsets(group).items()}

    def await_offsets(self, group: str, offsets: dict[tuple[str, int], int]) -> None:
        """Looks only when it is woken."""
        while self.offsets(group) != offsets:
            assert self.woken.wait(30), f"{self.offsets(group)}, not {offsets}"
            self.woken.clear()


@pytest.fixture
def followed(store: OldStore) -> Iterator[Followed]:
    followed = Followed(store.address)
    try:
        yield followed
    finally:
        close_client(followed.client)


@pytest.mark.deep
def test_watches_tell_of_every_change(store: OldStore, followed: Followed) -> None:
    store.commit("g", "t", 0, 1)
    assert followed.offsets("g") == {("t", 0): 1}
    store.commit("g", "t", 0, 2)
    followed.await_offsets("g", {("t", 0): 2})
    store.commit("g", "t", 1, 7)
    followed.await_offsets("g", {("t", 0): 2, ("t", 1): 7})
    store.commit("g", "u", 0, 3)
    followed.await_offsets("g", {("t", 0): 2, ("t", 1): 7, ("u", 0): 3})
    store.client.delete("/consumers/g/offsets/t", recursive=True)
    followed.await_offsets("g", {("u", 0): 3})
    store.commit("g", "u", 0, b"junk")
    followed.await_offsets("g", {})
    store.commit("g", "u", 0, b"9" * 5000)
    store.commit("g", "u", 2**31, 1)  # no partition can have this number
    store.commit("g", "v", 0, 1)
    followed.await_offsets("g", {("v", 0): 1})
    store.client.delete("/consumers/g/offsets/v", recursive=True)
    store.commit("g", "u", 0, 4)
    followed.await_offsets("g", {("u", 0): 4})


def test_a_node_that_has_changed_is_not_overwritten(store: OldStore, followed: Followed) -> None:
    store.commit("g", "t", 0, 1)
    seen = followed.follower.offsets("g")["t", 0]
    store.commit("g", "t", 0, 5)
    refused = followed.follower.write("g", {("t", 0): (3, seen.version)})
    assert refused == {("t", 0): "it was changed in the meantime"}
    followed.await_offsets("g", {("t", 0): 5})


def test_a_session_that_expires_is_replaced(
    store: OldStore, followed: Followed, zookeeper: object
) -> None:
    store.commit("g", "t", 0, 1)
    assert followed.offsets("g") == {("t", 0): 1}
    session = followed.client.client_id
    # A client that knows a session's password may take it over, and end it.
    thief = KazooClient(store.address, client_id=session)
    thief.start()
    thief.stop()
    thief.close()
    wait_until(
        lambda: followed.client.connected and followed.client.client_id != session,
        "a new session",
    )
    store.commit("g", "t", 0, 2)
    store.commit("g", "t", 1, 3)
    followed.await_offsets("g", {("t", 0): 2, ("t", 1): 3})
    store.commit("g", "t", 0, 4)
    followed.await_offsets("g", {("t", 0): 4, ("t", 1): 3})
