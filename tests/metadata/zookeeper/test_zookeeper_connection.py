"""Connections to a real ZooKeeper that break while they are made."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from drumlin.metadata.store.store import MetadataStore
from drumlin.metadata.zookeeper.znodes import layout
from drumlin.wire.error_codes import KafkaError
from drumlin.zookeeper.connection import ZooKeeperAway, close_client, connect
from metadata.several_brokers import Brokers
from metadata.stores import stores_at
from rig.fault_injection.network import ZOOKEEPER, Network, both_ways
from rig.ports import free_ports
from rig.servers.zookeeper import ZooKeeper
from rig.servers.zookeeper_operator import Operator
from rig.waiting import eventually

pytestmark = pytest.mark.zookeeper

#: The answer to the first request, which begins a session.
_WELCOME_BYTES = 41


class BreakingProxy:
    """Before ZooKeeper: each of the first connections breaks when it has a session."""

    def __init__(self, port: int, breaks: int) -> None:
        self._target, self._breaks = port, breaks
        self._server = socket.create_server(("127.0.0.1", 0))
        self.hosts = f"127.0.0.1:{self._server.getsockname()[1]}/chroot"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        # A thread that waits for a connection would not be woken by closing alone.
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _accept(self) -> None:
        with contextlib.ExitStack() as connections:
            while True:
                try:
                    client = connections.enter_context(self._server.accept()[0])
                except OSError:
                    return
                target = socket.create_connection(("127.0.0.1", self._target))
                connections.enter_context(target)
                limit = _WELCOME_BYTES if self._breaks > 0 else None
                self._breaks -= 1
                for ends in ((client, target, None), (target, client, limit)):
                    thread = threading.Thread(target=_pass_on, args=ends, daemon=True)
                    thread.start()
                    connections.callback(thread.join)


def _pass_on(source: socket.socket, sink: socket.socket, limit: int | None) -> None:
    with contextlib.suppress(OSError):
        while limit != 0 and (data := source.recv(4096 if limit is None else limit)):
            sink.sendall(data)
            limit = None if limit is None else limit - len(data)
    for each in (source, sink):
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def broken(request: pytest.FixtureRequest, zookeeper: ZooKeeper) -> Iterator[str]:
    with closing(BreakingProxy(zookeeper.port, request.param)) as proxy:
        yield proxy.hosts


@pytest.mark.parametrize("broken", [2], indirect=True)
def test_a_connection_that_breaks_at_once_is_made_again(broken: str) -> None:
    client = connect(
        broken, session_timeout_ms=6000, connection_timeout_ms=20_000, makes_chroot=True
    )
    assert client.exists("/")
    close_client(client)


@pytest.mark.parametrize("broken", [1000], indirect=True)
@pytest.mark.parametrize("makes_chroot", [True, False])
def test_one_that_keeps_breaking_is_told(broken: str, *, makes_chroot: bool) -> None:
    with pytest.raises(ZooKeeperAway, match="no ZooKeeper answers on 127"):
        connect(
            broken, session_timeout_ms=6000, connection_timeout_ms=1500, makes_chroot=makes_chroot
        )


def test_the_image_is_not_current_until_all_was_looked_at_again(zookeeper: ZooKeeper) -> None:
    (port,), ways = free_ports(1), both_ways("1", ZOOKEEPER)
    with Network() as network:
        network.carry(port, ZOOKEEPER, zookeeper.port, "1")

        async def scenario(store: MetadataStore) -> None:
            assert store.image.is_current
            network.cut(ways)
            network.break_off(ways)
            await eventually(lambda: not store.image.is_current)
            network.heal(ways)
            await eventually(lambda: store.image.is_current)

        stores_at(f"127.0.0.1:{port}/current").run(scenario)


def test_who_was_away_sees_a_topic_that_was_made_anew(zookeeper: ZooKeeper) -> None:
    """However long it was away: by then the deletion may be forgotten."""
    (port,), ways = free_ports(1), both_ways("1", ZOOKEEPER)
    direct = f"127.0.0.1:{zookeeper.port}/anew"
    with Network() as network, closing(Operator(direct)) as operator:
        network.carry(port, ZOOKEEPER, zookeeper.port, "1")

        async def scenario(store: Any) -> None:
            brokers = Brokers(direct)
            other = await brokers.start(2)
            old = await other.create_topic("t", [[2]], {})
            await eventually(lambda: "t" in store.image.topics)
            network.cut(ways)
            network.break_off(ways)
            await other.delete_topic(old.topic_id)
            new = await other.create_topic("t", [[2], [2]], {})
            operator.client.delete(layout.deleted_path(old.topic_id))
            counting = asyncio.ensure_future(store.partition_count("t"))
            network.heal(ways)
            await asyncio.gather(counting, return_exceptions=True)
            assert counting.exception() is not None or counting.result() == 2
            await eventually(lambda: store.image.topics.get("t") == new)
            assert old.topic_id not in store.image.topics_by_id
            await brokers.close()

        stores_at(f"127.0.0.1:{port}/anew").run(scenario)


def test_one_that_is_there_and_does_not_take_us_is_told_as_such(zookeeper: ZooKeeper) -> None:
    """As a ZooKeeper does that has lost what we have seen of it."""
    (port,), ways = free_ports(1), both_ways("1", ZOOKEEPER)
    with Network() as network:
        network.carry(port, ZOOKEEPER, zookeeper.port, "1")

        async def scenario(store: MetadataStore) -> None:
            network.cut(ways)
            network.break_off(ways)
            await eventually(lambda: not store.image.is_current)
            with pytest.raises(KafkaError, match="is there, but does not take this broker"):
                await store.create_topic("t", [[1]], {})
            network.heal(ways)

        stores_at(f"127.0.0.1:{port}/there", session_timeout_ms=1000).run(scenario)
