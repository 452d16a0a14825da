"""The partitions and groups of a transaction.

The coordinator must know of a partition before its first batch is sent: it writes markers there
at the end. Partitions that are added while a request is in flight share the next one.
"""

from __future__ import annotations

import asyncio

from drumlin.background import shielded
from drumlin.client.topic_partition import TopicPartition
from drumlin.client.transactions.coordinator import TransactionCoordinator
from drumlin.client.transactions.requests import (
    ADD_OFFSETS_VERSION_MAX,
    ADD_PARTITIONS_VERSION_MAX,
    OpenTransaction,
    add_offsets_request,
    add_partitions_request,
    check,
    check_added,
)


class Participants:
    """The participants of one transaction. Used in the loop only."""

    def __init__(self, coordinator: TransactionCoordinator, identity: OpenTransaction) -> None:
        self._coordinator = coordinator
        self._identity = identity
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._wanted: dict[TopicPartition, asyncio.Future[None]] = {}
        self._adding: asyncio.Task[None] | None = None
        self.may_be_known = False  # the coordinator may know one, so an end is needed

    @property
    def are_known(self) -> bool:
        """Whether the coordinator has acknowledged a participant."""
        return bool(self._partitions or self._groups)

    async def add(self, topic: str, partition: int) -> None:
        """Add a partition, if it is new.

        Raises:
            KafkaError, PeerError: the coordinator has refused, or not answered.
        """
        place = TopicPartition(topic, partition)
        if place in self._partitions:
            return
        if place not in self._wanted:
            self._wanted[place] = asyncio.get_running_loop().create_future()
        added = self._wanted[place]
        if self._adding is None or self._adding.done():
            self._adding = asyncio.ensure_future(self._add_wanted())
        await shielded(added)

    async def add_group(self, group_id: str) -> None:
        """Add a group, if it is new. Raises as `add` does."""
        if group_id in self._groups:
            return
        self.may_be_known = True
        what = f"offsets of group {group_id!r} in transaction {self._identity.transactional_id!r}"
        await self._coordinator.ask(
            "add_offsets_to_txn",
            add_offsets_request(self._identity, group_id),
            lambda response: check("add_offsets_to_txn", response.error_code, what),
            ADD_OFFSETS_VERSION_MAX,
        )
        self._groups.add(group_id)

    def close(self) -> None:
        """Stop adding participants."""
        if self._adding is not None:
            self._adding.cancel()
        for added in self._wanted.values():  # a task that has not begun does not see the end
            added.cancel()
        self._wanted.clear()

    async def _add_wanted(self) -> None:
        await asyncio.sleep(0)  # partitions added in the same turn share the request
        while self._wanted:
            wanted, self._wanted = self._wanted, {}
            self.may_be_known = True
            try:
                await self._coordinator.ask(
                    "add_partitions_to_txn",
                    add_partitions_request(self._identity, wanted),
                    lambda response: check_added(response, self._identity.transactional_id),
                    ADD_PARTITIONS_VERSION_MAX,
                )
            except asyncio.CancelledError:
                for added in wanted.values():
                    added.cancel()
                raise
            except Exception as error:  # noqa: BLE001 - the callers that wait must get it
                for added in wanted.values():
                    added.set_exception(error)
            else:
                self._partitions.update(wanted)
                for added in wanted.values():
                    added.set_result(None)
