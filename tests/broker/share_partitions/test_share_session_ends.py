"""A share session ends with its connection, also where that ends before the session begins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.in_process import running
from broker.sessions import SESSION
from drumlin.broker.context import context_of
from drumlin.broker.handlers import share_fetch
from drumlin.wire.error_codes import ErrorCode, KafkaError
from drumlin.wire.messages import RequestHeader
from rig.data.messages import build
from rig.time.stepped import Stepped
from rig.waiting import wait_until


def test_a_member_that_is_gone_before_its_turn_comes(tmp_path: Path) -> None:
    """Its first request gives way before the session begins, and goes on when it has gone."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            topic = await broker.metadata.create_topic("t", [[broker.node_id]], {})
            _, writer = await asyncio.open_connection("127.0.0.1", broker.listeners[0].port)
            await asyncio.to_thread(wait_until, lambda: broker.server._connections, "a connection")
            (connection,) = broker.server._connections
            request = build(
                "share_fetch",
                2,
                {
                    "group_id": "g",
                    "member_id": "m",
                    "share_session_epoch": 0,
                    "max_wait": 0,
                    "topics": [
                        {"topic_id": topic.topic_id, "partitions": [{"partition_index": 0}]}
                    ],
                },
            )
            context = context_of((broker, connection, RequestHeader(78, 2, 1, "c", 0), SESSION))
            work = Stepped(share_fetch.handle(context, request))
            next(work)  # others have their turn
            writer.close()
            await asyncio.to_thread(wait_until, lambda: connection.closed, "its end")
            with pytest.raises(KafkaError) as gone:
                while True:
                    next(work)
            assert gone.value.code is ErrorCode.share_session_not_found
            assert len(broker.shares.sessions) == 0
            assert not broker.shares._watched

    asyncio.run(run())
