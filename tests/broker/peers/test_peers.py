"""Connections to other brokers: kept, dropped with the process they lead to, not asked in vain."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from broker.second_broker import NODE_ID, join, leave
from drumlin.broker.peers import peers
from drumlin.peer.peer_error import ConnectionLost, PeerError
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.protocol.metadata import MetadataRequest
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.data.messages import Shape
from rig.waiting import eventually

_ALL_TOPICS = MetadataRequest(
    topics=None,
    allow_auto_topic_creation=False,
    include_cluster_authorized_operations=False,
    include_topic_authorized_operations=False,
)


def _silence(shape: Shape, request: Any) -> Any:
    return Silence()


def test_one_connection_for_each_purpose(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            join(broker, other)
            first, second, third = await asyncio.gather(
                broker.peers.connection(NODE_ID, "markers"),
                broker.peers.connection(NODE_ID, "markers"),
                broker.peers.connection(NODE_ID, "offsets"),
            )
            assert first is second is await broker.peers.connection(NODE_ID, "markers")
            assert third is not first
            assert other.connection_count == 2
        assert not first.is_open
        with pytest.raises(ConnectionLost):
            await broker.peers.connection(NODE_ID, "markers")

    with ScriptedBroker() as other:
        asyncio.run(main())


@pytest.mark.parametrize("comes_back", [True, False])
def test_who_waits_for_a_process_that_is_gone_is_told_at_once(
    tmp_path: Path, comes_back: bool
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            join(broker, other)
            connection = await broker.peers.connection(NODE_ID, "markers")
            waiting = connection.send("metadata", _ALL_TOPICS)
            join(broker, other)  # nothing has changed
            assert connection.is_open
            if comes_back:
                join(broker, other, epoch=2)
            else:
                leave(broker)
            with pytest.raises(ConnectionLost):
                await waiting
            if comes_back:
                assert (await broker.peers.connection(NODE_ID, "markers")).is_open
            else:
                with pytest.raises(KafkaError) as caught:
                    await broker.peers.connection(NODE_ID, "markers")
                assert caught.value.code is ErrorCode.broker_not_available

    with ScriptedBroker() as other:
        other.script("metadata", _silence)
        asyncio.run(main())


def test_while_it_is_being_connected_to(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            join(broker, other)
            waiting = asyncio.ensure_future(broker.peers.connection(NODE_ID, "markers"))
            given_up = asyncio.ensure_future(broker.peers.connection(NODE_ID, "markers"))
            await eventually(lambda: other.asked("api_versions"))
            given_up.cancel()
            await asyncio.sleep(0)
            assert not waiting.done()
            leave(broker)
            with pytest.raises(ConnectionLost):
                await waiting

    with ScriptedBroker() as other:
        other.script("api_versions", _silence)
        asyncio.run(main())


def test_who_cannot_be_reached_is_left_alone_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            with ScriptedBroker() as other:
                join(broker, other)
            with pytest.raises(ConnectionLost):
                await broker.peers.connection(NODE_ID, "markers")
            with ScriptedBroker(port=other.port) as again:
                with pytest.raises(ConnectionLost):
                    await broker.peers.connection(NODE_ID, "markers")
                assert not again.connection_count

                async def is_reached() -> bool:
                    try:
                        return (await broker.peers.connection(NODE_ID, "markers")).is_open
                    except PeerError:
                        return False

                await eventually(is_reached)

    monkeypatch.setattr(peers, "_FIRST_PAUSE_S", 0.5)
    asyncio.run(main())


@pytest.mark.parametrize("comes_back", [True, False])
def test_replicas_have_connections_of_their_own(tmp_path: Path, comes_back: bool) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            with pytest.raises(KafkaError):
                await broker.peers.open_to_fetch(NODE_ID)
            join(broker, other)
            first = await broker.peers.open_to_fetch(NODE_ID)
            second = await broker.peers.open_to_fetch(NODE_ID)
            first.close()
            third = await broker.peers.open_to_fetch(NODE_ID)
            assert second.is_open
            assert other.connection_count == 3
            if comes_back:
                join(broker, other, epoch=2)
                assert not second.is_open
                assert not third.is_open
        assert not second.is_open
        assert not third.is_open

    with ScriptedBroker() as other:
        asyncio.run(main())


def test_without_a_listener_for_brokers(tmp_path: Path) -> None:
    settings = {
        "listeners": "BROKERS://127.0.0.1:0",
        "listener.security.protocol.map": "BROKERS:PLAINTEXT",
    }

    async def main() -> None:
        async with running(tmp_path, **settings) as broker:
            join(broker, other)
            with pytest.raises(KafkaError) as caught:
                await broker.peers.connection(NODE_ID, "markers")
            assert caught.value.code is ErrorCode.broker_not_available

    with ScriptedBroker() as other:
        asyncio.run(main())
