"""The client for asyncio, in the caller's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NoReturn, Self

from drumlin.aio.as_in_sync import (
    Opening,
    awaited,
    awaited_in_thread,
    iterated,
    iterated_in_thread,
    like,
    opened,
)
from drumlin.aio.callers_loop import CallersLoop
from drumlin.aio.consumer import Consumer
from drumlin.aio.transaction import Transaction
from drumlin.aio.waiting_code import waiting
from drumlin.aio.writer import Writer
from drumlin.client import arguments
from drumlin.client import client as sync
from drumlin.peer.options import PeerOptions
from drumlin.peer.security.security import Security


@like(sync.connect)
def connect(
    bootstrap: str,
    *,
    client_id: str = "drumlin",
    request_timeout_ms: int = 30_000,
    call_timeout_ms: int | None = None,
    connect_timeout_ms: int = 10_000,
    retry_backoff_ms: int = 50,
    retry_backoff_max_ms: int = 1_000,
    check: bool = True,
    client_rack: str = "",
    security: Security | Mapping[str, str] | None = None,
) -> Opening[Client]:
    arguments.text("bootstrap", bootstrap)
    options = PeerOptions(
        client_id=client_id,
        request_timeout_ms=request_timeout_ms,
        call_timeout_ms=call_timeout_ms,
        connect_timeout_ms=connect_timeout_ms,
        retry_backoff_ms=retry_backoff_ms,
        retry_backoff_max_ms=retry_backoff_max_ms,
        client_rack=client_rack,
        security=Security.of(security),
    )

    async def open_it() -> Client:
        client = Client(bootstrap, options)
        if not check:
            return client
        try:
            await client.refresh()
        except BaseException:
            await client.close()
            raise
        return client

    return Opening(open_it)


class Client:
    """A client of one cluster, in one event loop. Use it in an `async with`, or `close` it.

    `connect` creates it, checks its options and sends a first request. Its calls are those of
    `drumlin.Client`; any number of tasks may use it at a time.
    """

    def __init__(self, bootstrap: str, options: PeerOptions | None = None) -> None:
        self._loop = CallersLoop()
        self._core = sync.Client(bootstrap, options, self._loop)
        self._closing = asyncio.Lock()

    # -- life ----------------------------------------------------------------------------

    async def close(self) -> None:
        """Close all connections. Closing twice does nothing.

        Open transactions are aborted, if that takes only a few seconds. Calls that still wait, in
        other tasks, raise a `ClientError`. Consumers leave their groups. Broker errors
        are not raised.
        """
        async with self._closing:
            if self._loop.is_running:
                try:
                    await self._loop.give_up_attached()
                finally:
                    await waiting(self._core.close)
                    await self._loop.settle()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self._core).replace("drumlin.Client", "drumlin.aio.Client")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Client holds sockets and a loop: connect again in the other process")

    refresh = awaited(sync.Client.refresh)

    # -- topics --------------------------------------------------------------------------

    list_topics = awaited(sync.Client.list_topics)
    describe_topics = awaited(sync.Client.describe_topics)
    partitions = awaited(sync.Client.partitions)
    create_topic = awaited(sync.Client.create_topic)
    delete_topic = awaited(sync.Client.delete_topic)
    add_partitions = awaited(sync.Client.add_partitions)
    topic_configs = awaited(sync.Client.topic_configs)
    set_topic_configs = awaited(sync.Client.set_topic_configs)

    # -- offsets and groups --------------------------------------------------------------

    list_offsets = awaited(sync.Client.list_offsets)
    offsets = awaited(sync.Client.offsets)
    delete_records = awaited(sync.Client.delete_records)
    list_groups = awaited(sync.Client.list_groups)
    describe_group = awaited(sync.Client.describe_group)
    delete_group = awaited(sync.Client.delete_group)
    delete_offsets = awaited(sync.Client.delete_offsets)
    committed_offsets = awaited(sync.Client.committed_offsets)
    commit_offsets = awaited(sync.Client.commit_offsets)
    group_lag = awaited(sync.Client.group_lag)
    reset_offsets = awaited(sync.Client.reset_offsets)
    remove_members = awaited(sync.Client.remove_members)

    # -- reading -------------------------------------------------------------------------

    read = awaited(sync.Client.read)
    read_batches = iterated(sync.Client.read_batches)
    read_records = iterated(sync.Client.read_records)
    read_range = iterated(sync.Client.read_range)
    snapshot = awaited_in_thread(sync.Client.snapshot)
    snapshot_batches = iterated_in_thread(sync.Client.snapshot_batches)
    consumer = opened(
        sync.Client.consumer, Consumer, "on_assigned", "on_revoked", "on_lost", "on_reset"
    )

    # -- writing -------------------------------------------------------------------------

    append = awaited(sync.Client.append)
    writer = opened(sync.Client.writer, Writer)
    restore = awaited_in_thread(sync.Client.restore)

    # -- transactions --------------------------------------------------------------------

    transaction = opened(sync.Client.transaction, Transaction)
    describe_transactions = awaited(sync.Client.describe_transactions)
    list_transactions = awaited(sync.Client.list_transactions)
    abort_transaction = awaited(sync.Client.abort_transaction)
    abort_transactions = awaited(sync.Client.abort_transactions)
    open_producers = awaited(sync.Client.open_producers)
    abort_hanging_transaction = awaited(sync.Client.abort_hanging_transaction)
